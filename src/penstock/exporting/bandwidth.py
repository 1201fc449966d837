"""One token bucket for all exports together: an average, with small bursts."""

from __future__ import annotations

# A lease gets at most this many seconds' worth, so that priorities act quickly.
PORTION_S = 0.5
# What may gather while nothing is sent.
BURST_S = 1.0
# Below this a portion would be smaller than many a single message.
PORTION_BYTES_MIN = 4096


class Bandwidth:
    """How many bytes may go out. Without a limit, any number."""

    def __init__(self, kilobit_per_second_max: int | None, now_ms: int) -> None:
        self._bytes_per_ms = None
        if kilobit_per_second_max is not None:
            self._bytes_per_ms = kilobit_per_second_max / 8  # kilobit/s = bit/ms
        self._available = 0.0
        self._at_ms = now_ms

    @property
    def is_limited(self) -> bool:
        return self._bytes_per_ms is not None

    def portion(self, now_ms: int) -> int | None:
        """Bytes for one lease, taken out of the bucket; None without a limit, 0 if it is empty."""
        if self._bytes_per_ms is None:
            return None
        self._fill(now_ms)
        if self._available <= 0:
            return 0
        portion = max(PORTION_BYTES_MIN, int(self._bytes_per_ms * PORTION_S * 1000))
        self._available -= portion
        return portion

    def owe(self, excess_bytes: int, now_ms: int) -> None:
        """A lease sends more than its portion: the next ones wait until that has passed."""
        self._fill(now_ms)  # what did not fit into the bucket until now pays for nothing
        self._available -= excess_bytes

    def settle(self, portion: int | None, sent_bytes: int) -> None:
        """A lease has ended: what it did not use comes back."""
        if portion is not None:
            self._available += max(0, portion - sent_bytes)

    def next_portion_ms(self, now_ms: int) -> int:
        """When the bucket will not be empty any more."""
        if self._bytes_per_ms is None:
            return now_ms
        self._fill(now_ms)
        return now_ms + max(0, int(-self._available / self._bytes_per_ms) + 1)

    def _fill(self, now_ms: int) -> None:
        if self._bytes_per_ms is None:
            return
        elapsed_ms = max(0, now_ms - self._at_ms)
        self._at_ms = now_ms
        limit = self._bytes_per_ms * BURST_S * 1000
        self._available = min(limit, self._available + elapsed_ms * self._bytes_per_ms)
