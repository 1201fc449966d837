"""Look at store folders: of running servers, stopped ones, or copies."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence

from penstock.block import Block
from penstock.errors import DataDamaged, StoreError
from penstock.fleet.duplicates import Reading
from penstock.fleet.report import Contents, PlaceReport, StreamReport
from penstock.log.segment import Segment
from penstock.streams.manager import STREAMS_NAME
from penstock.streams.survey import stream_segments, survey_segments

BLOCK_MESSAGES_MAX = 10_000
BLOCK_BYTES_MAX = 8 * 1024 * 1024


def look_at_store(
    path: str, wanted: Callable[[str], bool] = lambda name: True, window: int | None = None
) -> PlaceReport:
    """A report of one folder; if it cannot be read, with the reason."""
    asked_at_ms = time.time_ns() // 10**6
    if not os.path.isdir(os.path.join(path, STREAMS_NAME)):
        text = f"it is not a Penstock data directory: it has no folder {STREAMS_NAME}"
        return PlaceReport(path, asked_at_ms, trouble=text)
    try:
        streams = [
            StreamReport(survey_segments(name, segments), _contents(segments, window))
            for name, segments in stream_segments(path)
            if wanted(name)
        ]
    except (StoreError, DataDamaged) as error:
        return PlaceReport(path, asked_at_ms, trouble=str(error))
    except OSError as error:
        text = f"{error.filename or path} cannot be read: {error.strerror}"
        return PlaceReport(path, asked_at_ms, trouble=text)
    streams.sort(key=lambda stream: stream.survey.name)
    return PlaceReport(path, asked_at_ms, streams)


def _contents(segments: Sequence[Segment], window: int | None) -> Contents | None:
    if window is None:
        return None
    reading = Reading(window)
    for segment in segments:
        try:
            reading.add(_blocks(segment))
        finally:
            segment.close()
    return reading.contents()


def _blocks(segment: Segment) -> Iterator[Block]:
    sequence = segment.first_sequence
    while sequence < segment.next_sequence:
        block = segment.read(sequence, BLOCK_MESSAGES_MAX, BLOCK_BYTES_MAX)
        yield block
        sequence = block.next_sequence
