"""Messages that SiteWise and S3 exports understand, and what the latter answer."""

from __future__ import annotations

import time
from pathlib import Path

from exports_rig import Rig

from penstock.client.sync import StreamManagerClient
from penstock.model import (
    AssetPropertyValue,
    PutAssetPropertyValueEntry,
    ReadMessagesOptions,
    S3ExportTaskDefinition,
    S3ExportTaskExecutorConfig,
    Status,
    StatusConfig,
    StatusLevel,
    StatusMessage,
    TimeInNanos,
    Variant,
)
from penstock.util import Util


def sitewise_entry(number: int, alias: str) -> bytes:
    """An entry whose value and time tell its number."""
    value = AssetPropertyValue(
        Variant(integer_value=number),
        TimeInNanos(int(time.time()), number),
    )
    entry = PutAssetPropertyValueEntry(
        entry_id=f"entry-{number}", property_alias=alias, property_values=[value]
    )
    return Util.validate_and_serialize_to_json_bytes(entry)


def sitewise_values(rig: Rig, alias: str) -> list[int]:
    """What has arrived of one property."""
    return [
        value["value"]["integerValue"]
        for entry in rig.cloud.sitewise.entries()
        if entry.property_name == alias
        for value in entry.values
    ]


def s3_export(status_stream: str) -> S3ExportTaskExecutorConfig:
    """An export whose tasks leave their statuses in a stream."""
    return S3ExportTaskExecutorConfig(
        "export", status_config=StatusConfig(StatusLevel.INFO, status_stream)
    )


def s3_task(file: Path, bucket: str, key: str) -> bytes:
    task = S3ExportTaskDefinition(f"file://{file}", bucket, key)
    return Util.validate_and_serialize_to_json_bytes(task)


def statuses(client: StreamManagerClient, stream_name: str) -> list[tuple[int, Status]]:
    """Sequence number of the task and status, of every message of a status stream."""
    found = []
    for message in client.read_messages(stream_name, ReadMessagesOptions(0, 1, 1000, 0)):
        status = Util.deserialize_json_bytes_to_obj(message.payload, StatusMessage)
        assert status.status_context is not None
        assert status.status_context.sequence_number is not None
        found.append((status.status_context.sequence_number, status.status))
    return found
