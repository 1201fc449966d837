"""The data directory of a server, running or not, or a copy of one, as a place to read from."""

from __future__ import annotations

import glob
import logging
import os
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy

from penstock.block import ENTRY, ENTRY_BYTES, U32_MASK, Block, entries_intact
from penstock.errors import DataDamaged, StoreError
from penstock.log.disk import ReadOnlyDisk
from penstock.log.recovery import find_segments, last_sound
from penstock.log.segment import Segment
from penstock.spark.arrow import ENTRIES
from penstock.spark.options import GLOB
from penstock.spark.places import BLOCK_BYTES_MAX, BLOCK_MESSAGES_MAX, Bounds
from penstock.spark.trouble import SourceError
from penstock.streams.manager import HALF_DELETED, HALF_MADE, STREAMS_NAME, read_definition

log = logging.getLogger(__name__)

# An index is looked through in pieces: 2 MiB of entries in one go.
ENTRIES_AT_ONCE = 65_536


def find_folders(path: str) -> list[str]:
    """The store folders that an option `path` means now; a pattern skips what is none."""
    if not GLOB.search(path):
        _check_store(path)
        return [path]
    return sorted(found for found in glob.glob(path) if os.path.isdir(f"{found}/{STREAMS_NAME}"))


def _check_store(path: str) -> None:
    if not os.path.isdir(path):
        raise SourceError(f"option path: {path} is not a folder that this machine can see")
    if not os.path.isdir(f"{path}/{STREAMS_NAME}"):
        raise SourceError(
            f"option path: {path} is not a Penstock data directory, it has no folder "
            f"{STREAMS_NAME}; give the folder that the server's data_dir names"
        )


