"""What everybody may see of an export."""

from __future__ import annotations

from penstock.errors import DataDamaged
from penstock.export_model import ExportView
from penstock.exporting.state import Export
from penstock.model import ExportConfig, HTTPConfig, IoTAnalyticsConfig, KinesisConfig


def view_of(export: Export, dead_letter_count: int, now_ms: int) -> ExportView:
    """Made from what is in memory; only the age of a new backlog is looked up."""
    progress = export.progress
    start, stop = export.next_sequence, export.stream.visible_next
    messages_rate, bytes_rate = export.rates(now_ms)
    lag_messages = lag_bytes = lag_age_ms = 0
    if stop > start:
        lag_messages = stop - start
        lag_bytes = export.stream.log.payload_bytes_estimate(start, lag_messages)
        oldest_ms = oldest_time_ms(export)
        lag_age_ms = 0 if oldest_ms is None else max(0, now_ms - oldest_ms)
    return ExportView(
        stream_name=export.stream.name,
        export_identifier=export.config.identifier,
        destination=destination_of(export.config),
        target=export.target,
        state=export.state(now_ms),
        waiting_for=export.waiting_for or None,
        priority=export.config.priority,
        last_exported_sequence_number=progress.last_exported_sequence,
        lag_messages=lag_messages,
        lag_bytes=lag_bytes,
        lag_age_millis=lag_age_ms,
        delivered_messages=progress.exported_count,
        delivered_bytes=progress.exported_bytes,
        refused_messages=progress.refused_count,
        lost_messages=progress.lost_count,
        dead_letters=dead_letter_count,
        messages_per_second=messages_rate,
        bytes_per_second=bytes_rate,
        last_attempt_time=progress.last_export_time_ms or None,
        last_error=progress.error or None,
        tries=export.tries,
        next_retry_time=export.retry_at_ms if export.retry_at_ms > now_ms else None,
    )


def destination_of(config: ExportConfig) -> str:
    """The kind of destination: Kinesis, HTTP."""
    return type(config).__name__.removesuffix("Config")


def target_of(
    config: ExportConfig, kinesis_streams_by_channel: dict[str, str], table: str = ""
) -> str:
    """Where an export goes, for a person."""
    if isinstance(config, IoTAnalyticsConfig) and table:
        return f"{config.iot_channel} -> Parquet {table}"
    if isinstance(config, HTTPConfig):
        return config.uri
    if isinstance(config, KinesisConfig):
        return config.kinesis_stream_name
    if isinstance(config, IoTAnalyticsConfig):
        stream = kinesis_streams_by_channel.get(config.iot_channel)
        return f"{config.iot_channel} -> Kinesis {stream}" if stream else config.iot_channel
    return ""


def oldest_time_ms(export: Export) -> int | None:
    """Ingest time of the first message that waits; None if it cannot be told."""
    start = export.next_sequence
    if start == export.timed_sequence:
        return export.timed_ms
    try:
        for block in export.stream.log.read(start, export.stream.visible_next, 1, 1):
            export.timed_sequence, export.timed_ms = start, block.last_ingest_time_ms
            return export.timed_ms
    except DataDamaged:
        return None
    return None
