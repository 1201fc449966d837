// A table of live rows. Only those in view exist as elements, and only cells that changed are
// touched, so that a thousand rows cost as much as thirty.

import { freshId, h, setAttribute, setText } from "../dom.js";
import { plural } from "../format.js";

const ROW_HEIGHT = 46; // as in parts.css
const ROWS_BEYOND_VIEW = 6;

// What a person chose, so that it is still so when they come back.
const remembered = new Map();

/**
 * Columns: {id, title, text(row) or create(cell) -> update(row), value(row) to sort by, width or
 * least (px), isNumber, isExtra}. Options: name and noun of the rows, keyOf(row), searched(row) for
 * the filter, sort as [column id, 1 or -1], emptyText.
 */
export class LiveTable {
  constructor({ name, noun, columns, keyOf, searched, sort, emptyText }) {
    Object.assign(this, { name, noun, columns, keyOf, searched, emptyText });
    const choices = remembered.get(name) ?? { sort, filter: "" };
    remembered.set(name, choices);
    this.choices = choices;
    this.rows = [];
    this.order = [];
    this.elements = new Map();
    this.accepts = () => true;
    this.#build();
  }

  /** Show these rows from now on; call again whenever something may have changed. */
  setRows(rows) {
    this.rows = rows;
    this.#arrange(this.#isBeingUsed());
  }

  /** Show only rows that the function accepts, beside the text filter. */
  setAccepts(accepts) {
    this.accepts = accepts;
    this.#arrange(false);
  }

  #build() {
    this.count = h("p", { class: "row-count", role: "status" });
    this.filter = h("input", {
      type: "search",
      class: "filter",
      "data-filter": "",
      "aria-label": `Filter ${this.noun}s`,
      placeholder: `Filter ${this.noun}s`,
      "aria-keyshortcuts": "/",
      autocomplete: "off",
      spellcheck: "false",
    });
    this.filter.value = this.choices.filter;
    this.filter.addEventListener("input", () => {
      this.choices.filter = this.filter.value;
      this.#arrange(false);
    });
    this.heads = new Map(this.columns.map((column) => [column.id, this.#head(column)]));
    this.above = this.#spacer();
    this.below = this.#spacer();
    this.body = h("tbody", { onkeydown: (event) => this.#onKey(event) });
    this.table = h(
      "table",
      { class: "live" },
      h("caption", { class: "unseen" }, this.name),
      h("colgroup", {}, ...this.columns.map((column) => this.#col(column))),
      h("thead", {}, h("tr", {}, ...this.heads.values())),
      this.above.body,
      this.body,
      this.below.body,
    );
    this.#setLeastWidths();
    this.empty = h("p", { class: "empty", id: freshId("empty"), hidden: true });
    this.element = h("div", { class: "table-scroll" }, this.table, this.empty);
    this.element.addEventListener("scroll", () => this.#soon(), { passive: true });
    new ResizeObserver(() => this.#soon()).observe(this.element);
    this.#markSort();
  }

  /** What does not fit is scrolled to; before that, a narrow table leaves its extra columns out. */
  #setLeastWidths() {
    const sum = (columns) =>
      columns.reduce((total, { width, least }) => total + (width ?? least), 0);
    this.table.style.setProperty("--least", `${sum(this.columns)}px`);
    this.table.style.setProperty(
      "--least-narrow",
      `${sum(this.columns.filter(({ isExtra }) => !isExtra))}px`,
    );
  }

  #col({ width, isExtra }) {
    const element = h("col", { class: isExtra ? "extra" : null });
    if (width) element.style.width = `${width}px`;
    return element;
  }

  #spacer() {
    const cell = h("td", { colspan: this.columns.length });
    const body = h("tbody", { class: "spacer", "aria-hidden": "true" }, h("tr", {}, cell));
    return { body, cell };
  }

  #head(column) {
    const attributes = { scope: "col", class: classOf(column) };
    if (!column.value)
      return h(
        "th",
        attributes,
        h("span", { class: column.isUnseen ? "unseen" : null }, column.title),
      );
    const sorter = h("button", {
      type: "button",
      class: "sorter",
      onclick: () => this.#sortBy(column),
    });
    sorter.append(
      h("span", {}, column.title),
      h("span", { class: "sort-mark", "aria-hidden": "true" }),
    );
    return h("th", attributes, sorter);
  }

  #sortBy(column) {
    const [id, direction] = this.choices.sort;
    // Numbers are looked at from the top: largest first.
    const first = column.isNumber ? -1 : 1;
    this.choices.sort = [column.id, id === column.id ? -direction : first];
    this.#markSort();
    this.element.scrollTop = 0;
    this.#arrange(false);
  }

  #markSort() {
    const [id, direction] = this.choices.sort;
    for (const [columnId, head] of this.heads) {
      setAttribute(
        head,
        "aria-sort",
        columnId === id ? (direction > 0 ? "ascending" : "descending") : null,
      );
    }
  }

  /** Rows do not jump about while somebody points at them or has the focus in them. */
  #isBeingUsed() {
    return this.body.matches(":hover") || this.body.contains(document.activeElement);
  }

  #arrange(keepsOrder) {
    const words = this.choices.filter.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = this.rows.filter((row) => {
      if (!this.accepts(row)) return false;
      if (!words.length) return true;
      const text = this.searched(row).toLowerCase();
      return words.every((word) => text.includes(word));
    });
    this.order = keepsOrder ? this.#asBefore(chosen) : this.#sorted(chosen);
    this.#say(chosen.length);
    this.#render();
  }

