"""Where streams are: a server, or the folder of one. Both have the same face.

Nothing of a folder is locked or changed, so that a live store can be read as well as a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Protocol, TypeVar

from penstock.block import ENTRY, ENTRY_BYTES, Block
from penstock.errors import PenstockError

# One block becomes one Arrow batch: 5 to 10 thousand rows were best, and what is this large still
# fits the processor's cache between reading, checking and sending.
BLOCK_MESSAGES_MAX = 8192
BLOCK_BYTES_MAX = 8 * 1024 * 1024
# A server is up again within this after an orderly restart; until then it is asked this often.
RESTART_S = 15.0
PAUSE_S = 0.5

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a stream holds at some moment."""

    first_sequence: int
    next_sequence: int
    stored_bytes: int

    @property
    def bytes_per_message(self) -> float:
        return self.stored_bytes / max(1, self.next_sequence - self.first_sequence)


class Place(Protocol):
    """A server or a store folder."""

    name: str

    def streams(self) -> list[str]:
        """The names of all streams; Unreachable if nobody answers."""

    def bounds(self, stream: str) -> Bounds | None:
        """What the stream holds; None if there is no such stream."""

    def time_ms(self, stream: str, sequence: int) -> int | None:
        """Ingest time of the first message from `sequence` on; None if there is none."""

    def times_within(
        self, stream: str, first: int, stop: int, from_ms: int | None, before_ms: int | None
    ) -> list[tuple[int, int]]:
        """Ranges outside of which no message has an ingest time within the bounds."""

    def blocks(self, stream: str, first: int, stop: int) -> Iterator[Block]:
        """Verified messages in order, of those in the range that are there."""

    def close(self) -> None: ...


class Unreachable(PenstockError):
    """Nobody answers at a place."""


def patiently(action: Callable[[], Result], patience_s: float) -> Result:
    """Try until it works or the time is up; then Unreachable."""
    deadline_s = monotonic() + patience_s
    while True:
        try:
            return action()
        except Unreachable:
            if monotonic() + PAUSE_S > deadline_s:
                raise
            sleep(PAUSE_S)


def first_at_or_after(place: Place, stream: str, bounds: Bounds, time_ms: int) -> int:
    """The number of a message that is not older than a time, while the one before it is.

    Found by halving. While the clock never stepped back there is only one such number.
    """
    low, high = bounds.first_sequence, bounds.next_sequence
    while low < high:
        middle = (low + high) // 2
        found_ms = place.time_ms(stream, middle)
        if found_ms is not None and found_ms < time_ms:
            low = middle + 1
        else:
            high = middle
    return low


def cut_at(block: Block, stop: int) -> Block | None:
    """The messages of a block below `stop`."""
    count = stop - block.first_sequence
    if count >= len(block):
        return block
    if count <= 0:
        return None
    first = ENTRY.unpack_from(block.index)
    last = ENTRY.unpack_from(block.index, (count - 1) * ENTRY_BYTES)
    return Block(
        block.first_sequence,
        block.previous_checksum,
        block.index[: count * ENTRY_BYTES],
        block.data[: last[0] - (first[0] - first[2])],
    )