class FolderPlace:
    """A store folder. What a stream holds is looked up anew for every question."""

    def __init__(self, path: str) -> None:
        self.name = path
        self._disk = ReadOnlyDisk()
        self._names: dict[str, str] = {}  # folder -> stream; a folder never changes its stream
        self._paths: dict[
            str, str
        ] = {}  # stream -> path of its folder, when it was last looked for
        self._reported: set[str] = set()

    def streams(self) -> list[str]:
        self._paths = self._folders()
        return sorted(self._paths)

    def bounds(self, stream: str) -> Bounds | None:
        segments = self._segments(stream)
        if segments is None:
            return None
        if not segments:
            return Bounds(0, 0, 0)
        stored_bytes = sum(segment.stored_bytes for segment in segments)
        next_sequence = segments[-1].next_sequence
        first = segments[0].first_sequence if stored_bytes else next_sequence
        return Bounds(first, next_sequence, stored_bytes)

    def time_ms(self, stream: str, sequence: int) -> int | None:
        for segment in self._segments_from(stream, sequence):
            position = max(sequence, segment.first_sequence) - segment.first_sequence
            if position >= segment.count:
                continue
            entry = segment.index.read_at(ENTRY_BYTES, position * ENTRY_BYTES)
            segment.close()
            _check_entry(segment, entry, position)
            return int(ENTRY.unpack(entry)[1])
        return None

    def times_within(
        self, stream: str, first: int, stop: int, from_ms: int | None, before_ms: int | None
    ) -> list[tuple[int, int]]:
        """Looks at every entry, because the clock may have stepped back anywhere."""
        ranges: list[tuple[int, int]] = []
        for segment in self._segments_from(stream, first):
            start = max(first, segment.first_sequence)
            end = min(stop, segment.next_sequence)
            for at in range(start, end, ENTRIES_AT_ONCE):
                found = _matching(segment, at, min(end, at + ENTRIES_AT_ONCE), from_ms, before_ms)
                if found is not None and ranges and ranges[-1][1] == found[0]:
                    ranges[-1] = (ranges[-1][0], found[1])
                elif found is not None:
                    ranges.append(found)
            segment.close()
        return ranges

    def blocks(self, stream: str, first: int, stop: int) -> Iterator[Block]:
        """Segments that retention takes meanwhile are left out; the caller sees the gap."""
        for segment in self._segments_from(stream, first):
            try:
                sequence = max(first, segment.first_sequence)
                end = min(stop, segment.next_sequence)
                while sequence < end:
                    block = segment.read(
                        sequence, min(BLOCK_MESSAGES_MAX, end - sequence), BLOCK_BYTES_MAX
                    )
                    yield block
                    sequence = block.next_sequence
            except FileNotFoundError:
                log.debug("%s was removed while it was read", segment.data_path)
            except DataDamaged as error:
                raise SourceError(f"stream {stream} in {self.name}: {error}") from error
            except OSError as error:
                raise SourceError(
                    f"stream {stream} in {self.name} cannot be read: {error}"
                ) from error
            finally:
                segment.close()
            if segment.next_sequence >= stop:
                return

    def close(self) -> None:
        """Nothing stays open between two questions."""

    def _folder_of(self, stream: str) -> str | None:
        """Where a stream is; the store is listed again only for one that is not known."""
        if stream not in self._paths:
            self._paths = self._folders()
        return self._paths.get(stream)

    def _folders(self) -> dict[str, str]:
        """Stream -> folder."""
        found = {}
        try:
            folders = self._disk.list_folders(f"{self.name}/{STREAMS_NAME}")
        except OSError as error:
            raise SourceError(f"the store {self.name} cannot be read: {error.strerror}") from error
        for folder in folders:
            if folder.endswith((HALF_MADE, HALF_DELETED)):
                continue
            name = self._names.get(folder) or self._read_name(folder)
            if name is not None:
                self._names[folder] = name
                found[name] = f"{self.name}/{STREAMS_NAME}/{folder}"
        return found

    def _read_name(self, folder: str) -> str | None:
        path = f"{self.name}/{STREAMS_NAME}/{folder}"
        try:
            return read_definition(self._disk, path)[0].name
        except (StoreError, OSError) as error:
            if os.path.isdir(path) and folder not in self._reported:
                self._reported.add(folder)
                log.error("The stream in %s is left out: %s", path, error)
            return None

    def _segments(self, stream: str) -> list[Segment] | None:
        """The segments as they are now, the last one without its torn end."""
        while (folder := self._folder_of(stream)) is not None:
            try:
                sizes = self._disk.list_folder(folder)
                segments, _ = find_segments(self._disk, folder, sizes)
                if segments:
                    _leave_out_torn_end(segments[-1])
            except FileNotFoundError:
                # Retention removed a segment between two looks, or the stream was deleted.
                if not os.path.isdir(folder):
                    del self._paths[stream]
                continue
            return segments
        return None

    def _segments_from(self, stream: str, sequence: int) -> Iterator[Segment]:
        segments = self._segments(stream) or []
        reached = sum(segment.first_sequence <= sequence for segment in segments)
        return islice(segments, max(0, reached - 1), None)


def _leave_out_torn_end(segment: Segment) -> None:
    """A server may be writing, or may have died while it was."""
    try:
        segment.count = last_sound(segment, segment.count)
    finally:
        segment.close()


def _check_entry(segment: Segment, entry: bytes, position: int) -> None:
    sequence = segment.first_sequence + position
    is_whole = len(entry) == ENTRY_BYTES and entries_intact(entry)
    if not is_whole or ENTRY.unpack(entry)[3] != sequence & U32_MASK:
        raise SourceError(
            f"the time of message {sequence} is damaged ({segment.index_path} at byte "
            f"{position * ENTRY_BYTES}); give startingSequence or endingSequence instead of a time"
        )


def _matching(
    segment: Segment, first: int, stop: int, from_ms: int | None, before_ms: int | None
) -> tuple[int, int] | None:
    """From the first to the last message of a range whose time is within the bounds."""
    offset = (first - segment.first_sequence) * ENTRY_BYTES
    index = segment.index.read_at((stop - first) * ENTRY_BYTES, offset)
    if len(index) != (stop - first) * ENTRY_BYTES or not entries_intact(index):
        # Whoever reads these messages will be told what is damaged.
        return first, stop
    times_ms = numpy.frombuffer(index, ENTRIES)["time_ms"]
    matches: Any = numpy.ones(len(times_ms), bool)
    if from_ms is not None:
        matches &= times_ms >= from_ms
    if before_ms is not None:
        matches &= times_ms < before_ms
    positions = numpy.flatnonzero(matches)
    if not len(positions):
        return None
    return first + int(positions[0]), first + int(positions[-1]) + 1
