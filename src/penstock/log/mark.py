"""Which sequence number comes next, kept beside the log so that no number is ever given twice.

The index alone cannot tell: a tail that a power cut took, or a segment that retention removed,
takes its numbers along. The mark holds

next      written after every append, not synced: true after the death of the process
reserved  synced before any number up to it is given: true after a power cut

After a power cut numbering goes on at `reserved`, so up to that many numbers are skipped. The first
reservations are small, so that quiet streams skip little; an orderly stop skips nothing.
"""

from __future__ import annotations

import struct

from penstock.checksum import crc32
from penstock.log.disk import Storage

_BODY = struct.Struct("<8sQQ")
_CHECKSUM = struct.Struct("<I")
_MAGIC = b"penmark1"
MARK_BYTES = _BODY.size + _CHECKSUM.size

RESERVATION_MIN = 1024
# One sync per this many messages costs nothing at any rate; a larger gap after a power cut would
# only look odd.
RESERVATION_MAX = 65_536


class Mark:
    """The file `mark` of a log."""

    def __init__(self, storage: Storage, path: str) -> None:
        self._file = storage.open(path)
        self._step = RESERVATION_MIN
        # Up to here this process has synced a reservation. What is stored does not count: whoever
        # wrote it may have been killed before the sync.
        self._synced_sequence = 0
        stored = self._file.read_at(MARK_BYTES, 0)
        self.damaged = bool(stored) and not _intact(stored)
        self.missing = not stored
        self.next_sequence = self.reserved_sequence = 0
        if not self.damaged and not self.missing:
            _, self.next_sequence, self.reserved_sequence = _BODY.unpack_from(stored)

    def is_settled_at(self, next_sequence: int) -> bool:
        """Whether the log was closed in order, and ends where it ended then."""
        is_known = not self.missing and not self.damaged
        return is_known and self.next_sequence == self.reserved_sequence == next_sequence

    def advance(self, next_sequence: int, *, reserve: bool) -> None:
        """Note the next number; with `reserve`, make sure that a power cut cannot bring it back."""
        if not reserve or next_sequence <= self._synced_sequence:
            self._write(next_sequence, self.reserved_sequence)
            return
        self._write(next_sequence, next_sequence + self._step)
        self._file.sync()
        self._synced_sequence = self.reserved_sequence
        self._step = min(self._step * 2, RESERVATION_MAX)

    def secure(self, next_sequence: int) -> None:
        """Make sure that a power cut cannot bring back any number below this one."""
        if next_sequence <= self._synced_sequence:
            return
        self._write(next_sequence, 0)
        self._file.sync()
        self._synced_sequence = next_sequence

    def settle(self, next_sequence: int) -> None:
        """Everything is synced and the log is closed."""
        self._write(next_sequence, next_sequence)
        self._file.sync()

    def close(self) -> None:
        self._file.close()

    def _write(self, next_sequence: int, reserved_sequence: int) -> None:
        body = _BODY.pack(_MAGIC, next_sequence, reserved_sequence)
        self._file.write_at(body + _CHECKSUM.pack(crc32(body)), 0)
        self.next_sequence = next_sequence
        self.reserved_sequence = reserved_sequence


def _intact(stored: bytes) -> bool:
    return (
        len(stored) == MARK_BYTES
        and stored.startswith(_MAGIC)
        and _CHECKSUM.unpack_from(stored, _BODY.size)[0] == crc32(stored[: _BODY.size])
    )
