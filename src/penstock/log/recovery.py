"""Opening after a crash: what is torn, what is damaged, which number comes next."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from penstock.block import ENTRY, ENTRY_BYTES
from penstock.log.disk import Storage, StoredFile
from penstock.log.mark import Mark
from penstock.log.scan import check_each
from penstock.log.segment import Segment, segment_names

INDEX_NAME = re.compile(r"[0-9]{20}\.index")
DATA_NAME = re.compile(r"[0-9]{20}\.data")
TAIL_ENTRIES_FIRST = 16
COPY_BYTES = 1 << 20


@dataclass
class Recovered:
    """What a folder holds, and what has to be done before anything is appended to it."""

    segments: list[Segment]
    next_sequence: int = 0
    to_cut: list[Segment] = field(default_factory=list)
    to_remove: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Tail:
    """The end of a segment as it is on disk."""

    sound_count: int
    entry_count: int
    data_end: int
    checksum: int
    newest_time_ms: int | None
    torn_index_bytes: int
    torn_data_bytes: int

    @property
    def is_torn(self) -> bool:
        return self.torn_index_bytes > 0 or self.torn_data_bytes > 0


def find_segments(
    storage: Storage, folder: str, sizes: Mapping[str, int]
) -> tuple[list[Segment], list[str]]:
    """The segments by their files' names and sizes alone; nothing is read.

    Also names the data files that an interrupted removal left without their index.
    """
    firsts = sorted(int(name[:20]) for name in sizes if INDEX_NAME.fullmatch(name))
    segments = []
    for first in firsts:
        data_name, index_name = segment_names(first)
        count = sizes[index_name] // ENTRY_BYTES
        segments.append(Segment(storage, folder, first, count, sizes.get(data_name, 0)))
    for segment, following in pairwise(segments):
        segment.count = min(segment.count, following.first_sequence - segment.first_sequence)
    known = set(firsts)
    left_over = [
        name for name in sizes if DATA_NAME.fullmatch(name) and int(name[:20]) not in known
    ]
    return segments, left_over


def examine_tail(segment: Segment, index_bytes: int) -> Tail:
    """Find the last sound message of a segment, reading backwards from its end."""
    entry_count = index_bytes // ENTRY_BYTES
    sound_count = last_sound(segment, entry_count)
    if sound_count == 0:
        data_end = checksum = 0
        newest_time_ms = None
    else:
        entry = segment.index.read_at(ENTRY_BYTES, (sound_count - 1) * ENTRY_BYTES)
        data_end, newest_time_ms, _, _, checksum, _ = ENTRY.unpack(entry)
    return Tail(
        sound_count,
        entry_count,
        data_end,
        checksum,
        newest_time_ms,
        torn_index_bytes=index_bytes - sound_count * ENTRY_BYTES,
        torn_data_bytes=max(0, segment.data_bytes - data_end),
    )


def last_sound(segment: Segment, entry_count: int) -> int:
    """How many entries there are up to and with the last sound one."""
    window = TAIL_ENTRIES_FIRST
    stop = entry_count
    while stop > 0:
        start = max(0, stop - window)
        index = segment.index.read_at((stop - start) * ENTRY_BYTES, start * ENTRY_BYTES)
        sound = check_each(
            index, segment.data, segment.first_sequence + start, segment.anchor(start)
        )
        if True in sound:
            return stop - sound[::-1].index(True)
        stop = start
        window *= 4
    return 0


def is_rubbish(
    name: str, sizes: Mapping[str, int], segments: list[Segment], next_sequence: int
) -> bool:
    """Whether a data file without an index is what an interrupted removal or creation leaves.

    Retention removes the oldest; a refused append takes back the newest, which nobody was told of.
    """
    first = int(name[:20])
    is_oldest = bool(segments) and first < segments[0].first_sequence
    return sizes[name] == 0 or is_oldest or first >= next_sequence


def missing_between(segments: list[Segment]) -> Iterator[str]:
    """Which numbers are in no segment although there are older and newer ones."""
    for segment, following in pairwise(segments):
        if segment.next_sequence != following.first_sequence:
            yield f"messages {segment.next_sequence} to {following.first_sequence - 1} are missing"


def recover(
    storage: Storage, folder: str, mark: Mark, *, power_lost: bool, number_floor: int
) -> Recovered:
    """Find out what is sound and which number comes next.

    Torn ends are copied aside. Apart from that nothing is written: a store whose disk is full or
    broken can still be read. `number_floor`: numbers below it were seen elsewhere, for example by
    an export.
    """
    sizes = storage.list_folder(folder)
    segments, left_over = find_segments(storage, folder, sizes)
    found = Recovered(segments)
    for name in left_over:
        if is_rubbish(name, sizes, segments, mark.next_sequence):
            found.to_remove.append(f"{folder}/{name}")
        else:
            found.notices.append(_put_aside(storage, f"{folder}/{name}"))
    assigned = 0
    if segments:
        assigned = _recover_ends(storage, sizes, mark, found, power_lost=power_lost)
    promised = max(mark.next_sequence, mark.reserved_sequence if power_lost else 0, number_floor)
    found.next_sequence = max(assigned, promised)
    if mark.damaged:
        found.notices.append(f"{folder}/mark was damaged and is written anew")
    elif mark.missing and segments and not power_lost:
        found.notices.append(f"{folder}/mark was missing and is written anew")
    end = segments[-1].next_sequence if segments else 0
    if found.next_sequence > end and (segments or not mark.missing):
        found.notices.append(
            f"messages {end} to {found.next_sequence - 1} are not in {folder}: numbers that were "
            f"given before the crash are not given again"
        )
    return found


def _recover_ends(
    storage: Storage, sizes: Mapping[str, int], mark: Mark, found: Recovered, *, power_lost: bool
) -> int:
    """Leave out torn ends. The answer: no number below it may be given.

    Only the last segment was being written when a process died. A power cut may have torn any
    that had not been synced.
    """
    last = found.segments[-1]
    assigned = 0
    for segment in found.segments[:] if power_lost else [last]:
        tail = examine_tail(segment, sizes[segment_names(segment.first_sequence)[1]])
        if tail.is_torn:
            found.notices.append(_leave_out(storage, segment, tail))
            found.to_cut.append(segment)
        segment.count = min(segment.count, tail.sound_count)
        segment.data_bytes = tail.data_end
        segment.checksum = tail.checksum
        segment.last_time_ms = tail.newest_time_ms
        if segment is last:
            assigned = _assigned(segment, tail, mark)
        else:
            segment.close()
    if power_lost:
        found.notices += missing_between(found.segments)
        _drop_empty(found)
    return assigned


def _drop_empty(found: Recovered) -> None:
    """Nothing is left of some segments; the last one may be empty."""
    for segment in found.segments[:-1]:
        if not segment.count:
            found.segments.remove(segment)
            found.to_cut = [other for other in found.to_cut if other is not segment]
            found.to_remove += [segment.index_path, segment.data_path]


def _assigned(segment: Segment, tail: Tail, mark: Mark) -> int:
    """Which number no message of the last segment has reached, sound or not."""
    assigned = segment.first_sequence + tail.entry_count
    if mark.damaged or mark.missing:
        # Without the mark nobody knows how many messages lost their entries. Each had a byte.
        assigned = max(assigned, segment.first_sequence + tail.sound_count + tail.torn_data_bytes)
    return assigned


def _put_aside(storage: Storage, path: str) -> str:
    """Keep data that has lost its index where a person can find it; says what happened."""
    text = f"{path} has lost its index"
    try:
        storage.rename(path, f"{path}.{_torn_ending()}")
    except OSError as error:
        return f"{text}; it could not be renamed: {error.strerror}"
    return f"{text}; it is kept in a .torn file"


def _leave_out(storage: Storage, segment: Segment, tail: Tail) -> str:
    """Copy the torn end aside, as far as the disk lets us; says what happened."""
    suffix = _torn_ending()
    text = (
        f"{segment.data_path}: {tail.torn_data_bytes} torn bytes, and {tail.torn_index_bytes} of "
        f"its index, after message {segment.first_sequence + tail.sound_count - 1} are cut off"
    )
    try:
        if tail.torn_data_bytes:
            kept = storage.open(f"{segment.data_path}.{suffix}")
            _copy(segment.data, tail.data_end, tail.torn_data_bytes, kept)
        if tail.torn_index_bytes:
            kept = storage.open(f"{segment.index_path}.{suffix}")
            _copy(segment.index, tail.sound_count * ENTRY_BYTES, tail.torn_index_bytes, kept)
    except OSError as error:
        return f"{text}; they could not be kept: {error.strerror}"
    return f"{text}; they are kept in .torn files beside it"


def _torn_ending() -> str:
    return f"{time.time_ns() // 1_000_000}.torn"


def _copy(file: StoredFile, start: int, byte_count: int, to: StoredFile) -> None:
    for at in range(0, byte_count, COPY_BYTES):
        to.write_at(file.read_at(min(COPY_BYTES, byte_count - at), start + at), at)
    to.close()
