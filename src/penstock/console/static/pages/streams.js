// All streams.

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
  utc,
} from "../format.js";
import { live } from "../live.js";
import { isTrouble } from "../parts/badge.js";
import { linkedLines, twoLines } from "../parts/cells.js";
import { button, fillBar, pageHead, tiles } from "../parts/controls.js";
import { openCreateForm } from "../parts/stream_form.js";
import { LiveTable } from "../parts/table.js";
import { streamAddress } from "../routes.js";

export const title = "Streams";

/** Fill the page, and keep it up to date until the signal. */
export function show(page, { signal }) {
  const create = button("New stream", {
    name: "plus",
    kind: "primary",
    "aria-keyshortcuts": "n",
    "data-create": "",
    onclick: () =>
      openCreateForm((name) => {
        location.hash = streamAddress(name);
      }),
  });
  const figures = tiles({
    streams: "Streams",
    stored: "Stored",
    appended: "Appended",
    exports: "Exports",
    disk: "Disk",
  });
  const table = streamTable();
  page.append(
    pageHead("Streams", { beside: [table.filter, table.count], actions: [create] }),
    figures.element,
    table.element,
  );
  live.watch(() => {
    table.setRows(streamsWithExports());
    setFigures(figures);
  }, signal);
}

/** Every stream, with the identifiers of its exports. */
function streamsWithExports() {
  const identifiers = new Map();
  for (const { streamName, exportIdentifier } of live.exports.values()) {
    identifiers.set(streamName, [...(identifiers.get(streamName) ?? []), exportIdentifier]);
  }
  return [...live.streams.values()].map((row) => ({
    ...row,
    exports: identifiers.get(row.name) ?? [],
  }));
}

function setFigures(figures) {
  const streams = [...live.streams.values()];
  const exports = [...live.exports.values()];
  const sum = (rows, value) => rows.reduce((total, row) => total + (value(row) ?? 0), 0);
  const troubled = exports.filter((view) => isTrouble(view.state)).length;
  const { server } = live;
  const free = server.diskFreeBytes / server.diskTotalBytes;
  figures.streams.set(count(streams.length), `${shortCount(sum(streams, messageCount))} messages`);
  figures.stored.set(
    bytes(sum(streams, (row) => row.totalBytes)),
    `of ${bytes(sum(streams, (row) => row.maxSize))} allowed`,
  );
  figures.appended.set(
    rate(sum(streams, (row) => row.messagesPerSecond)),
    byteRate(sum(streams, (row) => row.bytesPerSecond)),
  );
  figures.exports.set(
    count(exports.length),
    troubled ? `${troubled} in trouble` : "none in trouble",
    troubled ? "warn" : null,
  );
  figures.disk.set(
    bytes(server.diskFreeBytes),
    `free, ${percent(free)} of ${bytes(server.diskTotalBytes)}`,
    free < 0.05 ? "bad" : null,
  );
}

/** How many messages a stream holds. */
export function messageCount(row) {
  return row.newestSequenceNumber - row.oldestSequenceNumber + 1;
}

/** What happens to old messages, in a few words. */
export function retention(row) {
  const full = row.strategyOnFull === 1 ? "overwrites" : "rejects";
  return row.timeToLiveMillis ? `${full} · ${exactDuration(row.timeToLiveMillis)}` : full;
}

/** Where and how safely messages are kept. */
export function keeping(row) {
  if (row.persistence === 1) return "memory";
  return row.flushOnWrite ? "disk, synced" : "disk";
}

function streamTable() {
  return new LiveTable({
    name: "Streams",
    noun: "stream",
    keyOf: (row) => row.name,
    searched: (row) => `${row.name} ${row.exports.join(" ")} ${keeping(row)} ${retention(row)}`,
    sort: ["name", 1],
    emptyText: "There is no stream yet. Create one here, or with any stream manager client.",
    columns: [
      {
        id: "name",
        title: "Stream",
        value: (row) => row.name,
        create: linkedLines(
          (row) => row.name,
          (row) => streamAddress(row.name),
          exportsOf,
        ),
        least: 150,
      },
      {
        id: "size",
        title: "Size",
        value: (row) => row.totalBytes / row.maxSize,
        create: sizeCell,
        least: 170,
      },
      {
        id: "rate",
        title: "Rate",
        value: (row) => row.messagesPerSecond,
        create: twoLines(
          (row) => rate(row.messagesPerSecond),
          (row) => byteRate(row.bytesPerSecond),
        ),
        isNumber: true,
        width: 90,
      },
      {
        id: "count",
        title: "Messages",
        value: messageCount,
        text: (row) => count(messageCount(row)),
        isNumber: true,
        width: 104,
      },
      {
        id: "oldest",
        title: "Oldest",
        value: (row) => row.oldestTime,
        create: endCell("oldestSequenceNumber", "oldestTime"),
        isNumber: true,
        isExtra: true,
        width: 96,
      },
      {
        id: "newest",
        title: "Newest",
        value: (row) => row.newestTime,
        create: endCell("newestSequenceNumber", "newestTime"),
        isNumber: true,
        width: 96,
      },
      {
        id: "retention",
        title: "When full, kept",
        value: retention,
        create: twoLines(retention, keeping),
        width: 136,
      },
    ],
  });
}

/** The exports of a stream, in a few words. */
function exportsOf(row) {
  return row.exports.length ? `→ ${row.exports.join(", ")}` : "";
}

function sizeCell(cell) {
  const bar = fillBar();
  cell.append(bar.element);
  return (row) => {
    const share = row.totalBytes / row.maxSize;
    const title = `${percent(share)} of ${count(row.maxSize)} bytes`;
    bar.set(share, `${bytes(row.totalBytes)} of ${bytes(row.maxSize)}`, {
      title,
      isTrouble: row.strategyOnFull === 0,
    });
  };
}

/** A sequence number and how long ago it came. */
function endCell(number, time) {
  const isKnown = (row) => messageCount(row) > 0;
  return twoLines(
    (row) => (isKnown(row) ? count(row[number]) : NOTHING),
    (row) => (isKnown(row) && row[time] ? `${duration(live.now() - row[time])} ago` : ""),
    (row) => (isKnown(row) && row[time] ? `${exactTime(row[time])} (${utc(row[time])})` : null),
  );
}
