// Short words about what happened, in a corner; screen readers hear them.

import { h } from "../dom.js";
import { iconButton } from "./controls.js";

const SHOWN_MS = 6000;
// An error is read more slowly, and often twice.
const ERROR_SHOWN_MS = 20_000;

/** Say that something worked. */
export function say(text) {
  show(text, "good", SHOWN_MS);
}

/** Say what went wrong. */
export function complain(error) {
  show(error.message ?? String(error), "bad", ERROR_SHOWN_MS);
}

/** Do it, and say how it went; true if it worked. */
export async function attempt(action, success) {
  try {
    const result = await action();
    say(typeof success === "function" ? success(result) : success);
    return true;
  } catch (error) {
    complain(error);
    return false;
  }
}

function show(text, tone, shownMillis) {
  const toasts = document.getElementById("toasts");
  for (const same of [...toasts.children]) if (same.textContent === text) same.remove();
  const toast = h("div", { class: "toast", "data-tone": tone }, h("p", {}, text));
  toast.append(iconButton("close", "Close this note", () => toast.remove()));
  toasts.append(toast);
  setTimeout(() => toast.remove(), shownMillis);
}
