"""One data file and its index: append, read."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.block import ENTRY, ENTRY_BYTES, U32_MASK, Block, entries_intact, make_entries
from penstock.errors import DataDamaged
from penstock.log.disk import Storage, StoredFile
from penstock.log.scan import Anchor, check_each

# An index slice larger than this is read piece by piece: 2 MiB of entries at most in one go.
ENTRIES_MAX = 65_536
# Around damage messages are checked one by one; this many per read keep a read short.
DAMAGE_WINDOW = 1024
# Nearly always the entry before is intact. If not, this many are looked at in one go.
ANCHOR_WINDOW = 1024


def segment_names(first_sequence: int) -> tuple[str, str]:
    """The names of a segment's two files."""
    return f"{first_sequence:020d}.data", f"{first_sequence:020d}.index"


class Segment:
    """A run of messages without a gap."""

    __slots__ = (
        "_data",
        "_index",
        "_paths",
        "_storage",
        "checksum",
        "count",
        "data_bytes",
        "first_sequence",
        "first_time_ms",
        "last_time_ms",
    )

    def __init__(
        self,
        storage: Storage,
        folder: str,
        first_sequence: int,
        count: int = 0,
        data_bytes: int = 0,
    ) -> None:
        data_name, index_name = segment_names(first_sequence)
        self._storage = storage
        self._paths = (f"{folder}/{data_name}", f"{folder}/{index_name}")
        self._data: StoredFile | None = None
        self._index: StoredFile | None = None
        self.first_sequence = first_sequence
        self.count = count
        self.data_bytes = data_bytes
        self.checksum = 0  # of all data so far; known once the tail was checked
        # Ingest times; None: not read yet, or damaged.
        self.first_time_ms: int | None = None
        self.last_time_ms: int | None = None

    @property
    def next_sequence(self) -> int:
        return self.first_sequence + self.count

    @property
    def stored_bytes(self) -> int:
        return self.data_bytes + self.count * ENTRY_BYTES

    @property
    def is_open(self) -> bool:
        return self._data is not None or self._index is not None

    @property
    def data_path(self) -> str:
        return self._paths[0]

    @property
    def index_path(self) -> str:
        return self._paths[1]

    @property
    def data(self) -> StoredFile:
        if self._data is None:
            self._data = self._storage.open(self._paths[0])
        return self._data

    @property
    def index(self) -> StoredFile:
        if self._index is None:
            self._index = self._storage.open(self._paths[1])
        return self._index

    def append(self, data: bytes, sizes: Sequence[int], time_ms: int) -> None:
        """Store payloads. On an error nothing has changed but bytes behind the end, see cut()."""
        entries, checksum = make_entries(
            data,
            sizes,
            end=self.data_bytes,
            time_ms=time_ms,
            sequence=self.first_sequence + self.count,
            checksum=self.checksum,
        )
        # Data first: an entry never speaks of bytes that are not there.
        (self._data or self.data).write_at(data, self.data_bytes)
        (self._index or self.index).write_at(entries, self.count * ENTRY_BYTES)
        if not self.count:
            self.first_time_ms = time_ms
        self.data_bytes += len(data)
        self.count += len(sizes)
        self.checksum = checksum
        self.last_time_ms = time_ms

    def cut(self) -> None:
        """Remove whatever the files hold behind the end."""
        self.data.truncate(self.data_bytes)
        self.index.truncate(self.count * ENTRY_BYTES)

    def sync(self) -> None:
        self.data.sync()
        self.index.sync()

    def detached(self) -> Segment:
        """A copy with its own handles, for one read or sync in another thread."""
        copy = self._copy()
        try:
            copy._data = self.data.detached()
            copy._index = self.index.detached()
        except OSError:
            copy.close()
            raise
        return copy

    def postponed(self) -> Segment:
        """The same for a read, without handles until it is used; it may be removed before."""
        copy = self._copy()
        copy._data = self.data.postponed()
        copy._index = self.index.postponed()
        return copy

    def close(self) -> None:
        for file in (self._data, self._index):
            if file is not None:
                file.close()
        self._data = self._index = None

    def remove(self) -> None:
        """Delete the files; the index first, because data without an index is known as rubbish."""
        self.close()
        self._storage.remove(self.index_path)
        self._storage.remove(self.data_path)

    def oldest_time_ms(self) -> int | None:
        """Ingest time of the first message, None if there is none or it cannot be told."""
        if not self.count:
            return None
        if self.first_time_ms is None:
            self.first_time_ms = self._time_ms(0)
        return self.first_time_ms

    def newest_time_ms(self) -> int | None:
        """The same of the last message."""
        if self.last_time_ms is None and self.count:
            self.last_time_ms = self._time_ms(self.count - 1)
        return self.last_time_ms

    def read(self, sequence: int, count_max: int, bytes_max: int) -> Block:
        """Verified messages from `sequence` on: at least one, at most as many as the limits say.

        Ends before a damaged message; DataDamaged if the first one is.
        """
        position = sequence - self.first_sequence
        count = min(count_max, self.count - position, ENTRIES_MAX)
        index = self.index.read_at(count * ENTRY_BYTES, position * ENTRY_BYTES)
        if len(index) == count * ENTRY_BYTES and entries_intact(index):
            block = self._read_intact(sequence, index, bytes_max)
            if block is not None:
                return block
        return self._read_damaged(sequence, count, bytes_max)

    def anchor(self, position: int) -> Anchor:
        """The last intact entry before `position`: where checking can begin."""
        window = 1
        while position > 0:
            start = max(0, position - window)
            index = self.index.read_at((position - start) * ENTRY_BYTES, start * ENTRY_BYTES)
            while position > start:
                position -= 1
                at = (position - start) * ENTRY_BYTES
                entry = index[at : at + ENTRY_BYTES]
                if len(entry) == ENTRY_BYTES and entries_intact(entry):
                    end, _, _, low, checksum, _ = ENTRY.unpack(entry)
                    if low == (self.first_sequence + position) & U32_MASK:
                        return Anchor(end, checksum)
            window = ANCHOR_WINDOW
        return Anchor(0, 0)

    def _time_ms(self, position: int) -> int | None:
        entry = self.index.read_at(ENTRY_BYTES, position * ENTRY_BYTES)
        if len(entry) != ENTRY_BYTES or not entries_intact(entry):
            return None
        return int(ENTRY.unpack(entry)[1])

    def _copy(self) -> Segment:
        copy = Segment(self._storage, "", self.first_sequence, self.count, self.data_bytes)
        copy._paths = self._paths
        return copy

    def _read_intact(self, sequence: int, index: bytes, bytes_max: int) -> Block | None:
        """The block, if its data is intact too."""
        position = sequence - self.first_sequence
        block = Block(sequence, 0, index, b"")
        fitting = max(1, block.count_within(bytes_max))
        if fitting < len(block):
            index = index[: fitting * ENTRY_BYTES]
        first = ENTRY.unpack_from(index)
        last = ENTRY.unpack_from(index, len(index) - ENTRY_BYTES)
        start = first[0] - first[2]
        anchor = self.anchor(position)
        if anchor.end != start or last[0] > self.data_bytes:
            return None
        data = self.data.read_at(last[0] - start, start)
        block = Block(sequence, anchor.checksum, index, data)
        return block if block.intact() else None

    def _read_damaged(self, sequence: int, count: int, bytes_max: int) -> Block:
        """The intact messages before the first damaged one."""
        count = min(count, DAMAGE_WINDOW)
        position = sequence - self.first_sequence
        index = self.index.read_at(count * ENTRY_BYTES, position * ENTRY_BYTES)
        index += bytes(count * ENTRY_BYTES - len(index))  # zeros are no valid entry
        anchor = self.anchor(position)
        sound = check_each(index, self.data, sequence, anchor)
        if not sound[0]:
            next_sound = sequence + (sound.index(True) if True in sound else len(sound))
            raise DataDamaged(
                f"messages {sequence} to {next_sound - 1} are damaged "
                f"({self.data_path} from byte {anchor.end}, "
                f"{self.index_path} from byte {position * ENTRY_BYTES}); read on from {next_sound}",
                sequence,
                next_sound - 1,
            )
        good = sound.index(False) if False in sound else len(sound)
        index = index[: good * ENTRY_BYTES]
        fitting = max(1, Block(sequence, 0, index, b"").count_within(bytes_max))
        index = index[: fitting * ENTRY_BYTES]
        first = ENTRY.unpack_from(index)
        last = ENTRY.unpack_from(index, len(index) - ENTRY_BYTES)
        start = first[0] - first[2]
        between = self.data.read_at(start - anchor.end, anchor.end)
        data = self.data.read_at(last[0] - start, start)
        return Block(sequence, anchor.through(between).checksum, index, data)
