"""Exports that go to a table: when, and how much at once. Pure.

A file per message would make a table that nobody can read in reasonable time, so messages gather.
"""

from __future__ import annotations

import msgspec

from penstock.model import MIB, ExportConfig, IoTAnalyticsConfig
from penstock.streams.stream import Stream

# Of messages that wait, the oldest waits this long unless its export has an interval of its own.
GATHER_MS = 10_000
# One file's worth, of small messages and of large ones. The Java process that writes it has a heap
# of 512 MB, sorts it and keeps it until the file is complete; and there may be two at a time.
FILE_MESSAGES_MAX = 100_000
FILE_BYTES_MAX = 32 * MIB


def table_of(config: ExportConfig, tables_by_channel: dict[str, str]) -> str:
    """The folder of the table that an export goes to; empty if it goes to none."""
    if not isinstance(config, IoTAnalyticsConfig):
        return ""
    return tables_by_channel.get(config.iot_channel, "")


def gathering(config: IoTAnalyticsConfig) -> ExportConfig:
    """When such an export is due, said as a configuration.

    Its own batch size, at most 100, is meant for requests: as a size of files it is too small.
    """
    interval_ms = config.batch_interval_millis or GATHER_MS
    return msgspec.structs.replace(
        config, batch_size=FILE_MESSAGES_MAX, batch_interval_millis=interval_ms
    )


def stop_of_file(stream: Stream, start: int, stop: int) -> int:
    """How far one file goes: about FILE_BYTES_MAX, estimated from the sizes of segments."""
    stop = min(stop, start + FILE_MESSAGES_MAX)
    room = FILE_BYTES_MAX
    for segment in stream.log.segments:
        first = max(start, segment.first_sequence)
        count = min(stop, segment.next_sequence) - first
        if count <= 0:
            continue
        message_bytes = max(1, segment.data_bytes // segment.count)
        if count * message_bytes > room:
            return max(start + 1, first + room // message_bytes)
        room -= count * message_bytes
    return stop
