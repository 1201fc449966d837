// Elements from plain values. Text becomes text nodes, so that no data is ever read as HTML.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element: attributes by name, listeners as onclick and the like, then its children. */
export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) setAttribute(element, name, value);
  element.append(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined),
  );
  return element;
}

/** Set one attribute or listener; null and false mean that there is none. */
export function setAttribute(element, name, value) {
  if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
  else if (value === null || value === undefined || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) {
    element.setAttribute(name, value === true ? "" : value);
  }
}

/** Change a text only if it differs: an untouched node costs no layout. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Show or hide. */
export function setShown(element, isShown) {
  if (element.hidden === isShown) element.hidden = !isShown;
}

let lastId = 0;

/** An id for labels and descriptions. */
export function freshId(prefix) {
  lastId += 1;
  return `${prefix}-${lastId}`;
}
