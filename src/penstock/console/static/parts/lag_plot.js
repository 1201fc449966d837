// The plot of an export, with a choice of what it shows.

import { h } from "../dom.js";
import { bytes, rate, shortCount } from "../format.js";
import { historyOf } from "../history.js";
import { choice } from "./controls.js";
import { Plot } from "./plot.js";

const LAG = { label: "lag", valuesOf: (history) => history.lagMessages };
const SIZE = { label: "lag", valuesOf: (history) => history.lagBytes };
const APPENDED = { label: "appended", valuesOf: (history) => history.appendedPerSecond };
const SENT = { label: "sent", valuesOf: (history) => history.messagesPerSecond };

const VIEWS = {
  messages: ["Lag in messages", [LAG], (value) => shortCount(Math.round(value))],
  bytes: ["Lag in bytes", [SIZE], (value) => bytes(Math.round(value))],
  rates: ["Messages per second", [SENT, APPENDED], rate],
};

/** Lag of one export over time: {element, draw()}. */
export function lagPlot(stream, identifier, height) {
  const titled = (view) => `${view[0]} of ${stream}, export ${identifier}`;
  const plot = new Plot({
    title: titled(VIEWS.messages),
    height,
    historyOf: () => historyOf(stream, identifier),
    lines: VIEWS.messages[1],
    shown: VIEWS.messages[2],
  });
  const choose = (name) => plot.setLines(titled(VIEWS[name]), VIEWS[name][1], VIEWS[name][2]);
  const options = { messages: "Messages", bytes: "Bytes", rates: "Rates" };
  const element = h(
    "div",
    { class: "lag-plot" },
    choice("What the plot shows", options, "messages", choose),
    plot.element,
  );
  return { element, draw: () => plot.draw() };
}

/** Messages appended to a stream over time. */
export function appendPlot(stream, height) {
  return new Plot({
    title: `Messages appended to ${stream} per second`,
    height,
    historyOf: () => historyOf(stream),
    lines: [APPENDED],
    shown: rate,
  });
}
