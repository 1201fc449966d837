// The last 15 minutes of a stream or an export: fetched once, then continued from live changes.

import { getHistory } from "./api.js";
import { exportKey, live } from "./live.js";

const SPAN_MS = 15 * 60 * 1000;
// A history that has just begun fills its plot, but a minute never looks like a quarter of an hour.
const SPAN_LEAST_MS = 2 * 60 * 1000;
// Enough for every row that is scrolled past in a while; each is some 40 KB.
const KEPT_MAX = 200;
const FETCHES_MAX = 3;
const MEASURES = ["lagMessages", "lagBytes", "messagesPerSecond", "appendedPerSecond"];

const kept = new Map();
const waiting = [];
let fetchCount = 0;

/** Measures over time, oldest first; empty while it is being fetched. */
export function historyOf(stream, identifier = null) {
  const key = exportKey(stream, identifier ?? "");
  const known = kept.get(key);
  const history = known ?? {
    key,
    stream,
    identifier,
    times: [],
    ...Object.fromEntries(MEASURES.map((name) => [name, []])),
  };
  kept.delete(key); // the last in the map is the one that was asked for last
  kept.set(key, history);
  if (kept.size > KEPT_MAX) kept.delete(kept.keys().next().value);
  if (!known) {
    waiting.push(history);
    fetchNext();
  }
  return history;
}

/** How far back a plot goes: as far as the history does, within limits. */
export function spanOf(times, now) {
  const known = times.length ? now - times[0] : 0;
  return Math.min(SPAN_MS, Math.max(SPAN_LEAST_MS, known));
}

/** What the measures are at a time: the last values before it, or undefined. */
export function lastIndexBefore(times, time) {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] <= time) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

async function fetchNext() {
  if (fetchCount >= FETCHES_MAX) return;
  let history = waiting.pop(); // the newest request is for what is on the screen now
  while (history && kept.get(history.key) !== history) history = waiting.pop();
  if (!history) return;
  fetchCount += 1;
  try {
    const past = await getHistory(history.stream, history.identifier);
    const liveFrom = history.times[0] ?? Infinity;
    const pastCount = past.times.filter((time) => time < liveFrom).length;
    history.times.unshift(...past.times.slice(0, pastCount));
    for (const name of MEASURES) {
      const values = past[name].length ? past[name] : past.times.map(() => null);
      history[name].unshift(...values.slice(0, pastCount));
    }
  } catch (error) {
    history.trouble = error.message; // the plot says it; what happens from now on is shown anyway
  } finally {
    fetchCount -= 1;
    fetchNext();
  }
}

function continueAll() {
  const time = live.server.serverTime;
  for (const history of kept.values()) {
    const stream = live.streams.get(history.stream);
    if (stream && time > (history.before?.time ?? 0)) continueOne(history, stream, time);
  }
}

function continueOne(history, stream, time) {
  const view = live.exports.get(exportKey(history.stream, history.identifier ?? ""));
  history.times.push(time);
  history.lagMessages.push(view?.lagMessages ?? null);
  history.lagBytes.push(view?.lagBytes ?? null);
  history.messagesPerSecond.push(view?.messagesPerSecond ?? null);
  history.appendedPerSecond.push(appendedSince(history.before, stream, time));
  history.before = { time, id: stream.id, appended: stream.appendedMessages };
  const goneCount = lastIndexBefore(history.times, time - SPAN_MS);
  if (goneCount > 60) {
    for (const name of ["times", ...MEASURES]) history[name].splice(0, goneCount);
  }
}

/** Messages per second since the point before, as the console's own history has it. */
function appendedSince(before, stream, time) {
  if (!before || before.id !== stream.id || stream.appendedMessages < before.appended) return null;
  return ((stream.appendedMessages - before.appended) * 1000) / (time - before.time);
}

live.addEventListener("snapshot", () => {
  kept.clear(); // there may be a gap behind
  waiting.length = 0;
});
live.addEventListener("change", () => {
  if (live.connection === "live") continueAll();
});
