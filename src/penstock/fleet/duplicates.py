"""Messages that repeat a payload, and times that run backwards. Pure, in one pass."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from hashlib import blake2b

from penstock.block import ENTRY, Block
from penstock.fleet.report import Contents, Duplicate

# Eight bytes: a million messages, each compared with a thousand, give a wrong alarm with a chance
# of 10^-10.
DIGEST_BYTES = 8
SHOWN_MAX = 10


class Reading:
    """What has been read of a stream so far.

    A duplicate is a message whose payload stands also in one of the `window` messages before it.
    A producer that sends again after a timeout leaves such; a sensor that says the same all day
    does too, which is why the window is small and nobody looks without being asked.
    """

    def __init__(self, window: int) -> None:
        self._window = window
        self._recent: deque[tuple[int, bytes]] = deque()
        self._numbers: dict[bytes, int] = {}
        self._count = 0
        self._shown: list[Duplicate] = []
        self._last_ms: int | None = None
        self._steps_back = 0

    def add(self, blocks: Iterable[Block]) -> None:
        for block in blocks:
            number = block.first_sequence
            entries = ENTRY.iter_unpack(block.index)
            for payload, (_, time_ms, *_) in zip(block.payloads(), entries, strict=True):
                self._add_time(time_ms)
                self._add_payload(number, blake2b(payload, digest_size=DIGEST_BYTES).digest())
                number += 1

    def contents(self) -> Contents:
        return Contents(self._count, tuple(self._shown), self._steps_back)

    def _add_time(self, time_ms: int) -> None:
        if self._last_ms is not None and time_ms < self._last_ms:
            self._steps_back += 1
        self._last_ms = time_ms

    def _add_payload(self, number: int, digest: bytes) -> None:
        while self._recent and self._recent[0][0] < number - self._window:
            old_number, old_digest = self._recent.popleft()
            if self._numbers[old_digest] == old_number:
                del self._numbers[old_digest]
        earlier = self._numbers.get(digest)
        if earlier is not None:
            self._count += 1
            if len(self._shown) < SHOWN_MAX:
                self._shown.append(Duplicate(number, earlier))
        self._numbers[digest] = number
        self._recent.append((number, digest))
