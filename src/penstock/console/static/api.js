// Every request of the console. Answers are plain objects; errors are ApiErrors with one sentence.

/** What went wrong, as the console process says it. */
export class ApiError extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

/** Told when an answer says that nobody is signed in. */
export const signedOut = new EventTarget();

export const getSession = () => ask("GET", "/api/session");
export const getHistory = (stream, identifier) =>
  ask("GET", "/api/history", { query: { stream, export: identifier } });
export const getStream = (name) => ask("GET", "/api/stream", { query: { name }, isExact: true });
export const getMessages = (query) => ask("GET", "/api/messages", { query });
export const getDeadLetters = (query) => ask("GET", "/api/dead-letters", { query });

export const createStream = (definition) => ask("POST", "/api/streams", { body: definition });
export const updateStream = (name, definition) =>
  ask("PUT", "/api/stream", { query: { name }, body: definition });
export const deleteStream = (name) => ask("DELETE", "/api/stream", { query: { name } });
export const pauseExport = (stream, identifier) =>
  ask("POST", "/api/exports/pause", { body: { stream, export: identifier } });
export const resumeExport = (stream, identifier) =>
  ask("POST", "/api/exports/resume", { body: { stream, export: identifier } });
export const replayDeadLetters = (choice) =>
  ask("POST", "/api/dead-letters/replay", { body: choice });
export const purgeDeadLetters = (choice) =>
  ask("POST", "/api/dead-letters/purge", { body: choice });
export const resetTransform = (name, start) =>
  ask("POST", "/api/transforms/reset", { body: { name, start } });
export const signOut = () => ask("DELETE", "/api/session");

/** True if the token is good. A wrong one is no event for the rest of the page. */
export async function signIn(token) {
  const answer = await send("POST", "/api/session", { token });
  if (answer.status === 401) return false;
  if (!answer.ok) throw await errorOf(answer);
  return true;
}

/** Where the browser gets a whole payload from. */
export function messageAddress(stream, number) {
  return `/api/message?${new URLSearchParams({ stream, number, raw: 1 })}`;
}

async function ask(method, path, { query = {}, body, isExact = false } = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null);
  const search = given.length ? `?${new URLSearchParams(given)}` : "";
  const answer = await send(method, path + search, body);
  if (answer.status === 401) signedOut.dispatchEvent(new Event("signed-out"));
  if (!answer.ok) throw await errorOf(answer);
  const text = await answer.text();
  if (!text) return null;
  return isExact ? parsedExactly(text) : JSON.parse(text);
}

async function send(method, path, body) {
  const headers = method === "GET" ? {} : { "X-Penstock": "1" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  try {
    return await fetch(path, {
      method,
      headers,
      body: body === undefined ? undefined : writtenExactly(body),
      cache: "no-store",
    });
  } catch (error) {
    throw new ApiError(
      0,
      `The console does not answer (${error.message}). Is \`penstock serve\` running?`,
    );
  }
}

async function errorOf(answer) {
  const text = await answer.text();
  try {
    return new ApiError(answer.status, JSON.parse(text).error ?? text);
  } catch {
    return new ApiError(
      answer.status,
      `The console answered ${answer.status}: ${text.slice(0, 200)}`,
    );
  }
}

// Sizes may be as large as 2^63-1, which a JavaScript number rounds. A definition that was read is
// written back whole, so such numbers travel as BigInt where the browser lets us see their text.

function parsedExactly(text) {
  return JSON.parse(text, (_key, value, context) => {
    const isRounded =
      typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value);
    return isRounded && /^-?\d+$/.test(context?.source) ? BigInt(context.source) : value;
  });
}

function writtenExactly(body) {
  return JSON.stringify(body, (_key, value) =>
    typeof value === "bigint" ? JSON.rawJSON(String(value)) : value,
  );
}
