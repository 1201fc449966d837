// Numbers, sizes and times for people.

const COUNT = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
export const NOTHING = "–";

/** 1,234,567. */
export function count(number) {
  return number === null || number === undefined ? NOTHING : COUNT.format(number);
}

/** 1.2M, for places with little room. */
export function shortCount(number) {
  return number < 10_000 ? COUNT.format(number) : SHORT.format(number);
}

/** "1 message", "2 messages". */
export function plural(number, noun) {
  return `${COUNT.format(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/** 1.4 MiB. Below 1 KiB it is exact. */
export function bytes(size) {
  if (size === null || size === undefined) return NOTHING;
  let unit = 0;
  let rest = Number(size);
  while (rest >= 1024 && unit < BYTE_UNITS.length - 1) {
    rest /= 1024;
    unit += 1;
  }
  const text = unit === 0 ? String(rest) : rest.toFixed(rest < 99.95 ? 1 : 0).replace(/\.0$/, "");
  return `${text} ${BYTE_UNITS[unit]}`;
}

/** 12.3/s. */
export function rate(perSecond) {
  if (!perSecond) return "0/s";
  if (perSecond < 0.1) return "<0.1/s";
  return `${perSecond < 10 ? perSecond.toFixed(1) : shortCount(Math.round(perSecond))}/s`;
}

/** 1.2 MiB/s. */
export function byteRate(perSecond) {
  return `${bytes(Math.round(perSecond ?? 0))}/s`;
}

/** How long: 12 s, 3 min, 5 h, 2 d. */
export function duration(millis) {
  const seconds = Math.max(0, Math.floor(millis / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

/** How long, to the second: 2 h 03 min 09 s. */
export function longDuration(millis) {
  const seconds = Math.max(0, Math.floor(millis / 1000));
  const parts = [
    [Math.floor(seconds / 86400), "d"],
    [Math.floor(seconds / 3600) % 24, "h"],
    [Math.floor(seconds / 60) % 60, "min"],
    [seconds % 60, "s"],
  ];
  const first = parts.findIndex(([number]) => number > 0);
  if (first < 0) return "0 s";
  return parts
    .slice(first, first + 3)
    .map(([number, unit]) => `${number} ${unit}`)
    .join(" ");
}

/** An exact duration as it was configured: 1 h, 90 s, 7 d. */
export function exactDuration(millis) {
  const units = [
    ["d", 86_400_000],
    ["h", 3_600_000],
    ["min", 60_000],
    ["s", 1000],
  ];
  for (const [unit, factor] of units) {
    if (millis % factor === 0) return `${count(millis / factor)} ${unit}`;
  }
  return `${count(millis)} ms`;
}

/** Local time to the second: 2026-01-31 12:00:00. */
export function time(millis) {
  if (!millis) return NOTHING;
  const date = new Date(millis);
  if (Number.isNaN(date.getTime())) return `${millis} ms`;
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clock(millis)}`;
}

/** Local time to the millisecond. */
export function exactTime(millis) {
  return millis ? `${time(millis)}.${String(millis % 1000).padStart(3, "0")}` : NOTHING;
}

/** 12:00:00. */
export function clock(millis) {
  const date = new Date(millis);
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** UTC, for titles. */
export function utc(millis) {
  const date = new Date(millis ?? NaN);
  return Number.isNaN(date.getTime()) ? "" : date.toISOString();
}

/** 12 %, with a decimal when small. */
export function percent(share) {
  const value = share * 100;
  return `${value > 0 && value < 10 ? value.toFixed(1) : Math.round(value)} %`;
}

function two(number) {
  return String(number).padStart(2, "0");
}
