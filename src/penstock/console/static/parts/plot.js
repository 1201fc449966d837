// A plot over the last minutes, up to 15: axes, values under the pointer or the arrow keys, and a table.

import { freshId, h, setAttribute, setText, svg } from "../dom.js";
import { clock } from "../format.js";
import { lastIndexBefore, spanOf } from "../history.js";
import { live } from "../live.js";

const MARGIN = { top: 12, right: 14, bottom: 26, left: 64 };
const MINUTE_MS = 60_000;
const TABLE_STEP_MS = 30_000;

/**
 * Lines over time: {title, height, lines: [{label, valuesOf(history)}], historyOf(), shown(value)}.
 * Call draw() whenever there may be something new, and setLines() to show other ones.
 */
export class Plot {
  constructor({ title, height = 220, historyOf, lines, shown }) {
    Object.assign(this, { title, height, historyOf, lines, shown, pointed: null });
    this.drawing = svg("g");
    this.marker = svg("g", { class: "plot-marker" });
    this.canvas = svg(
      "svg",
      { class: "plot", role: "img", tabindex: "0" },
      this.drawing,
      this.marker,
    );
    this.canvas.style.height = `${height}px`;
    this.readout = h("p", { class: "plot-readout" });
    this.legend = h("ul", { class: "plot-legend", "aria-hidden": "true" });
    this.table = this.#tableParts();
    this.element = h(
      "figure",
      { class: "plot-figure" },
      h("figcaption", {}, this.legend, this.readout),
      this.canvas,
      this.table.element,
    );
    this.#listen();
    this.#showLegend();
  }

  setLines(title, lines, shown) {
    Object.assign(this, { title, lines, shown });
    this.#showLegend();
    this.draw();
  }

  draw() {
    const history = this.historyOf();
    const now = live.now();
    const width = this.canvas.clientWidth || 640;
    const span = spanOf(history.times, now);
    const begin = now - span;
    const values = this.lines.map((line) => line.valuesOf(history));
    const from = Math.max(0, lastIndexBefore(history.times, begin));
    const largest = values.reduce((most, each) => maximum(each, from, most), 0);
    const scale = niceScale(largest);
    this.frame = {
      history,
      values,
      width,
      begin,
      span,
      now,
      x: (time) => MARGIN.left + ((time - begin) / span) * (width - MARGIN.left - MARGIN.right),
      y: (value) =>
        this.height -
        MARGIN.bottom -
        (value / scale.top) * (this.height - MARGIN.top - MARGIN.bottom),
    };
    setAttribute(this.canvas, "viewBox", `0 0 ${width} ${this.height}`);
    this.drawing.replaceChildren(
      ...this.#axes(scale),
      ...values.map((each, index) => this.#line(each, from, index)),
    );
    this.#describe(largest);
    this.#mark();
    if (this.table.element.open) this.#fillTable();
  }

  #axes(scale) {
    const { x, y, width, begin, span, now } = this.frame;
    const parts = [];
    for (const value of scale.ticks) {
      parts.push(
        svg("line", {
          class: "plot-grid",
          x1: MARGIN.left,
          x2: width - MARGIN.right,
          y1: y(value),
          y2: y(value),
        }),
        svg(
          "text",
          { class: "plot-label", x: MARGIN.left - 8, y: y(value) + 4, "text-anchor": "end" },
          this.shown(value),
        ),
      );
    }
    const stepMinutes = Math.ceil(span / MINUTE_MS / (width < 420 ? 3 : 5));
    const first = Math.ceil(begin / (stepMinutes * MINUTE_MS)) * stepMinutes * MINUTE_MS;
    for (let time = first; time <= now; time += stepMinutes * MINUTE_MS) {
      const at = x(time);
      if (at > width - MARGIN.right - 18 || at < MARGIN.left + 10) continue;
      parts.push(
        svg(
          "text",
          { class: "plot-label", x: at, y: this.height - 8, "text-anchor": "middle" },
          clock(time).slice(0, 5),
        ),
        svg("line", {
          class: "plot-tick",
          x1: at,
          x2: at,
          y1: this.height - MARGIN.bottom,
          y2: this.height - MARGIN.bottom + 4,
        }),
      );
    }
    return parts;
  }

