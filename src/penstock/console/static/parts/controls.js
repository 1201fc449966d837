// Buttons, tiles, bars and other small things that several pages use.

import { h, setAttribute, setShown, setText } from "../dom.js";
import { icon } from "./icons.js";

/** A button with a drawing and a text. */
export function button(text, { name = null, kind = "", onclick, ...attributes } = {}) {
  const content = [name && icon(name), h("span", {}, text)];
  return h(
    "button",
    { type: "button", class: `button ${kind}`, onclick, ...attributes },
    ...content,
  );
}

/** A button that is only a drawing; its label is for hovering and for screen readers. */
export function iconButton(name, label, onclick) {
  const element = h("button", {
    type: "button",
    class: "icon-button",
    "aria-label": label,
    title: label,
    onclick,
  });
  element.append(icon(name));
  return element;
}

/** Give an icon button another drawing and label. */
export function setIcon(element, name, label) {
  if (element.getAttribute("aria-label") === label) return;
  element.replaceChildren(icon(name));
  element.setAttribute("aria-label", label);
  element.title = label;
}

/** A link that looks like a button. */
export function linkButton(text, href, { name = null, kind = "", ...attributes } = {}) {
  return h(
    "a",
    { class: `button ${kind}`, href, ...attributes },
    name && icon(name),
    h("span", {}, text),
  );
}

/** A figure with its label: set(value, note, tone). */
export function tile(label) {
  const value = h("dd", { class: "tile-value" });
  const note = h("dd", { class: "tile-note" });
  const element = h("div", { class: "tile" }, h("dt", {}, label), value, note);
  return {
    element,
    set(text, noteText = "", tone = null) {
      setText(value, text);
      setText(note, noteText);
      setAttribute(element, "data-tone", tone);
    },
  };
}

/** Tiles in a row, by name. */
export function tiles(labels) {
  const made = Object.fromEntries(
    Object.entries(labels).map(([name, label]) => [name, tile(label)]),
  );
  const element = h("dl", { class: "tiles" }, ...Object.values(made).map((each) => each.element));
  return { element, ...made };
}

/** How full something is: a bar with its text; `isTrouble` if it must not become full. */
export function fillBar() {
  const fill = h("span", { class: "bar-fill" });
  const text = h("span", { class: "bar-text" });
  const element = h(
    "span",
    { class: "bar" },
    h("span", { class: "bar-track", "aria-hidden": "true" }, fill),
    text,
  );
  return {
    element,
    set(share, label, { title = null, isTrouble = false } = {}) {
      const width = `${Math.min(100, Math.max(0, share * 100)).toFixed(1)}%`;
      if (fill.style.width !== width) fill.style.width = width;
      setAttribute(
        element,
        "data-tone",
        !isTrouble || share < 0.85 ? null : share < 0.98 ? "warn" : "bad",
      );
      setText(text, label);
      setAttribute(element, "title", title);
    },
  };
}

/** Names and values, for facts that change: set({name: text}). */
export function facts(labels) {
  const cells = {};
  const rows = Object.entries(labels).map(([name, label]) => {
    cells[name] = h("dd");
    return h("div", { class: "fact" }, h("dt", {}, label), cells[name]);
  });
  return {
    element: h("dl", { class: "facts" }, ...rows),
    cells,
    set(texts) {
      for (const [name, text] of Object.entries(texts)) setText(cells[name], text ?? "–");
    },
    show(name, isShown) {
      setShown(cells[name].parentElement, isShown);
    },
  };
}

/** One of several, as radio buttons in a row. */
export function choice(legend, options, chosen, onchange) {
  const group = `choice-${Math.random().toString(36).slice(2)}`;
  const inputs = Object.entries(options).map(([value, text]) => {
    const input = h("input", { type: "radio", name: group, value, checked: value === chosen });
    input.addEventListener("change", () => onchange(value));
    return h("label", {}, input, h("span", {}, text));
  });
  return h("fieldset", { class: "choice" }, h("legend", { class: "unseen" }, legend), ...inputs);
}

/** A select over texts by value. */
export function select(options, chosen, attributes = {}) {
  const entries = Object.entries(options).map(([value, text]) =>
    h("option", { value, selected: value === String(chosen) }, text),
  );
  return h("select", attributes, ...entries);
}

/** The head of a page: title, what belongs beside it, what can be done. */
export function pageHead(title, { beside = [], actions = [] } = {}) {
  return h(
    "div",
    { class: "page-head" },
    h("h1", { tabindex: "-1" }, title),
    h("div", { class: "page-beside" }, ...beside),
    h("div", { class: "page-actions" }, ...actions),
  );
}

/** A box with a heading. */
export function card(title, ...children) {
  return h("section", { class: "card", "aria-label": title }, h("h2", {}, title), ...children);
}
