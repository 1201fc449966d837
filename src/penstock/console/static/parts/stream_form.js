// The form that makes or changes a stream.

import { createStream, updateStream } from "../api.js";
import { h } from "../dom.js";
import { button } from "./controls.js";
import { openDialog, submitOnce } from "./dialog.js";
import { exportsForm } from "./export_form.js";
import { checkField, choiceField, durationField, sizeField, textField } from "./fields.js";
import { say } from "./toast.js";

const MIB = 1024 * 1024;
const NEW = {
  maxSize: 256 * MIB,
  streamSegmentSize: 16 * MIB,
  strategyOnFull: 1,
  persistence: 0,
  flushOnWrite: false,
};

/** Make a stream; `ondone(name)` afterwards. */
export function openCreateForm(ondone) {
  openForm("Create a stream", "Create", NEW, async (definition) => {
    await createStream(definition);
    say(`Stream ${definition.name} was created.`);
    ondone(definition.name);
  });
}

/** Change a stream. */
export function openEditForm(definition, ondone) {
  openForm(`Edit ${definition.name}`, "Save", definition, async (changed) => {
    await updateStream(definition.name, changed);
    say(`Stream ${definition.name} was changed.`);
    ondone();
  });
}

function openForm(title, label, before, save) {
  const isNew = before.name === undefined;
  const fields = definitionFields(before, isNew);
  const exports = exportsForm(before.exportDefinition);
  const trouble = h("p", { class: "form-error", role: "alert", hidden: true });
  const submit = button(label, { kind: "primary", type: "submit" });
  const form = h(
    "form",
    { class: "stream-form" },
    h("div", { class: "field-grid" }, ...Object.values(fields).map((field) => field.element)),
    h("h3", {}, "Exports"),
    exports.element,
    trouble,
    h(
      "div",
      { class: "dialog-actions" },
      button("Cancel", { onclick: () => dialog.close() }),
      submit,
    ),
  );
  const read = () => ({
    ...before,
    ...Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, field.read()])),
    exportDefinition: exports.read(),
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    await submitOnce(
      submit,
      trouble,
      () => save(read()),
      () => dialog.close(),
    );
  });
  const dialog = openDialog(title, form, { kind: "wide" });
  (isNew ? fields.name.input : fields.maxSize.input).focus();
}

function definitionFields(before, isNew) {
  const name = textField({
    label: "Name",
    value: before.name,
    required: true,
    maxlength: 255,
    pattern: "[A-Za-z0-9_ ,.\\-]+",
    title: "Letters, digits, spaces and _ , . -",
    disabled: !isNew,
  });
  const persistence = choiceField({
    label: "Kept",
    value: before.persistence,
    options: { 0: "On disk", 1: "In memory" },
    hint: isNew ? "In memory: gone when the server stops" : "Cannot be changed",
  });
  persistence.input.disabled = !isNew;
  return {
    name: { ...name, read: () => (isNew ? name.read() : before.name) },
    maxSize: sizeField({
      label: "Largest size",
      value: before.maxSize,
      required: true,
      hint: "At least 1 KiB",
    }),
    strategyOnFull: choiceField({
      label: "When full",
      value: before.strategyOnFull,
      options: { 1: "Overwrite the oldest data", 0: "Reject new data" },
    }),
    timeToLiveMillis: durationField({
      label: "Keep messages for",
      value: before.timeToLiveMillis,
      hint: "At least 1 minute; empty: until it is full",
    }),
    persistence,
    streamSegmentSize: sizeField({
      label: "Segment size",
      value: before.streamSegmentSize,
      required: true,
    }),
    flushOnWrite: checkField({
      label: "Sync every append to the disk",
      value: before.flushOnWrite,
      hint: "Slower; what was acknowledged survives a power cut",
    }),
  };
}