  #line(values, from, index) {
    const { history, x, y, begin } = this.frame;
    const points = [];
    for (let at = from; at < values.length; at += 1) {
      if (values[at] === null || values[at] === undefined) continue;
      points.push(
        `${x(Math.max(begin, history.times[at])).toFixed(1)} ${y(values[at]).toFixed(1)}`,
      );
    }
    if (!points.length) return svg("g");
    const bottom = this.height - MARGIN.bottom;
    const [left, right] = [points[0].split(" ")[0], points.at(-1).split(" ")[0]];
    const area =
      index === 0 &&
      svg("path", {
        class: "plot-area",
        d: `M${left} ${bottom}L${points.join("L")}L${right} ${bottom}Z`,
      });
    return svg(
      "g",
      { class: `plot-series series-${index}` },
      area || null,
      svg("path", { class: "plot-line", d: `M${points.join("L")}` }),
    );
  }

  #describe(largest) {
    const { history, values } = this.frame;
    const newest = this.lines
      .map((line, index) => `${line.label} ${this.#text(values[index].at(-1))}`)
      .join(", ");
    const state = history.times.length
      ? `now ${newest}; at most ${this.shown(largest)} in ${Math.ceil(this.frame.span / MINUTE_MS)} minutes`
      : "no values yet";
    setAttribute(this.canvas, "aria-label", `${this.title}: ${state}`);
    if (this.pointed === null) {
      const idle = history.times.length
        ? `now ${this.#text(values[0].at(-1))} · highest ${this.shown(largest)}`
        : "";
      setText(this.readout, history.trouble ?? idle);
    }
  }

  #text(value) {
    return value === null || value === undefined ? "–" : this.shown(value);
  }

  #showLegend() {
    this.legend.replaceChildren(
      ...this.lines.map((line, index) =>
        h("li", { class: `series-${index}` }, h("span", { class: "swatch" }), line.label),
      ),
    );
  }

  #listen() {
    this.canvas.addEventListener("pointermove", (event) => {
      const box = this.canvas.getBoundingClientRect();
      const share =
        (event.clientX - box.left - MARGIN.left) / (box.width - MARGIN.left - MARGIN.right);
      this.#point(this.frame.begin + share * this.frame.span);
    });
    for (const leaving of ["pointerleave", "blur"])
      this.canvas.addEventListener(leaving, () => this.#point(null));
    this.canvas.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step || !this.frame) return;
      event.preventDefault();
      this.#point((this.pointed ?? this.frame.now) + step * (event.shiftKey ? MINUTE_MS : 5000));
    });
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  #point(time) {
    this.pointed =
      time === null ? null : Math.min(this.frame.now, Math.max(this.frame.begin, time));
    this.#mark();
  }

  /** The line under the pointer, and what the values were there. */
  #mark() {
    this.marker.replaceChildren();
    if (this.pointed === null) return;
    const { history, values, x, y } = this.frame;
    const index = Math.max(0, lastIndexBefore(history.times, this.pointed));
    const time = history.times[index];
    if (time === undefined) return;
    const at = x(Math.max(this.frame.begin, time));
    this.marker.append(
      svg("line", { x1: at, x2: at, y1: MARGIN.top, y2: this.height - MARGIN.bottom }),
      ...values.flatMap((each, series) =>
        each[index] === null
          ? []
          : [svg("circle", { class: `series-${series}`, cx: at, cy: y(each[index]), r: 3.5 })],
      ),
    );
    const parts = this.lines.map(
      (line, series) => `${line.label} ${this.#text(values[series][index])}`,
    );
    setText(this.readout, `${clock(time)} · ${parts.join(" · ")}`);
  }

  #tableParts() {
    const body = h("tbody");
    const head = h("tr");
    const id = freshId("values");
    const table = h(
      "table",
      { class: "plain" },
      h("caption", { class: "unseen", id }, this.title),
      h("thead", {}, head),
      body,
    );
    const element = h(
      "details",
      { class: "plot-table" },
      h("summary", {}, "Values as a table"),
      h("div", { class: "plot-table-scroll" }, table),
    );
    element.addEventListener("toggle", () => element.open && this.#fillTable());
    return { element, head, body };
  }

  #fillTable() {
    const { history, values, begin, now } = this.frame;
    this.table.head.replaceChildren(
      h("th", { scope: "col" }, "Time"),
      ...this.lines.map((line) => h("th", { scope: "col", class: "number" }, line.label)),
    );
    const rows = [];
    for (let time = now; time > begin; time -= TABLE_STEP_MS) {
      const index = lastIndexBefore(history.times, time);
      if (index < 0) break;
      const cells = values.map((each) => h("td", { class: "number" }, this.#text(each[index])));
      rows.push(h("tr", {}, h("th", { scope: "row" }, clock(history.times[index])), ...cells));
    }
    this.table.body.replaceChildren(...rows);
  }
}

function maximum(values, from, most) {
  for (let at = from; at < values.length; at += 1) if (values[at] > most) most = values[at];
  return most;
}

/** Four or so round steps from zero to above the largest value. */
function niceScale(largest) {
  const rough = Math.max(largest, 4) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((each) => each >= rough);
  const stepCount = Math.max(1, Math.ceil(largest / step));
  const ticks = Array.from({ length: stepCount + 1 }, (_, index) => index * step);
  return { top: ticks.at(-1) * 1.04, ticks };
}
