"""flushOnWrite: acknowledged means synced, one sync serves many, and a bad sync takes all back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from in_process import ServerInThread
from raw_client import ALL_EXTENSIONS, Answer, RawClient, append_frame
from scripted_disk import ScriptedDisk

from penstock.protocol.operations import Operation
from penstock.server import app, writer
from server_process import ServerProcess

Serve = Callable[..., ServerInThread]

DATA = ".data"


@pytest.fixture
def disk() -> ScriptedDisk:
    return ScriptedDisk()


@pytest.fixture
def flushing(serve: Serve, disk: ScriptedDisk) -> Iterator[ServerInThread]:
    """A server with a stream `s` that flushes on write."""
    server = serve(disk=disk)
    with RawClient(server.port) as client:
        client.create("s", flushOnWrite=True)
    return server


@pytest.fixture
def client(flushing: ServerInThread) -> Iterator[RawClient]:
    with RawClient(flushing.port) as client:
        yield client


@pytest.fixture
def other(flushing: ServerInThread) -> Iterator[RawClient]:
    with RawClient(flushing.port, extensions=ALL_EXTENSIONS) as client:
        yield client


def send_append(client: RawClient, payload: bytes, request_id: str = "append") -> None:
    client.send(append_frame("s", payload, request_id))


def statuses(answers: list[Answer]) -> list[int]:
    return [answer.status for answer in answers]


# --- acknowledged means stored ------------------------------------------------------------------


def test_what_64_clients_were_told_survives_a_kill(server: ServerProcess) -> None:
    with RawClient(server.port) as maker:
        maker.create("s", flushOnWrite=True)
    clients = [RawClient(server.port) for _ in range(64)]
    told: dict[int, bytes] = {}
    for turn in range(3):
        for number, client in enumerate(clients):
            for part in range(2):
                send_append(client, b"%d %d %d" % (turn, number, part), f"{part}")
        for number, client in enumerate(clients if turn < 2 else clients[:32]):
            for part, answer in enumerate(client.answers(2)):
                told[answer.sequence] = b"%d %d %d" % (turn, number, part)
    server.kill()
    for client in clients:
        client.close()
    server.restart()
    with RawClient(server.port) as client:
        newest = client.describe("s")["storageStatus"]["newestSequenceNumber"]
        stored = dict(enumerate(client.read("s", 0, newest + 1).payloads))
        assert len(told) == 320
        assert told.items() <= stored.items()
        assert client.append("s", b"next") == [newest + 1]


def test_an_append_is_answered_only_after_data_and_index_are_synced(
    disk: ScriptedDisk, client: RawClient
) -> None:
    for path_end in (DATA, ".index"):
        with disk.held("sync", path_end) as gate:
            send_append(client, b"synced first")
            gate.somebody_waits()
            assert client.hears_nothing_for(0.05)
            gate.open()
            assert client.next_answer().status == 0


def test_nobody_sees_a_message_before_it_is_acknowledged(
    disk: ScriptedDisk, client: RawClient, other: RawClient
) -> None:
    client.append("s", b"seen")
    with disk.held("sync", DATA) as gate:
        send_append(client, b"hidden")
        gate.somebody_waits()
        assert other.read("s", 1).status == 13
        assert other.describe("s")["storageStatus"]["newestSequenceNumber"] == 0
        options = {"maxMessageCount": 10}
        read = {"streamName": "s", "readMessagesOptions": options}
        assert other.call(Operation.ReadMessages, **read).payloads == [b"seen"]
        (block,) = other.call(Operation.ReadBlocks, **read).blocks
        assert list(block.payloads()) == [b"seen"]
        waiting = other.ask_to_read("s", 1, readTimeoutMillis=20_000)
        gate.open()
        assert other.next_answer().request_id == waiting
    assert client.next_answer().sequence == 1


def test_a_sync_delays_no_other_stream_and_no_read(
    disk: ScriptedDisk, client: RawClient, other: RawClient
) -> None:
    other.create("beside")
    with disk.held("sync", DATA) as gate:
        send_append(client, b"slow")
        gate.somebody_waits()
        assert other.append("beside", b"a", b"b") == [0, 1]
        assert other.read("beside", 0, 2).payloads == [b"a", b"b"]
        assert client.is_served()
        gate.open()
        assert client.next_answer().sequence == 0


def test_one_sync_serves_everybody_who_waited(
    disk: ScriptedDisk, flushing: ServerInThread, client: RawClient
) -> None:
    others = [RawClient(flushing.port) for _ in range(20)]
    with disk.held("sync", DATA) as gate:
        send_append(client, b"first")
        gate.somebody_waits()
        for one in others:
            one.send(*(append_frame("s", b"%d" % number) for number in range(10)))
            assert one.is_served()
        before = disk.counts["sync"]
        gate.open()
        assert client.next_answer().sequence == 0
    numbers = [answer.sequence for one in others for answer in one.answers(10)]
    assert sorted(numbers) == list(range(1, 201))
    # The rest of the first sync, and one more: each has a data file and an index.
    assert disk.counts["sync"] - before <= 3
    for one in others:
        one.close()


def test_batches_are_acknowledged_after_the_sync_too(disk: ScriptedDisk, other: RawClient) -> None:
    with disk.held("sync", DATA) as gate:
        other.ask(Operation.AppendMessages, name="s", sizes=b"\1\0\0\0\1\0\0\0", data=b"ab")
        gate.somebody_waits()
        assert other.hears_nothing_for(0.05)
        gate.open()
        answer = other.next_answer()
    assert answer.values["firstSequenceNumber"] == 0
    assert answer.values["lastSequenceNumber"] == 1


# --- a sync that fails --------------------------------------------------------------------------


def test_a_failed_sync_refuses_all_who_waited_and_leaves_nothing_behind(
    disk: ScriptedDisk, client: RawClient, other: RawClient
) -> None:
    client.append("s", b"kept")
    with disk.held("sync", DATA) as gate:
        send_append(client, b"syncing")
        gate.somebody_waits()
        send_append(other, b"behind it")
        assert other.is_served()
        with disk.failing("sync"):
            gate.open()
            answers = [client.next_answer(), other.next_answer()]
    assert statuses(answers) == [1, 1]
    assert all("nothing was stored, try again later" in answer.text for answer in answers)
    assert client.describe("s")["storageStatus"]["newestSequenceNumber"] == 0
    assert client.read("s", 1).status == 13
    assert client.append("s", b"again") == [1]
    assert client.read("s", 0, 2).payloads == [b"kept", b"again"]


def test_reads_that_wait_do_not_see_what_a_failed_sync_took_back(
    disk: ScriptedDisk, client: RawClient, other: RawClient
) -> None:
    other.ask_to_read("s", 0, 1, readTimeoutMillis=20_000)
    with disk.failing("sync"):
        send_append(client, b"lost")
        assert client.next_answer().status == 1
    assert other.hears_nothing_for(0.05)
    client.append("s", b"found")
    assert other.next_answer().payloads == [b"found"]


def test_a_disk_that_refuses_even_to_take_back_still_tells_those_who_wait(
    disk: ScriptedDisk, client: RawClient
) -> None:
    client.append("s", b"kept")
    with disk.failing("sync"), disk.failing("truncate"), disk.failing("remove"):
        send_append(client, b"lost")
        assert client.next_answer().status == 1
    assert client.append("s", b"again") == [1]
    assert client.read("s", 0, 2).payloads == [b"kept", b"again"]


# --- a sync that hangs --------------------------------------------------------------------------


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The 55 seconds, shortened."""
    monkeypatch.setattr(writer, "ANSWER_WITHIN_S", 0.3)
    monkeypatch.setattr(app, "HOUSEKEEPING_INTERVAL_S", 0.05)


