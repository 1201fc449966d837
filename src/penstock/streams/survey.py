"""What streams hold, by arithmetic on their segments; of each, two index entries are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

from penstock.log.disk import ReadOnlyDisk
from penstock.log.recovery import find_segments, last_sound
from penstock.log.segment import Segment
from penstock.streams.manager import HALF_DELETED, HALF_MADE, STREAMS_NAME, read_definition
from penstock.streams.stream import Stream
from penstock.survey_model import Run, StreamSurvey

# A server tells it between two requests of others: so many small reads take some milliseconds.
SEGMENTS_TIMED_MAX = 1000


def survey_stream(stream: Stream) -> StreamSurvey:
    """A stream of a running server, as its readers see it."""
    return _surveyed(stream.name, stream.log.segments, stream.visible_next)


def times_ms(stream: Stream) -> tuple[int | None, int | None]:
    """Ingest times of the oldest and the newest message; None if it cannot be told.

    Segments remember them: the disk is asked once for each.
    """
    oldest, newest = stream.log.segments[0], stream.log.segments[-1]
    if not newest.count and len(stream.log.segments) > 1:
        newest = stream.log.segments[-2]
    if not oldest.count:
        return None, None
    if oldest.first_time_ms is None or newest.last_time_ms is None:
        try:
            return _oldest_time_ms(oldest), _newest_time_ms(newest)
        except OSError:
            return None, None
    return oldest.first_time_ms, newest.last_time_ms


def survey_segments(name: str, segments: Sequence[Segment]) -> StreamSurvey:
    """A stream of a folder, or of a copy of one."""
    return _surveyed(name, segments, segments[-1].next_sequence if segments else 0)


def stream_segments(root: str) -> Iterator[tuple[str, list[Segment]]]:
    """Every stream of a store folder: its name, and its segments without a torn end.

    The folder may be in use, or a copy; nothing of it is locked or changed. StoreError, OSError.
    """
    disk = ReadOnlyDisk()
    for folder in disk.list_folders(f"{root}/{STREAMS_NAME}"):
        if folder.endswith((HALF_MADE, HALF_DELETED)):
            continue
        path = f"{root}/{STREAMS_NAME}/{folder}"
        name = read_definition(disk, path)[0].name
        segments, _ = find_segments(disk, path, disk.list_folder(path))
        if segments:
            segments[-1].count = last_sound(segments[-1], segments[-1].count)
            segments[-1].close()
        yield name, segments


def _surveyed(name: str, segments: Sequence[Segment], stop: int) -> StreamSurvey:
    held = [segment for segment in segments if segment.count and segment.first_sequence < stop]
    if not held:
        return StreamSurvey(name)
    times_ms = [_newest_time_ms(segment) for segment in held[-SEGMENTS_TIMED_MAX:]]
    return StreamSurvey(
        name,
        runs=list(_runs(held, stop)),
        total_bytes=sum(segment.stored_bytes for segment in held),
        oldest_time=_oldest_time_ms(held[0]),
        newest_time=times_ms[-1],
        time_steps_back=_steps_back(times_ms),
    )


def _runs(segments: Sequence[Segment], stop: int) -> Iterator[Run]:
    run = Run(segments[0].first_sequence, segments[0].first_sequence)
    for segment in segments:
        if segment.first_sequence != run.stop:
            yield run
            run = Run(segment.first_sequence, segment.first_sequence)
        run.stop = min(stop, segment.next_sequence)
    yield run


def _steps_back(times_ms: Sequence[int | None]) -> int:
    known = [time_ms for time_ms in times_ms if time_ms is not None]
    return sum(after < before for before, after in pairwise(known))


def _oldest_time_ms(segment: Segment) -> int | None:
    with _left_as_found(segment):
        return segment.oldest_time_ms()


def _newest_time_ms(segment: Segment) -> int | None:
    with _left_as_found(segment):
        return segment.newest_time_ms()


@contextmanager
def _left_as_found(segment: Segment) -> Iterator[None]:
    """Sealed segments are closed, and stay so: there may be more than a process may open."""
    was_open = segment.is_open
    try:
        yield
    finally:
        if not was_open:
            segment.close()
