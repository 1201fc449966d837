// Keys for people who do not like to reach for the mouse, and the page that lists them.

import { h } from "./dom.js";
import { openDialog } from "./parts/dialog.js";
import { checkField } from "./parts/fields.js";

const STORED = "penstock.shortcuts";
const PAGES = {
  s: "streams",
  e: "exports",
  d: "dead-letters",
  m: "messages",
  t: "transforms",
  h: "health",
};
const KEYS = [
  ["/", "go to the filter"],
  ["g, then s e d m t h", "go to streams, exports, dead letters, messages, transforms, health"],
  ["n", "new stream, on the page of streams"],
  ["↓ ↑ or j k, Home, End", "from row to row of a table"],
  ["← →", "from value to value of a plot; with Shift by minutes"],
  ["Esc", "close a dialog, clear a filter"],
  ["?", "these keys"],
];
const CHORD_MS = 1500;

let chordTime = 0;

/** Listen for the keys of the whole page. */
export function startShortcuts() {
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && event.target.matches("[data-filter]")) clearFilter(event.target);
    if (localStorage.getItem(STORED) === "off" || isTyping(event)) return;
    const action = actionOf(event.key);
    if (!action) return;
    event.preventDefault();
    action();
  });
}

/** Show the keys, and let a person turn them off: they can be in the way of other tools. */
export function showHelp() {
  const rows = KEYS.map(([keys, text]) =>
    h("div", { class: "fact" }, h("dt", {}, h("kbd", {}, keys)), h("dd", {}, text)),
  );
  const isOn = checkField({
    label: "Use single keys as shortcuts",
    value: localStorage.getItem(STORED) !== "off",
  });
  isOn.input.addEventListener("change", () =>
    localStorage.setItem(STORED, isOn.input.checked ? "on" : "off"),
  );
  openDialog("Keyboard", [h("dl", { class: "facts keys" }, ...rows), isOn.element]);
}

function actionOf(key) {
  const isChord = Date.now() - chordTime < CHORD_MS;
  chordTime = key === "g" ? Date.now() : 0;
  if (isChord && PAGES[key])
    return () => {
      location.hash = `#/${PAGES[key]}`;
    };
  if (key === "?") return showHelp;
  const control = { "/": "[data-filter]", n: "[data-create]" }[key];
  const element = control && document.querySelector(control);
  if (!element) return null;
  return () => (key === "n" ? element.click() : element.focus());
}

function isTyping(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return true;
  return (
    event.target.matches("input:not([type=checkbox], [type=radio]), select, textarea") ||
    document.querySelector("dialog[open]")
  );
}

function clearFilter(filter) {
  if (filter.tagName !== "INPUT") return;
  filter.value = "";
  filter.dispatchEvent(new Event("input"));
}
