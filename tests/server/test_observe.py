"""What a server tells to those who watch it: figures, counters, and at what price."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from in_process import ServerInThread

from penstock import (
    ExportDefinition,
    HTTPConfig,
    InvalidRequestException,
    MessageStreamDefinition,
    Persistence,
    StrategyOnFull,
    StreamManagerClient,
)
from penstock.block import ENTRY_BYTES
from penstock.client.worker import WorkerClient
from penstock.export_model import ExportReport
from penstock.log.segment import Segment
from penstock.observe_model import Observation, StreamView
from penstock.version import __version__

TOKEN = "the pipeline's"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerInThread]:
    with ServerInThread(tmp_path, pipeline="external", pipeline_token=TOKEN) as server:
        yield server


@pytest.fixture
def client(server: ServerInThread) -> Iterator[StreamManagerClient]:
    with StreamManagerClient(port=server.port) as client:
        yield client


def create(client: StreamManagerClient, name: str, **fields: object) -> None:
    values = {"strategy_on_full": StrategyOnFull.RejectNewData, **fields}
    client.create_message_stream(MessageStreamDefinition(name, **values))  # type: ignore[arg-type]


def row(observation: Observation, name: str) -> StreamView:
    (found,) = (view for view in observation.streams if view.name == name)
    return found


def test_the_server_says_who_and_where_it_is(
    server: ServerInThread, client: StreamManagerClient
) -> None:
    seen = client.observe_server().server

    assert (seen.version, seen.data_dir) == (__version__, str(server.folder))
    assert seen.started_time <= seen.server_time
    assert seen.connections == 1
    assert 0 < seen.disk_free_bytes <= seen.disk_total_bytes


def test_a_stream_is_told_with_its_definition_and_what_it_holds(
    client: StreamManagerClient,
) -> None:
    create(client, "S", persistence=Persistence.Memory, time_to_live_millis=60_000, max_size=4096)
    empty = row(client.observe_server(), "S")
    assert (empty.oldest_sequence_number, empty.newest_sequence_number) == (0, -1)
    assert (empty.oldest_time, empty.newest_time, empty.total_bytes) == (None, None, 0)

    client.append_messages("S", [b"one", b"two"])
    found = row(client.observe_server(), "S")
    messages = [client.read_messages("S")[0]]
    assert (found.persistence, found.time_to_live_millis) == (Persistence.Memory, 60_000)
    assert (found.max_size, found.strategy_on_full) == (4096, StrategyOnFull.RejectNewData)
    assert (found.oldest_sequence_number, found.newest_sequence_number) == (0, 1)
    assert found.total_bytes == 6 + 2 * ENTRY_BYTES
    assert found.oldest_time == found.newest_time == messages[0].ingest_time
    assert found.id == empty.id


def test_appends_are_counted_by_message_and_byte_whichever_way_they_came(
    client: StreamManagerClient,
) -> None:
    create(client, "S")
    client.append_message("S", b"12345")
    client.append_messages("S", [b"1", b"22"])
    client.append_once("S", [b"333"], writer="w", batch=1)
    client.append_once("S", [b"333"], writer="w", batch=1)  # stored already

    found = client.observe_server()
    assert row(found, "S").appended_messages == 4
    assert row(found, "S").appended_bytes == 5 + 3 + 3
    assert row(found, "S").refused_appends == 0
    assert (found.server.appended_messages, found.server.appended_bytes) == (4, 11)


def test_refused_appends_are_counted_and_nothing_of_them_is_appended(
    client: StreamManagerClient,
) -> None:
    create(client, "S", max_size=1024, stream_segment_size=1024)
    client.append_message("S", b"x" * 900)
    for append in (
        lambda: client.append_message("S", b"x" * 200),
        lambda: client.append_messages("S", [b"x" * 200]),
        lambda: client.append_once("S", [b"x" * 200], writer="w", batch=1),
    ):
        with pytest.raises(InvalidRequestException):
            append()

    found = row(client.observe_server(), "S")
    assert (found.refused_appends, found.appended_messages) == (3, 1)
    assert found.appended_bytes == 900


def test_what_a_deleted_stream_counted_stays_in_the_sums(client: StreamManagerClient) -> None:
    create(client, "S")
    client.append_message("S", b"12345")
    old_id = row(client.observe_server(), "S").id
    client.delete_message_stream("S")
    create(client, "S")
    client.append_message("S", b"1")

    found = client.observe_server()
    assert row(found, "S").appended_messages == 1
    assert row(found, "S").id != old_id
    assert (found.server.appended_messages, found.server.appended_bytes) == (2, 6)


def test_counters_begin_anew_with_the_server_and_the_times_do_not(tmp_path: Path) -> None:
    with ServerInThread(tmp_path) as server, StreamManagerClient(port=server.port) as client:
        create(client, "S", stream_segment_size=1024, max_size=100_000)
        for _ in range(3):
            client.append_messages("S", [b"x" * 500, b"y" * 500])
        before = row(client.observe_server(), "S")
    with ServerInThread(tmp_path) as server, StreamManagerClient(port=server.port) as client:
        after = row(client.observe_server(), "S")

    assert (after.oldest_time, after.newest_time) == (before.oldest_time, before.newest_time)
    assert (before.appended_messages, after.appended_messages) == (6, 0)
    assert (before.appended_bytes, after.appended_bytes) == (3000, 0)
    assert after.newest_sequence_number == 5


def test_the_oldest_time_moves_when_old_messages_go(client: StreamManagerClient) -> None:
    create(
        client,
        "S",
        max_size=4096,
        stream_segment_size=1024,
        strategy_on_full=StrategyOnFull.OverwriteOldestData,
    )
    for _ in range(20):
        client.append_message("S", b"x" * 700)
    found = row(client.observe_server(), "S")

    first = client.read_messages("S")[0]
    assert first.sequence_number == found.oldest_sequence_number > 0
    assert found.oldest_time == first.ingest_time
    assert found.appended_messages == 20


def read_again(segment: Segment) -> None:
    raise AssertionError(f"{segment.data_path} is read again")


def test_the_disk_is_asked_once_and_not_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        ServerInThread(tmp_path, pipeline="off") as server,
        StreamManagerClient(port=server.port) as client,
    ):
        for name in ("A", "B"):
            create(
                client,
                name,
                stream_segment_size=1024,
                export_definition=ExportDefinition(http=[HTTPConfig("out", "http://h/")]),
            )
            client.append_messages(name, [b"x" * 800, b"y" * 800])
    with (
        ServerInThread(tmp_path, pipeline="off") as server,
        StreamManagerClient(port=server.port) as client,
    ):
        first = client.observe_server()
        for part in ("index", "data"):
            monkeypatch.setattr(Segment, part, property(read_again))
        again = client.observe_server()
        monkeypatch.undo()
    assert [view.oldest_time for view in again.streams] == [
        view.oldest_time for view in first.streams
    ]
    assert [view.lag_messages for view in again.exports] == [2, 2]


def test_what_was_uploaded_is_counted_by_destination(
    server: ServerInThread, client: StreamManagerClient
) -> None:
    exports = ExportDefinition(http=[HTTPConfig("out", "http://h/")])
    create(client, "S", export_definition=exports)
    client.append_messages("S", [b"12345", b"1"])
    with WorkerClient(port=server.port, auth_token=TOKEN) as worker:
        (lease,) = worker.watch_exports(10, wait_ms=10_000).leases
        worker.report_export(ExportReport(lease.lease_id, 1, messages=1, sent_bytes=5))
        done = ExportReport(lease.lease_id, 2, messages=1, sent_bytes=1, file_bytes=7, done=True)
        worker.report_export(done)
        found = client.observe_server()

    assert found.server.uploaded_bytes_by_destination == {"HTTP": 13}
    (view,) = found.exports
    assert (view.destination, view.delivered_messages, view.lag_messages) == ("HTTP", 2, 0)
    assert found.pipeline.state == "external"
