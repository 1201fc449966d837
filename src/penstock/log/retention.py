"""Which segments may go. Pure: touches no file."""

from __future__ import annotations

from collections.abc import Sequence


def count_to_drop_for_room(stored_bytes: Sequence[int], wanted_bytes: int, bytes_max: int) -> int:
    """How many of the oldest segments must go so that `wanted_bytes` more fit.

    `stored_bytes` lists the segments, oldest first. All of them is a possible answer.
    """
    excess_bytes = sum(stored_bytes) + wanted_bytes - bytes_max
    count = 0
    while excess_bytes > 0 and count < len(stored_bytes):
        excess_bytes -= stored_bytes[count]
        count += 1
    return count


def expired(newest_time_ms: int, now_ms: int, time_to_live_ms: int) -> bool:
    """Whether a segment's newest message has outlived its time."""
    return now_ms - newest_time_ms > time_to_live_ms
