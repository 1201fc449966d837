"""Server-sent events: who listens, and what each of them still has to be told."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Iterator

import msgspec

from penstock.console.picture import Picture

# Events that may wait for a browser. One that is further behind gets a fresh snapshot instead.
EVENTS_WAITING_MAX = 5
# A browser that lost the console asks again after this long.
RETRY_MS = 2_000


class Listener:
    """One browser."""

    def __init__(self) -> None:
        self.needs_snapshot = True
        self.waiting: deque[bytes] = deque()
        self.something = asyncio.Event()

    def put(self, event: bytes) -> None:
        if len(self.waiting) >= EVENTS_WAITING_MAX:
            self.needs_snapshot = True
            self.waiting.clear()
        self.waiting.append(event)
        self.something.set()

    def begin_again(self) -> None:
        """What waits is part of the snapshot that comes now."""
        self.needs_snapshot = True
        self.waiting.clear()
        self.something.set()


class Hub:
    """Everybody who listens."""

    def __init__(self) -> None:
        self._listeners: set[Listener] = set()
        self._picture: Picture | None = None
        self._trouble = b""
        self._news = asyncio.Event()
        self._stopped = False

    @property
    def is_watched(self) -> bool:
        return bool(self._listeners)

    async def pause(self, seconds: float) -> None:
        """Wait, but not when somebody begins to look or has changed something."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()
        self._news.clear()

    def wake(self) -> None:
        self._news.set()

    def tell_all(self, picture: Picture) -> None:
        """Everybody begins again from here."""
        self._picture, self._trouble = picture, b""
        for listener in self._listeners:
            listener.begin_again()

    def tell_change(self, before: Picture, after: Picture) -> None:
        self._picture = after
        if self._listeners:
            change = event("change", after.change_since(before))
            for listener in self._listeners:
                listener.put(change)

    def tell_trouble(self, text: str) -> None:
        self._trouble = event("trouble", msgspec.json.encode({"text": text}))
        for listener in self._listeners:
            listener.put(self._trouble)

    def stop(self) -> None:
        """End all connections."""
        self._stopped = True
        for listener in self._listeners:
            listener.something.set()

    async def events(self) -> AsyncIterator[bytes]:
        """What one browser is told, until it goes."""
        with self._listening() as listener:
            yield b"retry: %d\n\n" % RETRY_MS
            if self._trouble:
                listener.put(self._trouble)
            while not self._stopped:
                if listener.needs_snapshot and self._picture is not None:
                    # Changes that wait are in it. Trouble is not.
                    listener.needs_snapshot = False
                    listener.waiting.clear()
                    yield event("snapshot", self._picture.document())
                    if self._trouble:
                        yield self._trouble
                elif listener.waiting:
                    yield listener.waiting.popleft()
                else:
                    listener.something.clear()
                    await listener.something.wait()

    @contextlib.contextmanager
    def _listening(self) -> Iterator[Listener]:
        listener = Listener()
        self._listeners.add(listener)
        self.wake()
        try:
            yield listener
        finally:
            self._listeners.discard(listener)


def event(name: str, document: bytes) -> bytes:
    """One event. JSON has no line ends of its own."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), document)
