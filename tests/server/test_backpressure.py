"""Clients that are slow, greedy or both: they get everything in the end, and cost little memory."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from in_process import ServerInThread
from raw_client import ALL_EXTENSIONS, RawClient, append_frame, read_options, request

from penstock.protocol import codec
from penstock.protocol.operations import Operation
from server_process import ServerProcess

Connect = Callable[..., RawClient]
Serve = Callable[..., ServerInThread]

KIB = 1024
MIB = 1024 * KIB


@pytest.fixture
def frugal_server(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server that keeps little for each client."""
    limits = ("--unsent-bytes-max", "1MiB", "--response-bytes-max", "1MiB")
    with ServerProcess(tmp_path, *limits) as server:
        yield server
    assert "Traceback" not in server.log


def peak_mib(server: ServerProcess) -> float:
    """The most memory that the server ever had."""
    assert server.process is not None
    with open(f"/proc/{server.process.pid}/status") as status:
        (line,) = (line for line in status if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def reads_of(name: str, starts: range, count: int) -> bytes:
    return b"".join(
        request(
            Operation.ReadMessages,
            f"read {start}",
            streamName=name,
            readMessagesOptions=read_options(start, count),
        )
        for start in starts
    )


@pytest.mark.parametrize("extensions", [(), ALL_EXTENSIONS], ids=["plain", "extended"])
def test_a_client_with_a_tiny_buffer_gets_every_frame_whole_and_in_order(
    connect: Connect, client: RawClient, name: str, extensions: tuple[str, ...]
) -> None:
    client.create(name)
    payloads = [b"%04d" % number * chunk(number) for number in range(200)]
    client.append_many(name, payloads)
    slow = connect(receive_buffer_bytes=4096, extensions=extensions)
    slow.send(reads_of(name, range(200), 1))
    answers = []
    while len(answers) < 200:
        slow.read_some(777)
        while slow._arrived:
            answers.append(slow.next_answer())
    assert [answer.request_id for answer in answers] == [f"read {start}" for start in range(200)]
    assert [answer.payloads for answer in answers] == [[payload] for payload in payloads]


def chunk(number: int) -> int:
    """Sizes from 4 bytes to 40 KB, in no pattern."""
    return 1 + number * number * 7919 % 10_007 if number % 3 else 1 + number % 30


def test_a_client_that_never_reads_costs_little_and_gets_everything_when_it_reads_again(
    frugal_server: ServerProcess,
) -> None:
    with RawClient(frugal_server.port) as writer:
        writer.create("s")
        writer.append_many("s", [b"%02d" % number + bytes(MIB - 34) for number in range(16)])
        before_mib = peak_mib(frugal_server)
        with RawClient(frugal_server.port) as greedy:
            for turn in range(10):
                greedy.send(reads_of("s", range(16), 1).replace(b"read ", b"%d.rd " % turn))
            for _ in range(200):
                writer.append("s", b"meanwhile")
            assert peak_mib(frugal_server) - before_mib < 16, "of 160 MiB that were asked for"
            answers = greedy.answers(160)
        assert peak_mib(frugal_server) - before_mib < 16
    heard = {answer.request_id: answer.payloads[0][:2] for answer in answers}
    assert heard == {
        f"{turn}.rd {start}": b"%02d" % start for turn in range(10) for start in range(16)
    }


def test_bulk_reads_that_nobody_takes_are_bounded_in_the_same_way(
    frugal_server: ServerProcess,
) -> None:
    with RawClient(frugal_server.port, extensions=ALL_EXTENSIONS) as greedy:
        greedy.create("s")
        greedy.append_many("s", [bytes(MIB // 2)] * 16)
        before_mib = peak_mib(frugal_server)
        for number in range(100):
            options = {"desiredStartSequenceNumber": number % 16, "maxMessageCount": 2}
            greedy.ask(
                Operation.ReadBlocks, f"{number}", streamName="s", readMessagesOptions=options
            )
        with RawClient(frugal_server.port) as other:
            for _ in range(100):
                assert other.is_served()
        answers = greedy.answers(100)
        assert {answer.status for answer in answers} == {0}
        assert peak_mib(frugal_server) - before_mib < 16


def test_others_are_served_quickly_while_a_large_answer_is_made_and_sent(
    connect: Connect, client: RawClient, name: str
) -> None:
    """20 MiB in 200,000 messages: reading, encoding and sending must not hold up the loop."""
    client.create(name)
    extended = connect(extensions=ALL_EXTENSIONS)
    sizes = (100).to_bytes(4, "little") * 50_000
    for _ in range(4):
        batch = {"name": name, "sizes": sizes, "data": bytes(5_000_000)}
        extended.done(Operation.AppendMessages, **batch)
    client.create(f"{name} beside")
    slow = connect(receive_buffer_bytes=64 * KIB)
    slow.ask_to_read(name, 0, 200_000)
    latencies_s = []
    until = time.monotonic() + 1
    while time.monotonic() < until:
        begun = time.monotonic()
        client.append(f"{name} beside", b"quick")
        latencies_s.append(time.monotonic() - begun)
    assert statistics.median(latencies_s) < 0.02
    assert max(latencies_s) < 1, "nobody waits for the whole of it, even on a busy machine"
    answer = slow.next_answer()
    assert answer.sequences == list(range(200_000))


@pytest.mark.parametrize("kind", [Operation.ReadMessages, Operation.ReadBlocks])
def test_a_million_tiny_messages_are_not_held_to_return_a_few_of_them(
    frugal_server: ServerProcess, kind: Operation
) -> None:
    with RawClient(frugal_server.port, extensions=ALL_EXTENSIONS) as client:
        client.create("s")
        batch = {"sizes": (1).to_bytes(4, "little") * 50_000, "data": bytes(50_000)}
        for _ in range(20):
            client.done(Operation.AppendMessages, name="s", **batch)
        before_mib = peak_mib(frugal_server)
        for _ in range(3):
            options = {"maxMessageCount": 2**31 - 1}
            client.done(kind, streamName="s", readMessagesOptions=options)
        assert peak_mib(frugal_server) - before_mib < 16, "their index alone has 32 MiB"


@pytest.mark.parametrize("kind", [Operation.ReadMessages, Operation.ReadBlocks])
def test_a_large_answer_is_made_in_a_thread_and_a_small_one_at_once(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, kind: Operation
) -> None:
    threads = []
    for name in ("read_response", "read_blocks_response"):
        encode = getattr(codec, name)

        def noted(*arguments: object, encode: Callable[..., object] = encode) -> object:
            threads.append(threading.current_thread().name)
            return encode(*arguments)

        monkeypatch.setattr(codec, name, noted)
    with RawClient(serve().port, extensions=ALL_EXTENSIONS) as client:
        client.create("s")
        client.append_many("s", [bytes(100)] * 5000)
        for count in (10, 5000):
            options = read_options(0, count)
            client.done(kind, streamName="s", readMessagesOptions=options)
        # Many were allowed, but there are few: nobody has to wait for a thread.
        options = {"desiredStartSequenceNumber": 4990, "maxMessageCount": 100_000}
        client.done(kind, streamName="s", readMessagesOptions=options)
    in_loop, in_thread, again_in_loop = threads
    assert in_loop == again_in_loop == "server under test"
    assert in_thread.startswith("penstock-io")


def test_a_huge_frame_that_arrives_slowly_holds_up_nobody(
    connect: Connect, client: RawClient, name: str
) -> None:
    client.create(name)
    payload = bytes(range(256)) * (16 * 4 * KIB)
    data = append_frame(name, payload, "huge")
    slow = connect()
    for start in range(0, len(data), MIB):
        slow.send(data[start : start + MIB])
        assert client.append(name, b"beside")
    assert client.read(name, slow.next_answer().sequence).payloads == [payload]


def test_a_frame_above_the_limit_is_thrown_away_while_it_arrives(tmp_path: Path) -> None:
    with (
        ServerProcess(tmp_path, "--frame-bytes-max", "1MiB") as server,
        RawClient(server.port) as client,
    ):
        client.create("s")
        assert client.append("s", b"small") == [0]
        before_mib = peak_mib(server)
        data = append_frame("s", bytes(100 * MIB), "too much")
        client.send(data)
        answer = client.next_answer()
        assert (answer.status, answer.request_id) == (4, "too much")
        assert client.append("s", b"small") == [1]
        assert peak_mib(server) - before_mib < 8


@pytest.mark.parametrize("in_flight_max", [1, 2, 7])
@pytest.mark.parametrize("flush_on_write", [False, True])
def test_a_limit_on_requests_in_flight_slows_down_but_never_stops(
    serve: Serve, in_flight_max: int, flush_on_write: bool
) -> None:
    server = serve(requests_in_flight_max=in_flight_max, unsent_bytes_max=4096)
    with RawClient(server.port) as client:
        client.create("s", flushOnWrite=flush_on_write)
        frames = []
        for number in range(60):
            frames.append(append_frame("s", b"%d" % number + bytes(500), f"append {number}"))
            frames.append(reads_of("s", range(number, number + 1), 1))
            frames.append(request(Operation.DescribeMessageStream, f"look {number}", name="s"))
        sender = threading.Thread(target=client.send, args=frames)
        sender.start()
        answers = {answer.request_id: answer for answer in client.answers(180)}
        sender.join()
        assert len(answers) == 180
        assert [answers[f"append {number}"].sequence for number in range(60)] == list(range(60))


def test_a_client_that_stopped_reading_does_not_stop_a_stream_for_others(
    frugal_server: ServerProcess,
) -> None:
    """Its waiting reads are woken, its answers pile up to the limit, and nothing else happens."""
    with RawClient(frugal_server.port) as writer, RawClient(frugal_server.port) as stuck:
        writer.create("s")
        for _ in range(200):
            stuck.ask_to_read("s", 0, 1, readTimeoutMillis=60_000)
        writer.append("s", bytes(MIB - 32))
        for _ in range(50):
            writer.append("s", b"beside")
        answers = stuck.answers(200)
        assert {len(answer.payloads[0]) for answer in answers} == {MIB - 32}
