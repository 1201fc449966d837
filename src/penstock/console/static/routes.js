// Addresses within the page.

const address = (...parts) => `#/${parts.map(encodeURIComponent).join("/")}`;

export const streamAddress = (name) => address("streams", name);

export function messagesAddress(name, query = {}) {
  return withQuery(address("messages", name), query);
}

export function lettersAddress(stream, identifier) {
  return withQuery("#/dead-letters", { stream, export: identifier });
}

/** {page, name, query} of a hash such as #/messages/NAME?start=5. */
export function parsedAddress(hash) {
  const [path, search = ""] = hash.replace(/^#\/?/, "").split("?");
  const [page = "", name = ""] = path.split("/").map(decodedPart);
  return { page, name, query: Object.fromEntries(new URLSearchParams(search)) };
}

function withQuery(path, query) {
  const given = Object.entries(query).filter(
    ([, value]) => value !== undefined && value !== null && value !== "",
  );
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

/** An address that somebody mistyped is shown as it is, not refused. */
function decodedPart(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
