"""A thousand streams in the console: what one browser that looks on costs, and whom."""

from __future__ import annotations

import asyncio
import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from bench import machine
from bench.figures import Figure
from penstock import AsyncStreamManagerClient
from penstock.model import (
    ExportDefinition,
    KinesisConfig,
    MessageStreamDefinition,
    StrategyOnFull,
)
from penstock.testing.server import PenstockServer

if TYPE_CHECKING:
    from bench.cases import Effort

STREAM_COUNT = 1000
BUSY_COUNT = 200  # of them get a message per second
PAYLOAD = bytes(256)
WINDOW_S = 5.0
SETTLE_S = 2.0
TIMEOUT_S = 30


class Load:
    """Appends a message per second to each of the busy streams, all the time."""

    def __init__(self, port: int) -> None:
        self._client = AsyncStreamManagerClient(port=port)

    async def create_streams(self) -> None:
        exports = ExportDefinition(kinesis=[KinesisConfig("cloud", "plant")])
        for number in range(STREAM_COUNT):
            await self._client.create_message_stream(
                MessageStreamDefinition(
                    f"machine-{number:04d}",
                    strategy_on_full=StrategyOnFull.OverwriteOldestData,
                    export_definition=exports,
                )
            )
            await self._client.append_message(f"machine-{number:04d}", PAYLOAD)

    async def append(self, stop: asyncio.Event) -> None:
        clock = asyncio.get_running_loop().time
        next_at_s, number = clock(), 0
        while not stop.is_set():
            await self._client.append_message(f"machine-{number:04d}", PAYLOAD)
            number = (number + 1) % BUSY_COUNT
            next_at_s += 1 / BUSY_COUNT
            await asyncio.sleep(max(0, next_at_s - clock()))
        await self._client.close()


class Browser:
    """Reads the events and throws them away."""

    def __init__(self, url: str) -> None:
        self.byte_count = 0
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=TIMEOUT_S)
        self._connection.request("GET", "/api/events")
        self._response = self._connection.getresponse()
        self._thread = threading.Thread(target=self._read)
        self._stopping = False
        self._thread.start()

    def close(self) -> None:
        self._stopping = True  # seen with the next event
        self._thread.join()
        self._connection.close()

    def _read(self) -> None:
        while not self._stopping:
            self.byte_count += len(self._response.read1())


def measure(folder: Path, effort: Effort) -> list[Figure]:
    """The same load with nobody looking and with one browser, in turns."""
    unseen, seen, told_kb, overview_ms = [], [], [], []
    environment = {"PENSTOCK_PIPELINE": "off"}
    with (
        PenstockServer(folder, environment=environment, console=True) as server,
        loaded(server.port),
    ):
        pids = machine.descendants(server.process_id)  # the server, the console
        for _ in range(effort.repeats):
            time.sleep(SETTLE_S)
            unseen.append(shares(pids))
            with looking_on(server.console_url) as browser:
                time.sleep(SETTLE_S)
                before_bytes = browser.byte_count
                seen.append(shares(pids))
                told_kb.append((browser.byte_count - before_bytes) / WINDOW_S / 1000)
                overview_ms.append(overview_s(server.console_url) * 1000)
        resident_mb = machine.resident_bytes(pids[1]) / 1e6
    added = [after[0] - before[0] for before, after in zip(unseen, seen, strict=True)]
    title = "CPU that one browser takes of the server, 1,000 streams with an export, 200 appends/s"
    note = (
        "Neighbouring windows with and without; the server's share is mostly that of the appends."
    )
    share = "% of a core"
    return [
        Figure(title, share, added, at_most=5, note=note),
        Figure("... the server's in all, with the browser", share, [each[0] for each in seen]),
        Figure("... the server's in all, without", share, [each[0] for each in unseen]),
        Figure("... the console's, with the browser", share, [each[1] for each in seen]),
        Figure("... the console's, without", share, [each[1] for each in unseen]),
        Figure("... told to the browser", "kB/s", told_kb),
        Figure("... GET /api/overview", "ms", overview_ms, at_most=1000),
        Figure("... resident memory of the console", "MB", [resident_mb]),
    ]


@contextmanager
def looking_on(url: str) -> Iterator[Browser]:
    browser = Browser(url)
    try:
        yield browser
    finally:
        browser.close()


@contextmanager
def loaded(port: int) -> Iterator[None]:
    """Streams, and appends to some of them meanwhile, from a thread of this process."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    load, stop = Load(port), asyncio.Event()
    try:
        asyncio.run_coroutine_threadsafe(load.create_streams(), loop).result()
        appending = asyncio.run_coroutine_threadsafe(load.append(stop), loop)
        yield
        loop.call_soon_threadsafe(stop.set)
        appending.result(TIMEOUT_S)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def shares(pids: list[int]) -> list[float]:
    """How much of a core each process takes, in percent."""
    before = [machine.cpu_seconds(pid) for pid in pids]
    started = time.monotonic()
    time.sleep(WINDOW_S)
    elapsed_s = time.monotonic() - started
    used = [machine.cpu_seconds(pid) for pid in pids]
    return [100 * (after - was) / elapsed_s for was, after in zip(before, used, strict=True)]


def overview_s(url: str) -> float:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=TIMEOUT_S)
    started = time.perf_counter()
    connection.request("GET", "/api/overview")
    response = connection.getresponse()
    assert response.status == 200
    response.read()
    connection.close()
    return time.perf_counter() - started
