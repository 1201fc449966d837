// All exports.

import { h, setAttribute } from "../dom.js";
import { bytes, byteRate, count, plural, rate, shortCount } from "../format.js";
import { exportKey, live } from "../live.js";
import { isTrouble, urgency } from "../parts/badge.js";
import { lettersCell, linkedLines, noteCell, stateCell, twoLines } from "../parts/cells.js";
import { choice, iconButton, pageHead, setIcon, tiles } from "../parts/controls.js";
import { openDialog } from "../parts/dialog.js";
import {
  destination,
  kind,
  lagAge,
  showError,
  togglePause,
  whatNext,
} from "../parts/export_card.js";
import { lagPlot } from "../parts/lag_plot.js";
import { sparkline } from "../parts/sparkline.js";
import { LiveTable } from "../parts/table.js";
import { streamAddress } from "../routes.js";

export const title = "Exports";

const ACCEPTS = {
  all: () => true,
  trouble: (view) => isTrouble(view.state),
  behind: (view) => view.lagMessages > 0,
  paused: (view) => view.state === "paused",
};

/** Fill the page, and keep it up to date until the signal. */
export function show(page, { signal }) {
  const figures = tiles({
    lag: "Lag of all",
    sent: "Sending",
    trouble: "In trouble",
    paused: "Paused",
    letters: "Dead letters",
  });
  const table = exportTable();
  const states = { all: "All", trouble: "Trouble", behind: "Behind", paused: "Paused" };
  const filter = choice("Which exports", states, "all", (name) => table.setAccepts(ACCEPTS[name]));
  page.append(
    pageHead("Exports", { beside: [table.filter, filter, table.count] }),
    figures.element,
    table.element,
  );
  live.watch(() => {
    const views = [...live.exports.values()];
    table.setRows(views);
    setFigures(figures, views);
  }, signal);
}

function setFigures(figures, views) {
  const sum = (value) => views.reduce((total, view) => total + value(view), 0);
  const number = (accepts) => views.filter(accepts).length;
  const troubled = number(ACCEPTS.trouble);
  const letters = sum((view) => view.deadLetters);
  figures.lag.set(
    shortCount(sum((view) => view.lagMessages)),
    `messages, ${bytes(sum((view) => view.lagBytes))}`,
  );
  figures.sent.set(
    rate(sum((view) => view.messagesPerSecond)),
    byteRate(sum((view) => view.bytesPerSecond)),
  );
  figures.trouble.set(
    count(troubled),
    troubled ? "cannot send now" : "all can send",
    troubled ? "warn" : null,
  );
  figures.paused.set(count(number(ACCEPTS.paused)), `of ${plural(views.length, "export")}`);
  figures.letters.set(
    count(letters),
    letters ? "refused for good" : "nothing was refused",
    letters ? "warn" : null,
  );
}

function exportTable() {
  return new LiveTable({
    name: "Exports",
    noun: "export",
    keyOf: (view) => exportKey(view.streamName, view.exportIdentifier),
    searched: (view) =>
      `${view.streamName} ${view.exportIdentifier} ${destination(view)} ${view.state} ${view.lastError ?? ""}`,
    sort: ["stream", 1],
    emptyText: "No stream has an export. Edit a stream to add one.",
    columns: [
      {
        id: "stream",
        title: "Stream, export",
        value: (view) => view.streamName,
        create: linkedLines(
          (view) => view.streamName,
          (view) => streamAddress(view.streamName),
          (view) => view.exportIdentifier,
        ),
        least: 138,
      },
      {
        id: "to",
        title: "To",
        value: destination,
        create: twoLines(kind, (view) => view.target, destination),
        width: 126,
        isExtra: true,
      },
      {
        id: "state",
        title: "State",
        value: (view) => urgency(view.state),
        create: stateCell,
        width: 132,
      },
      {
        id: "lag",
        title: "Lag",
        value: (view) => view.lagMessages,
        create: twoLines(
          (view) => shortCount(view.lagMessages),
          (view) => bytes(view.lagBytes),
          (view) => plural(view.lagMessages, "message"),
        ),
        isNumber: true,
        width: 84,
      },
      { id: "plot", title: "Lately", create: plotCell, width: 124 },
      {
        id: "age",
        title: "Age",
        value: (view) => (view.lagMessages ? -view.lagSince : -Infinity),
        text: lagAge,
        isNumber: true,
        width: 70,
      },
      {
        id: "rate",
        title: "Rate",
        value: (view) => view.messagesPerSecond,
        create: twoLines(
          (view) => rate(view.messagesPerSecond),
          (view) => byteRate(view.bytesPerSecond),
        ),
        isNumber: true,
        isExtra: true,
        width: 84,
      },
      {
        id: "letters",
        title: "Dead",
        value: (view) => view.deadLetters,
        create: lettersCell((view) => [view.streamName, view.exportIdentifier]),
        isNumber: true,
        width: 62,
      },
      {
        id: "note",
        title: "Next try, error",
        value: (view) => view.lastError ?? "",
        create: noteCell(whatNext, (view) => view.lastError ?? "", showError),
        least: 116,
      },
      { id: "pause", title: "Pause or resume", isUnseen: true, create: pauseCell, width: 52 },
    ],
  });
}

function plotCell(cell) {
  let view;
  const line = sparkline();
  const open = h(
    "button",
    { type: "button", class: "spark-button", onclick: () => openPlot(view) },
    line.element,
  );
  cell.append(open);
  return (next) => {
    view = next;
    line.set(view.streamName, view.exportIdentifier);
    setAttribute(
      open,
      "aria-label",
      `Plot the lag of ${view.streamName}, export ${view.exportIdentifier}`,
    );
  };
}

function openPlot({ streamName, exportIdentifier }) {
  const plot = lagPlot(streamName, exportIdentifier, 320);
  const ended = new AbortController();
  openDialog(`${streamName}, export ${exportIdentifier}`, plot.element, {
    kind: "wide",
    onclose: () => ended.abort(),
  });
  live.watch(() => plot.draw(), ended.signal);
}

function pauseCell(cell) {
  let view;
  const toggle = iconButton("pause", "", () => togglePause(view));
  cell.append(toggle);
  return (next) => {
    view = next;
    const isPaused = view.state === "paused";
    setIcon(
      toggle,
      isPaused ? "play" : "pause",
      `${isPaused ? "Resume" : "Pause"} ${view.exportIdentifier} of ${view.streamName}`,
    );
  };
}
