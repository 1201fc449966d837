"""A disk that refuses or hangs: everybody is told, nobody twice, and later all is well again."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator

import pytest
from in_process import ServerInThread
from raw_client import ALL_EXTENSIONS, RawClient, append_frame, read_options, request
from scripted_disk import ScriptedDisk

from penstock.protocol.operations import Operation
from penstock.server import app, writer

Serve = Callable[..., ServerInThread]

KIB = 1024


@pytest.fixture
def disk() -> ScriptedDisk:
    return ScriptedDisk()


@pytest.fixture
def server(serve: Serve, disk: ScriptedDisk) -> ServerInThread:
    return serve(disk=disk, unsent_bytes_max=4096)


@pytest.fixture
def client(server: ServerInThread) -> Iterator[RawClient]:
    with RawClient(server.port, extensions=ALL_EXTENSIONS) as client:
        yield client


@pytest.fixture
def other(server: ServerInThread) -> Iterator[RawClient]:
    with RawClient(server.port) as client:
        yield client


# --- appends ------------------------------------------------------------------------------------


@pytest.mark.parametrize("path_end", [".data", ".index", "mark"])
def test_a_refused_write_stores_nothing_and_later_appends_work(
    disk: ScriptedDisk, client: RawClient, path_end: str
) -> None:
    client.create("s")
    client.append("s", b"before")
    with disk.failing("write", path_end):
        client.send(*(append_frame("s", b"%d" % number, f"{number}") for number in range(5)))
        batch = {"name": "s", "sizes": b"\1\0\0\0", "data": b"x"}
        client.ask(Operation.AppendMessages, "batch", **batch)
        answers = client.answers(6)
        assert {answer.request_id for answer in answers} == {*"01234", "batch"}
        assert {answer.status for answer in answers} == {1}
        text = "the disk refused to store it"
        assert all(text in answer.text for answer in answers)
        assert all("nothing was stored, try again later" in answer.text for answer in answers)
        assert client.read("s").payloads == [b"before"], "reads go on"
    assert client.append("s", b"after") == [1]
    assert client.read("s", 0, 2).payloads == [b"before", b"after"]


@pytest.mark.parametrize("operation", ["remove", "truncate"])
def test_a_stream_that_cannot_make_room_answers_and_recovers(
    disk: ScriptedDisk, client: RawClient, operation: str
) -> None:
    """Overwriting the oldest data removes and makes files; that may fail as well."""
    client.create("s", maxSize=2 * KIB, streamSegmentSize=KIB, strategyOnFull=1)
    for _ in range(6):
        client.append("s", bytes(500))
    with disk.failing(operation):
        for _ in range(4):
            answer = client.call(Operation.AppendMessage, name="s", payload=bytes(500))
            assert answer.status in (0, 1), answer.text
            batch = {"name": "s", "sizes": (500).to_bytes(4, "little"), "data": bytes(500)}
            assert client.call(Operation.AppendMessages, **batch).status in (0, 1)
    newest = client.describe("s")["storageStatus"]["newestSequenceNumber"]
    assert client.append("s", b"healed") == [newest + 1]
    assert client.read("s", newest + 1).payloads == [b"healed"]


@pytest.mark.parametrize(("version", "status"), [("1.1.0", 15), ("1.0.0", 1)])
def test_a_lack_of_memory_is_told_in_a_status_that_the_client_knows(
    server: ServerInThread, disk: ScriptedDisk, version: str, status: int
) -> None:
    def run_out(path: str) -> None:
        raise MemoryError

    with RawClient(server.port, protocolVersion=version) as client:
        client.create("s")
        with disk.hooked("write", run_out):
            answer = client.call(Operation.AppendMessage, name="s", payload=b"x")
            assert answer.status == status
            assert "out of memory; try again later" in answer.text
        assert client.append("s", b"x") == [0]


def test_a_surprise_is_told_to_the_client_and_to_the_operator(
    disk: ScriptedDisk, client: RawClient, caplog: pytest.LogCaptureFixture
) -> None:
    def surprise(path: str) -> None:
        raise ZeroDivisionError("nobody thought of this")

    client.create("s")
    with disk.hooked("write", surprise):
        answer = client.call(Operation.AppendMessage, name="s", payload=b"x")
    assert answer.status == 1
    assert "the server failed: ZeroDivisionError: nobody thought of this" in answer.text
    assert client.is_served()
    (record,) = (record for record in caplog.records if record.exc_info)
    assert record.levelno == logging.ERROR


# --- reads --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Operation.ReadMessages, Operation.ReadBlocks])
@pytest.mark.parametrize("payload_bytes", [10, 400 * KIB], ids=["here", "in a thread"])
def test_a_read_that_the_disk_refuses_is_a_read_error(
    disk: ScriptedDisk, client: RawClient, kind: Operation, payload_bytes: int
) -> None:
    client.create("s")
    client.append("s", bytes(payload_bytes))
    with disk.failing("read"):
        answer = client.call(kind, streamName="s")
        assert answer.status == 14
        assert "stream s cannot be read" in answer.text
        assert "Input/output error" in answer.text
    assert client.call(kind, streamName="s").status == 0


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The 55 seconds, shortened."""
    monkeypatch.setattr(writer, "ANSWER_WITHIN_S", 0.3)
    monkeypatch.setattr(app, "HOUSEKEEPING_INTERVAL_S", 0.05)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("fails", [False, True])
