"""A run of stored messages as bytes: what the log keeps and what a bulk read carries.

Entry     end of the payload in the segment's data u64 | ingest time ms i64 | payload bytes u32 |
          low half of the sequence number u32 | checksum of the data up to here u32 |
          checksum of the entry u32; little endian, 32 bytes

The data checksum runs: crc32(payload, checksum before). One call over a range of data, started with
the checksum before the range, must give the checksum of the range's last entry.

The entry checksum is crc32(first 28 bytes, RESIDUE). CRC-32 over any bytes followed by their own
CRC gives RESIDUE, so one call over any run of intact entries, started with RESIDUE, gives RESIDUE
again, and a flipped bit anywhere in the run does not.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from penstock.checksum import crc32
from penstock.model import Message

ENTRY = struct.Struct("<QqIIII")
ENTRY_BYTES = ENTRY.size
_BODY = struct.Struct("<QqIII")
_CHECKSUM = struct.Struct("<I")
RESIDUE = 0x2144DF1C
U32_MASK = 0xFFFFFFFF


def make_entries(
    data: bytes, sizes: Sequence[int], *, end: int, time_ms: int, sequence: int, checksum: int
) -> tuple[bytes, int]:
    """Index entries for payloads that stand one after another in `data`, and the new checksum."""
    body_of, checksum_of = _BODY.pack, _CHECKSUM.pack
    if len(sizes) == 1:
        checksum = crc32(data, checksum)
        body = body_of(end + sizes[0], time_ms, sizes[0], sequence & U32_MASK, checksum)
        return body + checksum_of(crc32(body, RESIDUE)), checksum
    entries = []
    view = memoryview(data)
    at = 0
    for size in sizes:
        stop = at + size
        checksum = crc32(view[at:stop], checksum)
        body = body_of(end + stop, time_ms, size, sequence & U32_MASK, checksum)
        entries.append(body)
        entries.append(checksum_of(crc32(body, RESIDUE)))
        at = stop
        sequence += 1
    return b"".join(entries), checksum


def entries_intact(index: bytes | memoryview) -> bool:
    return crc32(index, RESIDUE) == RESIDUE


@dataclass(frozen=True, slots=True)
class Block:
    """Messages that stand together in one segment, as stored."""

    first_sequence: int
    previous_checksum: int
    index: bytes
    data: bytes

    def __len__(self) -> int:
        return len(self.index) // ENTRY_BYTES

    @property
    def next_sequence(self) -> int:
        return self.first_sequence + len(self)

    @property
    def last_ingest_time_ms(self) -> int:
        return int(ENTRY.unpack_from(self.index, len(self.index) - ENTRY_BYTES)[1])

    def intact(self) -> bool:
        """Whether all bytes are what was stored: two C calls, whatever the size."""
        if not self.index or len(self.index) % ENTRY_BYTES or not entries_intact(self.index):
            return False
        first = ENTRY.unpack_from(self.index)
        last = ENTRY.unpack_from(self.index, len(self.index) - ENTRY_BYTES)
        return bool(
            first[3] == self.first_sequence & U32_MASK
            and last[3] == (self.next_sequence - 1) & U32_MASK
            and last[0] - (first[0] - first[2]) == len(self.data)
            and crc32(self.data, self.previous_checksum) == last[4]
        )

    def count_within(self, bytes_max: int) -> int:
        """How many messages from the start have at most `bytes_max` payload bytes together."""
        first = ENTRY.unpack_from(self.index)
        limit = first[0] - first[2] + bytes_max
        return bisect_right(
            range(len(self)), limit, key=lambda n: ENTRY.unpack_from(self.index, n * ENTRY_BYTES)[0]
        )

    def payloads(self) -> Iterator[bytes]:
        data = self.data
        at = 0
        for _, _, size, *_ in ENTRY.iter_unpack(self.index):
            stop = at + size
            yield data[at:stop]
            at = stop

    def messages(self, stream_name: str) -> list[Message]:
        data = self.data
        start = ENTRY.unpack_from(self.index)
        base = start[0] - start[2]
        return [
            Message(stream_name, sequence, time_ms, data[end - base - size : end - base])
            for sequence, (end, time_ms, size, _, _, _) in enumerate(
                ENTRY.iter_unpack(self.index), self.first_sequence
            )
        ]


def message_count(blocks: Iterable[Block]) -> int:
    return sum(len(block) for block in blocks)
