"""Exports, measured: how fast, how soon, how large, compared with the same code without Spark."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop
from tests.server_process import ServerProcess

from bench import machine
from bench.figures import Figure, ratios
from bench.sink import Sink, sink_process
from penstock import AsyncStreamManagerClient, StreamManagerClient
from penstock.client.worker import WorkerClient
from penstock.export_model import Lease
from penstock.model import (
    ExportDefinition,
    ExportFormat,
    HTTPConfig,
    MessageStreamDefinition,
    StrategyOnFull,
)
from penstock.pipeline.export import Destinations, ExportRun

if TYPE_CHECKING:
    from bench.cases import Effort

EXPORT_COUNTS = (1, 10, 50)
PAYLOAD = bytes(range(256))
BATCH_COUNT = 1000
DRAIN_COUNT = 500_000
# What the JIT, the caches and the workers need before they run evenly.
WARM_UP_DRAINS = 2
LATENCY_SAMPLES = 60
LATENCY_PAUSE_S = 0.05
IDLE_S = 20.0
TIMEOUT_S = 120.0
TOKEN = "bench"
WATCH_MS = 20_000


def drain(folder: Path, effort: Effort) -> list[Figure]:
    """A backlog is drained by the pipeline and by a plain loop, in turns, for the same ratio."""
    return [figure for count in EXPORT_COUNTS for figure in _drain(folder, effort, count)]


def _drain(folder: Path, effort: Effort, export_count: int) -> list[Figure]:
    count = max(1, round(DRAIN_COUNT * effort.share / export_count / BATCH_COUNT)) * BATCH_COUNT
    with sink_process() as sink, ExitStack() as stack:
        spark = stack.enter_context(
            with_spark(folder / f"spark-{export_count}", sink, exports=export_count)
        )
        plain = stack.enter_context(
            without_spark(folder / f"plain-{export_count}", sink, exports=export_count)
        )
        for _ in range(WARM_UP_DRAINS):
            for side in (spark, plain):
                side.drained_per_s(count)
        pairs = [
            (spark.drained_per_s(count), plain.drained_per_s(count)) for _ in range(effort.repeats)
        ]
        size = machine.tree(spark.pid)
        cpu_percent = spark.idle_cpu_percent(IDLE_S * max(0.25, effort.share))
    ours, theirs = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    what = f"{export_count} export" + "s" * (export_count > 1)
    note = "The same destination code, in threads of one process; in turns; the ratio of each pair."
    return [
        Figure(f"{what} drained to HTTP, with Spark : without", "times", ratios(ours, theirs), 0.8),
        Figure("... with Spark, messages of 256 B", "messages/s", ours),
        Figure("... a plain loop, messages of 256 B", "messages/s", theirs, note=note),
        Figure("... memory of server, JVM and workers (PSS)", "MB", [size.pss_bytes / 1e6]),
        Figure("... their processes", "", [size.process_count]),
        Figure("... their CPU while idle", "%", [cpu_percent], at_most=2),
    ]


def latency(folder: Path, effort: Effort) -> list[Figure]:
    """A single message now and then, from before the append to its arrival at the receiver."""
    count = max(10, round(LATENCY_SAMPLES * effort.share))
    with sink_process() as sink, ExitStack() as stack:
        spark = stack.enter_context(with_spark(folder / "spark", sink))
        plain = stack.enter_context(without_spark(folder / "plain", sink))
        for side in (spark, plain):
            side.latencies_ms(2 * count)
        ours, theirs = spark.latencies_ms(count), plain.latencies_ms(count)
        cpu_percent = [spark.idle_cpu_percent(IDLE_S * max(0.25, effort.share))]
    return [
        Figure("from append to arrival at an idle HTTP export", "ms", ours, at_most=40),
        Figure("... a plain loop", "ms", theirs),
        Figure("... then idle: CPU of server, JVM, workers", "%", cpu_percent, at_most=2),
    ]


def first_delivery(folder: Path, effort: Effort) -> list[Figure]:
    """From the server's start to the first delivery, without and with the class-data archive."""
    cold_s, warm_s = [], []
    for number in range(effort.starts):
        place = folder / str(number)
        cache = place / "cache"
        cold_s.append(_first_delivery_s(place / "cold", cache))
        make_archive(cache)
        warm_s.append(_first_delivery_s(place / "warm", cache))
    return [
        Figure("from the command to the first delivery, first start ever", "s", cold_s),
        Figure("... with the class-data archive", "s", warm_s),
    ]


