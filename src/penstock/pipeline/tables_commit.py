"""Exactly once by sequence range: how rows get into a Parquet table. Knows no Spark.

Table       channel=<channel>/day=<UTC day>/<stream>-<key>-<first>-<last>.parquet
Beside it   _penstock/<key>/, which readers of the table pass over; one per stream, export, channel
  lock        held by whoever writes
  written     which numbers are in the table, and which files are on their way into it
  <random>/   files that are being written
Commit      files are written and synced; `written` names them and their numbers: from here on they
            count; each is renamed into the table; `written` says that they have arrived.
Crash       whoever opens the share next renames what is left, and deletes what never counted.
Always      a number is written once, whatever leases say; a file in the table never changes.
Needs       renames that replace names at once, and locks: a file system of this machine.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from typing import NamedTuple

import msgspec

from penstock.destinations.base import Transient
from penstock.learned import learn
from penstock.log.disk import Disk, locked_file
from penstock.log.document import copy_path, read_document, write_document

log = logging.getLogger(__name__)

OWN_FOLDER = "_penstock"  # Spark and its kin pass over names that begin like this
LOCK_NAME = "lock"
DOCUMENT_NAME = "written"
# Enough to recognise a stream by; the key makes the name unique.
SHOWN_NAME_LENGTH = 40


class Range(NamedTuple):
    """Numbers from `start` to, not including, `stop`."""

    start: int
    stop: int


class Origin(NamedTuple):
    """Whose messages these are."""

    stream_id: str  # another one for a stream that was deleted and made again
    stream_name: str
    export_identifier: str
    channel: str

    @property
    def key(self) -> str:
        parts = (self.stream_id, self.export_identifier, self.channel)
        return sha256("\n".join(parts).encode()).hexdigest()[:16]

    @property
    def file_prefix(self) -> str:
        """Begins with a letter or digit: readers pass over other files."""
        shown = re.sub(r"[^a-zA-Z0-9]+", "_", self.stream_name).strip("_")[:SHOWN_NAME_LENGTH]
        return f"{shown or 'stream'}-{self.key}"


class Moving(msgspec.Struct):
    """Files that count and may not have arrived yet."""

    ranges: list[Range]
    moves: dict[str, str]  # from below the share's folder, to below the table


class Written(msgspec.Struct):
    """What is in the document. The names are for people."""

    stream: str
    export: str
    channel: str
    ranges: list[Range] = []
    moving: Moving | None = None


@contextmanager
def opened_share(disk: Disk, table: str, origin: Origin) -> Iterator[Share]:
    """An export's share of a table, alone and in order. Transient if somebody else has it."""
    folder = f"{table}/{OWN_FOLDER}/{origin.key}"
    make_folders(disk, folder)
    # Also if they were there: whoever made them may have been killed before the sync.
    disk.sync_folder(os.path.dirname(folder))
    disk.sync_folder(table)
    with ExitStack() as stack:
        try:
            stack.enter_context(locked_file(f"{folder}/{LOCK_NAME}", write=True))
        except BlockingIOError as error:
            raise Transient(
                f"table {table}: another pipeline is still writing for this export"
            ) from error
        share = Share(disk, table, folder, origin)
        share.put_in_order()
        yield share


