// The messages of a stream, by number and by time.

import { getMessages, messageAddress } from "../api.js";
import { freshId, h, setAttribute, setText } from "../dom.js";
import { bytes, count, exactTime, plural, utc } from "../format.js";
import { live } from "../live.js";
import { button, facts, linkButton, pageHead } from "../parts/controls.js";
import { decoded, payloadView, preview } from "../parts/payload.js";
import { complain } from "../parts/toast.js";
import { messagesAddress, streamAddress } from "../routes.js";

export const title = "Messages";

const PAGE_SIZE = 50;
// More names are found sooner by typing.
const LISTED_MAX = 200;

/** Fill the page for one stream, or ask for one. */
export function show(page, { name, query, signal }) {
  if (name) new MessagesPage(page, name, query, signal);
  else showChooser(page, signal);
}

function showChooser(page, signal) {
  const list = h("ul", { class: "chooser" });
  const chooser = streamChooser("");
  page.append(
    pageHead("Messages", { beside: [chooser.form] }),
    h("div", { class: "page-scroll" }, h("p", { class: "muted" }, "Whose messages?"), list),
  );
  live.watch(() => {
    const names = chooser.fill();
    if (names)
      list.replaceChildren(
        ...names
          .slice(0, LISTED_MAX)
          .map((name) => h("li", {}, h("a", { href: messagesAddress(name) }, name))),
      );
  }, signal);
}

/** An input with all names of streams, where choosing one goes there; fill() gives new names. */
function streamChooser(name) {
  const id = freshId("streams");
  const options = h("datalist", { id });
  const input = h("input", {
    list: id,
    "aria-label": "Stream",
    "data-filter": "",
    placeholder: "Stream",
    autocomplete: "off",
    spellcheck: "false",
  });
  input.value = name;
  const form = h("form", { class: "inline" }, input, options);
  const go = (event) => {
    event.preventDefault();
    if (live.streams.has(input.value) && input.value !== name)
      location.hash = messagesAddress(input.value);
  };
  form.addEventListener("submit", go);
  input.addEventListener("change", go);
  let told = null;
  const fill = () => {
    const names = [...live.streams.keys()];
    if (names.join("\n") === told) return null;
    told = names.join("\n");
    options.replaceChildren(...names.map((each) => h("option", { value: each })));
    return names;
  };
  return { form, fill };
}

class MessagesPage {
  constructor(page, name, query, signal) {
    Object.assign(this, { name, messages: [], oldest: 0, newest: -1 });
    this.#build(page);
    this.#load(startOf(query));
    live.watch(() => this.#onChange(), signal);
  }

  #build(page) {
    this.chooser = streamChooser(this.name);
    this.number = h("input", {
      type: "number",
      min: "0",
      step: "1",
      "aria-label": "Go to number",
      placeholder: "Number",
      class: "number-entry",
    });
    this.time = h("input", { type: "datetime-local", step: "1", "aria-label": "Go to time" });
    this.number.addEventListener(
      "change",
      () => this.number.value && this.#load({ start: this.number.value }),
    );
    this.time.addEventListener(
      "change",
      () => this.time.value && this.#load({ time: new Date(this.time.value).getTime() }),
    );
    this.older = button("Older", {
      name: "left",
      onclick: () => this.#load({ start: Math.max(this.oldest, this.#first() - PAGE_SIZE) }),
    });
    this.newer = button("Newer", {
      name: "right",
      onclick: () => this.#load({ start: this.#last() + 1 }),
    });
    this.latest = button("Newest", { name: "down", onclick: () => this.#load({}) });
    this.range = h("p", { class: "row-count", role: "status" });
    this.body = h("tbody", { onkeydown: (event) => this.#onKey(event) });
    this.empty = h("p", { class: "empty" });
    this.detail = h(
      "section",
      { class: "detail", "aria-label": "The chosen message" },
      h("p", { class: "empty" }, "Choose a message to see it."),
    );
    const table = h(
      "table",
      { class: "plain messages" },
      h("caption", { class: "unseen" }, `Messages of ${this.name}`),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("th", { scope: "col", class: "number" }, "Number"),
          h("th", { scope: "col" }, "Appended"),
          h("th", { scope: "col", class: "number" }, "Size"),
          h("th", { scope: "col" }, "Payload"),
        ),
      ),
      this.body,
    );
    page.append(
      pageHead("Messages", {
        beside: [this.chooser.form, this.number, this.time],
        actions: [this.range, this.older, this.newer, this.latest],
      }),
      h(
        "div",
        { class: "split" },
        h("div", { class: "table-scroll" }, table, this.empty),
        this.detail,
      ),
    );
  }

  #first() {
    return this.messages[0]?.sequenceNumber ?? this.oldest;
  }

  #last() {
    return this.messages.at(-1)?.sequenceNumber ?? this.newest;
  }

