"""What is measured. Each case starts its own server in an empty folder and gives its figures."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import uvloop
from tests.environments import python_with
from tests.server_process import ServerProcess, clean_environment

from bench import console, exports, fleet, machine, neighbours, spark_cases, spark_latency, steady
from bench.appender import WARM_UP_COUNT
from bench.figures import Figure, ratios
from penstock import AsyncStreamManagerClient, StreamManagerClient
from penstock.model import MessageStreamDefinition, ReadMessagesOptions, StrategyOnFull
from penstock.protocol.codec import decode_response, encode, load_map
from penstock.protocol.connection import CONNECT_VERSION, ClientConnection
from penstock.protocol.framing import LENGTH
from penstock.protocol.operations import Operation, ReadMessagesRequest

AWS_SDK = "stream-manager==1.1.2"
STREAM = "bench"
PAYLOAD = bytes(256)
BATCH_COUNT = 1000
THREAD_COUNT = 20

NOT_SHOWN = (
    "a network: all talk over loopback and share the cores, also with what else runs there.",
    "a disk: what is read is in the page cache; only the flush case waits for a disk, this one.",
    "a cold start: the program's files and its bytecode are in the page cache.",
    "a long run: retention, a full disk and growing memory do not appear within seconds.",
    "AWS's SDKs for Java and Node.",
)


@dataclass(frozen=True)
class Effort:
    """How often and how long to measure."""

    repeats: int
    starts: int
    share: float  # of the messages of a thorough run
    flush_s: float


THOROUGH = Effort(repeats=7, starts=5, share=1.0, flush_s=2.0)
QUICK = Effort(repeats=2, starts=2, share=0.1, flush_s=0.5)


def append_pipelined(server: ServerProcess, client: StreamManagerClient, count: int) -> None:
    """appends of 256 B pipelined on one connection, 1,000 outstanding, async client"""

    async def appends() -> None:
        async with AsyncStreamManagerClient(port=server.port) as client:
            futures: list[asyncio.Future[int]] = []
            for position in range(count):
                futures.append(client.append_message(STREAM, PAYLOAD))
                if position >= 1000:
                    await futures[position - 1000]
            await asyncio.gather(*futures[-1000:])

    uvloop.run(appends())


def append_batches(server: ServerProcess, client: StreamManagerClient, count: int) -> None:
    """messages of 256 B appended in batches of 1,000"""
    fill(client, PAYLOAD, count)


def append_from_threads(server: ServerProcess, client: StreamManagerClient, count: int) -> None:
    """appends of 256 B by 20 threads that share one client"""

    def appends(_: int) -> None:
        for _ in range(count // THREAD_COUNT):
            client.append_message(STREAM, PAYLOAD)

    with ThreadPoolExecutor(THREAD_COUNT) as threads:
        list(threads.map(appends, range(THREAD_COUNT)))


def read_messages(server: ServerProcess, client: StreamManagerClient, count: int) -> None:
    """messages of 256 B read, 1,000 per call, our client"""
    for start in range(0, count, BATCH_COUNT):
        assert len(client.read_messages(STREAM, options(start))) == BATCH_COUNT


def read_in_bulk(server: ServerProcess, client: StreamManagerClient, count: int) -> None:
    """payload read in bulk, messages of 1 KiB, 4,000 per call, checked by both sides"""
    next_sequence = 0
    while next_sequence < count:
        next_sequence = client.read_blocks(STREAM, options(next_sequence, 4000))[-1].next_sequence


def read_plainly(server: ServerProcess, client: StreamManagerClient, count: int) -> None:
    """messages of 256 B read, 1,000 per call, without extensions, decoded into objects"""
    address = ("127.0.0.1", server.port)
    with socket.create_connection(address) as connected, connected.makefile("rb") as incoming:
        connected.sendall(ClientConnection("bench", wanted_extensions=()).hello())
        assert incoming.read(1) == CONNECT_VERSION
        assert next_map(incoming)["status"] == 0
        for start in range(0, count, BATCH_COUNT):
            request = ReadMessagesRequest(str(start), STREAM, options(start))
            connected.sendall(encode(Operation.ReadMessages, request))
            response = decode_response(Operation.ReadMessagesResponse, next_map(incoming))
            assert len(response.messages) == BATCH_COUNT  # type: ignore[arg-type,union-attr]


@dataclass(frozen=True)
class Rate:
    """A case that does one thing `count` times: how many in a second? Its page is the title."""

    action: Callable[[ServerProcess, StreamManagerClient, int], None]
    unit: str
    count: int
    at_least: float | None = None
    filled_with: bytes = b""  # the stream holds `count` of these before
    units_each: float = 1

    def __call__(self, folder: Path, effort: Effort) -> list[Figure]:
        count = round(self.count * effort.share)
        with served(folder) as (server, client):
            if self.filled_with:
                fill(client, self.filled_with, count)
            action = partial(self.action, server, client, count)
            values = [count * self.units_each / seconds(action) for _ in range(effort.repeats)]
        return [Figure(self.action.__doc__ or "", self.unit, values, self.at_least)]


def append_alone(folder: Path, effort: Effort) -> list[Figure]:
    """One connection, each append waits for its answer; our client and AWS's in turns."""
    aws_python = python_with(AWS_SDK)
    # AWS's SDK takes several times as long for one: both run for about the same time.
    our_count, aws_count = round(8000 * effort.share), round(2000 * effort.share)
    ours, aws, server_us = [], [], []
    with served(folder) as (server, _):
        for _ in range(effort.repeats):
            before_s = machine.cpu_seconds(pid_of(server))
            ours.append(appender_rate(Path(sys.executable), "penstock", server, our_count))
            used_s = machine.cpu_seconds(pid_of(server)) - before_s
            server_us.append(used_s * 1e6 / (our_count + WARM_UP_COUNT))
            aws.append(appender_rate(aws_python, "stream_manager", server, aws_count))
    title = f"appends of 256 B one at a time, our client : {AWS_SDK}"
    note = "Each client is a process of its own; same server, in turns; the ratio of each pair."
    return [
        Figure(title, "times", ratios(ours, aws), at_least=5, note=note),
        Figure("... our client", "appends/s", ours),
        Figure("... AWS's SDK", "appends/s", aws),
        Figure("... server's CPU for one append of our client", "us", server_us),
    ]


