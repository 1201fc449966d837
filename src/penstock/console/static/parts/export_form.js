// The part of a stream's form that is about its exports.

import { h, setText } from "../dom.js";
import { button } from "./controls.js";
import {
  checkField,
  choiceField,
  durationField,
  numberField,
  sizeField,
  textField,
} from "./fields.js";

const MIB = 1024 * 1024;
const identifier = (config) =>
  textField({
    label: "Identifier",
    value: config.identifier,
    required: true,
    maxlength: 255,
    pattern: "[A-Za-z0-9_ ,.\\-]+",
  });
const priority = (config) =>
  numberField({
    label: "Priority",
    value: config.priority,
    least: 1,
    most: 10,
    hint: "1 goes first, 10 last",
  });
const start = (config) =>
  numberField({ label: "Start at number", value: config.startSequenceNumber ?? 0, least: 0 });
const interval = (config) =>
  durationField({
    label: "Batch interval",
    value: config.batchIntervalMillis,
    hint: "At least 1 minute; empty: at once",
  });
const batch = (most) => (config) =>
  numberField({
    label: "Batch size",
    value: config.batchSize,
    least: 1,
    most,
    hint: `1 to ${most}; empty: as many as there are`,
  });
const paused = (config) => checkField({ label: "Paused", value: config.disabled ?? false });

// Every kind of export: its list in the definition, its title, its fields by wire name.
const KINDS = {
  kinesis: {
    title: "Kinesis",
    fields: {
      identifier,
      kinesisStreamName: (config) =>
        textField({ label: "Kinesis stream", value: config.kinesisStreamName, required: true }),
      batchSize: batch(500),
      batchIntervalMillis: interval,
      priority,
      startSequenceNumber: start,
      disabled: paused,
    },
  },
  IotSitewise: {
    title: "SiteWise",
    fields: {
      identifier,
      batchSize: batch(10),
      batchIntervalMillis: interval,
      priority,
      startSequenceNumber: start,
      disabled: paused,
    },
  },
  s3TaskExecutor: {
    title: "S3 tasks",
    fields: {
      identifier,
      sizeThresholdForMultipartUploadBytes: (config) =>
        sizeField({
          label: "Multipart above",
          value: config.sizeThresholdForMultipartUploadBytes ?? 5 * MIB,
          hint: "At least 5 MiB",
        }),
      priority,
      statusConfig: statusFields,
      disabled: paused,
    },
  },
  http: {
    title: "HTTP",
    fields: {
      identifier,
      uri: (config) =>
        textField({
          label: "Address",
          type: "url",
          value: config.uri,
          required: true,
          placeholder: "http://127.0.0.1:9000/in",
        }),
      exportFormat: (config) =>
        choiceField({
          label: "Format",
          value: config.exportFormat ?? 0,
          options: { 0: "Raw, one message per request", 1: "JSON, batched" },
        }),
      batchSize: batch(500),
      batchIntervalMillis: interval,
      priority,
      startSequenceNumber: start,
      disabled: paused,
    },
  },
  iotAnalytics: {
    title: "IoT Analytics",
    fields: {
      identifier,
      iotChannel: (config) =>
        textField({ label: "Channel", value: config.iotChannel, required: true }),
      iotMsgIdPrefix: (config) =>
        textField({ label: "Message id prefix", value: config.iotMsgIdPrefix, maxlength: 32 }),
      batchSize: batch(100),
      batchIntervalMillis: interval,
      priority,
      startSequenceNumber: start,
      disabled: paused,
    },
  },
};

/** All exports of a definition: {element, read()}. */
export function exportsForm(definition) {
  const list = h("div", { class: "export-list" });
  const forms = new Set();
  const add = (kind, config = {}) => {
    const form = exportForm(kind, config, () => forms.delete(form));
    forms.add(form);
    list.append(form.element);
    return form;
  };
  for (const kind of Object.keys(KINDS))
    for (const config of definition?.[kind] ?? []) add(kind, config);
  const adders = Object.entries(KINDS).map(([kind, { title }]) =>
    button(title, {
      name: "plus",
      onclick: () => add(kind).focus(),
      "aria-label": `Add an export to ${title}`,
    }),
  );
  const bar = h(
    "div",
    { class: "adders", role: "group", "aria-label": "Add an export" },
    h("span", { class: "muted" }, "Add"),
    ...adders,
  );
  return { element: h("div", {}, list, bar), read: () => readAll(forms) };
}

function readAll(forms) {
  const lists = Object.fromEntries(Object.keys(KINDS).map((kind) => [kind, []]));
  for (const { kind, read } of forms) lists[kind].push(read());
  return lists;
}

function exportForm(kind, config, onremove) {
  const { title, fields } = KINDS[kind];
  const made = Object.entries(fields).map(([name, make]) => [name, make(config)]);
  const remove = button("Remove", { name: "remove", kind: "quiet" });
  const legend = h("legend", {}, `Export to ${title}`);
  const element = h(
    "fieldset",
    { class: "export-form" },
    legend,
    h("div", { class: "field-grid" }, ...made.map(([, field]) => field.element)),
    remove,
  );
  remove.addEventListener("click", () => {
    element.remove();
    onremove();
  });
  const name = made[0][1].input;
  const entitle = () => setText(legend, `Export to ${title}${name.value ? `: ${name.value}` : ""}`);
  name.addEventListener("input", entitle);
  entitle();
  const read = () => {
    const values = Object.fromEntries(made.map(([wireName, field]) => [wireName, field.read()]));
    return { ...config, ...values }; // what the form does not show stays as it was
  };
  return { kind, element, read, focus: () => name.focus() };
}

function statusFields(config) {
  const before = config.statusConfig ?? {};
  const stream = textField({
    label: "Status stream",
    value: before.statusStreamName,
    hint: "Empty: no statuses",
  });
  const levels = { 0: "Errors", 1: "Warnings", 2: "Info", 3: "Debug", 4: "Trace" };
  const level = choiceField({
    label: "Status level",
    value: before.statusLevel ?? 2,
    options: levels,
  });
  const read = () => {
    const name = stream.read();
    return name ? { ...before, statusStreamName: name, statusLevel: level.read() } : undefined;
  };
  return { element: h("div", { class: "field-pair" }, stream.element, level.element), read };
}
