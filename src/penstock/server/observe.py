"""What a running server looks like from outside, told without a look at the disk.

Those who watch ask every second. A thousand streams with an export each take some milliseconds of
the one thread: rows are made from what is in memory anyway, and nothing is counted per message.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sized

from penstock.observe_model import Observation, ServerView, StreamView
from penstock.server.streams import LiveStreams
from penstock.server.writer import Writer
from penstock.streams.survey import times_ms
from penstock.version import __version__


class Observer:
    """Looks at a server. Call it for an Observation."""

    def __init__(
        self,
        streams: LiveStreams,
        sessions: Sized,
        data_dir: str,
        now_ms: Callable[[], int],
    ) -> None:
        self._streams = streams
        self._sessions = sessions
        self._data_dir = data_dir
        self._now_ms = now_ms
        self._started_ms = now_ms()

    def __call__(self) -> Observation:
        rows = [stream_view(writer) for writer in self._streams]
        return Observation(
            server=self._server_view(rows),
            pipeline=self._streams.exports.pipeline,
            streams=rows,
            exports=self._streams.exports.views(),
            transforms=self._streams.exports.transforms.views(),
        )

    def _server_view(self, rows: list[StreamView]) -> ServerView:
        disk = os.statvfs(self._data_dir)
        gone = self._streams.gone
        return ServerView(
            version=__version__,
            process_id=os.getpid(),
            started_time=self._started_ms,
            server_time=self._now_ms(),
            # A path may have bytes that are no text.
            data_dir=os.fsencode(self._data_dir).decode(errors="replace"),
            connections=len(self._sessions),
            disk_free_bytes=disk.f_bavail * disk.f_frsize,
            disk_total_bytes=disk.f_blocks * disk.f_frsize,
            appended_messages=gone.messages + sum(row.appended_messages for row in rows),
            appended_bytes=gone.bytes + sum(row.appended_bytes for row in rows),
            refused_appends=gone.refused + sum(row.refused_appends for row in rows),
            uploaded_bytes_by_destination=self._streams.exports.desk.uploaded_bytes,
        )


def stream_view(writer: Writer) -> StreamView:
    """One stream, with everything written that arrived before."""
    writer.flush()
    stream = writer.stream
    definition, log = stream.definition, stream.log
    oldest_ms, newest_ms = times_ms(stream)
    return StreamView(
        definition.name,
        stream.id,
        definition.persistence,
        definition.strategy_on_full,
        definition.flush_on_write,
        definition.max_size,
        definition.time_to_live_millis,
        min(log.first_sequence, stream.visible_next),
        stream.visible_next - 1,
        log.total_bytes,
        oldest_ms,
        newest_ms,
        writer.appended_messages,
        log.appended_bytes,
        writer.refused_appends,
    )