def append_flushed(folder: Path, effort: Effort) -> list[Figure]:
    """One stream; each client has a connection of its own and waits for each answer."""
    alone, together, cores = [], [], []
    with served(folder, flush_on_write=True) as (server, _):
        for _ in range(effort.repeats):
            alone.append(uvloop.run(flushed_rate(server.port, 1, effort.flush_s)))
            before_s = time.process_time()
            together.append(uvloop.run(flushed_rate(server.port, 64, effort.flush_s)))
            cores.append((time.process_time() - before_s) / effort.flush_s)
    return [
        Figure("flushOnWrite, 64 clients : 1 client", "times", ratios(together, alone), at_least=8),
        Figure("... one client", "appends/s", alone),
        Figure("... 64 clients", "appends/s", together),
        Figure("... cores used by the one process of the 64 clients", "", cores),
    ]


def start_idle(folder: Path, effort: Effort) -> list[Figure]:
    ready_s, resident_mb = [], []
    server = ServerProcess(folder)
    for _ in range(effort.starts):
        ready_s.append(seconds(server.start))
        time.sleep(1)  # the first second's housekeeping belongs to being idle
        resident_mb.append(machine.resident_bytes(pid_of(server)) / 1e6)
        server.stop()
    return [
        Figure("resident memory of an idle server", "MB", resident_mb, at_most=50),
        Figure("from the command to the line that says ready", "s", ready_s, at_most=0.5),
    ]


def open_many_segments(folder: Path, effort: Effort) -> list[Figure]:
    count = 10_000
    (empty := folder / "empty").mkdir()
    with served(folder, stream_segment_size=1024) as (server, client):
        fill(client, bytes(600), count)  # two do not fit into one segment
    sizes = [path.stat().st_size for path in server.data_dir.rglob("*.data")]
    assert sizes.count(600) == count
    ready_s, extra_bytes = [], []
    for _ in range(effort.starts):
        _, bytes_for_nothing = start_and_stop(ServerProcess(empty))
        start_s, bytes_in_all = start_and_stop(server)
        ready_s.append(start_s)
        extra_bytes.append(bytes_in_all - bytes_for_nothing)
    title = "from the command to ready with 10,000 segments in the store"
    extra = "... bytes read, beyond those of a start with an empty store"
    note = f"rchar of /proc/PID/io; allowed is one entry of each index; stored are {sum(sizes)} B."
    return [
        Figure(title, "s", ready_s, at_most=1),
        Figure(extra, "B", extra_bytes, at_most=32 * count, note=note),
    ]


