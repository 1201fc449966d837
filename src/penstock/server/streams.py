"""The streams with everything that is going on with them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor

from penstock.errors import ResourceNotFoundException
from penstock.model import MessageStreamDefinition
from penstock.server.reads import Reads
from penstock.server.writer import Writer
from penstock.streams.manager import StreamManager
from penstock.streams.stream import Stream

log = logging.getLogger(__name__)


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class LiveStreams:
    """A writer and the reads for every stream."""

    def __init__(
        self,
        manager: StreamManager,
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
        response_bytes_max: int,
        now_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        self._manager = manager
        self._loop = loop
        self._executor = executor
        self._response_bytes_max = response_bytes_max
        self._now_ms = now_ms
        self.writers: dict[str, Writer] = {}
        for stream in manager:
            self._add(stream)

    def __iter__(self) -> Iterator[Writer]:
        return iter(list(self.writers.values()))

    def names(self) -> list[str]:
        return self._manager.names()

    def get(self, name: str) -> Writer:
        writer = self.writers.get(name)
        if writer is None:
            raise ResourceNotFoundException(f"stream {name} does not exist")
        return writer

    def flushed(self, name: str) -> Writer:
        """The writer, with everything written that arrived before."""
        writer = self.get(name)
        writer.flush()
        return writer

    def create(self, definition: MessageStreamDefinition) -> None:
        self._add(self._manager.create(definition))
        log.info("Created stream %s.", definition.name)

    def update(self, definition: MessageStreamDefinition) -> None:
        writer = self.flushed(definition.name)
        self._manager.update(definition)
        writer.stream.expire(self._now_ms())
        log.info("Updated stream %s.", definition.name)

    def delete(self, name: str) -> None:
        writer = self.flushed(name)
        self._manager.delete(name)
        del self.writers[name]
        writer.delete()
        log.info("Deleted stream %s.", name)

    def expire(self) -> None:
        """Drop what has outlived its time."""
        for writer in self:
            count = writer.stream.expire(self._now_ms())
            if count:
                log.info("Stream %s: %d segments outlived their time.", writer.stream.name, count)

    def _add(self, stream: Stream) -> None:
        reads = Reads(stream, self._loop, self._executor, self._response_bytes_max)
        self.writers[stream.name] = Writer(stream, reads, self._loop, self._executor, self._now_ms)
