// A payload as text, as JSON, or as bytes.

import { h } from "../dom.js";
import { bytes as shownBytes, plural } from "../format.js";
import { choice } from "./controls.js";

const HEX_WIDTH = 8; // what fits beside a list
const LETTERS = new TextDecoder("utf-8", { fatal: true });
const LETTERS_WITH_GAPS = new TextDecoder("utf-8");

/** Base64 into bytes. */
export function decoded(base64) {
  return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
}

/** The first letters of a payload, for a row of a table. */
export function preview(payload, lengthMax = 160) {
  return LETTERS_WITH_GAPS.decode(payload.subarray(0, lengthMax * 4))
    .slice(0, lengthMax)
    .replace(/[\u0000-\u001f\u007f]+/g, " ");
}

/** A payload with the choice of its forms; {payload, size, isCut} and what belongs beneath. */
export function payloadView({ payload, size, isCut }, ...more) {
  const text = textOf(payload);
  const json = text !== null && !isCut ? jsonOf(text) : null;
  const forms = {
    text: () => text ?? LETTERS_WITH_GAPS.decode(payload),
    json: () => json ?? "This payload is not JSON.",
    hex: () => hexOf(payload),
  };
  const chosen = json !== null ? "json" : text !== null ? "text" : "hex";
  const block = h("pre", { class: "payload", tabindex: "0", "aria-label": "Payload" });
  const show = (form) => {
    block.dataset.form = form;
    block.textContent = forms[form]();
  };
  show(chosen);
  const note = isCut
    ? `the first ${shownBytes(payload.length)} of ${shownBytes(size)}`
    : plural(size, "byte");
  return h(
    "div",
    { class: "payload-view" },
    h(
      "div",
      { class: "payload-head" },
      choice("Show the payload as", { text: "Text", json: "JSON", hex: "Hex" }, chosen, show),
      h("span", { class: "muted" }, note),
      ...more,
    ),
    block,
  );
}

/** The payload as text, or null if it is none. */
function textOf(payload) {
  try {
    const text = LETTERS.decode(payload);
    return /[\u0000-\u0008\u000e-\u001f]/.test(text) ? null : text;
  } catch {
    return null;
  }
}

/** JSON with one thing per line, or null. Numbers keep their digits, which parsing would round. */
export function jsonOf(text) {
  try {
    if (typeof JSON.parse(text) !== "object") return null;
  } catch {
    return null;
  }
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g);
  return tokens.reduce((out, token, index) => {
    const isEmpty = "}]".includes(token) && "{[".includes(tokens[index - 1]);
    if ("{[".includes(token)) {
      depth += 1;
      return out + token + ("}]".includes(tokens[index + 1]) ? "" : line());
    }
    if ("}]".includes(token)) {
      depth -= 1;
      return out + (isEmpty ? "" : line()) + token;
    }
    if (token === ",") return out + token + line();
    return out + (token === ":" ? ": " : token);
  }, "");
}

/** Offset, bytes, letters. */
export function hexOf(payload) {
  const lines = [];
  for (let offset = 0; offset < payload.length; offset += HEX_WIDTH) {
    const part = [...payload.subarray(offset, offset + HEX_WIDTH)];
    const digits = part.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const letters = part
      .map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : "."))
      .join("");
    lines.push(
      `${offset.toString(16).padStart(6, "0")}  ${digits.padEnd(HEX_WIDTH * 3 - 1)}  ${letters}`,
    );
  }
  return lines.join("\n") || "(no bytes)";
}
