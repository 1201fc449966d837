"""Which tasks are told Canceled, and in which words."""

from __future__ import annotations

import pytest

from penstock.exporting.canceled import STATUSES_MAX, Doomed, canceled_statuses, doomed_tasks
from penstock.exporting.state import Export, Grant
from penstock.log.memory import Memory
from penstock.model import (
    EventType,
    ExportDefinition,
    HTTPConfig,
    MessageStreamDefinition,
    S3ExportTaskDefinition,
    S3ExportTaskExecutorConfig,
    Status,
    StatusConfig,
    StatusLevel,
    StatusMessage,
    StrategyOnFull,
)
from penstock.streams.stream import Stream
from penstock.util import Util

TASK = S3ExportTaskDefinition("file:/a", "bucket", "key")
TASK_BYTES = Util.validate_and_serialize_to_json_bytes(TASK)


def export_of(count: int, status_config: StatusConfig | None) -> Export:
    """An export of a stream with so many tasks."""
    config = S3ExportTaskExecutorConfig("s3", status_config=status_config)
    definition = MessageStreamDefinition(
        name="tasks",
        strategy_on_full=StrategyOnFull.RejectNewData,
        export_definition=ExportDefinition(s3_task_executor=[config]),
    )
    stream = Stream(Memory(), "/m", definition)
    if count:
        stream.append(TASK_BYTES * count, [len(TASK_BYTES)] * count, 1000)
    stream.show_appended(stream.log.next_sequence)
    return Export(stream, config)


def telling(level: StatusLevel = StatusLevel.INFO) -> StatusConfig:
    return StatusConfig(level, "statuses")


def numbers(doomed: Doomed | None) -> list[int]:
    return [] if doomed is None else [number for number, _ in doomed.messages]


def test_all_tasks_that_wait_are_doomed() -> None:
    export = export_of(5, telling())
    export.progress.last_exported_sequence = 1
    doomed = doomed_tasks(export, 5)
    assert numbers(doomed) == [2, 3, 4]
    assert doomed is not None
    assert (doomed.count, doomed.status_stream_name) == (3, "statuses")


def test_the_task_in_flight_is_left_to_who_executes_it() -> None:
    export = export_of(5, telling())
    export.lease = Grant(1, 0, 5, None)
    assert numbers(doomed_tasks(export, 5)) == [1, 2, 3, 4]


def test_a_replay_of_dead_letters_has_no_waiting_task_in_flight() -> None:
    export = export_of(2, telling())
    export.lease = Grant(1, 0, 0, None, replay=(7,))
    assert numbers(doomed_tasks(export, 2)) == [0, 1]


def test_only_what_is_below_the_limit_is_doomed() -> None:
    assert numbers(doomed_tasks(export_of(5, telling()), 2)) == [0, 1]


@pytest.mark.parametrize(
    "status_config", [None, StatusConfig(StatusLevel.TRACE), telling(StatusLevel.ERROR)]
)
def test_nobody_is_told_who_does_not_want_to_hear(status_config: StatusConfig | None) -> None:
    assert doomed_tasks(export_of(3, status_config), 3) is None


@pytest.mark.parametrize("level", [StatusLevel.WARN, StatusLevel.INFO, StatusLevel.TRACE])
def test_every_level_from_warn_on_hears_of_it(level: StatusLevel) -> None:
    assert numbers(doomed_tasks(export_of(1, telling(level)), 1)) == [0]


def test_other_exports_and_empty_streams_have_no_tasks() -> None:
    assert doomed_tasks(export_of(0, telling()), 0) is None
    other = export_of(1, telling())
    other.config = HTTPConfig("s3", "http://x/")
    assert doomed_tasks(other, 1) is None


def test_a_million_tasks_become_a_thousand_statuses_and_a_count() -> None:
    export = export_of(STATUSES_MAX + 500, telling())
    doomed = doomed_tasks(export, STATUSES_MAX + 500)
    assert doomed is not None
    assert (len(doomed.messages), doomed.count) == (STATUSES_MAX, STATUSES_MAX + 500)


def test_what_is_kept_after_all_is_not_doomed() -> None:
    doomed = doomed_tasks(export_of(5, telling()), 5)
    assert doomed is not None
    gone = doomed.before(2)
    assert (numbers(gone), gone.count) == ([0, 1], 2)
    assert doomed.before(0).count == 0


def test_a_status_says_everything() -> None:
    doomed = Doomed("tasks", "s3", "statuses", [(7, TASK_BYTES)], 1)
    (payload,) = canceled_statuses(doomed, "its stream was deleted", 5_000)
    status = Util.deserialize_json_bytes_to_obj(payload, StatusMessage)
    assert status.event_type == EventType.S3Task
    assert (status.status, status.status_level) == (Status.Canceled, StatusLevel.WARN)
    assert status.message == "The task is canceled: its stream was deleted"
    assert status.timestamp_epoch_ms == 5_000
    context = status.status_context
    assert context is not None
    assert context.s3_export_task_definition == TASK
    assert (context.export_identifier, context.stream_name, context.sequence_number) == (
        "s3",
        "tasks",
        7,
    )


def test_what_is_no_task_is_canceled_as_well() -> None:
    doomed = Doomed("tasks", "s3", "statuses", [(0, b"no task")], 1)
    (payload,) = canceled_statuses(doomed, "x", 0)
    status = Util.deserialize_json_bytes_to_obj(payload, StatusMessage)
    assert status.status == Status.Canceled
    assert status.status_context is not None
    assert status.status_context.s3_export_task_definition is None
    assert status.message is not None
    assert "S3ExportTaskDefinition" in status.message
