// Starts the console: who are we, what is shown, what is live.

import { getSession, signedOut } from "./api.js";
import { live } from "./live.js";
import { complain } from "./parts/toast.js";
import { parsedAddress } from "./routes.js";
import { buildShell, markPage } from "./shell.js";
import { startShortcuts } from "./shortcuts.js";

// Only what is looked at is fetched.
const PAGES = {
  streams: () => import("./pages/streams.js"),
  exports: () => import("./pages/exports.js"),
  "dead-letters": () => import("./pages/dead_letters.js"),
  messages: () => import("./pages/messages.js"),
  transforms: () => import("./pages/transforms.js"),
  health: () => import("./pages/health.js"),
};
const ONE_STREAM = () => import("./pages/stream.js");

let session = null;
let leaving = new AbortController();

/** What the address names: the key of its page, the page's module to be fetched, and the rest. */
function addressed() {
  const { page, name, query } = parsedAddress(location.hash);
  const known = page in PAGES ? page : "streams";
  const load = known === "streams" && name ? ONE_STREAM : PAGES[known];
  return { known, load, name, query };
}

/** Show the page that the address names. */
async function showPage({ movesFocus = true } = {}) {
  const { known, load, name, query } = addressed();
  const main = emptied();
  const { signal } = leaving;
  markPage(known);
  try {
    const page = await load();
    if (signal.aborted) return; // somebody went on meanwhile
    document.title = `${name || page.title} · Penstock`;
    page.show(main, { name, query, session, signal });
  } catch (error) {
    complain(error);
    return;
  }
  // Screen readers go on at the title of the new page.
  if (movesFocus) main.querySelector("h1")?.focus({ preventScroll: true });
}

async function showSignIn() {
  if (document.body.classList.contains("signed-out")) return;
  live.stop();
  document.body.classList.add("signed-out");
  document.title = "Sign in · Penstock";
  const main = emptied();
  try {
    const page = await import("./pages/sign_in.js");
    page.show(main, { ondone: start });
  } catch (error) {
    complain(error);
  }
}

/** The main part without what was there; its watchers end. */
function emptied() {
  leaving.abort();
  leaving = new AbortController();
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
  const main = document.getElementById("main");
  main.replaceChildren();
  return main;
}

async function start() {
  try {
    [session] = await Promise.all([getSession(), addressed().load()]);
  } catch (error) {
    complain(error);
    setTimeout(start, 3000);
    return;
  }
  if (session.authentication && !session.signedIn) {
    showSignIn();
    return;
  }
  document.body.classList.remove("signed-out");
  buildShell(session);
  live.start();
  showPage({ movesFocus: false });
}

/** A lost connection may be a session that ended; events cannot tell. */
async function onLost() {
  try {
    const { authentication, signedIn } = await getSession();
    if (authentication && !signedIn) showSignIn();
  } catch {
    // The console itself is gone: the banner says so, and the connection is tried again.
  }
}

window.addEventListener("hashchange", () => {
  if (!document.body.classList.contains("signed-out") && location.hash !== "#main") showPage();
});
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the hash is the page's address
  document.getElementById("main").focus();
});
signedOut.addEventListener("signed-out", showSignIn);
live.addEventListener("lost", onLost);
startShortcuts();
start();
