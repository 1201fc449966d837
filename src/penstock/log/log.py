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

# A detached segment takes two file descriptors; with segments of 1 KiB a large answer would take
# all that the process may have. Those behind these are opened one by one, when their turn comes.
SEGMENTS_DETACHED_MAX = 64


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
        # What has to be synced: before anybody is told; in a thread now, and still here if that
        # failed; when the log is closed.
        self._unsynced: dict[int, Segment] = {}
        self._syncing: dict[int, Segment] = {}
        self._synced_at_close: dict[int, Segment] = {}
        self._folder_unsynced = False
        # What has to be done before the files are what `segments` says.
        self._to_cut = found.to_cut
        self._to_remove = found.to_remove
        self._in_order = not self._to_cut and not self._to_remove
        if not self.segments or self.active.next_sequence < self.next_sequence:
            self._place_segment()
        self._add_up()
        self.appended_bytes = 0  # of payloads, since the log was opened
        if not self._in_order or not self._mark.is_settled_at(self.next_sequence):
            self._continue_after_crash()

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

    def runs(self, sequence: int, stop: int) -> Iterator[tuple[int, int]]:
        """Which numbers from `sequence` up to, not including, `stop` there are.

        As runs: the first number, and the one behind the last.
        """
        for segment in self._from(sequence):
            first, behind = max(sequence, segment.first_sequence), min(stop, segment.next_sequence)
            if first < behind:
                yield first, behind
            elif segment.first_sequence >= stop:
                return

    def append(self, data: bytes, sizes: Sequence[int], time_ms: int) -> int:
        """Store payloads that stand one after another in `data`; the answer is the first number.

        All of them are stored, or DiskFailed is raised and none is.
        """
        if not self._in_order:
            self.put_in_order()
        # Hot: an append of one message spends more on property calls and objects than on writing.
        active = self.segments[-1]
        before = (active.first_sequence, active.count, active.data_bytes, active.checksum)
        first = self.next_sequence
        stored_bytes = active.data_bytes + len(data) + ENTRY_BYTES * (active.count + len(sizes))
        try:
            if stored_bytes <= self.segment_bytes_max:
                self._append_run(active, data, sizes, time_ms)
            else:
                self._append_over_segments(data, sizes, time_ms)
            self._mark.advance(self.next_sequence, reserve=not self.synced)
        except (OSError, MemoryError) as error:
            self.return_to(End(*before))
            if isinstance(error, MemoryError):
                raise
            raise DiskFailed(f"{self._folder}: {error.strerror}") from error
        return first

    def end(self) -> End:
        """Where the log ends now."""
        active = self.active
        return End(active.first_sequence, active.count, active.data_bytes, active.checksum)

    def return_to(self, end: End) -> None:
        """Take back what was appended since, in memory, and on disk as far as the disk lets us.

        Only for messages that nobody was told of: their numbers will be given again.
        """
        while self.segments and self.active.first_sequence > end.first_sequence:
            self.appended_bytes -= self.active.data_bytes
            self._doom(self.segments.pop())
        self.next_sequence = end.next_sequence
        if self.segments:
            active = self.active
            self.appended_bytes -= active.data_bytes - end.data_bytes
            active.count, active.data_bytes = end.count, end.data_bytes
            active.checksum, active.last_time_ms = end.checksum, None
            self._to_cut.append(active)
        else:
            # Retention has taken the segment meanwhile, with everything that was in it.
            self._place_segment()
        self._add_up()
        self._in_order = False
        # If the disk refuses this too, the next append tries again. Until then the bytes behind
        # the end harm nobody: nothing reads them.
        with suppress(OSError, MemoryError):
            self._put_in_order()

    def put_in_order(self) -> None:
        """Make the files what the log says, as the next append would do first."""
        if not self._in_order:
            self._guarded(self._put_in_order)

    def read(self, sequence: int, stop: int, count_max: int, bytes_max: int) -> list[Block]:
        """Verified blocks of the messages from `sequence` up to, not including, `stop`.

        Ends at a limit, but not before the first message, or before a damaged message;
        DataDamaged if the first one is damaged.
        """
        return read_segments(self._from(sequence), sequence, stop, count_max, bytes_max)

    def begin_read(
        self, sequence: int, stop: int, count_max: int, bytes_max: int
    ) -> Callable[[], list[Block]]:
        """The same, to be called once, in any thread, whatever happens to the log meanwhile.

        Ends earlier if a segment far behind the first is removed before its turn comes.
        """
        chosen: list[Segment] = []
        count = data_bytes = 0
        for segment in self._from(sequence):
            if count >= count_max or data_bytes > bytes_max or segment.first_sequence >= stop:
                break
            if chosen:
                # What is read of the first one is not known before; the others count in full.
                count += segment.count
                data_bytes += segment.data_bytes
            chosen.append(segment)
        segments = _detached(chosen[:SEGMENTS_DETACHED_MAX])
        segments += [segment.postponed() for segment in chosen[SEGMENTS_DETACHED_MAX:]]

        def read() -> list[Block]:
            try:
                return read_segments(_closing(segments), sequence, stop, count_max, bytes_max)
            finally:
                _close(segments)

        return read

    def payload_bytes_estimate(self, sequence: int, count: int) -> int:
        """About how many bytes the next `count` messages have, from the segment they begin in."""
        segment = self.segments[self._position(sequence)]
        return count * segment.data_bytes // max(1, segment.count)

    def drop_oldest(self, count: int) -> None:
        """Remove the oldest segments. The numbers of their messages are not given again.

        If the disk refuses to remove their files, DiskFailed is raised, and the next append tries
        again.
        """
        self._guarded(lambda: self._drop_oldest(count))

    def require_sync(self, sequence: int) -> None:
        """Have the next sync cover what was found from this number on when the log was opened."""
        for segment in self._from(sequence):
            self._unsynced[segment.first_sequence] = segment
        self._folder_unsynced = True

    def begin_sync(self) -> Callable[[], None]:
        """What must be done for everything appended so far, to be called in any thread."""
        self._unsynced = self._syncing | self._unsynced
        segments = _detached(self._unsynced.values())
        folder = self._folder if self._folder_unsynced else None
        syncing = self._syncing = self._unsynced
        self._unsynced = {}
        self._folder_unsynced = False

        def sync() -> None:
            try:
                _sync(self._storage, segments, folder)
            except OSError:
                self._folder_unsynced = True
                raise
            syncing.clear()

        return sync

    def close(self) -> None:
        """Sync everything and settle the numbers, so that the next start skips none."""
        try:
            self._guarded(self._settle)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close the files and nothing else."""
        for segment in self.segments:
            segment.close()
        self._mark.close()

    def _append_run(self, active: Segment, data: bytes, sizes: Sequence[int], time_ms: int) -> None:
        active.append(data, sizes, time_ms)
        (self._unsynced if self.synced else self._synced_at_close)[active.first_sequence] = active
        self.next_sequence += len(sizes)
        self.total_bytes += len(data) + ENTRY_BYTES * len(sizes)
        self.appended_bytes += len(data)

    def _append_over_segments(self, data: bytes, sizes: Sequence[int], time_ms: int) -> None:
        """Cut a batch where segments end."""
        ends = list(accumulate((size + ENTRY_BYTES for size in sizes), initial=0))
        start = 0
        while start < len(sizes):
            room = self.segment_bytes_max - self.active.stored_bytes
            stop = bisect_right(ends, ends[start] + room) - 1
            if stop <= start and self.active.count:
                self._begin_segment()
                continue
            stop = max(stop, start + 1)  # a message larger than a segment gets one of its own
            at, to = ends[start] - ENTRY_BYTES * start, ends[stop] - ENTRY_BYTES * stop
            self._append_run(self.active, data[at:to], sizes[start:stop], time_ms)
            start = stop

    def _begin_segment(self) -> None:
        """Seal the last segment and begin a new one."""
        self._place_segment()
        self._put_in_order()

    def _place_segment(self) -> None:
        """Begin a new segment in memory; _put_in_order makes it real."""
        if self.segments:
            self.active.close()
            if self.active.count == 0:
                self._doom(self.segments.pop())
        segment = Segment(self._storage, self._folder, self.next_sequence)
        self.segments.append(segment)
        self._to_cut.append(segment)
        self._in_order = False

    def _doom(self, segment: Segment) -> None:
        """Have the files of a segment removed that is no longer part of the log."""
        self._forget_syncs(segment)
        segment.close()
        self._to_cut = [other for other in self._to_cut if other is not segment]
        self._to_remove += [segment.index_path, segment.data_path]

    def _put_in_order(self) -> None:
        """Make the files what `segments` says. If it fails, it can be done again from the start."""
        # The numbers first: they may be in the name of a file that goes, and nowhere else.
        self._mark.advance(self.next_sequence, reserve=False)
        for path in self._to_remove:
            self._storage.remove(path)
        for segment in self._to_cut:
            segment.cut()
        self._to_cut, self._to_remove = [], []
        self._folder_unsynced = True
        self._in_order = True

    def _continue_after_crash(self) -> None:
        """Nobody knows what of all this was synced, but from here on readers can see it."""
        self._synced_at_close = {segment.first_sequence: segment for segment in self.segments}
        self._to_cut.append(self.active)  # both its files must exist before the folder is synced
        try:
            self._put_in_order()
            self._mark.secure(self.next_sequence)
            self._sync_folder()
        except OSError as error:
            self.notices.append(
                f"{self._folder} can be read but not written to ({error.strerror}); "
                f"each append tries again"
            )

    def _drop_oldest(self, count: int) -> None:
        if not self._in_order:
            self._put_in_order()
        if count >= len(self.segments):
            # After a power cut the mark may be all that remembers the numbers.
            self._mark.secure(self.next_sequence)
            if self.active.count:
                self._place_segment()
            count = len(self.segments) - 1
        for segment in self.segments[:count]:
            self._doom(segment)
        del self.segments[:count]
        self._add_up()
        self._in_order = False
        self._put_in_order()

    def _settle(self) -> None:
        if not self._in_order:
            self._put_in_order()
        for segment in (self._synced_at_close | self._syncing | self._unsynced).values():
            segment.sync()
        if self._folder_unsynced:
            self._sync_folder()
        self._mark.settle(self.next_sequence)

    def _forget_syncs(self, segment: Segment) -> None:
        for waiting in (self._unsynced, self._syncing, self._synced_at_close):
            waiting.pop(segment.first_sequence, None)

    def _sync_folder(self) -> None:
        self._storage.sync_folder(self._folder)
        self._folder_unsynced = False

    def _position(self, sequence: int) -> int:
        return max(0, bisect_right(self.segments, sequence, key=_first_of) - 1)

    def _from(self, sequence: int) -> Iterator[Segment]:
        """The segment that holds the message, and those after it."""
        return islice(self.segments, self._position(sequence), None)

    def _guarded(self, action: Callable[[], None]) -> None:
        try:
            action()
        except OSError as error:
            raise DiskFailed(f"{self._folder}: {error.strerror}") from error

    def _add_up(self) -> None:
        self.total_bytes = sum(segment.stored_bytes for segment in self.segments)
        self._note_gaps()

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
            except (DataDamaged, FileNotFoundError):
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


def _detached(segments: Iterable[Segment]) -> list[Segment]:
    """Copies for another thread: of all of them, or of none."""
    copies: list[Segment] = []
    try:
        for segment in segments:
            copies.append(segment.detached())
    except OSError:
        _close(copies)
        raise
    return copies


def _closing(segments: Iterable[Segment]) -> Iterator[Segment]:
    """One after another, each closed before the next one."""
    for segment in segments:
        yield segment
        segment.close()


def _close(segments: Iterable[Segment]) -> None:
    for segment in segments:
        segment.close()


def _first_of(segment: Segment) -> int:
    return segment.first_sequence


def _sync(storage: Storage, segments: list[Segment], folder: str | None) -> None:
    try:
        for segment in segments:
            segment.sync()
        if folder is not None:
            storage.sync_folder(folder)
    finally:
        _close(segments)