@dataclass
class Side:
    """A server with exports, and somebody who does them."""

    client: StreamManagerClient
    server: ServerProcess
    sink: Sink
    streams: int = 1
    exports: int = 1  # of each stream
    expected: int = 0  # messages that the sink shall have had

    @property
    def pid(self) -> int:
        assert self.server.process is not None
        return self.server.process.pid

    def create(self) -> None:
        for number in range(self.streams):
            self.client.create_message_stream(self.definition(number))

    def drained_per_s(self, count: int) -> float:
        """Fill a stream while its exports are paused, then let all go at once."""
        sent = count * self.exports
        self.expected = self.sink.message_count + sent
        self.client.update_message_stream(self.definition(0, disabled=True))
        for _ in range(0, count, BATCH_COUNT):
            self.client.append_messages("S0", [PAYLOAD] * BATCH_COUNT)
        started = time.monotonic()
        self.client.update_message_stream(self.definition(0))
        self.sink.wait_for(self.expected, TIMEOUT_S)
        return sent / (self.sink.last_arrival - started)

    def latencies_ms(self, count: int) -> list[float]:
        found = []
        for _ in range(count):
            expected = self.sink.message_count + 1
            started = time.monotonic()
            self.client.append_message("S0", PAYLOAD)
            self.sink.wait_for(expected, TIMEOUT_S)
            found.append((self.sink.last_arrival - started) * 1000)
            time.sleep(LATENCY_PAUSE_S)
        return found

    def idle_cpu_percent(self, seconds: float) -> float:
        before = machine.tree(self.pid).cpu_seconds
        time.sleep(seconds)
        return (machine.tree(self.pid).cpu_seconds - before) / seconds * 100

    async def append_everywhere(self) -> None:
        """A message in each stream, all at once."""
        self.expected += self.streams * self.exports
        async with AsyncStreamManagerClient(port=self.server.port) as client:
            appends = (client.append_message(f"S{each}", PAYLOAD) for each in range(self.streams))
            await asyncio.gather(*appends)

    def definition(
        self, number: int, *, disabled: bool = False, start: int = 0
    ) -> MessageStreamDefinition:
        """Stream and exports; these go to the receivers in turn."""
        receivers = self.sink.receivers
        configs = [
            HTTPConfig(
                f"h{each}",
                receivers[each % len(receivers)].url,
                start_sequence_number=start,
                export_format=ExportFormat.JSON_BATCHED,
                disabled=disabled,
            )
            for each in range(self.exports)
        ]
        return MessageStreamDefinition(
            f"S{number}",
            strategy_on_full=StrategyOnFull.OverwriteOldestData,
            export_definition=ExportDefinition(http=configs),
        )


@contextmanager
def with_spark(folder: Path, sink: Sink, **counts: int) -> Iterator[Side]:
    """The real thing, after its first delivery."""
    cache = folder.parent / "cache"
    make_archive(cache)
    environment = {"PENSTOCK_PIPELINE": "embedded", "XDG_CACHE_HOME": str(cache)}
    with _served(folder, sink, environment, None, **counts) as side:
        yield side


@contextmanager
def without_spark(folder: Path, sink: Sink, **counts: int) -> Iterator[Side]:
    """The same exports by a plain loop in one process."""
    environment = {"PENSTOCK_PIPELINE": "external", "PENSTOCK_PIPELINE_TOKEN": TOKEN}
    with _served(folder, sink, environment, _plain_process, **counts) as side:
        yield side


@contextmanager
def _served(
    folder: Path,
    sink: Sink,
    environment: dict[str, str],
    worker: Callable[[int], subprocess.Popen[bytes]] | None = None,
    **counts: int,
) -> Iterator[Side]:
    folder.mkdir(parents=True)
    with (
        ServerProcess(folder, env=environment) as server,
        StreamManagerClient(port=server.port) as client,
    ):
        process = worker(server.port) if worker is not None else None
        side = Side(client, server, sink, **counts, expected=sink.message_count)
        try:
            side.create()
            uvloop.run(side.append_everywhere())
            sink.wait_for(side.expected, TIMEOUT_S)
            yield side
        finally:
            if process is not None:
                process.terminate()
                process.wait()


def _plain_process(port: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "bench.exports", str(port)])


def plain_loop(port: int) -> None:
    """What Spark is compared with: leases in, a thread for each, the same code inside."""
    client = WorkerClient("127.0.0.1", port, auth_token=TOKEN)
    destinations = Destinations()

    def work(lease: Lease, settings: dict[str, object]) -> None:
        ExportRun(lease, settings, client, destinations).run()

    while True:
        found = client.watch_exports(1000, WATCH_MS)
        for lease in found.leases:
            target = partial(work, lease, found.settings)
            threading.Thread(target=target, daemon=True).start()


def make_archive(cache: Path) -> None:
    """The class-data archive, in a cache of our own, unless it is there."""
    if list(cache.rglob("*.jsa")):
        return
    subprocess.run(
        [sys.executable, "-m", "penstock.pipeline.archive"],
        env=os.environ | {"XDG_CACHE_HOME": str(cache)},
        check=True,
        stdout=subprocess.DEVNULL,
    )


def _first_delivery_s(folder: Path, cache: Path) -> float:
    environment = {"PENSTOCK_PIPELINE": "embedded", "XDG_CACHE_HOME": str(cache)}
    with sink_process() as sink:
        started = time.monotonic()
        with _served(folder, sink, environment):
            return sink.last_arrival - started


if __name__ == "__main__":
    plain_loop(int(sys.argv[1]))
