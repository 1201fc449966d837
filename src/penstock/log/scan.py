"""Which messages are sound? One check, used by reading, opening and verifying."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.block import ENTRY, ENTRY_BYTES, U32_MASK, entries_intact
from penstock.checksum import crc32
from penstock.log.disk import StoredFile


@dataclass(frozen=True, slots=True)
class Anchor:
    """A position in the data at which the running checksum is known."""

    end: int
    checksum: int

    def through(self, data: bytes) -> Anchor:
        """The anchor behind some more data."""
        return Anchor(self.end + len(data), crc32(data, self.checksum))


def check_each(index: bytes, data: StoredFile, sequence: int, anchor: Anchor) -> list[bool]:
    """For every entry of `index`, whose first is message `sequence`: is the message sound?

    Where an entry is damaged, the next sound one is reached by running the checksum over the
    payload between them: data that lost its entry does not spoil its neighbours.
    """
    sound = []
    for position in range(0, len(index), ENTRY_BYTES):
        entry = index[position : position + ENTRY_BYTES]
        expected_low = (sequence + position // ENTRY_BYTES) & U32_MASK
        end, _, size, low, checksum, _ = ENTRY.unpack(entry)
        start = end - size
        if not entries_intact(entry) or low != expected_low or start < anchor.end:
            sound.append(False)
            continue
        before = anchor.through(data.read_at(start - anchor.end, anchor.end))
        payload = data.read_at(size, start)
        sound.append(len(payload) == size and before.through(payload) == Anchor(end, checksum))
        anchor = Anchor(end, checksum)
    return sound
