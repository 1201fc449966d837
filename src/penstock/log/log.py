"""The ordered segments: append, read, roll, drop."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate, islice, pairwise

from penstock.block import ENTRY_BYTES, Block
from penstock.errors import DataDamaged, DiskFailed
from penstock.log.disk import Storage
from penstock.log.mark import Mark
from penstock.log.recovery import recover
from penstock.log.segment import Segment


@dataclass(frozen=True, slots=True)
class End:
    """The end of a log at some moment."""

    first_sequence: int
    count: int
    data_bytes: int
    checksum: int

    @property
    def next_sequence(self) -> int:
        return self.first_sequence + self.count


class Log:
    """An append-only log in a folder, see the package's page."""

    def __init__(
        self,
        storage: Storage,
        folder: str,
        *,
        segment_bytes_max: int,
        synced: bool = False,
        power_lost: bool = False,
        number_floor: int = 0,
    ) -> None:
        self.segment_bytes_max = segment_bytes_max
        self.synced = synced  # every append is synced before anybody is told
        self._storage = storage
        self._folder = folder
        self._mark = Mark(storage, f"{folder}/mark")
        found = recover(
            storage, folder, self._mark, power_lost=power_lost, number_floor=number_floor
        )
        self.notices = found.notices
        self.segments = found.segments
        self.next_sequence = found.next_sequence
        self.total_bytes = sum(segment.stored_bytes for segment in self.segments)
        self._unsynced: dict[int, Segment] = {}
        self._folder_unsynced = False
        self._torn = False
        if not self.segments or self.segments[-1].next_sequence < self.next_sequence:
            self._begin_segment()
            self._mark.advance(self.next_sequence, reserve=not synced)
            self._storage.sync_folder(folder)
        self._note_gaps()

    @property
    def first_sequence(self) -> int:
        """The oldest message; next_sequence if there is none."""
        return self.next_sequence if self.total_bytes == 0 else self.segments[0].first_sequence

    @property
    def active(self) -> Segment:
        return self.segments[-1]

    def count_from(self, sequence: int, stop: int) -> int:
        """How many messages there are from `sequence` up to, not including, `stop`."""
        if not self._has_gaps:
            return max(0, stop - max(sequence, self.first_sequence))
        return sum(
            max(0, min(stop, segment.next_sequence) - max(sequence, segment.first_sequence))
            for segment in self.segments
        )

    def append(self, data: bytes, sizes: Sequence[int], time_ms: int) -> int:
        """Store payloads that stand one after another in `data`; the answer is the first number.

        All of them are stored, or DiskFailed is raised and none is.
        """
        if self._torn:
            self._guarded(self._cut)
        before = self.end()
        active = self.active
        try:
            if active.stored_bytes + len(data) + ENTRY_BYTES * len(sizes) <= self.segment_bytes_max:
                self._append_run(data, sizes, time_ms)
            else:
                self._append_over_segments(data, sizes, time_ms)
            self._mark.advance(self.next_sequence, reserve=not self.synced)
        except (OSError, MemoryError) as error:
            self.return_to(before)
            if isinstance(error, MemoryError):
                raise
            raise DiskFailed(f"{self._folder}: {error.strerror}") from error
        return before.next_sequence

    def end(self) -> End:
        """Where the log ends now."""
        active = self.active
        return End(active.first_sequence, active.count, active.data_bytes, active.checksum)

    def return_to(self, end: End) -> None:
        """Take back what was appended since, in memory, and on disk as far as the disk lets us.

        Only for messages that nobody was told of: their numbers will be given again.
        """
        while self.segments and self.active.first_sequence > end.first_sequence:
            self._forget(self.segments.pop())
        if not self.segments:
            # Retention has taken the segment meanwhile, with everything that was in it.
            end = End(end.next_sequence, 0, 0, 0)
            self.segments.append(Segment(self._storage, self._folder, end.first_sequence))
        active = self.active
        active.count, active.data_bytes, active.checksum = end.count, end.data_bytes, end.checksum
        self.next_sequence = end.next_sequence
        self.total_bytes = sum(segment.stored_bytes for segment in self.segments)
        self._torn = True
        # If the disk refuses this too, the next append tries again. Until then the bytes behind
        # the end harm nobody: nothing reads them, and opening cuts them.
        with suppress(OSError):
            self._cut()

    def read(self, sequence: int, stop: int, count_max: int, bytes_max: int) -> list[Block]:
        """Verified blocks of the messages from `sequence` up to, not including, `stop`.

        Ends at a limit, but not before the first message, or before a damaged message;
        DataDamaged if the first one is damaged.
        """
        return read_segments(self._from(sequence), sequence, stop, count_max, bytes_max)

    def begin_read(
        self, sequence: int, stop: int, count_max: int, bytes_max: int
    ) -> Callable[[], list[Block]]:
        """The same, to be called once, in any thread, whatever happens to the log meanwhile."""
        segments: list[Segment] = []
        data_bytes = 0
        for segment in self._from(sequence):
            if data_bytes > bytes_max or segment.first_sequence >= stop:
                break
            # What is read of the first one is not known before; the others count in full.
            data_bytes += segment.data_bytes if segments else 0
            segments.append(segment.detached())

        def read() -> list[Block]:
            try:
                return read_segments(segments, sequence, stop, count_max, bytes_max)
            finally:
                for segment in segments:
                    segment.close()

        return read

    def payload_bytes_estimate(self, sequence: int, count: int) -> int:
        """About how many bytes the next `count` messages have, from the segment they begin in."""
        segment = self.segments[self._position(sequence)]
        return count * segment.data_bytes // max(1, segment.count)

    def roll(self) -> None:
        """Seal the last segment and begin a new one; an empty one stays."""
        if self.active.count:
            self._begin_segment()

    def drop_oldest(self, count: int) -> None:
        """Remove the oldest segments. The numbers of their messages are not given again."""
        if count >= len(self.segments):
            self.roll()
            count = len(self.segments) - 1
        for segment in self.segments[:count]:
            self.total_bytes -= segment.stored_bytes
            self._forget(segment)
        del self.segments[:count]
        self._note_gaps()

    def begin_sync(self) -> Callable[[], None]:
        """What must be done for everything appended so far, to be called in any thread."""
        segments = [segment.detached() for segment in self._unsynced.values()]
        folder = self._folder if self._folder_unsynced else None
        self._unsynced.clear()
        self._folder_unsynced = False
        return lambda: _sync(self._storage, segments, folder)

    def sync(self) -> None:
        self._guarded(self.begin_sync())

    def close(self) -> None:
        """Sync everything and settle the numbers, so that the next start skips none."""
        self._guarded(self.begin_sync())
        self._guarded(lambda: self._mark.settle(self.next_sequence))
        self.abandon()

    def abandon(self) -> None:
        """Close the files and nothing else."""
        for segment in self.segments:
            segment.close()
        self._mark.close()

    def _append_run(self, data: bytes, sizes: Sequence[int], time_ms: int) -> None:
        active = self.active
        active.append(data, sizes, time_ms)
        self._unsynced[active.first_sequence] = active
        self.next_sequence += len(sizes)
        self.total_bytes += len(data) + ENTRY_BYTES * len(sizes)

    def _append_over_segments(self, data: bytes, sizes: Sequence[int], time_ms: int) -> None:
        """Cut a batch where segments end."""
        ends = list(accumulate((size + ENTRY_BYTES for size in sizes), initial=0))
        start = 0
        while start < len(sizes):
            room = self.segment_bytes_max - self.active.stored_bytes
            stop = bisect_right(ends, ends[start] + room) - 1
            if stop == start and self.active.count:
                self._begin_segment()
                continue
            stop = max(stop, start + 1)  # a message larger than a segment gets one of its own
            at, to = ends[start] - ENTRY_BYTES * start, ends[stop] - ENTRY_BYTES * stop
            self._append_run(data[at:to], sizes[start:stop], time_ms)
            start = stop

    def _begin_segment(self) -> None:
        segment = Segment(self._storage, self._folder, self.next_sequence)
        # Both files exist before anything is written, and are empty whatever was there before.
        segment.cut()
        if self.segments:
            self.segments[-1].close()
            if self.segments[-1].count == 0:
                self._forget(self.segments.pop())
        self.segments.append(segment)
        self._folder_unsynced = True

    def _forget(self, segment: Segment) -> None:
        self._unsynced.pop(segment.first_sequence, None)
        segment.remove()

    def _position(self, sequence: int) -> int:
        return max(0, bisect_right(self.segments, sequence, key=_first_of) - 1)

    def _from(self, sequence: int) -> Iterator[Segment]:
        """The segment that holds the message, and those after it."""
        return islice(self.segments, self._position(sequence), None)

    def _cut(self) -> None:
        self.active.cut()
        self._torn = False

    def _guarded(self, action: Callable[[], None]) -> None:
        try:
            action()
        except OSError as error:
            raise DiskFailed(f"{self._folder}: {error.strerror}") from error

    def _note_gaps(self) -> None:
        self._has_gaps = any(
            segment.next_sequence != following.first_sequence
            for segment, following in pairwise(self.segments)
        )


def read_segments(
    segments: Iterable[Segment], sequence: int, stop: int, count_max: int, bytes_max: int
) -> list[Block]:
    """See Log.read."""
    blocks: list[Block] = []
    count = data_bytes = 0
    for segment in segments:
        sequence = max(sequence, segment.first_sequence)
        end = min(stop, segment.next_sequence)
        while sequence < end:
            if count >= count_max or (blocks and data_bytes >= bytes_max):
                return blocks
            wanted = min(end - sequence, count_max - count)
            try:
                block = segment.read(sequence, wanted, bytes_max - data_bytes)
            except DataDamaged:
                if blocks:
                    return blocks
                raise
            if blocks and data_bytes + len(block.data) > bytes_max:
                return blocks
            blocks.append(block)
            count += len(block)
            data_bytes += len(block.data)
            sequence = block.next_sequence
    return blocks


def _first_of(segment: Segment) -> int:
    return segment.first_sequence


def _sync(storage: Storage, segments: list[Segment], folder: str | None) -> None:
    try:
        for segment in segments:
            segment.sync()
        if folder is not None:
            storage.sync_folder(folder)
    finally:
        for segment in segments:
            segment.close()
