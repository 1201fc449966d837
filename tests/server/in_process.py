"""A server in a thread of the test: for disks that misbehave and for limits that are tiny."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from penstock.log.disk import Disk
from penstock.server.app import Server, _loop_factory
from penstock.settings import Settings
from penstock.streams.manager import StreamManager

Result = TypeVar("Result")


class ServerInThread:
    """The real server on a real socket; only its disk and its settings are the test's."""

    def __init__(self, folder: Path, *, disk: Disk | None = None, **settings: Any) -> None:
        self.folder = folder
        self.port = 0
        self.status: int | None = None
        self._disk = disk
        self._settings = Settings(data_dir=str(folder), port=0, **{"console": False, **settings})
        self._started: queue.SimpleQueue[int | BaseException] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="server under test")

    def __enter__(self) -> Self:
        self._thread.start()
        started = self._started.get(timeout=20)
        if isinstance(started, BaseException):
            raise started
        self.port = started
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.begin_stop()
        self._thread.join(20)
        assert not self._thread.is_alive(), "the server did not stop"

    def begin_stop(self) -> None:
        """What SIGTERM does."""
        if self.status is None:
            self._loop.call_soon_threadsafe(self._stop.set)

    def join(self, timeout_s: float) -> bool:
        """Whether the server ended in time."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def ask(self, question: Callable[[Server], Result]) -> Result:
        """Look at the server from inside its own thread."""

        async def answer() -> Result:
            return question(self._server)

        return asyncio.run_coroutine_threadsafe(answer(), self._loop).result(20)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            try:
                self.status = runner.run(self._serve())
            except BaseException as error:
                self._started.put(error)
                raise

    async def _serve(self) -> int:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._server = Server(
            self._settings, StreamManager(self._settings.data_dir, disk=self._disk)
        )
        _, port = await self._server.start()
        self._started.put(port)
        await self._stop.wait()
        return await self._server.stop()
