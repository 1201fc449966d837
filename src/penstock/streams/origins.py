"""Which appends a stream has seen, so that one that comes a second time is stored once.

An origin names an append: a writer, its batch, and the chunk of that batch. Before the messages
are written, the journal gets a line that says which numbers they will have. So after a crash the
log itself tells how much of the last append is stored: all, nothing, or a part of which only the
rest is stored when it comes again. An append that was cut short by its sender, and comes again
longer, is treated so too.

Always      a line whose messages are not in the log is taken out of the journal before any other
            message can get their numbers.
Durability  a line is as safe as the messages: with flushOnWrite it is synced before they are
            written, so that they are never on the disk without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain

import msgspec

from penstock.checksum import crc32
from penstock.errors import InvalidRequestException
from penstock.log.disk import Storage, StoredFile
from penstock.log.log import Log

# Of each writer the last append is remembered. A query has a writer per partition, a batch job
# too, and the latter never come back: those who stored nothing for the longest time are forgotten.
WRITERS_MAX = 10_000
# Rewritten when this much has gathered, or twice what the last rewriting left.
JOURNAL_BYTES_MAX = 64 * 1024
# In place of a number: these messages are not stored.
NOWHERE = -1

Run = tuple[int, int]
"""The number of a first message, and how many there are."""


class Origin(msgspec.Struct, frozen=True):
    """Names an append. Batches of a writer ascend, and so do the chunks of a batch."""

    writer: str
    batch: int
    chunk: int

    def __str__(self) -> str:
        return f"chunk {self.chunk} of batch {self.batch} of writer {self.writer}"


class Record(msgspec.Struct, frozen=True):
    """Where the messages of an append are, or will be: runs that together are all of them."""

    origin: Origin
    runs: list[Run]
    checksum: int  # of all payloads
    # Numbers below this one had been told when the line was written, so they were in the log.
    told_next: int

    @property
    def count(self) -> int:
        return sum(count for _, count in self.runs)

    @property
    def missing_count(self) -> int:
        return sum(count for first, count in self.runs if first == NOWHERE)

    @property
    def first_sequence(self) -> int:
        """The lowest number of those that are stored."""
        return min(first for first, _ in self.runs if first != NOWHERE)

    @property
    def next_sequence(self) -> int:
        """Behind the highest number of those that are stored."""
        return max(first + count for first, count in self.runs if first != NOWHERE)

    def missing(self) -> Iterator[Run]:
        """Positions of the messages that are not stored, as runs."""
        positions = accumulate((count for _, count in self.runs), initial=0)
        for position, (first, count) in zip(positions, self.runs, strict=False):
            if first == NOWHERE:
                yield position, count

    def placed(self, first_sequence: int, told_next: int) -> Record:
        """The same with the missing messages stored from this number on."""
        runs = []
        for first, count in self.runs:
            if first == NOWHERE:
                runs.append((first_sequence, count))
                first_sequence += count
            else:
                runs.append((first, count))
        return Record(self.origin, runs, self.checksum, told_next)


class Origins:
    """The appends of one stream that name their origin, and their journal."""

    def __init__(self, storage: Storage, path: str, log: Log) -> None:
        self._storage = storage
        self._path = path
        self._file = storage.open(path)
        content = _content(self._file)
        journal = read_journal(content)
        self.notices = journal.damage + journal.notes
        # The last append of each writer, those of today behind those of yesterday.
        self._told: dict[str, Record] = {}
        # Written to the log, but not yet told to anybody; at most one of each writer.
        self.untold: dict[str, Record] = {}
        self._size = self._rewrite_size = len(content)
        self._is_synced = True
        found = judged(journal.records, log)
        for record in found:
            self._remember(record)
        # Told, and no line in the journal proves it.
        self._unproven = list(self._told.values())
        self._prove(max((record.told_next for record in found), default=0))
        # Whether the journal says nothing that is not so.
        self.in_order = not self.notices and found == journal.records

    @property
    def first_unproven(self) -> int | None:
        """The lowest number of an append that was told, and for which only the log speaks."""
        return min((record.first_sequence for record in self._unproven), default=None)

    def find(self, origin: Origin, data: bytes, sizes: Sequence[int]) -> Record:
        """What is known of an append: nothing, all or a part of it is stored."""
        last = self.untold.get(origin.writer) or self._told.get(origin.writer)
        if last is None:
            return Record(origin, [(NOWHERE, len(sizes))], crc32(data), 0)
        is_later = (origin.batch, origin.chunk) > (last.origin.batch, last.origin.chunk)
        is_longer = origin == last.origin and len(sizes) > last.count
        if origin.writer in self.untold and (is_later or is_longer):
            raise InvalidRequestException(
                f"{origin} came before {last.origin} was answered; wait for the answer"
            )
        if is_later:
            return Record(origin, [(NOWHERE, len(sizes))], crc32(data), 0)
        if origin.batch < last.origin.batch:
            raise InvalidRequestException(
                f"{origin} came after batch {last.origin.batch}: somebody works with an old state, "
                f"such as a restored checkpoint; give the writer a new name to store it anyway"
            )
        if origin.chunk < last.origin.chunk:
            return Record(origin, [], 0, 0)
        return _continued(last, data, sizes)

    def begin(self, record: Record, *, synced: bool) -> None:
        """Note an append that is about to be written. If this fails, it must not be."""
        line = journal_line(record)
        bytes_max = max(JOURNAL_BYTES_MAX, 2 * self._rewrite_size)
        # A file that is made needs more than a sync to be durable; one that is replaced does not.
        if not self._size or self._size + len(line) > bytes_max:
            self._rewrite(record.told_next, record)
        else:
            self.in_order = False
            self._file.write_at(line, self._size)
            self._is_synced = False
            if synced:
                self._sync()
            self._size += len(line)
            self.in_order = True
            self._prove(record.told_next)
        self.untold[record.origin.writer] = record

    def told(self, next_sequence: int) -> None:
        """Everything below this number has been told to those who wait for it."""
        for record in list(self.untold.values()):
            if record.next_sequence <= next_sequence:
                del self.untold[record.origin.writer]
                self._remember(record)
                self._unproven.append(record)

    def take_back(self, next_sequence: int) -> None:
        """The log was cut back to this number: forget the appends behind it."""
        for record in list(self.untold.values()):
            if record.next_sequence > next_sequence:
                del self.untold[record.origin.writer]
                self.in_order = False

    def put_in_order(self, told_next: int) -> None:
        """Write the journal anew, durably. The log must be in order before."""
        self._rewrite(told_next)

    def close(self) -> None:
        """Sync the journal, as the log is synced when it is closed."""
        try:
            if not self._is_synced:
                self._sync()
        finally:
            self._file.close()

    def abandon(self) -> None:
        self._file.close()

    def _sync(self) -> None:
        self._file.sync()
        self._is_synced = True

    def _remember(self, record: Record) -> None:
        self._told.pop(record.origin.writer, None)
        self._told[record.origin.writer] = record
        if len(self._told) > WRITERS_MAX:
            del self._told[next(iter(self._told))]

    def _prove(self, told_next: int) -> None:
        self._unproven = [each for each in self._unproven if each.next_sequence > told_next]

    def _rewrite(self, told_next: int, *more: Record) -> None:
        """Replace the journal. If it fails, it is not in order."""
        self.in_order = False
        # The last line counts for the proof of all, so one of them has to have it.
        records = [*chain(self._told.values(), self.untold.values(), more)]
        if records:
            last = records[-1]
            told_next_max = max(told_next, last.told_next)
            records[-1] = Record(last.origin, last.runs, last.checksum, told_next_max)
        content = b"".join(map(journal_line, records))
        try:
            self._storage.replace_file(self._path, content)
        finally:
            # Whether it was replaced or not: what is open may be the old one.
            self._file.close()
            self._file = self._storage.open(self._path)
        self._size = self._rewrite_size = len(content)
        self._is_synced = self.in_order = True
        self._prove(told_next)


def _continued(last: Record, data: bytes, sizes: Sequence[int]) -> Record:
    """An append that comes again: as it was, or longer."""
    if len(sizes) < last.count:
        raise InvalidRequestException(
            f"{last.origin} came again with {len(sizes)} messages instead of {last.count}; what a "
            f"writer sends again must be the same"
        )
    more_count = len(sizes) - last.count
    if not more_count and not last.missing_count:
        return last
    if crc32(data[: sum(sizes[: last.count])]) != last.checksum:
        raise InvalidRequestException(
            f"{last.origin} came again with other messages, and a part of it is stored; what a "
            f"writer sends again must be the same"
        )
    if not more_count:
        return last
    return Record(last.origin, [*last.runs, (NOWHERE, more_count)], crc32(data), 0)


def judged(records: list[Record], log: Log) -> list[Record]:
    """What is really in the log of each append; those of which nothing is are left out."""
    told_next = max((record.told_next for record in records), default=0)
    found = []
    for record in records:
        runs = [run for each in record.runs for run in _held(each, log, told_next)]
        if any(first != NOWHERE for first, _ in runs):
            found.append(Record(record.origin, runs, record.checksum, record.told_next))
    return found


def _held(run: Run, log: Log, told_next: int) -> Iterator[Run]:
    """A run as it is in the log, with what is missing in between."""
    first, count = run
    if first == NOWHERE:
        yield run
        return
    sequence, stop = first, first + count
    if first < log.first_sequence and stop <= told_next:
        # It was there: retention has removed it since.
        sequence = min(stop, log.first_sequence)
    begin = first
    for held_first, held_stop in log.runs(sequence, stop):
        if held_first > sequence:
            if sequence > begin:
                yield begin, sequence - begin
            yield NOWHERE, held_first - sequence
            begin = held_first
        sequence = held_stop
    if sequence > begin:
        yield begin, sequence - begin
    if sequence < stop:
        yield NOWHERE, stop - sequence


# --- the file -----------------------------------------------------------------------------------


@dataclass
class Journal:
    """What a journal says. Damage is what no crash leaves behind."""

    records: list[Record] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def journal_line(record: Record) -> bytes:
    text = msgspec.json.encode(record)
    return b"%08x %s\n" % (crc32(text), text)


def read_journal(content: bytes) -> Journal:
    """Every sound line, and what is wrong with the others."""
    journal = Journal()
    *lines, rest = content.split(b"\n")
    for number, line in enumerate(lines, 1):
        record = _parsed(line)
        if record is None:
            journal.damage.append(f"origins: line {number} is damaged and left out")
        else:
            journal.records.append(record)
    if rest:
        journal.notes.append("origins: the last line is torn and left out")
    return journal


def _parsed(line: bytes) -> Record | None:
    checksum, _, text = line.partition(b" ")
    if checksum != b"%08x" % crc32(text):
        return None
    try:
        return msgspec.json.decode(text, type=Record)
    except msgspec.DecodeError:
        return None


def _content(file: StoredFile) -> bytes:
    """All of a file; nothing if it does not exist. Streams that need none get none."""
    reader = file.postponed()
    content = b""
    try:
        while piece := reader.read_at(1 << 20, len(content)):
            content += piece
    except FileNotFoundError:
        return b""
    finally:
        reader.close()
    return content
