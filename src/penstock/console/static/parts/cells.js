// Cells of live tables: each maker gives a function that fills a cell, and later updates it.

import { h, setAttribute, setText } from "../dom.js";
import { count, plural } from "../format.js";
import { lettersAddress } from "../routes.js";
import { badge } from "./badge.js";

/** Two texts above each other, the second one smaller. */
export function twoLines(first, second, title = null) {
  return (cell) => {
    const [top, bottom] = [h("span", { class: "line-1" }), h("span", { class: "line-2" })];
    cell.append(top, bottom);
    return (row) => {
      setText(top, first(row));
      setText(bottom, second(row));
      if (title) setAttribute(cell, "title", title(row));
    };
  };
}

/** A link, and a smaller text below it. */
export function linkedLines(text, href, second) {
  return (cell) => {
    const link = h("a", { class: "row-link line-1" });
    const bottom = h("span", { class: "line-2" });
    cell.append(link, bottom);
    return (row) => {
      setText(link, text(row));
      setAttribute(link, "href", href(row));
      setAttribute(cell, "title", `${text(row)}\n${second(row)}`);
      setText(bottom, second(row));
    };
  };
}

/** The state as a badge. */
export function stateCell(cell) {
  const mark = badge();
  cell.append(mark.element);
  return (view) => mark.set(view.state);
}

/** How many dead letters, with a link to them. */
export function lettersCell(placeOf) {
  return (cell) => {
    const link = h("a");
    const none = h("span", { class: "muted" }, "0");
    return (view) => {
      const wanted = view.deadLetters ? link : none;
      if (cell.firstChild !== wanted) cell.replaceChildren(wanted);
      const [stream, identifier] = placeOf(view);
      setText(link, count(view.deadLetters));
      setAttribute(link, "href", lettersAddress(stream, identifier));
      setAttribute(
        link,
        "aria-label",
        `${plural(view.deadLetters, "dead letter")} of ${stream}, ${identifier}`,
      );
    };
  };
}

/** Two lines of trouble as a button that tells all of it. */
export function noteCell(first, second, open) {
  return (cell) => {
    let view;
    const [top, bottom] = [h("span", { class: "line-1" }), h("span", { class: "line-2" })];
    const more = h(
      "button",
      { type: "button", class: "note-button", onclick: () => open(view) },
      top,
      bottom,
    );
    return (next) => {
      view = next;
      setText(top, first(view));
      setText(bottom, second(view));
      const isNeeded = Boolean(first(view) || second(view));
      setAttribute(more, "title", `${second(view)}\nClick to see all of it`);
      if (isNeeded !== Boolean(more.parentElement))
        cell.replaceChildren(...(isNeeded ? [more] : []));
    };
  };
}
