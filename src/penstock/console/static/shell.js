// What surrounds every page: navigation with its counts, the state of the connection, the banner.

import { signOut } from "./api.js";
import { h, setAttribute, setShown, setText } from "./dom.js";
import { bytes, clock, count } from "./format.js";
import { letterCounts, live } from "./live.js";
import { isTrouble } from "./parts/badge.js";
import { iconButton, setIcon } from "./parts/controls.js";
import { icon } from "./parts/icons.js";
import { complain } from "./parts/toast.js";
import { showHelp } from "./shortcuts.js";

const ENTRIES = [
  ["streams", "Streams", "streams"],
  ["exports", "Exports", "exports"],
  ["dead-letters", "Dead letters", "letters"],
  ["messages", "Messages", "messages"],
  ["transforms", "Transforms", "transforms"],
  ["health", "Health", "health"],
];
const THEMES = { system: "as the system has it", light: "light", dark: "dark" };
// Below this share of the disk somebody should look.
const DISK_FREE_SHARE_MIN = 0.05;

let built = new AbortController();

/** Fill the frame of the page, at every sign-in. */
export function buildShell(session) {
  built.abort();
  built = new AbortController();
  const links = new Map(
    ENTRIES.map(([page, text, drawing]) => [page, navLink(page, text, drawing)]),
  );
  document
    .getElementById("pages")
    .replaceChildren(h("ul", {}, ...[...links.values()].map(({ element }) => element)));
  const connection = h(
    "p",
    { class: "connection" },
    h("span", { class: "dot", "aria-hidden": "true" }),
    h("span"),
  );
  const foot = h(
    "p",
    { class: "about" },
    `${session.server}`,
    h("br"),
    `version ${session.version}`,
  );
  const tools = h(
    "div",
    { class: "tools" },
    themeSwitch(),
    iconButton("keyboard", "Keyboard shortcuts", showHelp),
  );
  if (session.authentication) tools.append(iconButton("leave", "Sign out", leave));
  document.getElementById("side-foot").replaceChildren(connection, foot, tools);
  const show = () => {
    setConnection(connection);
    setCounts(links);
    setBanner();
  };
  live.addEventListener("change", show, { signal: built.signal });
  show();
}

/** Mark where we are. */
export function markPage(page) {
  for (const link of document.querySelectorAll("#pages a")) {
    setAttribute(link, "aria-current", link.dataset.page === page ? "page" : null);
  }
}

function navLink(page, text, drawing) {
  const number = h("span", { class: "nav-count" });
  const note = h("span", { class: "unseen" });
  const element = h(
    "li",
    {},
    h(
      "a",
      { href: `#/${page}`, "data-page": page },
      icon(drawing),
      h("span", {}, text),
      number,
      note,
    ),
  );
  return { element, number, note };
}

function setCounts(links) {
  const letters = letterCounts().reduce((sum, [, , number]) => sum + number, 0);
  const troubles = [...live.exports.values()].filter((view) => isTrouble(view.state)).length;
  const broken = [...live.transforms.values()].filter((view) => isTrouble(view.state)).length;
  setCount(links.get("streams"), live.streams.size);
  setCount(links.get("exports"), live.exports.size, troubles);
  setCount(links.get("dead-letters"), 0, letters, "");
  setCount(links.get("transforms"), live.transforms.size, broken);
  setCount(links.get("health"), 0, isTrouble(live.pipeline?.state) ? 1 : 0);
}

/** How many there are; or, more important, how many are in trouble. */
function setCount({ number, note }, all, troubled = 0, noteText = " in trouble") {
  setText(number, troubled ? `▲ ${count(troubled)}` : all ? count(all) : "");
  setAttribute(number, "data-tone", troubled ? "warn" : null);
  setText(note, troubled ? noteText : "");
}

const CONNECTIONS = {
  connecting: "Connecting",
  live: "Live",
  trouble: "No server",
  lost: "Not connected",
};

function setConnection(element) {
  setText(element.lastChild, CONNECTIONS[live.connection]);
  setAttribute(element, "data-state", live.connection);
}

/** The most serious trouble there is, above the page. */
function setBanner() {
  const [tone, text] = trouble();
  const banner = document.getElementById("banner");
  setAttribute(banner, "data-tone", tone);
  if (banner.textContent !== text)
    banner.replaceChildren(...(text ? [icon("warning"), h("p", {}, text)] : []));
  setShown(banner, Boolean(text));
}

function trouble() {
  // Not how long ago: screen readers would read it out every second.
  const since = clock(live.heardTime);
  if (live.connection === "lost")
    return [
      "bad",
      `The connection to the console is lost; what you see is from ${since}. Trying again.`,
    ];
  if (live.connection === "trouble") return ["bad", `The server cannot be reached: ${live.text}`];
  const { server, pipeline } = live;
  if (server && server.diskFreeBytes < server.diskTotalBytes * DISK_FREE_SHARE_MIN) {
    return [
      "bad",
      `The disk is nearly full: ${bytes(server.diskFreeBytes)} of ${bytes(server.diskTotalBytes)} are free. Appends are refused when it is full.`,
    ];
  }
  if (isTrouble(pipeline?.state))
    return [
      "warn",
      `The pipeline is ${pipeline.state}: ${pipeline.text ?? "exports wait until it is back."}`,
    ];
  return [null, ""];
}

function themeSwitch() {
  const names = Object.keys(THEMES);
  let theme = document.documentElement.dataset.theme ?? "system";
  const toggle = iconButton("system", "", () => {
    theme = names[(names.indexOf(theme) + 1) % names.length];
    if (theme === "system") {
      delete document.documentElement.dataset.theme;
      localStorage.removeItem("penstock.theme");
    } else {
      document.documentElement.dataset.theme = theme;
      localStorage.setItem("penstock.theme", theme);
    }
    show();
  });
  const show = () => setIcon(toggle, theme, `Colours: ${THEMES[theme]}`);
  show();
  return toggle;
}

async function leave() {
  try {
    await signOut();
    location.reload();
  } catch (error) {
    complain(error);
  }
}
