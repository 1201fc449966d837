// The server, its disk, the pipeline, and the counters of AWS's telemetry.

import { h, setShown, setText } from "../dom.js";
import { bytes, count, duration, exactTime, longDuration, NOTHING, percent } from "../format.js";
import { live } from "../live.js";
import { badge } from "../parts/badge.js";
import { card, facts, fillBar, linkButton, pageHead } from "../parts/controls.js";

export const title = "Health";

/** Fill the page, and keep it up to date until the signal. */
export function show(page, { session, signal }) {
  const parts = [serverCard(session), diskCard(), pipelineCard(), telemetryCard(), doorsCard()];
  page.append(
    pageHead("Health"),
    h(
      "div",
      { class: "page-scroll" },
      h("div", { class: "cards" }, ...parts.map((part) => part.element)),
    ),
  );
  live.watch(() => {
    for (const part of parts) part.set?.();
  }, signal);
}

function serverCard(session) {
  const list = facts({
    address: "Address",
    version: "Version",
    process: "Process",
    up: "Up for",
    started: "Started",
    connections: "Connections",
    refused: "Refused appends",
  });
  const set = () => {
    const { server } = live;
    list.set({
      address: session.server,
      version: server.version,
      process: String(server.processId),
      up: longDuration(live.now() - server.startedTime),
      started: exactTime(server.startedTime),
      connections: count(server.connections),
      refused: count(server.refusedAppends),
    });
  };
  return { element: card("Server", list.element), set };
}

function diskCard() {
  const bar = fillBar();
  const list = facts({ free: "Free", total: "Size", streams: "Held by streams", folder: "Folder" });
  const set = () => {
    const { diskFreeBytes, diskTotalBytes, dataDir } = live.server;
    const used = 1 - diskFreeBytes / diskTotalBytes;
    const stored = [...live.streams.values()]
      .filter((row) => row.persistence === 0)
      .reduce((sum, row) => sum + row.totalBytes, 0);
    bar.set(used, `${percent(used)} used`, { isTrouble: true });
    list.set({
      free: bytes(diskFreeBytes),
      total: bytes(diskTotalBytes),
      streams: bytes(stored),
      folder: dataDir,
    });
  };
  return { element: card("Disk", h("div", { class: "wide-bar" }, bar.element), list.element), set };
}

function pipelineCard() {
  const mark = badge();
  const text = h("p", { class: "error-text" });
  const list = facts({ process: "Process", restarts: "Restarts", next: "Next start" });
  const open = linkButton("Spark's own page", "#", {
    name: "open",
    target: "_blank",
    rel: "noopener noreferrer",
  });
  const hint = h(
    "p",
    { class: "hint" },
    "Spark's own page is off. Start the server with ",
    h("code", {}, "--spark-ui"),
    " to have a link to it here.",
  );
  const set = () => {
    const { pipeline } = live;
    const isTroubled = ["unavailable", "restarting"].includes(pipeline.state);
    mark.set(pipeline.state);
    setText(text, pipeline.text ?? "");
    setShown(text, Boolean(pipeline.text));
    text.classList.toggle("calm", !isTroubled);
    list.set({
      process: pipeline.processId ? String(pipeline.processId) : NOTHING,
      restarts: count(pipeline.restarts),
      next: pipeline.nextStartTime
        ? `in ${duration(pipeline.nextStartTime - live.now() + 999)}`
        : NOTHING,
    });
    const address = webAddress(pipeline.ui);
    setShown(open, Boolean(address));
    setShown(hint, !address);
    if (address) open.href = address;
  };
  return {
    element: card("Pipeline", h("p", {}, mark.element), text, list.element, open, hint),
    set,
  };
}

/** An address that a click may go to, or null. */
function webAddress(text) {
  return text && /^https?:\/\//.test(text) ? text : null;
}

const COUNTERS = {
  appended: "Bytes appended",
  IoTAnalytics: "Uploaded to IoT Analytics",
  Kinesis: "Uploaded to Kinesis",
  IoTSiteWise: "Uploaded to SiteWise",
  S3ExportTaskExecutor: "Uploaded to S3",
  HTTP: "Uploaded to HTTP",
};

function telemetryCard() {
  const list = facts({ messages: "Messages appended", ...COUNTERS });
  const set = () => {
    const { server } = live;
    const uploaded = server.uploadedBytesByDestination ?? {};
    const texts = {
      messages: count(server.appendedMessages),
      appended: exact(server.appendedBytes),
    };
    for (const name of Object.keys(COUNTERS).slice(1)) texts[name] = exact(uploaded[name] ?? 0);
    list.set(texts);
  };
  return { element: card("Since the server started", list.element), set };
}

function exact(size) {
  return size < 1024 ? bytes(size) : `${bytes(size)} (${count(size)})`;
}

function doorsCard() {
  const links = {
    "/metrics": "for Prometheus",
    "/healthz": "does the server answer",
    "/readyz": "can it do its work",
  };
  const rows = Object.entries(links).map(([path, text]) =>
    h("div", { class: "fact" }, h("dt", {}, h("a", { href: path }, path)), h("dd", {}, text)),
  );
  return { element: card("For machines", h("dl", { class: "facts" }, ...rows)) };
}
