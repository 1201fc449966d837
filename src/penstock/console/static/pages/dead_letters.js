// Messages that a destination refused for good: look at them, send them again, throw them away.

import { getDeadLetters, purgeDeadLetters, replayDeadLetters } from "../api.js";
import { h, setAttribute, setShown, setText } from "../dom.js";
import { bytes, count, duration, exactTime, plural } from "../format.js";
import { letterCounts, live, TRANSFORM } from "../live.js";
import { button, facts, pageHead } from "../parts/controls.js";
import { confirmAction } from "../parts/dialog.js";
import { decoded, payloadView } from "../parts/payload.js";
import { complain, say } from "../parts/toast.js";
import { lettersAddress, messagesAddress } from "../routes.js";

export const title = "Dead letters";

const PAGE_SIZE = 100;

/** Fill the page for the stream and export of the query, or all. */
export function show(page, { query, signal }) {
  new LettersPage(page, query.stream ?? null, query.export ?? null, signal);
}

function lines(first, second) {
  return [h("span", { class: "line-1" }, first), h("span", { class: "line-2" }, second)];
}

class LettersPage {
  constructor(page, stream, identifier, signal) {
    Object.assign(this, {
      stream,
      identifier,
      letters: [],
      chosen: new Set(),
      opened: null,
      isWhole: true,
      toldTotal: null,
    });
    this.#build(page);
    live.watch(() => this.#onChange(), signal);
  }

  #build(page) {
    this.places = h("select", { "aria-label": "Stream and export", onchange: () => this.#goTo() });
    this.filter = h("input", {
      type: "search",
      class: "filter",
      "data-filter": "",
      "aria-label": "Filter by reason",
      placeholder: "Filter by reason",
      autocomplete: "off",
      oninput: () => this.#onFilter(),
    });
    this.count = h("p", { class: "row-count", role: "status" });
    this.replay = button("Replay all", { name: "replay", onclick: () => this.#confirmReplay() });
    this.purge = button("Purge all", {
      name: "remove",
      kind: "danger-quiet",
      onclick: () => this.#confirmPurge(),
    });
    this.all = h("input", {
      type: "checkbox",
      "aria-label": "Choose all that are shown",
      onchange: () => this.#chooseAll(),
    });
    this.body = h("tbody");
    this.more = button("Show more", { onclick: () => this.#load(this.letters.at(-1).id) });
    this.empty = h("p", { class: "empty" });
    this.detail = h("section", { class: "detail", "aria-label": "The chosen dead letter" });
    const heads = ["Id", "Stream, export", "Number", "Refused", "Reason"].map((text) =>
      h("th", { scope: "col", class: ["Id", "Number"].includes(text) ? "number" : null }, text),
    );
    const table = h(
      "table",
      { class: "plain letters" },
      h("caption", { class: "unseen" }, "Dead letters, oldest first"),
      h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "tick" }, this.all), ...heads)),
      this.body,
    );
    page.append(
      pageHead("Dead letters", {
        beside: [this.places, this.filter, this.count],
        actions: [this.replay, this.purge],
      }),
      h(
        "div",
        { class: "split" },
        h("div", { class: "table-scroll" }, table, this.empty, this.more),
        this.detail,
      ),
    );
    this.#showDetail();
  }

  #goTo() {
    const [stream, identifier] = JSON.parse(this.places.value);
    location.hash = lettersAddress(stream, identifier);
  }

  /** Letters that came or went are fetched; not under the hands of somebody who is choosing. */
  #onChange() {
    const total = letterCounts().reduce((sum, [, , number]) => sum + number, 0);
    if (total === this.toldTotal) return;
    this.toldTotal = total;
    this.#showPlaces();
    if (this.chosen.size === 0 && this.letters.length <= PAGE_SIZE) this.#load(0);
  }