CASES: dict[str, Callable[[Path, Effort], list[Figure]]] = {
    "append": append_alone,
    "pipelined": Rate(append_pipelined, "appends/s", 100_000, at_least=60_000),
    "batch": Rate(append_batches, "messages/s", 300_000, at_least=300_000),
    "read": Rate(read_messages, "messages/s", 300_000, at_least=250_000, filled_with=PAYLOAD),
    "bulk": Rate(read_in_bulk, "GB/s", 200_000, 0.5, bytes(1024), units_each=1024 / 1e9),
    "flush": append_flushed,
    "idle": start_idle,
    "segments": open_many_segments,
    "console": console.measure,
    "plain-read": Rate(read_plainly, "messages/s", 100_000, filled_with=PAYLOAD),
    "threads": Rate(append_from_threads, "appends/s", 10_000),
    "exports": exports.drain,
    "export-latency": exports.latency,
    "export-start": exports.first_delivery,
    "export-neighbours": neighbours.neighbours,
    "spark-batch": spark_cases.batch,
    "spark-stream": spark_cases.stream,
    "spark-tcp": spark_cases.tcp,
    "spark-latency": spark_latency.latency,
}
# Minutes each: only on demand.
SLOW_CASES: dict[str, Callable[[Path, Effort], list[Figure]]] = {
    "thousand-streams": steady.thousand_streams,
    "fleet": fleet.measure,
}


@contextmanager
def served(folder: Path, **more: Any) -> Iterator[tuple[ServerProcess, StreamManagerClient]]:
    """A server with one stream that overwrites its oldest data after 1 GiB, and a client."""
    with ServerProcess(folder) as server, StreamManagerClient(port=server.port) as client:
        definition = MessageStreamDefinition(
            name=STREAM,
            strategy_on_full=StrategyOnFull.OverwriteOldestData,
            max_size=1 << 30,
            **more,
        )
        client.create_message_stream(definition)
        yield server, client


def fill(client: StreamManagerClient, payload: bytes, count: int) -> None:
    for _ in range(0, count, BATCH_COUNT):
        client.append_messages(STREAM, [payload] * BATCH_COUNT)


def options(start: int, count: int = BATCH_COUNT) -> ReadMessagesOptions:
    return ReadMessagesOptions(desired_start_sequence_number=start, max_message_count=count)


def next_map(incoming: IO[bytes]) -> dict[Any, Any]:
    (length,) = LENGTH.unpack(incoming.read(LENGTH.size))
    return load_map(incoming.read(length)[1:])


def seconds(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def appender_rate(python: Path, module: str, server: ServerProcess, count: int) -> float:
    """Appends per second of the appender program, in the environment of this Python."""
    program = [str(python), str(Path(__file__).with_name("appender.py"))]
    arguments = [module, str(server.port), STREAM, str(count), str(len(PAYLOAD))]
    return float(subprocess.check_output([*program, *arguments], env=clean_environment()))


async def flushed_rate(port: int, client_count: int, duration_s: float) -> float:
    """Appends per second of some clients together, each of which waits for every answer."""
    clients = [AsyncStreamManagerClient(port=port) for _ in range(client_count)]
    await asyncio.gather(*(client.connect() for client in clients))
    started = time.perf_counter()

    async def appends(client: AsyncStreamManagerClient) -> int:
        count = 0
        while time.perf_counter() - started < duration_s:
            await client.append_message(STREAM, PAYLOAD)
            count += 1
        return count

    counts = await asyncio.gather(*map(appends, clients))
    elapsed_s = time.perf_counter() - started
    await asyncio.gather(*(client.close() for client in clients))
    return sum(counts) / elapsed_s


def start_and_stop(server: ServerProcess) -> tuple[float, int]:
    """How long a start took, and how many bytes it read."""
    start_s = seconds(server.start)
    read_bytes = machine.bytes_read(pid_of(server))
    server.stop()
    return start_s, read_bytes


def pid_of(server: ServerProcess) -> int:
    assert server.process is not None
    return server.process.pid
