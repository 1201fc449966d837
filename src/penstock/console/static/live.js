// What the server looks like now, kept up to date by server-sent events.

const TICK_MS = 1000;
const RETRY_MS_MIN = 1000;
const RETRY_MS_MAX = 10_000;
// A console that says nothing for this long is gone, whatever the connection looks like.
const SILENCE_MS_MAX = 10_000;

/** The key of an export: identifiers are unique only within a stream. */
export function exportKey(stream, identifier) {
  return `${stream}\n${identifier}`;
}

const keyOfStream = (view) => view.name;
const keyOfExport = (view) => exportKey(view.streamName, view.exportIdentifier);
const keyOfTransform = (view) => view.name;

/** The newest observation. Sends "change" about every second, "snapshot" when it begins anew. */
class Live extends EventTarget {
  server = null;
  pipeline = null;
  streams = new Map();
  exports = new Map();
  transforms = new Map();
  connection = "connecting"; // then: live, trouble (no server behind the console), lost (no console)
  text = "";
  heardTime = 0;

  #source = null;
  #waitTime = 0; // since when there is nothing to hear
  #retryTimer = null;
  #retryMillis = RETRY_MS_MIN;
  #clockOffsetMillis = 0;
  #tickTimer = null;
  #toldTime = 0;

  /** Begin. A hidden page lets go of its connection: browsers allow six per server. */
  start() {
    this.#connect();
    this.#tickTimer ??= setInterval(() => this.#tick(), TICK_MS);
    document.addEventListener("visibilitychange", this.#onVisibility);
  }

  stop() {
    document.removeEventListener("visibilitychange", this.#onVisibility);
    clearInterval(this.#tickTimer);
    this.#tickTimer = null;
    this.#disconnect();
  }

  /** The server's time: the clock of this machine may be another one. */
  now() {
    return Date.now() + this.#clockOffsetMillis;
  }

  /** Call back at every change, until the signal; not before something is known. */
  watch(callback, signal) {
    const tell = () => this.server && callback();
    this.addEventListener("change", tell, { signal });
    tell();
  }

  #onVisibility = () => {
    if (document.hidden) this.#disconnect();
    else this.#connect();
  };

  #connect() {
    this.#disconnect();
    this.#waitTime = Date.now();
    this.#source = new EventSource("/api/events");
    this.#listen("snapshot", (document) => this.#takeSnapshot(document.observation));
    this.#listen("change", (document) => this.#takeChange(document));
    this.#listen("trouble", (document) => this.#set("trouble", document.text));
    this.#source.onerror = () => this.#retry();
  }

  #disconnect() {
    clearTimeout(this.#retryTimer);
    this.#source?.close();
    this.#source = null;
  }

  #listen(name, take) {
    this.#source.addEventListener(name, (event) => {
      this.heardTime = this.#waitTime = Date.now();
      this.#retryMillis = RETRY_MS_MIN;
      take(JSON.parse(event.data));
    });
  }

  #retry() {
    this.#disconnect();
    this.#set("lost", "");
    this.dispatchEvent(new Event("lost"));
    this.#retryTimer = setTimeout(() => this.#connect(), this.#retryMillis);
    this.#retryMillis = Math.min(this.#retryMillis * 2, RETRY_MS_MAX);
  }

  #set(connection, text) {
    this.connection = connection;
    this.text = text;
    this.#tell();
  }

  #takeSnapshot(observation) {
    this.#takeProcess(observation);
    this.streams = new Map(observation.streams.map((view) => [keyOfStream(view), view]));
    this.exports = new Map(observation.exports.map((view) => [keyOfExport(view), view]));
    this.transforms = new Map(observation.transforms.map((view) => [keyOfTransform(view), view]));
    noteLagTimes(observation.exports, this.server.serverTime);
    this.dispatchEvent(new Event("snapshot"));
    this.#set("live", "");
  }

  #takeChange(change) {
    this.#takeProcess(change);
    noteLagTimes(change.exports.changed, this.server.serverTime);
    merge(this.streams, change.streams, keyOfStream, (name) => name);
    merge(this.exports, change.exports, keyOfExport, ([stream, identifier]) =>
      exportKey(stream, identifier),
    );
    merge(this.transforms, change.transforms, keyOfTransform, (name) => name);
    this.#set("live", "");
  }

  #takeProcess({ server, pipeline }) {
    this.server = server;
    this.pipeline = pipeline;
    this.#clockOffsetMillis = server.serverTime - Date.now();
  }

  #tick() {
    if (this.#source && Date.now() - this.#waitTime > SILENCE_MS_MAX) this.#retry();
    else if (Date.now() - this.#toldTime > TICK_MS * 0.9) this.#tell(); // ages and countdowns
  }

  #tell() {
    this.#toldTime = Date.now();
    this.dispatchEvent(new Event("change"));
  }
}

/** Since when each export is behind: a row that only grew older is not sent again. */
function noteLagTimes(views, serverTime) {
  for (const view of views) view.lagSince = serverTime - view.lagAgeMillis;
}

function merge(views, change, keyOf, keyOfRemoved) {
  for (const removed of change.removed) views.delete(keyOfRemoved(removed));
  for (const view of change.changed) views.set(keyOf(view), view);
}

export const live = new Live();

// What letters of a transform have in place of an export's identifier, before its name.
export const TRANSFORM = "transform ";

/** Where dead letters are: [stream, export or transform, count]. */
export function letterCounts() {
  const counts = [
    ...[...live.exports.values()].map((view) => [
      view.streamName,
      view.exportIdentifier,
      view.deadLetters,
    ]),
    ...[...live.transforms.values()].map((view) => [
      view.source,
      TRANSFORM + view.name,
      view.deadLetters,
    ]),
  ];
  return counts.filter(([, , number]) => number > 0);
}
