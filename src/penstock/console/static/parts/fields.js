// Fields of a form: a label, an input, a hint; each reads and writes one value of a definition.

import { freshId, h } from "../dom.js";
import { select } from "./controls.js";

const SIZE_UNITS = { 1: "bytes", 1024: "KiB", 1048576: "MiB", 1073741824: "GiB" };
const TIME_UNITS = { 60000: "minutes", 3600000: "hours", 86400000: "days" };
const EXACT_TIME_UNITS = { 1: "milliseconds", 1000: "seconds", ...TIME_UNITS };

/** A field around an input. */
export function field(label, input, hint = null) {
  const id = input.id || freshId("field");
  input.id = id;
  const hintElement = hint && h("p", { class: "hint", id: `${id}-hint` }, hint);
  if (hint) input.setAttribute("aria-describedby", `${id}-hint`);
  return h("div", { class: "field" }, h("label", { for: id }, label), input, hintElement);
}

// Each maker returns {element, read()}. read() gives undefined for "not set".

/** Text. */
export function textField({ label, hint, value = "", ...attributes }) {
  const input = h("input", {
    type: "text",
    autocomplete: "off",
    spellcheck: "false",
    ...attributes,
  });
  input.value = value ?? "";
  return { element: field(label, input, hint), input, read: () => input.value.trim() || undefined };
}

/** A whole number; too large ones for JavaScript are kept as they were written. */
export function numberField({ label, hint, value, least, most, ...attributes }) {
  const input = h("input", {
    type: "number",
    step: "1",
    min: least,
    max: most,
    inputmode: "numeric",
    ...attributes,
  });
  input.value = value ?? "";
  return { element: field(label, input, hint), input, read: () => whole(input.value) };
}

/** A size with its unit. */
export function sizeField(options) {
  return unitField(options, SIZE_UNITS, 1048576);
}

/** A duration with its unit; empty means none. */
export function durationField(options) {
  return unitField(options, EXACT_TIME_UNITS, 60000);
}

/** One of several values. */
export function choiceField({ label, hint, value, options, isNumber = true }) {
  const input = select(options, value);
  return {
    element: field(label, input, hint),
    input,
    read: () => (isNumber ? Number(input.value) : input.value),
  };
}

/** Yes or no. */
export function checkField({ label, hint, value = false }) {
  const id = freshId("check");
  const input = h("input", { type: "checkbox", id });
  input.checked = value;
  const hintElement = hint && h("p", { class: "hint", id: `${id}-hint` }, hint);
  if (hint) input.setAttribute("aria-describedby", `${id}-hint`);
  const element = h(
    "div",
    { class: "field check" },
    input,
    h("label", { for: id }, label),
    hintElement,
  );
  return { element, input, read: () => input.checked };
}

function unitField({ label, hint, value, required = false }, units, defaultUnit) {
  const factors = Object.keys(units)
    .map(Number)
    .sort((a, b) => b - a);
  const isEmpty = value === undefined || value === null;
  const factor = isEmpty ? defaultUnit : factors.find((each) => Number(value) % each === 0);
  const input = h("input", { type: "number", min: "0", step: "any", required });
  // A value that JavaScript would round stays as it is unless somebody changes it.
  const shown = isEmpty ? "" : typeof value === "bigint" ? String(value) : String(value / factor);
  input.value = shown;
  const unit = select(units, typeof value === "bigint" ? 1 : factor, {
    "aria-label": `${label}, unit`,
  });
  const firstUnit = unit.value;
  const read = () => {
    if (input.value === "") return undefined;
    if (input.value === shown && unit.value === firstUnit) return value;
    return Math.round(Number(input.value) * Number(unit.value));
  };
  const element = field(label, input, hint);
  const pair = h("div", { class: "pair" });
  input.replaceWith(pair);
  pair.append(input, unit);
  return { element, input, read };
}

function whole(text) {
  if (text === "") return undefined;
  const number = Number(text);
  return Number.isSafeInteger(number) || !/^\d+$/.test(text) ? number : BigInt(text);
}
