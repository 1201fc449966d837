// A line of the last minutes, as large as a word.

import { setAttribute, svg } from "../dom.js";
import { historyOf, spanOf } from "../history.js";
import { live } from "../live.js";

const WIDTH = 104;
const HEIGHT = 26;
const BUCKETS = 52;

/** A sparkline of an export's lag: set(stream, identifier). */
export function sparkline() {
  const area = svg("path", { class: "spark-area" });
  const line = svg("path", { class: "spark-line" });
  const element = svg(
    "svg",
    {
      class: "spark",
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      width: WIDTH,
      height: HEIGHT,
      "aria-hidden": "true",
    },
    area,
    line,
  );
  return {
    element,
    set(stream, identifier) {
      const history = historyOf(stream, identifier);
      const points = pointsOf(history.times, history.lagMessages, live.now());
      setAttribute(line, "d", points.length ? `M${points.join("L")}` : "");
      const [first] = points[0]?.split(" ") ?? [];
      setAttribute(
        area,
        "d",
        points.length ? `M${first} ${HEIGHT}L${points.join("L")}L${WIDTH} ${HEIGHT}Z` : "",
      );
    },
  };
}

/** The largest value of each bucket of time, as "x y"; a bucket without one keeps the last. */
function pointsOf(times, values, now) {
  const largest = new Array(BUCKETS).fill(null);
  const span = spanOf(times, now);
  const start = now - span;
  times.forEach((time, index) => {
    const bucket = Math.min(BUCKETS - 1, Math.floor(((time - start) / span) * BUCKETS));
    if (bucket >= 0 && values[index] !== null)
      largest[bucket] = Math.max(largest[bucket] ?? 0, values[index]);
  });
  const top = Math.max(1, ...largest.filter((value) => value !== null));
  const points = [];
  let last = null;
  largest.forEach((value, bucket) => {
    last = value ?? last;
    if (last === null) return;
    const x = ((bucket + 1) / BUCKETS) * WIDTH;
    points.push(`${x.toFixed(1)} ${(HEIGHT - 2 - (last / top) * (HEIGHT - 4)).toFixed(1)}`);
  });
  // A single point would be no line.
  return points.length === 1 ? [points[0].replace(/^\S+/, WIDTH - 4), ...points] : points;
}
