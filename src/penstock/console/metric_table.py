"""Every metric once: its name, unit and meaning, and where its value comes from.

Prometheus's text (metrics.py), OpenTelemetry's instruments (telemetry.py) and the table in
docs/monitoring.md are made from this. A name that ends with `_total` is a counter, any other a
gauge. Values of None are left out: there is nothing to tell at this moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from penstock.console.metric import Metric, Table, states
from penstock.export_model import ExportView, PipelineView
from penstock.observe_model import ServerView, StreamView
from penstock.transforms.reports import TransformView

# The words of exporting/state.py, server/supervisor.py and pipeline/transform_run.py. Any other
# one counts as "other", so that a newer server is not misread.
EXPORT_STATES = ("idle", "waiting", "due", "sending", "backing off", "blocked", "paused")
PIPELINE_STATES = (
    *("not needed", "starting", "running", "restarting", "unavailable"),
    *("external", "off"),
)
TRANSFORM_STATES = ("waiting", "starting", "running", "backing off", "blocked", "paused")


@dataclass(frozen=True, slots=True)
class StreamRow:
    """A stream, and the server's time for its ages."""

    view: StreamView
    now_ms: int

    def age_s(self, time_ms: int | None) -> float | None:
        if time_ms is None:
            return None
        return max(0, self.now_ms - time_ms) / 1000


def seconds(time_ms: int | None) -> float | None:
    return None if time_ms is None else time_ms / 1000


def uploaded(destination: str) -> Callable[[ServerView], int]:
    return lambda server: server.uploaded_bytes_by_destination.get(destination, 0)


SERVER = Table[ServerView](
    rows=lambda observation: [observation.server],
    metrics=(
        Metric(
            "penstock_server_start_time_seconds",
            "When the server started, in seconds since 1970.",
            lambda server: seconds(server.started_time),
            "s",
        ),
        Metric(
            "penstock_server_connections",
            "Clients that are connected.",
            lambda server: server.connections,
            "{connection}",
        ),
        Metric(
            "penstock_server_appended_messages_total",
            "Messages stored since the server started, of deleted streams too.",
            lambda server: server.appended_messages,
            "{message}",
        ),
        Metric(
            "penstock_server_appended_bytes_total",
            "Bytes of messages stored since the server started, of deleted streams too.",
            lambda server: server.appended_bytes,
            "By",
        ),
        Metric(
            "penstock_server_refused_appends_total",
            "Appends refused since the server started: stream full, disk full, message too large.",
            lambda server: server.refused_appends,
            "{request}",
        ),
        Metric(
            "penstock_disk_free_bytes",
            "Free bytes on the disk that holds the streams.",
            lambda server: server.disk_free_bytes,
            "By",
        ),
        Metric(
            "penstock_disk_total_bytes",
            "Size of the disk that holds the streams.",
            lambda server: server.disk_total_bytes,
            "By",
        ),
        # AWS's telemetry of stream manager, under its names. HTTP is in version 1 only.
        Metric(
            "penstock_telemetry_bytes_appended_total",
            "AWS's BytesAppended: bytes appended to streams.",
            lambda server: server.appended_bytes,
            "By",
        ),
        Metric(
            "penstock_telemetry_bytes_uploaded_to_iot_analytics_total",
            "AWS's BytesUploadedToIoTAnalytics: bytes exported to channels of IoT Analytics, or "
            "where they are redirected to.",
            uploaded("IoTAnalytics"),
            "By",
        ),
        Metric(
            "penstock_telemetry_bytes_uploaded_to_kinesis_total",
            "AWS's BytesUploadedToKinesis: bytes exported to Kinesis data streams.",
            uploaded("Kinesis"),
            "By",
        ),
        Metric(
            "penstock_telemetry_bytes_uploaded_to_iot_sitewise_total",
            "AWS's BytesUploadedToIoTSiteWise: bytes exported to IoT SiteWise asset properties.",
            uploaded("IoTSiteWise"),
            "By",
        ),
        Metric(
            "penstock_telemetry_bytes_uploaded_to_s3_total",
            "AWS's BytesUploadedToS3 (BytesUploadedToS3ExportTaskExecutor in version 1): bytes "
            "exported to S3 objects.",
            uploaded("S3ExportTaskExecutor"),
            "By",
        ),
        Metric(
            "penstock_telemetry_bytes_uploaded_to_http_total",
            "AWS's BytesUploadedToHTTP (version 1 only): bytes exported by HTTP.",
            uploaded("HTTP"),
            "By",
        ),
    ),
)