  #showPlaces() {
    const all = { value: JSON.stringify([null, null]), text: "All streams and exports" };
    const places = letterCounts().map(([stream, identifier, number]) => ({
      value: JSON.stringify([stream, identifier]),
      text: `${stream} / ${identifier} (${count(number)})`,
    }));
    const current = JSON.stringify([this.stream, this.identifier]);
    if (this.stream && !places.some(({ value }) => value === current)) {
      places.unshift({ value: current, text: `${this.stream} / ${this.identifier ?? "all"} (0)` });
    }
    this.places.replaceChildren(
      ...[all, ...places].map(({ value, text }) =>
        h("option", { value, selected: value === current }, text),
      ),
    );
  }

  async #load(after) {
    try {
      const query = { stream: this.stream, export: this.identifier, after, count: PAGE_SIZE };
      const { letters } = await getDeadLetters(query);
      this.letters = after ? [...this.letters, ...letters] : letters;
      this.isWhole = letters.length < PAGE_SIZE;
      this.chosen = new Set(
        this.letters.map((letter) => letter.id).filter((id) => this.chosen.has(id)),
      );
      this.opened = this.letters.find((letter) => letter.id === this.opened?.id) ?? null;
      this.#render();
    } catch (error) {
      complain(error);
    }
  }

  #onFilter() {
    this.chosen.clear();
    this.#render();
  }

  /** Those whose reason has the words of the filter. */
  #shown() {
    const words = this.filter.value.toLowerCase().split(/\s+/);
    return this.letters.filter(({ reason }) =>
      words.every((word) => reason.toLowerCase().includes(word)),
    );
  }

  #render() {
    const shown = this.#shown();
    this.body.replaceChildren(...shown.map((letter) => this.#row(letter)));
    const none = this.letters.length
      ? "No reason fits the filter."
      : "There are no dead letters here: nothing was refused for good.";
    setText(this.empty, shown.length ? "" : none);
    setShown(this.more, !this.isWhole);
    this.#showChoice();
    this.#showDetail();
  }

  #row(letter) {
    const tick = h("input", {
      type: "checkbox",
      "aria-label": `Choose letter ${letter.id}`,
      onchange: () => this.#choose(letter, tick.checked),
    });
    tick.checked = this.chosen.has(letter.id);
    const open = h(
      "button",
      { type: "button", class: "note-button", onclick: () => this.#open(letter) },
      letter.reason,
    );
    return h(
      "tr",
      { "data-id": letter.id, "aria-current": letter === this.opened ? "true" : null },
      h("td", { class: "tick" }, tick),
      h("th", { scope: "row", class: "number" }, count(letter.id)),
      h("td", {}, ...lines(letter.streamName, letter.exportIdentifier)),
      h("td", { class: "number" }, ...lines(count(letter.sequenceNumber), bytes(letter.size))),
      h(
        "td",
        { title: exactTime(letter.refusedTime) },
        ...lines(
          `${duration(live.now() - letter.refusedTime)} ago`,
          letter.replay ? "replay asked for" : "",
        ),
      ),
      h("td", { title: letter.reason }, open),
    );
  }

  #choose(letter, isChosen) {
    if (isChosen) this.chosen.add(letter.id);
    else this.chosen.delete(letter.id);
    this.#showChoice();
  }

  #chooseAll() {
    this.chosen = new Set(this.all.checked ? this.#shown().map((letter) => letter.id) : []);
    this.#render();
  }

  #showChoice() {
    const chosen = this.chosen.size;
    const shown = this.#shown().length;
    const what = chosen
      ? `${count(chosen)} chosen`
      : this.filter.value
        ? `${count(shown)} shown`
        : "all";
    for (const [control, verb] of [
      [this.replay, "Replay"],
      [this.purge, "Purge"],
    ]) {
      setText(control.lastChild, `${verb} ${what}`);
      control.disabled = shown === 0;
    }
    this.all.checked = chosen > 0 && chosen === shown;
    this.all.indeterminate = chosen > 0 && chosen < shown;
    setText(this.count, `${count(shown)}${this.isWhole ? "" : "+"} shown`);
  }

  #open(letter) {
    this.opened = letter;
    for (const row of this.body.children) {
      setAttribute(row, "aria-current", Number(row.dataset.id) === letter.id ? "true" : null);
    }
    this.#showDetail();
  }

  #showDetail() {
    const letter = this.opened;
    if (!letter) {
      this.detail.replaceChildren(h("p", { class: "empty" }, "Choose a reason to see the letter."));
      return;
    }
    const list = facts({
      place: "Stream, export",
      number: "Number",
      appended: "Appended",
      refused: "Refused",
    });
    list.set({
      place: `${letter.streamName}, ${letter.exportIdentifier}`,
      appended: exactTime(letter.ingestTime),
      refused: exactTime(letter.refusedTime),
    });
    const link = h(
      "a",
      { href: messagesAddress(letter.streamName, { start: letter.sequenceNumber }) },
      count(letter.sequenceNumber),
    );
    list.cells.number.append(link);
    const isOfTransform = letter.exportIdentifier.startsWith(TRANSFORM);
    this.detail.replaceChildren(
      h("h2", {}, `Letter ${letter.id}`),
      h("p", { class: "error-text" }, letter.reason),
      list.element,
      payloadView({ ...letter, payload: decoded(letter.payload) }),
      h(
        "div",
        { class: "detail-actions" },
        isOfTransform
          ? h(
              "p",
              { class: "hint" },
              "Letters of transforms cannot be replayed: append the corrected message, then purge.",
            )
          : button("Replay this", {
              name: "replay",
              onclick: () => this.#confirmReplay([letter.id]),
            }),
        button("Purge this", {
          name: "remove",
          kind: "danger-quiet",
          onclick: () => this.#confirmPurge([letter.id]),
        }),
      ),
    );
  }

  #selection(ids) {
    const filtered = this.filter.value ? this.#shown().map((letter) => letter.id) : null;
    const chosen = ids ?? (this.chosen.size ? [...this.chosen] : filtered);
    const where = this.stream
      ? ` of ${this.stream}${this.identifier ? `, ${this.identifier}` : ""}`
      : " of all streams";
    const what = chosen ? plural(chosen.length, "dead letter") : `All dead letters${where}`;
    const body = chosen
      ? { stream: null, export: null, ids: chosen }
      : { stream: this.stream, export: this.identifier, ids: null };
    return { body, what };
  }

  #confirmReplay(ids = null) {
    const { body, what } = this.#selection(ids);
    confirmAction({
      title: "Send again?",
      text: `${what} will be sent again. Those that go through are forgotten; those that are refused again stay here.`,
      label: "Replay",
      isDanger: false,
      action: async () => this.#done((await replayDeadLetters(body)).count, "will be sent again"),
    });
  }

  #confirmPurge(ids = null) {
    const { body, what } = this.#selection(ids);
    confirmAction({
      title: "Throw away?",
      text: `${what} will be gone for good.`,
      label: "Purge",
      action: async () => this.#done((await purgeDeadLetters(body)).count, "purged"),
    });
  }

  #done(number, verb) {
    say(`${plural(number, "dead letter")} ${verb}.`);
    this.chosen.clear();
    this.#load(0);
  }
}
