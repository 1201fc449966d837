// Starts the console: who are we, what is shown, what is live.

import { getSession, signedOut } from "./api.js";
import { live } from "./live.js";
import * as deadLetters from "./pages/dead_letters.js";
import * as exports from "./pages/exports.js";
import * as health from "./pages/health.js";
import * as messages from "./pages/messages.js";
import * as signIn from "./pages/sign_in.js";
import * as stream from "./pages/stream.js";
import * as streams from "./pages/streams.js";
import * as transforms from "./pages/transforms.js";
import { complain } from "./parts/toast.js";
import { parsedAddress } from "./routes.js";
import { buildShell, markPage } from "./shell.js";
import { startShortcuts } from "./shortcuts.js";

const PAGES = { streams, exports, "dead-letters": deadLetters, messages, transforms, health };

let session = null;
let leaving = new AbortController();

/** Show the page that the address names. */
function showPage({ movesFocus = true } = {}) {
  const { page, name, query } = parsedAddress(location.hash);
  const known = page in PAGES ? page : "streams";
  const module = known === "streams" && name ? stream : PAGES[known];
  const main = emptied();
  main.dataset.page = known;
  document.title = `${name || module.title} · Penstock`;
  markPage(known);
  module.show(main, { name, query, session, signal: leaving.signal });
  // Screen readers go on at the title of the new page.
  if (movesFocus) main.querySelector("h1")?.focus({ preventScroll: true });
}

function showSignIn() {
  if (document.body.classList.contains("signed-out")) return;
  live.stop();
  document.body.classList.add("signed-out");
  document.title = "Sign in · Penstock";
  signIn.show(emptied(), { ondone: start });
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
    session = await getSession();
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