SERVER_INFO = Table[ServerView](
    rows=lambda observation: [observation.server],
    labels={"version": lambda server: server.version},
    metrics=(
        Metric("penstock_server_info", "Always 1; the version is a label.", lambda server: 1),
    ),
)

PIPELINE = Table[PipelineView](
    rows=lambda observation: [observation.pipeline],
    metrics=(
        *states(
            "penstock_pipeline_state",
            "State of the process that does the exports: 1 for the present one.",
            PIPELINE_STATES,
            lambda pipeline: pipeline.state,
        ),
        Metric(
            "penstock_pipeline_restarts_total",
            "How often the pipeline ended unasked and was started again.",
            lambda pipeline: pipeline.restarts,
            "{restart}",
        ),
        Metric(
            "penstock_pipeline_next_start_timestamp_seconds",
            "When the pipeline will be started again, while it waits for that.",
            lambda pipeline: seconds(pipeline.next_start_time),
            "s",
        ),
    ),
)

STREAMS = Table[StreamRow](
    rows=lambda seen: [StreamRow(view, seen.server.server_time) for view in seen.streams],
    labels={"stream": lambda row: row.view.name},
    metrics=(
        Metric(
            "penstock_stream_messages",
            "Messages in the stream.",
            lambda row: max(
                0, row.view.newest_sequence_number - row.view.oldest_sequence_number + 1
            ),
            "{message}",
        ),
        Metric(
            "penstock_stream_bytes",
            "Size of the stream: payloads, and 32 bytes per message.",
            lambda row: row.view.total_bytes,
            "By",
        ),
        Metric(
            "penstock_stream_max_bytes",
            "Size that the stream may have (maxSize).",
            lambda row: row.view.max_size,
            "By",
        ),
        Metric(
            "penstock_stream_time_to_live_seconds",
            "Age at which messages are removed (timeToLiveMillis), if there is one.",
            lambda row: seconds(row.view.time_to_live_millis),
            "s",
        ),
        Metric(
            "penstock_stream_oldest_sequence_number",
            "Number of the oldest message; above the newest one when the stream is empty.",
            lambda row: row.view.oldest_sequence_number,
        ),
        Metric(
            "penstock_stream_newest_sequence_number",
            "Number of the newest message; -1 before the first.",
            lambda row: row.view.newest_sequence_number,
        ),
        Metric(
            "penstock_stream_oldest_message_age_seconds",
            "Time since the oldest message was stored.",
            lambda row: row.age_s(row.view.oldest_time),
            "s",
        ),
        Metric(
            "penstock_stream_newest_message_age_seconds",
            "Time since the newest message was stored.",
            lambda row: row.age_s(row.view.newest_time),
            "s",
        ),
        Metric(
            "penstock_stream_appended_messages_total",
            "Messages stored since the server started.",
            lambda row: row.view.appended_messages,
            "{message}",
        ),
        Metric(
            "penstock_stream_appended_bytes_total",
            "Bytes of messages stored since the server started.",
            lambda row: row.view.appended_bytes,
            "By",
        ),
        Metric(
            "penstock_stream_refused_appends_total",
            "Appends refused since the server started.",
            lambda row: row.view.refused_appends,
            "{request}",
        ),
    ),
)

