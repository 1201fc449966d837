"""Check a store offline: every byte against its checksum. Changes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from penstock.block import ENTRY_BYTES
from penstock.errors import StoreError
from penstock.log.disk import ReadOnlyDisk
from penstock.log.mark import Mark
from penstock.log.recovery import examine_tail, find_segments
from penstock.log.scan import check_each
from penstock.log.segment import Segment, segment_names
from penstock.streams.exports import read_journal
from penstock.streams.manager import HALF_DELETED, HALF_MADE, STREAMS_NAME, read_definition
from penstock.streams.store import locked

ENTRIES_AT_ONCE = 4096


@dataclass
class StreamReport:
    """What one stream's folder holds. Findings are damage, notes are not."""

    name: str
    folder: str
    message_count: int = 0
    total_bytes: int = 0
    first_sequence: int = 0
    next_sequence: int = 0
    findings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass
class VerifyReport:
    """What a store holds."""

    streams: list[StreamReport] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)

    @property
    def damaged(self) -> bool:
        return bool(self.findings) or any(stream.findings for stream in self.streams)


def verify_store(root: str) -> VerifyReport:
    """Check everything below a data directory that no server has open."""
    folder = f"{root}/{STREAMS_NAME}"
    if not os.path.isdir(folder):
        raise StoreError(
            f"{root} is not a Penstock data directory: it has no folder {STREAMS_NAME}"
        )
    with locked(root):
        return _verify_folders(folder)


def _verify_folders(folder: str) -> VerifyReport:
    disk = ReadOnlyDisk()
    report = VerifyReport()
    for name in disk.list_folders(folder):
        path = f"{folder}/{name}"
        if name.endswith((HALF_MADE, HALF_DELETED)):
            continue
        try:
            definition, problems = read_definition(disk, path)
        except (StoreError, OSError) as error:
            report.findings.append(f"{path}: {error}")
            continue
        stream = StreamReport(definition.name, path, findings=problems)
        _verify_journal(disk, stream)
        _verify_log(disk, stream)
        report.streams.append(stream)
    return report


def _verify_journal(disk: ReadOnlyDisk, stream: StreamReport) -> None:
    try:
        _, problems = read_journal(disk.read_file(f"{stream.folder}/exports"))
    except FileNotFoundError:
        stream.findings.append("exports: the file is missing")
        return
    for problem in problems:
        # A torn last line is what a crash leaves behind; anything else is damage.
        (stream.notes if "torn" in problem else stream.findings).append(problem)


def _verify_log(disk: ReadOnlyDisk, stream: StreamReport) -> None:
    segments, left_over = find_segments(disk, stream.folder)
    stream.notes += [f"{name}: left over from a removed segment" for name in left_over]
    sizes = disk.list_folder(stream.folder)
    kept = [name for name in sizes if name.endswith(".torn")]
    stream.notes += [f"{name}: {sizes[name]} bytes cut off at an earlier start" for name in kept]
    if "mark" not in sizes:
        stream.findings.append("mark: the file is missing")
    else:
        mark = Mark(disk, f"{stream.folder}/mark")
        stream.next_sequence = mark.next_sequence
        if mark.damaged:
            stream.findings.append("mark: checksum does not match")
    if not segments:
        stream.findings.append("there is no segment")
        return
    for segment, following in pairwise(segments):
        if segment.next_sequence != following.first_sequence:
            stream.notes.append(
                f"messages {segment.next_sequence} to {following.first_sequence - 1} are missing: "
                f"they were lost before an earlier start"
            )
    for segment in segments:
        index_bytes = sizes[segment_names(segment.first_sequence)[1]]
        _verify_segment(segment, index_bytes, stream, last=segment is segments[-1])
        segment.close()
    stream.first_sequence = segments[0].first_sequence
    end = segments[-1].next_sequence
    if stream.next_sequence > end:
        stream.findings.append(
            f"messages {end} to {stream.next_sequence - 1} are missing at the end"
        )
    stream.next_sequence = max(end, stream.next_sequence)


def _verify_segment(
    segment: Segment, index_bytes: int, stream: StreamReport, *, last: bool
) -> None:
    """Every entry and every payload; and what stands behind the last one."""
    count = index_bytes // ENTRY_BYTES
    for first, stop in damaged_runs(segment, count):
        stream.findings.append(
            f"messages {first} to {stop - 1} are damaged ({os.path.basename(segment.data_path)})"
        )
        stream.message_count -= stop - first
    stream.message_count += count
    stream.total_bytes += segment.data_bytes + count * ENTRY_BYTES
    tail = examine_tail(segment, index_bytes)
    behind = index_bytes % ENTRY_BYTES + (tail.torn_data_bytes if tail.sound_count == count else 0)
    if behind:
        text = f"{behind} bytes behind message {segment.first_sequence + count - 1} belong to none"
        (stream.notes if last else stream.findings).append(text)


def damaged_runs(segment: Segment, count: int) -> Iterator[tuple[int, int]]:
    """Runs of damaged messages, as (first, behind the last)."""
    start: int | None = None
    for position in range(0, count, ENTRIES_AT_ONCE):
        size = min(ENTRIES_AT_ONCE, count - position) * ENTRY_BYTES
        index = segment.index.read_at(size, position * ENTRY_BYTES)
        sequence = segment.first_sequence + position
        sound = check_each(index, segment.data, sequence, segment.anchor(position))
        for offset, is_sound in enumerate(sound):
            if not is_sound and start is None:
                start = sequence + offset
            elif is_sound and start is not None:
                yield start, sequence + offset
                start = None
    if start is not None:
        yield start, segment.first_sequence + count
