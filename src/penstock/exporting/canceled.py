"""S3 tasks that will never be executed: each gets one status Canceled, if its export wants it.

The task in flight is not among them: who executes it says what became of it. So no task has two
final statuses, whoever is faster.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.errors import DataDamaged, ValidationException
from penstock.exporting.state import Export
from penstock.model import (
    EventType,
    S3ExportTaskDefinition,
    S3ExportTaskExecutorConfig,
    Status,
    StatusContext,
    StatusLevel,
    StatusMessage,
)
from penstock.util import Util

log = logging.getLogger(__name__)

# A stream of a million tasks must neither stop the server nor fill the status stream.
STATUSES_MAX = 1000
TASK_BYTES_MAX = 4 * 1024 * 1024


@dataclass(frozen=True)
class Doomed:
    """Waiting tasks of one export: number and payload of each, and how many there are in all."""

    stream_name: str
    export_identifier: str
    status_stream_name: str
    messages: list[tuple[int, bytes]]
    count: int

    def before(self, sequence: int) -> Doomed:
        """Those below a number; the others stay."""
        gone = [message for message in self.messages if message[0] < sequence]
        kept_count = len(self.messages) - len(gone)
        return Doomed(
            self.stream_name,
            self.export_identifier,
            self.status_stream_name,
            gone,
            self.count - kept_count,
        )


def doomed_tasks(export: Export, stop: int) -> Doomed | None:
    """The tasks of an export that wait below `stop`; None if nobody wants to hear of them."""
    name = status_stream_of(export)
    if name is None:
        return None
    start = export.next_sequence
    if export.lease is not None and not export.lease.replay:
        start += 1  # in flight
    count = export.stream.log.count_from(start, stop)
    if count <= 0:
        return None
    messages: list[tuple[int, bytes]] = []
    try:
        for block in export.stream.log.read(start, stop, STATUSES_MAX, TASK_BYTES_MAX):
            messages += enumerate(block.payloads(), block.first_sequence)
    except (DataDamaged, OSError) as error:
        log.error("Stream %s: tasks are canceled without a status: %s", export.stream.name, error)
    return Doomed(export.stream.name, export.config.identifier, name, messages, count)


def status_stream_of(export: Export) -> str | None:
    """Where Canceled is to be told; None if it is not."""
    config = export.config
    if not isinstance(config, S3ExportTaskExecutorConfig) or config.status_config is None:
        return None
    if config.status_config.status_level < StatusLevel.WARN:
        return None
    return config.status_config.status_stream_name


def canceled_statuses(doomed: Doomed, reason: str, now_ms: int) -> Iterable[bytes]:
    """A payload for the status stream for each task. Pure."""
    for number, payload in doomed.messages:
        text = f"The task is canceled: {reason}"
        task = None
        try:
            task = Util.deserialize_json_bytes_to_obj(payload, S3ExportTaskDefinition)
        except ValidationException as error:
            text += f" ({error})"
        context = StatusContext(task, doomed.export_identifier, doomed.stream_name, number)
        yield Util.validate_and_serialize_to_json_bytes(
            StatusMessage(
                EventType.S3Task, StatusLevel.WARN, Status.Canceled, context, text, now_ms
            )
        )
