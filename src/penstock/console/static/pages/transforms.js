// Declared SQL transforms.

import { resetTransform } from "../api.js";
import { h, setAttribute } from "../dom.js";
import { count, duration, exactTime, NOTHING, plural, rate, shortCount } from "../format.js";
import { live } from "../live.js";
import { urgency } from "../parts/badge.js";
import { lettersCell, linkedLines, noteCell, stateCell, twoLines } from "../parts/cells.js";
import { button, facts, iconButton, pageHead, select } from "../parts/controls.js";
import { confirmAction, showText } from "../parts/dialog.js";
import { nextTry } from "../parts/export_card.js";
import { field } from "../parts/fields.js";
import { LiveTable } from "../parts/table.js";
import { say } from "../parts/toast.js";
import { streamAddress } from "../routes.js";

export const title = "Transforms";

/** Fill the page, and keep it up to date until the signal. */
export function show(page, { signal }) {
  const table = transformTable();
  page.append(pageHead("Transforms", { beside: [table.filter, table.count] }), table.element);
  live.watch(() => table.setRows([...live.transforms.values()]), signal);
}

function transformTable() {
  return new LiveTable({
    name: "Transforms",
    noun: "transform",
    keyOf: (view) => view.name,
    searched: (view) =>
      `${view.name} ${view.source} ${view.target} ${view.state} ${view.lastError ?? ""}`,
    sort: ["name", 1],
    emptyText:
      "The server has no transforms. They are declared in its penstock.toml and read when it starts.",
    columns: [
      {
        id: "name",
        title: "Transform",
        value: (view) => view.name,
        create: twoLines(
          (view) => view.name,
          (view) => `generation ${view.generation}`,
        ),
        least: 120,
      },
      {
        id: "source",
        title: "From, to",
        value: (view) => view.source,
        create: linkedLines(
          (view) => view.source,
          (view) => streamAddress(view.source),
          (view) => view.target,
        ),
        least: 150,
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
        text: lag,
        isNumber: true,
        width: 70,
      },
      {
        id: "in",
        title: "Rows in",
        value: (view) => view.rowsIn,
        create: twoLines(
          (view) => shortCount(view.rowsIn),
          (view) => rate(view.rowsInPerSecond),
        ),
        isNumber: true,
        width: 84,
      },
      {
        id: "out",
        title: "Rows out",
        value: (view) => view.rowsOut,
        create: twoLines(
          (view) => shortCount(view.rowsOut),
          (view) => rate(view.rowsOutPerSecond),
        ),
        isNumber: true,
        width: 90,
      },
      {
        id: "batch",
        title: "Batch",
        value: (view) => view.batchMillis,
        text: (view) => `${count(view.batchMillis)} ms`,
        isNumber: true,
        isExtra: true,
        width: 84,
      },
      {
        id: "letters",
        title: "Dead",
        value: (view) => view.deadLetters,
        create: lettersCell((view) => [view.source, `transform ${view.name}`]),
        isNumber: true,
        width: 62,
      },
      {
        id: "error",
        title: "Next try, error",
        value: (view) => view.lastError ?? "",
        create: noteCell(
          (view) => nextTry(view) || "details",
          (view) => view.lastError ?? "",
          showDetails,
        ),
        least: 116,
      },
      { id: "reset", title: "Reset", isUnseen: true, create: resetCell, width: 52 },
    ],
  });
}

function lag(view) {
  return view.lagMessages === null || view.lagMessages === undefined
    ? NOTHING
    : shortCount(view.lagMessages);
}

function showDetails(view) {
  const list = facts({
    generation: "Generation",
    next: "Next number",
    lost: "Lost before they could be read",
    tries: "Failed tries",
    retry: "Next try",
  });
  list.set({
    generation: count(view.generation),
    next: count(view.nextSequenceNumber),
    lost: plural(view.lostMessages, "message"),
    tries: count(view.tries),
    retry: view.nextRetryTime
      ? `${exactTime(view.nextRetryTime)}, in ${duration(view.nextRetryTime - live.now())}`
      : NOTHING,
  });
  showText(
    `Transform ${view.name}`,
    view.lastError || "No error is known.",
    list.element,
    h(
      "div",
      { class: "dialog-actions" },
      button("Reset", { name: "replay", kind: "danger-quiet", onclick: () => confirmReset(view) }),
    ),
  );
}

function resetCell(cell) {
  let view;
  const reset = iconButton("replay", "", () => confirmReset(view));
  cell.append(reset);
  return (next) => {
    view = next;
    setAttribute(reset, "aria-label", `Reset ${view.name}`);
    setAttribute(reset, "title", `Reset ${view.name}`);
  };
}

function confirmReset(view) {
  const start = select(
    { earliest: "the earliest message", latest: "the next message that comes" },
    "earliest",
  );
  confirmAction({
    title: `Begin ${view.name} again?`,
    text: "It gets a new checkpoint. What it has written stays: from earlier messages it will write again.",
    extra: field("Begin at", start),
    label: "Reset the transform",
    action: async () => {
      const { generation } = await resetTransform(view.name, start.value);
      say(`${view.name} begins again at ${start.value}, generation ${generation}.`);
    },
  });
}
