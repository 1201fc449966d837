"""Opening after a crash: what is torn, what is damaged, which number comes next."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from itertools import pairwise

from penstock.block import ENTRY, ENTRY_BYTES
from penstock.log.disk import Storage
from penstock.log.mark import Mark
from penstock.log.scan import check_each
from penstock.log.segment import Segment, segment_names

INDEX_NAME = re.compile(r"[0-9]{20}\.index")
DATA_NAME = re.compile(r"[0-9]{20}\.data")
TAIL_ENTRIES_FIRST = 16


@dataclass
class Recovered:
    """What a folder holds."""

    segments: list[Segment]
    next_sequence: int
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


def find_segments(storage: Storage, folder: str) -> tuple[list[Segment], list[str]]:
    """The segments by their files' names and sizes alone; nothing is read.

    Also names the data files that an interrupted removal left without their index.
    """
    sizes = storage.list_folder(folder)
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


def recover(
    storage: Storage, folder: str, mark: Mark, *, power_lost: bool, number_floor: int
) -> Recovered:
    """Make the folder whole again: cut what is torn, and find the next number.

    `number_floor`: numbers below it were seen elsewhere, for example by an export.
    """
    segments, left_over = find_segments(storage, folder)
    found = Recovered(segments, 0)
    for name in left_over:
        storage.remove(f"{folder}/{name}")
    assigned = 0
    if segments:
        assigned = _recover_last(storage, folder, segments[-1], mark, found)
    promised = max(mark.next_sequence, mark.reserved_sequence if power_lost else 0, number_floor)
    found.next_sequence = max(assigned, promised)
    if mark.damaged:
        found.notices.append(f"{folder}/mark was damaged and has been written anew")
    end = segments[-1].next_sequence if segments else 0
    if found.next_sequence > end and (segments or not mark.missing):
        found.notices.append(
            f"messages {end} to {found.next_sequence - 1} are not in {folder}: numbers that were "
            f"given before the crash are not given again"
        )
    return found


def _recover_last(
    storage: Storage, folder: str, segment: Segment, mark: Mark, found: Recovered
) -> int:
    """Cut the torn tail of the last segment. The answer: no number below it may be given."""
    index_bytes = storage.list_folder(folder)[segment_names(segment.first_sequence)[1]]
    tail = examine_tail(segment, index_bytes)
    assigned = segment.first_sequence + tail.entry_count
    if (mark.damaged or mark.missing) and tail.torn_data_bytes:
        # Without the mark nobody knows how many messages lost their entries. Each had a byte.
        assigned = max(assigned, segment.first_sequence + tail.sound_count + tail.torn_data_bytes)
    data_bytes = segment.data_bytes
    segment.count = tail.sound_count
    segment.data_bytes = tail.data_end
    segment.checksum = tail.checksum
    segment.last_time_ms = tail.newest_time_ms
    if tail.torn_index_bytes or tail.torn_data_bytes:
        _keep_torn(storage, segment, tail)
        segment.cut()
        found.notices.append(
            f"{segment.data_path}: cut {data_bytes - tail.data_end} torn bytes, and "
            f"{tail.torn_index_bytes} of its index, after message {segment.next_sequence - 1}; "
            f"they are kept in .torn files beside it"
        )
    return assigned


def _keep_torn(storage: Storage, segment: Segment, tail: Tail) -> None:
    suffix = f"{int(time.time() * 1000)}.torn"
    for file, path, start, byte_count in (
        (segment.data, segment.data_path, tail.data_end, tail.torn_data_bytes),
        (
            segment.index,
            segment.index_path,
            tail.sound_count * ENTRY_BYTES,
            tail.torn_index_bytes,
        ),
    ):
        if byte_count:
            kept = storage.open(f"{path}.{suffix}")
            kept.write_at(file.read_at(byte_count, start), 0)
            kept.close()
