// One stream: what it holds, how it is defined, its exports.

import { deleteStream, getStream } from "../api.js";
import { h, setShown, setText } from "../dom.js";
import {
  bytes,
  byteRate,
  count,
  duration,
  exactDuration,
  exactTime,
  NOTHING,
  percent,
  rate,
  shortCount,
} from "../format.js";
import { live } from "../live.js";
import { button, card, facts, fillBar, linkButton, pageHead, tiles } from "../parts/controls.js";
import { confirmAction } from "../parts/dialog.js";
import { exportCard } from "../parts/export_card.js";
import { appendPlot } from "../parts/lag_plot.js";
import { openEditForm } from "../parts/stream_form.js";
import { complain, say } from "../parts/toast.js";
import { messagesAddress } from "../routes.js";
import { keeping, messageCount } from "./streams.js";

export const title = "Stream";

/** Fill the page for the stream of that name. */
export function show(page, { name, signal }) {
  const figures = tiles({
    size: "Size",
    messages: "Messages",
    appended: "Appended",
    oldest: "Oldest",
    newest: "Newest",
  });
  const bar = fillBar();
  figures.size.element.append(bar.element);
  const definition = definitionCard();
  const plot = appendPlot(name, 200);
  const exports = exportCards(name);
  const gone = h(
    "p",
    { class: "empty" },
    "There is no stream of this name. ",
    h("a", { href: "#/streams" }, "All streams"),
  );
  const content = h(
    "div",
    { class: "page-scroll" },
    figures.element,
    h("div", { class: "columns" }, card("Messages per second", plot.element), definition.element),
    exports.element,
  );
  page.append(
    pageHead(name, {
      beside: [h("a", { class: "back", href: "#/streams" }, "All streams")],
      actions: actions(name),
    }),
    gone,
    content,
  );
  live.watch(() => {
    const row = live.streams.get(name);
    setShown(gone, !row);
    setShown(content, Boolean(row));
    if (!row) return;
    setFigures(figures, bar, row);
    definition.set(row);
    exports.set();
    plot.draw();
  }, signal);
}

function actions(name) {
  return [
    linkButton("Messages", messagesAddress(name), { name: "messages" }),
    button("Edit", { name: "edit", onclick: () => edit(name) }),
    button("Delete", { name: "remove", kind: "danger-quiet", onclick: () => confirmDelete(name) }),
  ];
}

async function edit(name) {
  try {
    const info = await getStream(name);
    openEditForm(info.definition, () => {});
  } catch (error) {
    complain(error);
  }
}

function confirmDelete(name) {
  const row = live.streams.get(name);
  const held = row
    ? `Its ${count(Math.max(0, messageCount(row)))} messages (${bytes(row.totalBytes)}), its exports and their positions`
    : "All it holds";
  confirmAction({
    title: `Delete ${name}?`,
    text: `${held} will be gone for good. Dead letters of it stay until they are purged.`,
    label: "Delete the stream",
    typed: name,
    action: async () => {
      await deleteStream(name);
      say(`Stream ${name} was deleted.`);
      location.hash = "#/streams";
    },
  });
}

function setFigures(figures, bar, row) {
  const share = row.totalBytes / row.maxSize;
  const isEmpty = messageCount(row) <= 0;
  figures.size.set(bytes(row.totalBytes));
  bar.set(share, `${percent(share)} of ${bytes(row.maxSize)}`, {
    isTrouble: row.strategyOnFull === 0,
  });
  figures.messages.set(
    count(Math.max(0, messageCount(row))),
    `${shortCount(row.appendedMessages)} since the start`,
  );
  figures.appended.set(rate(row.messagesPerSecond), byteRate(row.bytesPerSecond));
  end(figures.oldest, isEmpty, row.oldestSequenceNumber, row.oldestTime);
  end(figures.newest, isEmpty, row.newestSequenceNumber, row.newestTime);
}

function end(tile, isEmpty, number, time) {
  if (isEmpty) tile.set(NOTHING, "empty");
  else tile.set(count(number), time ? `${duration(live.now() - time)} ago` : "");
}

function definitionCard() {
  const list = facts({
    full: "When full",
    ttl: "Keeps messages for",
    kept: "Kept",
    size: "Largest size",
    refused: "Refused appends",
    newest: "Newest message",
    id: "Id",
  });
  const set = (row) => {
    list.set({
      full: row.strategyOnFull === 1 ? "overwrites the oldest data" : "rejects new data",
      ttl: row.timeToLiveMillis ? exactDuration(row.timeToLiveMillis) : "until it is full",
      kept: keeping(row),
      size: `${bytes(row.maxSize)} (${count(row.maxSize)} bytes)`,
      refused: count(row.refusedAppends),
      newest: exactTime(row.newestTime),
      id: row.id,
    });
  };
  return { element: card("Definition", list.element), set };
}

/** The exports of a stream, each with its plot; they come and go with the definition. */
function exportCards(name) {
  const list = h("div", { class: "export-cards" });
  const none = h("p", { class: "muted" });
  const cards = new Map();
  const set = () => {
    const views = [...live.exports.values()].filter((view) => view.streamName === name);
    const identifiers = new Set(views.map((view) => view.exportIdentifier));
    for (const [identifier, made] of cards) {
      if (identifiers.has(identifier)) continue;
      made.element.remove();
      cards.delete(identifier);
    }
    for (const view of views) {
      if (!cards.has(view.exportIdentifier)) {
        const made = exportCard(view);
        cards.set(view.exportIdentifier, made);
        list.append(made.element);
      }
      cards.get(view.exportIdentifier).set(view);
    }
    setText(none, views.length ? "" : "It has no exports. Edit the stream to add one.");
  };
  return {
    element: h(
      "section",
      { "aria-label": "Exports" },
      h("h2", { class: "section-title" }, "Exports"),
      none,
      list,
    ),
    set,
  };
}