  async #load(query) {
    try {
      const answer = await getMessages({ stream: this.name, count: PAGE_SIZE, ...query });
      this.messages = answer.messages.map((message) => ({
        ...message,
        payload: decoded(message.payload),
      }));
      this.oldest = answer.oldest;
      this.newest = answer.newest;
      this.#render();
    } catch (error) {
      complain(error);
      setText(this.empty, error.message);
    }
  }

  #render() {
    this.body.replaceChildren(...this.messages.map((message) => this.#row(message)));
    const isEmpty = this.newest < this.oldest;
    setText(
      this.empty,
      this.messages.length ? "" : isEmpty ? "The stream is empty." : "There are no messages here.",
    );
    const scroll = this.body.closest(".table-scroll");
    if (scroll) scroll.scrollTop = this.#last() >= this.newest ? scroll.scrollHeight : 0;
    this.#showRange();
    if (this.messages.length)
      this.#open(this.#last() >= this.newest ? this.messages.at(-1) : this.messages[0]);
  }

  #onChange() {
    this.chooser.fill();
    const row = live.streams.get(this.name);
    if (!row) return;
    this.oldest = row.oldestSequenceNumber;
    this.newest = row.newestSequenceNumber;
    this.#showRange();
  }

  #showRange() {
    const text =
      this.newest < this.oldest ? "empty" : `${count(this.oldest)} to ${count(this.newest)}`;
    setText(this.range, text);
    this.older.disabled = this.#first() <= this.oldest;
    this.newer.disabled = this.#last() >= this.newest;
  }

  #row(message) {
    const text = preview(message.payload);
    const open = h(
      "button",
      { type: "button", class: "note-button payload-preview", onclick: () => this.#open(message) },
      text || "(empty)",
    );
    return h(
      "tr",
      { "data-number": message.sequenceNumber },
      h("th", { scope: "row", class: "number" }, count(message.sequenceNumber)),
      h("td", { title: utc(message.ingestTime) }, exactTime(message.ingestTime)),
      h("td", { class: "number" }, bytes(message.size)),
      h("td", {}, open),
    );
  }

  #open(message) {
    for (const row of this.body.children) {
      setAttribute(
        row,
        "aria-current",
        Number(row.dataset.number) === message.sequenceNumber ? "true" : null,
      );
    }
    const list = facts({ appended: "Appended", utc: "In UTC", stream: "Stream" });
    list.set({ appended: exactTime(message.ingestTime), utc: utc(message.ingestTime) });
    list.cells.stream.append(h("a", { href: streamAddress(this.name) }, this.name));
    const address = messageAddress(this.name, message.sequenceNumber);
    const download = linkButton("Download", address, {
      name: "download",
      download: "",
      title: `All ${plural(message.size, "byte")}`,
    });
    this.detail.replaceChildren(
      h("h2", {}, `Message ${count(message.sequenceNumber)}`),
      list.element,
      payloadView(message, h("span", { class: "spring" }), download),
    );
  }

  /** Up and down show the message above or below. */
  #onKey(event) {
    const step = {
      ArrowDown: "nextElementSibling",
      ArrowUp: "previousElementSibling",
      j: "nextElementSibling",
      k: "previousElementSibling",
    }[event.key];
    const row = step && event.target.closest("tr")?.[step];
    if (!row) return;
    event.preventDefault();
    const next = row.querySelector("button");
    next.focus();
    next.click();
  }
}

function startOf(query) {
  if (query.start) return { start: query.start };
  return query.time ? { time: query.time } : {};
}