EXPORTS = Table[ExportView](
    rows=lambda observation: observation.exports,
    labels={
        "stream": lambda export: export.stream_name,
        "export": lambda export: export.export_identifier,
        "destination": lambda export: export.destination,
    },
    counts_from_start=False,
    metrics=(
        Metric(
            "penstock_export_lag_messages",
            "Messages of the stream that are not exported yet.",
            lambda export: export.lag_messages,
            "{message}",
        ),
        Metric(
            "penstock_export_lag_bytes",
            "Bytes of messages that are not exported yet, estimated.",
            lambda export: export.lag_bytes,
            "By",
        ),
        Metric(
            "penstock_export_lag_age_seconds",
            "Time since the oldest message that is not exported was stored; 0 without lag.",
            lambda export: export.lag_age_millis / 1000,
            "s",
        ),
        Metric(
            "penstock_export_last_exported_sequence_number",
            "Number of the last message that was delivered or refused; -1 before the first.",
            lambda export: export.last_exported_sequence_number,
        ),
        Metric(
            "penstock_export_delivered_messages_total",
            "Messages that the destination took, since the export was created.",
            lambda export: export.delivered_messages,
            "{message}",
        ),
        Metric(
            "penstock_export_delivered_bytes_total",
            "Bytes of messages that the destination took, since the export was created.",
            lambda export: export.delivered_bytes,
            "By",
        ),
        Metric(
            "penstock_export_refused_messages_total",
            "Messages that the destination refused for good; they become dead letters.",
            lambda export: export.refused_messages,
            "{message}",
        ),
        Metric(
            "penstock_export_lost_messages_total",
            "Messages that were removed from the stream before they were exported.",
            lambda export: export.lost_messages,
            "{message}",
        ),
        Metric(
            "penstock_export_dead_letters",
            "Dead letters that wait to be replayed or purged.",
            lambda export: export.dead_letters,
            "{message}",
        ),
        Metric(
            "penstock_export_failed_tries",
            "Failed tries since the last success.",
            lambda export: export.tries,
            "{try}",
        ),
        Metric(
            "penstock_export_last_attempt_timestamp_seconds",
            "When the destination answered last, in seconds since 1970.",
            lambda export: seconds(export.last_attempt_time),
            "s",
        ),
        Metric(
            "penstock_export_next_retry_timestamp_seconds",
            "When the next try is made, while the export waits for that.",
            lambda export: seconds(export.next_retry_time),
            "s",
        ),
        *states(
            "penstock_export_state",
            "State of the export: 1 for the present one.",
            EXPORT_STATES,
            lambda export: export.state,
        ),
    ),
)

TRANSFORMS = Table[TransformView](
    rows=lambda observation: observation.transforms,
    labels={
        "transform": lambda transform: transform.name,
        "stream": lambda transform: transform.source,
    },
    counts_from_start=False,
    metrics=(
        Metric(
            "penstock_transform_lag_messages",
            "Messages of the source that are not in the target yet.",
            lambda transform: transform.lag_messages,
            "{message}",
        ),
        Metric(
            "penstock_transform_rows_in_total",
            "Rows read since the pipeline started.",
            lambda transform: transform.rows_in,
            "{row}",
        ),
        Metric(
            "penstock_transform_rows_out_total",
            "Rows written since the pipeline started.",
            lambda transform: transform.rows_out,
            "{row}",
        ),
        Metric(
            "penstock_transform_lost_messages_total",
            "Messages that were removed from the source before they were read.",
            lambda transform: transform.lost_messages,
            "{message}",
        ),
        Metric(
            "penstock_transform_dead_letters",
            "Malformed messages that wait as dead letters.",
            lambda transform: transform.dead_letters,
            "{message}",
        ),
        Metric(
            "penstock_transform_batch_seconds",
            "Duration of the last batch.",
            lambda transform: seconds(transform.batch_millis),
            "s",
        ),
        Metric(
            "penstock_transform_failed_tries",
            "Failed tries since the last success.",
            lambda transform: transform.tries,
            "{try}",
        ),
        Metric(
            "penstock_transform_next_retry_timestamp_seconds",
            "When the next try is made, while the transform waits for that.",
            lambda transform: seconds(transform.next_retry_time),
            "s",
        ),
        *states(
            "penstock_transform_state",
            "State of the transform: 1 for the present one.",
            TRANSFORM_STATES,
            lambda transform: transform.state,
        ),
    ),
)

TABLES: tuple[Table[Any], ...] = (SERVER, SERVER_INFO, PIPELINE, STREAMS, EXPORTS, TRANSFORMS)


def families() -> Iterator[tuple[Table[Any], list[Metric[Any]]]]:
    """Each metric with its members, in the order of the tables."""
    for table in TABLES:
        by_name: dict[str, list[Metric[Any]]] = {}
        for metric in table.metrics:
            by_name.setdefault(metric.name, []).append(metric)
        yield from ((table, members) for members in by_name.values())


def as_markdown() -> str:
    """The table in docs/monitoring.md."""
    lines = ["| Metric | Kind | Labels | Meaning |", "|---|---|---|---|"]
    for table, (metric, *_) in families():
        labels = ", ".join([*table.labels, *(metric.member or ())[:1]])
        kind = "counter" if metric.is_counter else "gauge"
        lines.append(f"| `{metric.name}` | {kind} | {labels} | {metric.text} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(as_markdown(), end="")
