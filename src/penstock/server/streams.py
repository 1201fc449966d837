"""The streams with everything that is going on with them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass

from penstock.errors import DiskFailed, ResourceNotFoundException, StreamManagerException
from penstock.exporting.canceled import Doomed, canceled_statuses, doomed_tasks
from penstock.model import MessageStreamDefinition
from penstock.observe_model import Observation
from penstock.protocol import cbor
from penstock.server.exports import ExportService
from penstock.server.reads import Reads
from penstock.server.writer import Writer
from penstock.streams.manager import StreamManager
from penstock.streams.stream import Stream
from penstock.streams.survey import survey_stream
from penstock.survey_model import StoreSurvey

log = logging.getLogger(__name__)


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass
class Gone:
    """What was counted for streams that are deleted."""

    messages: int = 0
    bytes: int = 0
    refused: int = 0

    def add(self, writer: Writer) -> None:
        self.messages += writer.appended_messages
        self.bytes += writer.stream.log.appended_bytes
        self.refused += writer.refused_appends


class LiveStreams:
    """A writer and the reads for every stream."""

    def __init__(
        self,
        manager: StreamManager,
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
        response_bytes_max: int,
        exports: ExportService,
        now_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        self.exports = exports
        self._manager = manager
        self._loop = loop
        self._executor = executor
        self._response_bytes_max = response_bytes_max
        self._now_ms = now_ms
        self.gone = Gone()
        # Set once there is a server around the streams.
        self.observe: Callable[[], Observation]
        self.writers: dict[str, Writer] = {}
        self.by_encoded_name: dict[bytes, Writer] = {}
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

    def find(self, name: str) -> Stream | None:
        """A stream as it is, if there is one."""
        writer = self.writers.get(name)
        return None if writer is None else writer.stream

    def flushed(self, name: str) -> Writer:
        """The writer, with everything written that arrived before."""
        writer = self.get(name)
        writer.flush()
        return writer

    def survey(self) -> StoreSurvey:
        """What all streams hold, and the time it is."""
        found = [survey_stream(self.flushed(name).stream) for name in self.names()]
        return StoreSurvey(self._now_ms(), found)

    def create(self, definition: MessageStreamDefinition) -> None:
        self._add(self._manager.create(definition))
        self.exports.look()
        log.info("Created stream %s.", definition.name, extra={"stream": definition.name})

    def update(self, definition: MessageStreamDefinition) -> None:
        writer = self.flushed(definition.name)
        doomed = self._doomed(writer.stream, writer.stream.visible_next, kept=definition)
        self._manager.update(definition)
        self.exports.desk.stream_changed(writer.stream)
        self.exports.look()
        self._tell_canceled(doomed, "its export was removed")
        self._expire(writer.stream)
        log.info("Updated stream %s.", definition.name, extra={"stream": definition.name})

    def delete(self, name: str) -> None:
        writer = self.flushed(name)
        doomed = self._doomed(writer.stream, writer.stream.visible_next)
        self._manager.delete(name)
        del self.writers[name]
        del self.by_encoded_name[cbor.text(name)]
        writer.delete()
        self.gone.add(writer)
        self.exports.desk.stream_removed(writer.stream)
        self.exports.look()
        self._tell_canceled(doomed, "its stream was deleted")
        log.info("Deleted stream %s.", name, extra={"stream": name})

    def expire(self) -> None:
        """Drop what has outlived its time."""
        for writer in self:
            self._expire(writer.stream)

    def _expire(self, stream: Stream) -> None:
        now_ms = self._now_ms()
        doomed: list[Doomed] = []
        try:
            if self.exports.desk.exports_of(stream):
                first_kept = min(stream.first_unexpired(now_ms), stream.visible_next)
                doomed = self._doomed(stream, first_kept)
            count = stream.expire(now_ms)
            if count:
                log.info("Stream %s: %d segments outlived their time.", stream.name, count)
        except (OSError, DiskFailed) as error:
            # Old messages stay a little longer; the next round tries again.
            log.error("Stream %s: old segments could not be removed: %s", stream.name, error)
        # Even if the disk refused a part, what is gone is gone.
        gone = [each.before(stream.log.first_sequence) for each in doomed]
        self._tell_canceled(gone, "its time to live is over")

    def _doomed(
        self, stream: Stream, stop: int, kept: MessageStreamDefinition | None = None
    ) -> list[Doomed]:
        """S3 tasks below `stop` that nobody will execute when all exports go, except those kept."""
        configs = kept.export_definition.configs() if kept is not None else ()
        kept_keys = {(type(config), config.identifier) for config in configs}
        found = (
            doomed_tasks(export, stop)
            for export in self.exports.desk.exports_of(stream)
            if (type(export.config), export.config.identifier) not in kept_keys
        )
        return [doomed for doomed in found if doomed is not None]

    def _tell_canceled(self, doomed: list[Doomed], reason: str) -> None:
        """Say of tasks that they will never be executed. What cannot be said is logged."""
        for each in doomed:
            told_count = 0
            trouble: Exception | None = None
            try:
                writer = self.get(each.status_stream_name)
                for status in canceled_statuses(each, reason, self._now_ms()):
                    writer.append_own(status)
                    told_count += 1
            except (StreamManagerException, DiskFailed, OSError) as error:
                trouble = error
            if told_count < each.count:
                log.warning(
                    "Export %s of stream %s: %d tasks are canceled without a status, because %s.",
                    each.export_identifier,
                    each.stream_name,
                    each.count - told_count,
                    trouble or f"there are more than {told_count}",
                )

    def _add(self, stream: Stream) -> None:
        reads = Reads(stream, self._loop, self._executor, self._response_bytes_max)
        writer = Writer(
            stream,
            reads,
            self._loop,
            self._executor,
            self._now_ms,
            self.exports.desk.appended,
        )
        self.writers[stream.name] = self.by_encoded_name[cbor.text(stream.name)] = writer
        self.exports.desk.stream_changed(stream)