  #sorted(rows) {
    const [id, direction] = this.choices.sort;
    const { value } = this.columns.find((column) => column.id === id);
    const pairs = rows.map((row) => [value(row), row]);
    pairs.sort(
      ([a, rowA], [b, rowB]) =>
        direction * compared(a, b) || compared(this.keyOf(rowA), this.keyOf(rowB)),
    );
    return pairs.map(([, row]) => row);
  }

  #asBefore(rows) {
    const byKey = new Map(rows.map((row) => [this.keyOf(row), row]));
    const before = this.order.map((row) => this.keyOf(row)).filter((key) => byKey.has(key));
    const known = new Set(before);
    const added = this.#sorted(rows.filter((row) => !known.has(this.keyOf(row))));
    return [...before.map((key) => byKey.get(key)), ...added];
  }

  #say(shown) {
    const all = this.rows.length;
    setText(
      this.count,
      shown === all ? plural(all, this.noun) : `${shown} of ${plural(all, this.noun)}`,
    );
    setAttribute(this.table, "aria-rowcount", shown + 1);
    const text = all ? `No ${this.noun} fits the filter.` : this.emptyText;
    setText(this.empty, shown ? "" : text);
    this.empty.hidden = shown > 0;
  }

  #soon() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.#render();
    });
  }

  #render() {
    const { scrollTop, clientHeight } = this.element;
    const first = Math.max(0, Math.floor(scrollTop / ROW_HEIGHT) - ROWS_BEYOND_VIEW);
    const inView = Math.ceil((clientHeight || 800) / ROW_HEIGHT) + 2 * ROWS_BEYOND_VIEW;
    const visible = this.order.slice(first, first + inView);
    this.#dropOthers(new Set(visible.map((row) => this.keyOf(row))));
    visible.forEach((row, position) => this.#place(row, position, first + position));
    this.#setHeight(this.above, first);
    this.#setHeight(this.below, this.order.length - first - visible.length);
  }

  #dropOthers(keys) {
    for (const [key, { element }] of this.elements) {
      if (keys.has(key)) continue;
      // A focus that went away with its row would start at the top of the page again.
      if (element.contains(document.activeElement)) this.filter.focus({ preventScroll: true });
      element.remove();
      this.elements.delete(key);
    }
  }

  #place(row, position, index) {
    const key = this.keyOf(row);
    let made = this.elements.get(key);
    if (!made) {
      made = this.#make();
      this.elements.set(key, made);
    }
    const there = this.body.children[position];
    if (there !== made.element) this.body.insertBefore(made.element, there ?? null);
    setAttribute(made.element, "aria-rowindex", index + 2);
    for (const update of made.updates) update(row);
  }

  #make() {
    const element = h("tr");
    const updates = this.columns.map((column, position) => {
      const cell = h(position === 0 ? "th" : "td", {
        scope: position === 0 ? "row" : null,
        class: classOf(column),
      });
      element.append(cell);
      return column.create ? column.create(cell) : (row) => setText(cell, column.text(row));
    });
    return { element, updates };
  }

  #setHeight({ cell, body }, rowCount) {
    const height = `${rowCount * ROW_HEIGHT}px`;
    if (cell.style.height !== height) cell.style.height = height;
    body.hidden = rowCount === 0;
  }

  /** Up and down go from row to row, to the same control of it. */
  #onKey(event) {
    const steps = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1, Home: -Infinity, End: Infinity };
    const step = steps[event.key];
    const element = event.target.closest("tr");
    if (step === undefined || !element || event.target.matches("input, select")) return;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const index = Number(element.getAttribute("aria-rowindex")) - 2;
    const next = Math.min(this.order.length - 1, Math.max(0, index + step));
    const place = [...element.querySelectorAll("a, button, input")].indexOf(event.target);
    this.#focusRow(next, place);
  }

  #focusRow(index, place) {
    const top = index * ROW_HEIGHT;
    const room =
      this.element.clientHeight - this.heads.values().next().value.offsetHeight - ROW_HEIGHT;
    if (top < this.element.scrollTop) this.element.scrollTop = top;
    else if (top > this.element.scrollTop + room) this.element.scrollTop = top - room;
    this.#render();
    const made = this.elements.get(this.keyOf(this.order[index]));
    const controls = made.element.querySelectorAll("a, button, input");
    (controls[place] ?? controls[0])?.focus({ preventScroll: true });
  }
}

function classOf({ isNumber, isExtra }) {
  return [isNumber && "number", isExtra && "extra"].filter(Boolean).join(" ") || null;
}

function compared(a, b) {
  if (typeof a === "string" || typeof b === "string") return collator.compare(a ?? "", b ?? "");
  return (a ?? -Infinity) < (b ?? -Infinity) ? -1 : (a ?? -Infinity) > (b ?? -Infinity) ? 1 : 0;
}

// So that machine-2 comes before machine-10.
const collator = new Intl.Collator("en", { numeric: true });
