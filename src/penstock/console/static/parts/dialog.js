// Dialogs: the browser's own, so that focus, Escape and screen readers are looked after.

import { freshId, h, setShown, setText } from "../dom.js";
import { button, iconButton } from "./controls.js";

/** Show content in a dialog until it is closed; then `onclose`. */
export function openDialog(title, content, { kind = "", onclose = () => {} } = {}) {
  const titleId = freshId("dialog");
  const dialog = h("dialog", { class: `dialog ${kind}`, "aria-labelledby": titleId });
  const close = () => dialog.close();
  dialog.append(
    h(
      "div",
      { class: "dialog-head" },
      h("h2", { id: titleId }, title),
      iconButton("close", "Close", close),
    ),
    h("div", { class: "dialog-body" }, content),
  );
  dialog.addEventListener("close", () => {
    dialog.remove();
    onclose();
  });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/**
 * Ask before something that cannot be undone, then do it. An error is shown in the dialog, which
 * stays open. With `typed`, that text must be entered first.
 */
export function confirmAction({
  title,
  text,
  action,
  label,
  typed = null,
  extra = null,
  isDanger = true,
}) {
  const trouble = h("p", { class: "form-error", role: "alert", hidden: true });
  const confirm = button(label, { kind: isDanger ? "danger" : "primary", type: "submit" });
  const cancel = button("Cancel", { onclick: () => dialog.close() });
  const entry = typed && typedEntry(typed, confirm);
  const form = h(
    "form",
    { class: "confirm", method: "dialog" },
    h("p", {}, text),
    extra,
    entry,
    trouble,
    h("div", { class: "dialog-actions" }, cancel, confirm),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    await submitOnce(confirm, trouble, action, () => dialog.close());
  });
  const dialog = openDialog(title, form, { kind: "narrow" });
  if (!typed) cancel.focus();
  return dialog;
}

/** Run a form's action once at a time; show its error, or go on. */
export async function submitOnce(submit, trouble, action, onsuccess) {
  submit.disabled = true;
  setShown(trouble, false);
  try {
    const result = await action();
    onsuccess(result);
  } catch (error) {
    setText(trouble, error.message);
    setShown(trouble, true);
  } finally {
    submit.disabled = false;
  }
}

/** A text to read at leisure, such as a whole error. */
export function showText(title, text, ...more) {
  return openDialog(title, [h("pre", { class: "text-block", tabindex: "0" }, text), ...more]);
}

function typedEntry(typed, confirm) {
  const id = freshId("typed");
  const input = h("input", { id, autocomplete: "off", spellcheck: "false", autofocus: true });
  confirm.disabled = true;
  input.addEventListener("input", () => {
    confirm.disabled = input.value !== typed;
  });
  return h(
    "div",
    { class: "field" },
    h("label", { for: id }, "Type ", h("strong", {}, typed), " to confirm"),
    input,
  );
}
