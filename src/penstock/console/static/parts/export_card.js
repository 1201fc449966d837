// What an export does now: shared by the page of its stream and the table of all exports.

import { pauseExport, resumeExport } from "../api.js";
import { h, setShown, setText } from "../dom.js";
import { bytes, count, duration, exactTime, NOTHING, plural, rate } from "../format.js";
import { live } from "../live.js";
import { lettersAddress } from "../routes.js";
import { badge } from "./badge.js";
import { button, facts } from "./controls.js";
import { showText } from "./dialog.js";
import { icon } from "./icons.js";
import { lagPlot } from "./lag_plot.js";
import { attempt } from "./toast.js";

const DESTINATIONS = {
  IoTAnalytics: "IoT Analytics",
  IoTSiteWise: "SiteWise",
  S3ExportTaskExecutor: "S3 tasks",
};

/** "Kinesis". */
export function kind(view) {
  return DESTINATIONS[view.destination] ?? view.destination;
}

/** "Kinesis plant-7". */
export function destination(view) {
  return `${kind(view)} ${view.target}`.trim();
}

/** How long the oldest message waits that is not sent yet. */
export function lagAge(view) {
  return view.lagMessages ? duration(live.now() - view.lagSince) : NOTHING;
}

/** The time to the next try, or "". */
export function nextTry(view) {
  if (!view.nextRetryTime) return "";
  const millis = view.nextRetryTime - live.now();
  return millis > 0 ? `again in ${duration(millis + 999)}` : "again now";
}

/** What it waits for, or when it tries again. */
export function whatNext(view) {
  if (view.nextRetryTime) return nextTry(view);
  return view.state === "waiting" && view.waitingFor ? `for ${view.waitingFor}` : "";
}

/** All that keeps it from sending. */
function note(view) {
  return [whatNext(view), view.lastError].filter(Boolean).join(" · ");
}

/** The last error in full, with all that is known about it. */
export function showError(view) {
  const lines = facts({
    tries: "Failed tries since the last success",
    last: "Last attempt",
    next: "Next try",
    lost: "Lost",
    refused: "Refused",
  });
  lines.set({
    tries: count(view.tries),
    last: exactTime(view.lastAttemptTime),
    next: view.nextRetryTime ? exactTime(view.nextRetryTime) : NOTHING,
    lost: plural(view.lostMessages, "message"),
    refused: plural(view.refusedMessages, "message"),
  });
  showText(
    `${view.streamName}, export ${view.exportIdentifier}`,
    view.lastError || "No error is known.",
    lines.element,
  );
}

/** Pause or resume, whichever applies. */
export function togglePause(view) {
  const { streamName, exportIdentifier } = view;
  const isPaused = view.state === "paused";
  const change = isPaused ? resumeExport : pauseExport;
  return attempt(
    () => change(streamName, exportIdentifier),
    `Export ${exportIdentifier} of ${streamName} ${isPaused ? "goes on" : "is paused"}.`,
  );
}

/** An export with everything that is known of it. */
export function exportCard(first) {
  let view = first;
  const mark = badge();
  const pause = button("Pause", { name: "pause", onclick: () => togglePause(view) });
  const details = button("Details", { kind: "quiet", onclick: () => showError(view) });
  const error = h("p", { class: "error-text" });
  const list = facts({
    lag: "Lag",
    size: "Lag in bytes",
    age: "Age of the oldest",
    rate: "Sends",
    sent: "Delivered",
    letters: "Dead letters",
  });
  const letters = h("a", { href: lettersAddress(first.streamName, first.exportIdentifier) });
  list.cells.letters.append(letters);
  const plot = lagPlot(first.streamName, first.exportIdentifier, 200);
  const to = h("span", { class: "muted" });
  const head = h(
    "div",
    { class: "export-head" },
    h("h3", {}, first.exportIdentifier),
    mark.element,
    to,
    h("span", { class: "spring" }),
    details,
    pause,
  );
  const set = (next) => {
    view = next;
    mark.set(view.state);
    setText(to, destination(view));
    setPauseButton(pause, view);
    setText(error, note(view));
    setShown(error, Boolean(note(view)));
    list.set({
      lag: plural(view.lagMessages, "message"),
      size: bytes(view.lagBytes),
      age: lagAge(view),
      rate: rate(view.messagesPerSecond),
      sent: `${plural(view.deliveredMessages, "message")}, ${bytes(view.deliveredBytes)}`,
    });
    setText(letters, count(view.deadLetters));
    plot.draw();
  };
  const element = h(
    "section",
    { class: "card export-card", "aria-label": `Export ${first.exportIdentifier}` },
    head,
    error,
    h("div", { class: "columns" }, plot.element, list.element),
  );
  return { element, set };
}

function setPauseButton(pause, view) {
  const isPaused = view.state === "paused";
  const text = isPaused ? "Resume" : "Pause";
  if (pause.textContent === text) return;
  pause.replaceChildren(icon(isPaused ? "play" : "pause"), h("span", {}, text));
}