class Share:
    """The rows of one export in one table."""

    def __init__(self, disk: Disk, table: str, folder: str, origin: Origin) -> None:
        self._disk = disk
        self._table = table
        self._folder = folder
        self._origin = origin
        self._copies_differ = False
        self._written = self._read()

    def put_in_order(self) -> None:
        """Finish what counts, delete what never did."""
        self._finish()
        if self._copies_differ:
            self._save()  # one of them may speak of files that are deleted now
        for name in self._disk.list_folders(self._folder):
            self._disk.remove_folder(f"{self._folder}/{name}")

    def missing(self, wanted: Range) -> Range | None:
        """The first numbers of a range that are not in the table; None if all are."""
        start, stop = wanted
        for known in self._written.ranges:
            if known.start <= start < known.stop:
                start = known.stop
            elif start < known.start < stop:
                stop = known.start
        return Range(start, stop) if start < stop else None

    def new_folder(self) -> str:
        """Where files may be written: a new name each time, so that nobody else writes there."""
        return f"{self._folder}/{secrets.token_hex(8)}"

    def commit(self, written_folder: str, ranges: Sequence[Range]) -> None:
        """Bring the files of a folder, which hold exactly these numbers, into the table."""
        moves = self._moves(written_folder, ranges)
        self._sync(written_folder, moves)
        self._written.moving = Moving(list(ranges), moves)
        self._save()
        self._finish()
        self._disk.remove_folder(written_folder)

    # --- inside -------------------------------------------------------------------------------

    def _read(self) -> Written:
        path = f"{self._folder}/{DOCUMENT_NAME}"
        names = self._disk.list_folder(self._folder)
        if names.keys().isdisjoint((DOCUMENT_NAME, copy_path(DOCUMENT_NAME))):
            origin = self._origin
            return Written(origin.stream_name, origin.export_identifier, origin.channel)
        document = read_document(self._disk, path)
        self._copies_differ = bool(document.damage or document.notes)
        learn(Written)
        return msgspec.convert(document.value, Written)

    def _save(self) -> None:
        write_document(self._disk, f"{self._folder}/{DOCUMENT_NAME}", self._written)

    def _moves(self, folder: str, ranges: Sequence[Range]) -> dict[str, str]:
        first, last = min(ranges).start, max(ranges).stop - 1
        moves = {}
        for day in self._disk.list_folders(folder):
            names = [name for name in self._disk.list_folder(f"{folder}/{day}") if is_data(name)]
            for number, name in enumerate(sorted(names)):
                final = f"{self._origin.file_prefix}-{first}-{last}"
                final += f"-{number}.parquet" if number else ".parquet"
                staged = os.path.relpath(f"{folder}/{day}/{name}", self._folder)
                moves[staged] = f"channel={self._origin.channel}/{day}/{final}"
        return moves

    def _sync(self, folder: str, moves: Iterable[str]) -> None:
        for staged in moves:
            file = self._disk.open(f"{self._folder}/{staged}")
            try:
                file.sync()
            finally:
                file.close()
        for each in {os.path.dirname(f"{self._folder}/{staged}") for staged in moves}:
            self._disk.sync_folder(each)
        self._disk.sync_folder(folder)
        self._disk.sync_folder(self._folder)

    def _finish(self) -> None:
        """Rename what counts into the table; what was renamed before a crash is there already."""
        moving = self._written.moving
        if moving is None:
            return
        for staged, final in moving.moves.items():
            self._move(f"{self._folder}/{staged}", f"{self._table}/{final}")
        self._written.ranges = merged([*self._written.ranges, *moving.ranges])
        self._written.moving = None
        self._save()

    def _move(self, staged: str, final: str) -> None:
        if os.path.exists(staged):
            day = os.path.dirname(final)
            make_folders(self._disk, day)
            self._disk.rename(staged, final)
            self._disk.sync_folder(os.path.dirname(day))
            self._disk.sync_folder(self._table)
        elif not os.path.exists(final):
            log.warning("%s was written, and somebody has removed it.", final)


def is_data(name: str) -> bool:
    """Not a checksum or a mark that Spark leaves beside its files."""
    return name.endswith(".parquet") and not name.startswith((".", "_"))


def merged(ranges: Iterable[Range]) -> list[Range]:
    """The same numbers in as few ranges as possible, in order."""
    found: list[Range] = []
    for each in sorted(ranges):
        if found and each.start <= found[-1].stop:
            found[-1] = Range(found[-1].start, max(found[-1].stop, each.stop))
        else:
            found.append(each)
    return found


def make_folders(disk: Disk, path: str) -> None:
    """A folder that other users may read, and its parents, durably as far as they are new."""
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    make_folders(disk, parent)
    try:
        os.mkdir(path)
    except FileExistsError:
        if not os.path.isdir(path):  # another thread was faster, or it is a file
            raise
    disk.sync_folder(parent)
