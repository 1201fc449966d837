"""Reads that wait: when they are answered, and that they disturb nobody meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from in_process import ServerInThread
from raw_client import ALL_EXTENSIONS, RawClient

from penstock.protocol.operations import Operation
from server_process import ServerProcess

Connect = Callable[..., RawClient]
Serve = Callable[..., ServerInThread]

LONG_MS = 60_000


def test_a_read_that_waits_does_not_delay_an_append_on_the_same_connection(
    client: RawClient, stream: str
) -> None:
    reading = client.ask_to_read(stream, 0, 3, readTimeoutMillis=LONG_MS)
    assert client.append(stream, b"one", b"two") == [0, 1]
    appending = client.ask(Operation.AppendMessage, name=stream, payload=b"three")
    answers = {answer.request_id: answer for answer in client.answers(2)}
    assert answers[appending].sequence == 2
    assert answers[reading].payloads == [b"one", b"two", b"three"]


def test_a_read_that_waits_delays_no_other_operation_on_the_same_connection(
    client: RawClient, stream: str
) -> None:
    client.ask_to_read(stream, 5, readTimeoutMillis=LONG_MS)
    assert client.is_served()
    assert client.describe(stream)["storageStatus"]["newestSequenceNumber"] == -1
    assert client.read(stream).status == 13


def test_a_read_is_answered_when_its_minimum_arrives_from_another_connection(
    client: RawClient, connect: Connect, stream: str
) -> None:
    writer = connect()
    client.ask_to_read(stream, 0, 2, maxMessageCount=10, readTimeoutMillis=LONG_MS)
    writer.append(stream, b"first")
    assert client.hears_nothing_for(0.05)
    writer.append(stream, b"second")
    assert client.next_answer().payloads == [b"first", b"second"]


def test_a_read_that_begins_beyond_the_end_waits_for_its_own_messages(
    client: RawClient, connect: Connect, stream: str
) -> None:
    writer = connect()
    client.ask_to_read(stream, 4, 2, readTimeoutMillis=LONG_MS)
    writer.append_many(stream, [b"%d" % number for number in range(5)])
    assert client.hears_nothing_for(0.05)
    writer.append(stream, b"5")
    assert client.next_answer().payloads == [b"4", b"5"]


@pytest.mark.parametrize("timeout_ms", [200, 400])
def test_a_read_in_vain_is_answered_a_little_before_its_timeout(
    client: RawClient, stream: str, timeout_ms: int
) -> None:
    client.append(stream, b"only one")
    waits_ms = []
    for _ in range(3):
        begun = time.monotonic()
        answer = client.read(stream, 0, 2, readTimeoutMillis=timeout_ms)
        waits_ms.append((time.monotonic() - begun) * 1000)
        assert answer.status == 13
        assert "has 1 messages from 0 on, fewer than minMessageCount 2" in answer.text
    assert timeout_ms - 60 < min(waits_ms) < timeout_ms


@pytest.mark.parametrize("timeout_ms", [1, 49, 50])
def test_a_timeout_below_50_ms_is_over_at_once(
    client: RawClient, stream: str, timeout_ms: int
) -> None:
    waits_s = []
    for _ in range(3):
        begun = time.monotonic()
        answer = client.read(stream, 3, readTimeoutMillis=timeout_ms)
        waits_s.append(time.monotonic() - begun)
        assert answer.status == 13
        assert "greater than the last sequence number -1" in answer.text
    assert min(waits_s) < 0.05


def test_a_wait_of_centuries_is_accepted(client: RawClient, connect: Connect, stream: str) -> None:
    client.ask_to_read(stream, readTimeoutMillis=9_223_372_036_854)
    assert client.hears_nothing_for(0.05)
    connect().append(stream, b"at last")
    assert client.next_answer().payloads == [b"at last"]


def test_no_answer_follows_the_one_that_was_given(
    client: RawClient, connect: Connect, stream: str
) -> None:
    """Neither the timer after a success, nor a message after the timeout."""
    writer = connect()
    client.ask_to_read(stream, 0, readTimeoutMillis=150)
    writer.append(stream, b"in time")
    assert client.next_answer().status == 0
    assert client.hears_nothing_for(0.2)
    assert client.read(stream, 1, readTimeoutMillis=60).status == 13
    writer.append(stream, b"too late")
    assert client.hears_nothing_for(0.05)
    assert client.read(stream, 1).payloads == [b"too late"]


def test_one_append_answers_everybody_who_waited_for_it(
    connect: Connect, client: RawClient, stream: str
) -> None:
    readers = [connect() for _ in range(10)]
    for reader in readers:
        for _ in range(10):
            reader.ask_to_read(stream, 0, readTimeoutMillis=LONG_MS)
        assert reader.is_served()
    client.append(stream, b"for all")
    for reader in readers:
        answers = reader.answers(10)
        assert all(answer.payloads == [b"for all"] for answer in answers)
        assert len({answer.request_id for answer in answers}) == 10


def test_bulk_reads_wait_in_the_same_way(extended: RawClient, client: RawClient, name: str) -> None:
    client.create(name)
    options = {"minMessageCount": 2, "maxMessageCount": 9, "readTimeoutMillis": LONG_MS}
    extended.ask(Operation.ReadBlocks, streamName=name, readMessagesOptions=options)
    client.append(name, b"a", b"b")
    (block,) = extended.next_answer().blocks
    assert list(block.payloads()) == [b"a", b"b"]


def test_deleting_the_stream_tells_those_who_wait(
    client: RawClient, connect: Connect, stream: str
) -> None:
    reader = connect()
    asked = {reader.ask_to_read(stream, 0, readTimeoutMillis=LONG_MS) for _ in range(3)}
    assert reader.is_served()
    client.done(Operation.DeleteMessageStream, name=stream)
    answers = reader.answers(3)
    assert {answer.request_id for answer in answers} == asked
    assert {answer.status for answer in answers} == {5}
    assert all(f"stream {stream} was deleted" in answer.text for answer in answers)
    client.create(stream)
    client.append(stream, b"of the next life")
    assert reader.hears_nothing_for(0.05)


def test_one_read_too_many_is_refused_with_the_limit(serve: Serve) -> None:
    server = serve(waiting_reads_max=5)
    with RawClient(server.port) as client, RawClient(server.port) as other:
        client.create("s")
        waiting = {client.ask_to_read("s", readTimeoutMillis=LONG_MS) for _ in range(5)}
        answer = client.read("s", readTimeoutMillis=LONG_MS)
        assert answer.status == 3
        text = "5 reads wait on this connection already; that is the limit (waiting_reads_max)"
        assert text in answer.text
        assert client.read("s").status == 13, "who does not wait is not limited"
        other.ask_to_read("s", readTimeoutMillis=LONG_MS)
        assert other.is_served()
        client.ask(Operation.AppendMessage, "append", name="s", payload=b"go on")
        answers = client.answers(6)
        assert {answer.request_id for answer in answers} == waiting | {"append"}
        assert {answer.status for answer in answers} == {0}
        assert other.next_answer().payloads == [b"go on"]
        client.ask_to_read("s", 1, readTimeoutMillis=LONG_MS)
        assert client.is_served(), "places are given back"


def test_waiting_reads_do_not_count_as_requests_in_flight(serve: Serve) -> None:
    server = serve(requests_in_flight_max=2)
    with RawClient(server.port) as client:
        client.create("s")
        for _ in range(10):
            client.ask_to_read("s", readTimeoutMillis=LONG_MS)
        assert client.is_served()


def test_a_client_that_goes_leaves_no_read_behind(serve: Serve) -> None:
    server = serve()
    with RawClient(server.port) as keeper:
        keeper.create("s")
        for _ in range(5):
            with RawClient(server.port) as client:
                for _ in range(100):
                    client.ask_to_read("s", readTimeoutMillis=LONG_MS)
                assert client.is_served()
        assert keeper.is_served()
        reads = server.ask(lambda it: it._streams.get("s").reads)
        until = time.monotonic() + 5
        while server.ask(lambda _: len(reads._waiting)) and time.monotonic() < until:
            keeper.is_served()
        assert server.ask(lambda _: len(reads._waiting)) == 0
        assert keeper.append("s", b"nobody waits") == [0]


def test_thousands_of_reads_of_clients_that_went_cost_no_memory(server: ServerProcess) -> None:
    with RawClient(server.port) as keeper:
        keeper.create("s")
        forsaken_reads(server.port, 5)
        before_kib = resident_kib(server)
        forsaken_reads(server.port, 40)
        assert keeper.is_served()
        assert resident_kib(server) - before_kib < 4096


def forsaken_reads(port: int, client_count: int) -> None:
    for _ in range(client_count):
        with RawClient(port, extensions=ALL_EXTENSIONS) as client:
            for _ in range(250):
                client.ask_to_read("s", readTimeoutMillis=LONG_MS)
            assert client.is_served()


def resident_kib(server: ServerProcess) -> int:
    assert server.process is not None
    with open(f"/proc/{server.process.pid}/status") as status:
        (line,) = (line for line in status if line.startswith("VmRSS"))
    return int(line.split()[1])
