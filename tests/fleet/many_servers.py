"""Many small servers in one thread of the test, each with its own folder and port."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from penstock.client.aio import AsyncStreamManagerClient
from penstock.model import MessageStreamDefinition, StrategyOnFull
from penstock.server.app import Server
from penstock.server.streams import wall_clock_ms
from penstock.settings import Settings
from penstock.streams.manager import StreamManager

STREAM = "telemetry"
WAIT_S = 60
AT_ONCE = 50
# Small, so that a few messages fill one.
SEGMENT_BYTES = 1024

Result = TypeVar("Result")


class ManyServers:
    """Real servers on real sockets that share an event loop."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="many servers")
        self._running: dict[int, Server] = {}
        self._clocks_ahead_ms: dict[int, int] = {}
        self._ports: dict[int, int] = {}

    def names(self) -> list[str]:
        """Addresses of all of them, running or not, by number."""
        return [self.name(number) for number in sorted(self._ports)]

    def name(self, number: int) -> str:
        return f"127.0.0.1:{self._ports[number]}"

    def path(self, number: int) -> Path:
        return self._folder / f"device-{number:04d}"

    def start(self, *numbers: int) -> None:
        """Start, or start again on the same port and data."""
        self.run(self._start(numbers))

    def stop(self, *numbers: int) -> None:
        self.run(self._stop(numbers))

    def fill(self, number: int, payloads: list[bytes]) -> None:
        self.run(self._fill(number, payloads))

    def set_clock(self, number: int, ahead_ms: int) -> None:
        """Set the clock of a server, by which its messages get their times."""
        self._clocks_ahead_ms[number] = ahead_ms

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(WAIT_S)

    async def _start(self, numbers: tuple[int, ...]) -> None:
        for number in numbers:
            folder = str(self.path(number))
            port = self._ports.get(number, 0)
            settings = Settings(data_dir=folder, port=port, pipeline="off", console=False)
            server = Server(settings, StreamManager(folder))
            server._streams._now_ms = lambda number=number: (
                wall_clock_ms() + self._clocks_ahead_ms.get(number, 0)
            )
            _, self._ports[number] = await server.start()
            self._running[number] = server

    async def _stop(self, numbers: tuple[int, ...]) -> None:
        statuses = [self._running.pop(number).stop() for number in numbers]
        assert not any(await asyncio.gather(*statuses))

    async def _fill(self, number: int, payloads: list[bytes]) -> None:
        async with AsyncStreamManagerClient(port=self._ports[number]) as client:
            if STREAM not in await client.list_streams():
                await client.create_message_stream(
                    MessageStreamDefinition(
                        STREAM,
                        strategy_on_full=StrategyOnFull.OverwriteOldestData,
                        stream_segment_size=SEGMENT_BYTES,
                    )
                )
            await client.append_messages(STREAM, payloads)


@contextmanager
def many_servers(folder: Path, count: int) -> Iterator[ManyServers]:
    """Empty servers, numbered from 0; those that run at the end are stopped."""
    servers = ManyServers(folder)
    servers._thread.start()
    try:
        for first in range(0, count, AT_ONCE):
            servers.start(*range(first, min(count, first + AT_ONCE)))
        yield servers
        running = list(servers._running)
        for at in range(0, len(running), AT_ONCE):
            servers.stop(*running[at : at + AT_ONCE])
    finally:
        servers._loop.call_soon_threadsafe(servers._loop.stop)
        servers._thread.join(WAIT_S)
        servers._loop.close()


def payloads_of(number: int, count: int = 5) -> list[bytes]:
    """They tell their server and their place."""
    return [b"%d/%d" % (number, place) for place in range(count)]
