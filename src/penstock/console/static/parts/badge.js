// States in a word, with a mark of their own form: colour alone tells nothing.

import { h, setAttribute, setText } from "../dom.js";

// Tone, mark, and how urgent it is when rows are sorted by state.
const STATES = {
  blocked: ["bad", "■", 0],
  unavailable: ["bad", "■", 0],
  restarting: ["warn", "▲", 1],
  "backing off": ["warn", "▲", 1],
  due: ["busy", "◆", 3],
  starting: ["busy", "◆", 3],
  sending: ["good", "●", 4],
  running: ["good", "●", 4],
  waiting: ["calm", "◌", 5],
  idle: ["calm", "○", 6],
  paused: ["off", "❚❚", 7],
  "not needed": ["calm", "○", 6],
};
const UNKNOWN = ["calm", "○", 6];
const URGENT_MAX = 1;

/** A badge, and the function that changes it. */
export function badge() {
  const mark = h("span", { class: "mark", "aria-hidden": "true" });
  const text = h("span");
  const element = h("span", { class: "badge" }, mark, text);
  return {
    element,
    set(state, title = null) {
      const [tone, sign] = STATES[state] ?? UNKNOWN;
      setText(text, state);
      setText(mark, sign);
      setAttribute(element, "data-tone", tone);
      setAttribute(element, "title", title);
    },
  };
}

/** For sorting: the most urgent first. */
export function urgency(state) {
  return (STATES[state] ?? UNKNOWN)[2];
}

/** Whether a person should look. */
export function isTrouble(state) {
  return urgency(state) <= URGENT_MAX;
}
