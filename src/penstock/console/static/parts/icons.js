// Small line drawings on a grid of 16.

import { svg } from "../dom.js";

const PATHS = {
  streams: "M2 4h12M2 8h8M2 12h12M13 7l1.5 1-1.5 1",
  exports: "M2 8h9M8 4.5 11.5 8 8 11.5M14 3v10",
  letters: "M2 4h12v8H2zM2 4.5 8 9l6-4.5",
  messages: "M3 3h10v10H3zM5.5 6h5M5.5 8h5M5.5 10h3",
  transforms: "M2 4.5h5l2 7h5M2 11.5h5M12 9.5l2 2-2 2M9.5 4.5H14",
  health: "M1.5 8.5h3L6.5 4l3 8 2-3.5h3",
  plus: "M8 3v10M3 8h10",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  play: "M5 3.5v9L12.5 8z",
  remove: "M3 4.5h10M6.5 4V2.5h3V4M4.5 4.5l.6 9h5.8l.6-9",
  edit: "M3 13l.6-2.8L10.8 3 13 5.2 5.8 12.4z",
  replay: "M3.2 6.5A5.2 5.2 0 1 1 2.8 9M3 3v3.5h3.5",
  open: "M6.5 3H3v10h10V9.5M9 2.5h4.5V7M13.5 2.5 7.5 8.5",
  download: "M8 2.5v7.5M4.8 7 8 10.2 11.2 7M3 13h10",
  up: "M4 9.5 8 5.5l4 4",
  down: "M4 6.5l4 4 4-4",
  left: "M9.5 4l-4 4 4 4",
  right: "M6.5 4l4 4-4 4",
  light:
    "M8 5.2a2.8 2.8 0 1 1 0 5.6 2.8 2.8 0 0 1 0-5.6zM8 1.5v1.3M8 13.2v1.3M1.5 8h1.3M13.2 8h1.3M3.4 3.4l.9.9M11.7 11.7l.9.9M12.6 3.4l-.9.9M4.3 11.7l-.9.9",
  dark: "M13 9.6A5.5 5.5 0 0 1 6.4 3 5.5 5.5 0 1 0 13 9.6z",
  system: "M2.5 3h11v7.5h-11zM5.5 13.5h5M8 10.5v3",
  keyboard: "M1.5 4.5h13v7h-13zM4 7h.01M6.7 7h.01M9.4 7h.01M12 7h.01M5 9.3h6",
  leave: "M9.5 3H3v10h6.5M7 8h7M11.5 5.5 14 8l-2.5 2.5",
  warning: "M8 2 14.5 13.5h-13zM8 6.5v3.2M8 11.6h.01",
  close: "M4 4l8 8M12 4l-8 8",
};

/** A drawing beside a text, or in a control that has a name of its own. */
export function icon(name) {
  return svg(
    "svg",
    { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true", focusable: "false" },
    svg("path", { d: PATHS[name] }),
  );
}
