"""Check a store offline: every byte against its checksum. Changes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from penstock.block import ENTRY_BYTES
from penstock.errors import StoreError
from penstock.log.disk import ReadOnlyDisk
from penstock.log.mark import Mark
from penstock.log.recovery import (
    INDEX_NAME,
    examine_tail,
    find_segments,
    is_rubbish,
    missing_between,
)
from penstock.log.scan import check_each
from penstock.log.segment import Segment, segment_names
from penstock.streams import origins
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
    with locked(root, write=False):
        return _verify_folders(folder)


def _verify_folders(folder: str) -> VerifyReport:
    disk = ReadOnlyDisk()
    report = VerifyReport()
    for name in disk.list_folders(folder):
        path = f"{folder}/{name}"
        if name.endswith((HALF_MADE, HALF_DELETED)):
            continue
        try:
            definition, document = read_definition(disk, path)
        except (StoreError, OSError) as error:
            report.findings.append(f"{path}: {error}")
            continue
        stream = StreamReport(definition.name, path, findings=document.damage, notes=document.notes)
        report.streams.append(stream)
        sizes = disk.list_folder(path)
        if "mark" in sizes or any(INDEX_NAME.fullmatch(name) for name in sizes):
            _verify_journal(disk, stream)
            if "origins" in sizes:
                _verify_origins(disk, stream)
            _verify_log(disk, stream, sizes)
        else:
            stream.notes.append("its creation was interrupted; it has never held a message")
    return report


def _verify_journal(disk: ReadOnlyDisk, stream: StreamReport) -> None:
    try:
        journal = read_journal(disk.read_file(f"{stream.folder}/exports"))
    except FileNotFoundError:
        stream.findings.append("exports: the file is missing")
        return
    stream.findings += journal.damage
    stream.notes += journal.notes


def _verify_origins(disk: ReadOnlyDisk, stream: StreamReport) -> None:
    """Its lines only: what they say about the log is judged by the log, at the next start."""
    journal = origins.read_journal(disk.read_file(f"{stream.folder}/origins"))
    stream.findings += journal.damage
    stream.notes += journal.notes


def _verify_log(disk: ReadOnlyDisk, stream: StreamReport, sizes: dict[str, int]) -> None:
    if "mark" in sizes:
        mark = Mark(disk, f"{stream.folder}/mark")
        stream.next_sequence = mark.next_sequence
        mark.close()
        if mark.damaged:
            stream.findings.append("mark: checksum does not match")
        elif mark.missing:
            stream.notes.append("mark: the file is empty")
    else:
        stream.findings.append("mark: the file is missing")
    segments, left_over = find_segments(disk, stream.folder, sizes)
    for name in left_over:
        if is_rubbish(name, sizes, segments, stream.next_sequence):
            stream.notes.append(f"{name}: left over from a removed segment")
        else:
            stream.findings.append(f"{name}: its index is missing")
    kept = [name for name in sizes if name.endswith(".torn")]
    stream.notes += [f"{name}: {sizes[name]} bytes cut off at an earlier start" for name in kept]
    stream.notes += [f"{text}, since an earlier start" for text in missing_between(segments)]
    for segment in segments:
        index_bytes = sizes[segment_names(segment.first_sequence)[1]]
        try:
            _verify_segment(segment, index_bytes, stream, last=segment is segments[-1])
        except OSError as error:
            stream.findings.append(f"{error.filename}: cannot be read: {error.strerror}")
        segment.close()
    stream.first_sequence = segments[0].first_sequence if segments else stream.next_sequence
    end = segments[-1].next_sequence if segments else 0
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
    if count > segment.count:
        stream.findings.append(
            f"{os.path.basename(segment.index_path)} reaches into the segment behind it"
        )
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