@pytest.mark.usefixtures("impatient")
def test_a_sync_that_hangs_is_told_in_time_and_not_a_second_time(
    disk: ScriptedDisk, client: RawClient, other: RawClient
) -> None:
    with disk.held("sync", DATA) as gate:
        begun = time.monotonic()
        send_append(client, b"hangs")
        gate.somebody_waits()
        send_append(other, b"behind it")
        answers = [client.next_answer(), other.next_answer()]
        assert statuses(answers) == [6, 6]
        assert all("may or may not be stored" in answer.text for answer in answers)
        assert time.monotonic() - begun >= 0.3
        send_append(client, b"later")
        assert client.next_answer().status == 6
        gate.open()
    assert client.append("s", b"works again") == [3]
    assert client.hears_nothing_for(0.1)
    assert other.hears_nothing_for(0.1)
    payloads = [b"hangs", b"behind it", b"later", b"works again"]
    assert client.read("s", 0, 4).payloads == payloads


@pytest.mark.usefixtures("impatient")
def test_the_time_counts_from_the_request_also_for_those_behind_a_slow_sync(
    disk: ScriptedDisk, client: RawClient, other: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two syncs, each fast enough, together are too slow for who came during the first."""
    monkeypatch.setattr(writer, "ANSWER_WITHIN_S", 1.0)
    begun = time.monotonic()
    with disk.held("sync", DATA) as first:
        send_append(client, b"first")
        first.somebody_waits()
        send_append(other, b"second")
        assert other.hears_nothing_for(0.8)
        with disk.held("sync", DATA) as second:
            first.open()
            assert client.next_answer().status == 0
            second.somebody_waits()
            answer = other.next_answer()
            assert answer.status == 6
            assert 1.0 < time.monotonic() - begun < 1.7


@pytest.mark.usefixtures("impatient")
def test_what_was_stored_after_all_becomes_visible_without_another_append(
    disk: ScriptedDisk, client: RawClient, other: RawClient
) -> None:
    with disk.held("sync", DATA) as gate:
        send_append(client, b"hangs")
        gate.somebody_waits()
        send_append(other, b"behind it")
        assert statuses([client.next_answer(), other.next_answer()]) == [6, 6]
        other.ask_to_read("s", 0, 2, readTimeoutMillis=20_000)
        gate.open()
        assert other.next_answer().payloads == [b"hangs", b"behind it"]


@pytest.mark.usefixtures("impatient")
def test_a_sync_that_hangs_and_then_fails_answers_nobody_twice(
    disk: ScriptedDisk, client: RawClient
) -> None:
    with disk.held("sync", DATA) as gate:
        send_append(client, b"hangs")
        gate.somebody_waits()
        assert client.next_answer().status == 6
        with disk.failing("sync"):
            gate.open()
            assert client.hears_nothing_for(0.1)
    assert client.append("s", b"works again") == [0]


# --- deleting and stopping meanwhile ------------------------------------------------------------


def test_deleting_a_stream_answers_those_whose_sync_runs_and_those_behind_it(
    disk: ScriptedDisk, client: RawClient, other: RawClient
) -> None:
    with disk.held("sync", DATA) as gate:
        send_append(client, b"syncing")
        gate.somebody_waits()
        send_append(client, b"behind it")
        assert client.hears_nothing_for(0.02)
        other.done(Operation.DeleteMessageStream, name="s")
        answers = client.answers(2)
        assert statuses(answers) == [5, 5]
        assert all("stream s was deleted" in answer.text for answer in answers)
        gate.open()
    assert client.hears_nothing_for(0.05)
    other.create("s", flushOnWrite=True)
    assert other.append("s", b"new life") == [0]


def test_a_stop_waits_for_the_sync_and_answers(
    disk: ScriptedDisk, flushing: ServerInThread, client: RawClient
) -> None:
    with disk.held("sync", DATA) as gate:
        send_append(client, b"syncing")
        gate.somebody_waits()
        send_append(client, b"behind it")
        assert client.is_served()
        flushing.begin_stop()
        assert client.hears_nothing_for(0.05)
        gate.open()
        assert statuses(client.answers(2)) == [0, 0]
        assert client.at_end()
    assert flushing.join(10)
    assert flushing.status == 0