def test_a_read_that_hangs_is_told_in_time_and_not_a_second_time(
    disk: ScriptedDisk, client: RawClient, other: RawClient, fails: bool
) -> None:
    client.create("s")
    client.append("s", bytes(400 * KIB))
    with disk.held("read") as gate:
        begun = time.monotonic()
        client.ask_to_read("s")
        gate.somebody_waits()
        assert other.is_served()
        answer = client.next_answer()
        assert answer.status == 6
        assert "the disk of stream s did not answer in time" in answer.text
        assert time.monotonic() - begun >= 0.3
        if fails:
            with disk.failing("read"):
                gate.open()
                assert client.hears_nothing_for(0.1)
        gate.open()
    assert client.hears_nothing_for(0.1)
    assert client.read("s").status == 0


def large_reads(client: RawClient, count: int, **options: int) -> None:
    """More than the client's socket takes: all but the first few wait for their turn."""
    fields = {"streamName": "s", "readMessagesOptions": read_options(0, 1, **options)}
    client.send(*(request(Operation.ReadMessages, f"{at}", **fields) for at in range(count)))


def test_a_read_whose_stream_was_deleted_before_its_turn_finds_nothing(
    client: RawClient, other: RawClient
) -> None:
    client.create("s")
    client.append("s", bytes(3_000_000))
    large_reads(client, 30)
    assert client.next_answer().status == 0
    other.done(Operation.DeleteMessageStream, name="s")
    answers = client.answers(29)
    assert {answer.status for answer in answers} <= {0, 5}
    assert answers[-1].status == 5
    assert "stream s was deleted" in answers[-1].text


def test_a_read_whose_stream_is_deleted_while_the_disk_is_slow_is_told_at_once(
    disk: ScriptedDisk, client: RawClient, other: RawClient
) -> None:
    client.create("s")
    client.append("s", bytes(400 * KIB))
    with disk.held("read") as gate:
        client.ask_to_read("s")
        gate.somebody_waits()
        other.done(Operation.DeleteMessageStream, name="s")
        assert client.next_answer().status == 5
        gate.open()
    assert client.hears_nothing_for(0.05)
    assert client.is_served()


def test_a_read_whose_messages_went_before_its_turn_has_not_enough(
    client: RawClient, other: RawClient
) -> None:
    client.create("s", maxSize=4_000_000, streamSegmentSize=KIB, strategyOnFull=1)
    client.append("s", *[b"small"] * 9, bytes(3_000_000))
    large_reads(client, 30, minMessageCount=10, maxMessageCount=10)
    assert other.is_served()
    other.append("s", bytes(3_000_000))
    answers = client.answers(30)
    assert {answer.status for answer in answers} == {0, 13}
    assert "has 1 messages from 0 on, fewer than minMessageCount 10" in answers[-1].text


# --- everything else ----------------------------------------------------------------------------


def test_a_stream_that_cannot_be_made_leaves_its_name_free(
    disk: ScriptedDisk, client: RawClient
) -> None:
    with disk.failing("make_folder"):
        definition = {"name": "s", "strategyOnFull": 0}
        answer = client.call(Operation.CreateMessageStream, definition=definition)
        assert answer.status == 1
        assert "stream s could not be created" in answer.text
        assert client.done(Operation.ListStreams).values["streams"] == []
    client.create("s")
    assert client.append("s", b"x") == [0]


def test_old_segments_that_cannot_be_removed_stay_until_they_can(
    disk: ScriptedDisk,
    serve: Serve,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(app, "HOUSEKEEPING_INTERVAL_S", 0.02)
    monkeypatch.setattr(app, "EXPIRE_INTERVAL_S", 0.04)
    server = serve(disk=disk)
    with RawClient(server.port) as client:
        client.create("s", timeToLiveMillis=60_000)
        client.append("s", b"old")
        an_hour_later_ms = int(time.time() * 1000) + 3_600_000
        with disk.failing("remove"):
            server.ask(lambda it: setattr(it._streams, "_now_ms", lambda: an_hour_later_ms))
            until(lambda: "old segments could not be removed" in caplog.text)
            definition = client.describe("s")["definition"]
            client.done(Operation.UpdateMessageStream, definition=definition)
        until(lambda: client.describe("s")["storageStatus"]["oldestSequenceNumber"] == 1)
        assert client.append("s", b"new") == [1]
    assert all(record.exc_info is None for record in caplog.records)


def until(condition: Callable[[], bool]) -> None:
    """Housekeeping comes round every few milliseconds; give it some rounds."""
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.01)
