"""The async client behind blocking methods, so that one test can ask the same of both clients."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from penstock import AsyncStreamManagerClient, Message

CALL_TIMEOUT_S = 60.0


class BlockingTwin:
    """An event loop in a thread, an AsyncStreamManagerClient in it; both end with close()."""

    def __init__(
        self, loop_factory: Callable[[], asyncio.AbstractEventLoop], **arguments: Any
    ) -> None:
        self._client = AsyncStreamManagerClient(**arguments)
        self._loop = loop_factory()
        self._thread = threading.Thread(target=self._run, name="event loop")
        self._thread.start()
        try:
            self._call(self._client.connect)
        except BaseException:
            self._stop()
            raise

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        return lambda *arguments, **named: self._call(method, *arguments, **named)

    def follow(self, *arguments: Any, **named: Any) -> Iterator[Message]:
        """Called in the loop, because that is where arguments are checked."""

        async def start() -> AsyncIterator[Message]:
            return self._client.follow(*arguments, **named)

        return self._steps(self._call(start))

    def close(self) -> None:
        """Leaves the loop running: later calls must be refused by the client, not by us."""
        self._call(self._client.close)

    def stop(self) -> None:
        if self._thread.is_alive():
            self.close()
            self._stop()

    def _steps(self, messages: AsyncIterator[Message]) -> Iterator[Message]:
        async def step() -> Message | None:
            return await anext(messages, None)

        while (message := self._call(step)) is not None:
            yield message

    def _call(self, method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        async def go() -> Any:
            return await method(*arguments, **named)

        return asyncio.run_coroutine_threadsafe(go(), self._loop).result(CALL_TIMEOUT_S)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            self._finish = asyncio.Event()
            runner.run(self._finish.wait())

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._finish.set)
        self._thread.join()
