"""S3 tasks that never run: Canceled in the status stream, over the wire."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from in_process import ServerInThread

from penstock import StreamManagerClient
from penstock.client.worker import WorkerClient
from penstock.export_model import ExportReport
from penstock.exporting import canceled
from penstock.model import (
    ExportDefinition,
    KinesisConfig,
    MessageStreamDefinition,
    ReadMessagesOptions,
    S3ExportTaskDefinition,
    S3ExportTaskExecutorConfig,
    Status,
    StatusConfig,
    StatusLevel,
    StatusMessage,
    StrategyOnFull,
)
from penstock.server.app import Server
from penstock.util import Util

TOKEN = "the token of the pipeline"
TASK = S3ExportTaskDefinition("file:/a", "bucket", "key")


@pytest.fixture
def server(serve: Callable[..., ServerInThread]) -> ServerInThread:
    return serve(pipeline="external", pipeline_token=TOKEN)


@pytest.fixture
def client(server: ServerInThread) -> Iterator[StreamManagerClient]:
    with StreamManagerClient(port=server.port) as client:
        yield client


def definition(*exports: S3ExportTaskExecutorConfig, **fields: Any) -> MessageStreamDefinition:
    return MessageStreamDefinition(
        name="tasks",
        strategy_on_full=StrategyOnFull.RejectNewData,
        export_definition=ExportDefinition(s3_task_executor=list(exports)),
        **fields,
    )


def s3(level: StatusLevel = StatusLevel.INFO) -> S3ExportTaskExecutorConfig:
    return S3ExportTaskExecutorConfig("s3", status_config=StatusConfig(level, "statuses"))


def create_statuses(client: StreamManagerClient, **fields: Any) -> None:
    reject = StrategyOnFull.RejectNewData
    client.create_message_stream(
        MessageStreamDefinition("statuses", strategy_on_full=reject, **fields)
    )


def create_tasks(client: StreamManagerClient, count: int, **fields: Any) -> None:
    client.create_message_stream(definition(s3(), **fields))
    payload = Util.validate_and_serialize_to_json_bytes(TASK)
    client.append_messages("tasks", [payload] * count)


def statuses(client: StreamManagerClient, count: int) -> list[StatusMessage]:
    """The statuses, of which there must be so many."""
    found = client.describe_message_stream("statuses").storage_status.newest_sequence_number + 1
    assert found == count
    if not count:
        return []
    options = ReadMessagesOptions(min_message_count=1, max_message_count=count)
    messages = client.read_messages("statuses", options)
    return [Util.deserialize_json_bytes_to_obj(each.payload, StatusMessage) for each in messages]


def numbers(found: list[StatusMessage]) -> list[int | None]:
    assert {status.status for status in found} <= {Status.Canceled}
    return [status.status_context and status.status_context.sequence_number for status in found]


def logged(caplog: pytest.LogCaptureFixture) -> str:
    (line,) = (line for line in caplog.messages if "without a status" in line)
    return line


def test_the_tasks_of_a_deleted_stream_are_canceled(client: StreamManagerClient) -> None:
    create_statuses(client)
    create_tasks(client, 3)
    client.delete_message_stream("tasks")
    found = statuses(client, 3)
    assert numbers(found) == [0, 1, 2]
    assert found[0].message == "The task is canceled: its stream was deleted"
    assert found[0].status_context is not None
    assert found[0].status_context.s3_export_task_definition == TASK


def test_the_tasks_of_a_removed_export_are_canceled_once(client: StreamManagerClient) -> None:
    create_statuses(client)
    create_tasks(client, 2)
    client.update_message_stream(definition())
    client.update_message_stream(definition())
    client.delete_message_stream("tasks")
    found = statuses(client, 2)
    assert numbers(found) == [0, 1]
    assert found[0].message == "The task is canceled: its export was removed"


def test_a_changed_or_paused_export_keeps_its_tasks(client: StreamManagerClient) -> None:
    create_statuses(client)
    create_tasks(client, 2)
    paused = s3(StatusLevel.TRACE)
    paused.disabled = True
    client.update_message_stream(definition(paused))
    statuses(client, 0)


def test_an_identifier_that_moves_to_another_destination_cancels_the_tasks(
    client: StreamManagerClient,
) -> None:
    create_statuses(client)
    create_tasks(client, 2)
    moved = definition()
    moved.export_definition.kinesis = [KinesisConfig("s3", "k")]
    client.update_message_stream(moved)
    assert numbers(statuses(client, 2)) == [0, 1]


def test_an_update_that_is_refused_cancels_nothing(client: StreamManagerClient) -> None:
    create_statuses(client)
    create_tasks(client, 2)
    with pytest.raises(Exception, match="persistence"):
        client.update_message_stream(definition(persistence=1))
    statuses(client, 0)


def test_the_task_in_flight_is_left_to_the_worker_and_done_ones_are_done(
    server: ServerInThread, client: StreamManagerClient
) -> None:
    create_statuses(client)
    create_tasks(client, 5)
    worker = WorkerClient("127.0.0.1", server.port, auth_token=TOKEN)
    (lease,) = worker.watch_exports(1, 5_000).leases
    worker.report_export(ExportReport(lease.lease_id, next_sequence_number=2, messages=2))
    client.delete_message_stream("tasks")
    assert numbers(statuses(client, 2)) == [3, 4], "0 and 1 are done, 2 is the worker's"
    assert worker.renew_leases([lease.lease_id]).canceled_ids == [lease.lease_id]
    worker.close()


def test_tasks_that_outlive_their_time_are_canceled_once(
    server: ServerInThread, client: StreamManagerClient
) -> None:
    create_statuses(client)
    create_tasks(client, 3, time_to_live_millis=60_000)
    move_clock(server, 59_000)
    server.ask(lambda it: it._streams.expire())
    statuses(client, 0)
    move_clock(server, 120_000)
    for _ in range(2):
        server.ask(lambda it: it._streams.expire())
    found = statuses(client, 3)
    assert numbers(found) == [0, 1, 2]
    assert found[0].message == "The task is canceled: its time to live is over"


def move_clock(server: ServerInThread, ahead_ms: int) -> None:
    """Let the streams of a server live in the future."""

    def move(it: Server) -> None:
        it._streams._now_ms = lambda: time.time_ns() // 1_000_000 + ahead_ms

    server.ask(move)


def test_a_missing_status_stream_is_logged_and_hurts_nobody(
    client: StreamManagerClient, caplog: pytest.LogCaptureFixture
) -> None:
    create_tasks(client, 3)
    client.delete_message_stream("tasks")
    assert client.list_streams() == []
    expected = "3 tasks are canceled without a status, because stream statuses does not exist."
    assert logged(caplog).endswith(expected)


def test_a_full_status_stream_keeps_what_fits_and_the_rest_is_logged(
    client: StreamManagerClient, caplog: pytest.LogCaptureFixture
) -> None:
    create_statuses(client, max_size=1024, stream_segment_size=1024)
    create_tasks(client, 10)
    client.delete_message_stream("tasks")
    kept = client.describe_message_stream("statuses").storage_status.newest_sequence_number + 1
    assert 0 < kept < 10
    assert f"{10 - kept} tasks are canceled without a status" in logged(caplog)
    assert "is full" in logged(caplog)


def test_there_is_a_limit_to_what_one_event_tells(
    client: StreamManagerClient,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(canceled, "STATUSES_MAX", 10)
    create_statuses(client)
    create_tasks(client, 25)
    client.delete_message_stream("tasks")
    assert numbers(statuses(client, 10)) == list(range(10))
    assert "15 tasks are canceled without a status, because there are more" in logged(caplog)


def test_a_status_stream_that_flushes_shows_them_when_they_are_safe(
    client: StreamManagerClient,
) -> None:
    create_statuses(client, flush_on_write=True)
    create_tasks(client, 3)
    client.delete_message_stream("tasks")
    options = ReadMessagesOptions(
        min_message_count=3, max_message_count=3, read_timeout_millis=5000
    )
    assert len(client.read_messages("statuses", options)) == 3


def test_who_waits_for_statuses_is_woken(
    client: StreamManagerClient, server: ServerInThread
) -> None:
    create_statuses(client)
    create_tasks(client, 1)
    with StreamManagerClient(port=server.port) as other:
        following = other.follow("statuses")
        client.delete_message_stream("tasks")
        assert next(iter(following)).sequence_number == 0
