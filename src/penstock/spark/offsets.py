"""Offsets of a streaming query: place -> stream -> next number. All pure.

Spark compares offsets as text, so places and streams always stand in the same order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from penstock.spark.trouble import SourceError

Offsets = dict[str, dict[str, int]]


def checked(value: Any, origin: str) -> Offsets:
    """What Spark kept for us in a checkpoint; SourceError if that is something else."""
    is_ours = isinstance(value, dict) and all(
        isinstance(streams, dict) and all(_is_number(number) for number in streams.values())
        for streams in value.values()
    )
    if not is_ours:
        raise SourceError(
            f"the {origin} offset in the checkpoint is not one of format penstock: {value!r:.200}. "
            f"Give this query a checkpoint location of its own, or restore the one it had"
        )
    return ordered(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def ordered(offsets: Offsets) -> Offsets:
    return {place: dict(sorted(streams.items())) for place, streams in sorted(offsets.items())}


def entries(offsets: Offsets) -> Iterator[tuple[str, str, int]]:
    """(place, stream, number), in order."""
    for place, streams in offsets.items():
        for stream, number in streams.items():
            yield place, stream, number


def from_entries(found: Iterable[tuple[str, str, int]]) -> Offsets:
    offsets: Offsets = {}
    for place, stream, number in found:
        offsets.setdefault(place, {})[stream] = number
    return ordered(offsets)


def number_of(offsets: Offsets, place: str, stream: str) -> int | None:
    return offsets.get(place, {}).get(stream)


def merged(older: Offsets, newer: Offsets) -> Offsets:
    """The newer numbers; those of the older that the newer has not are kept."""
    return ordered(
        {
            place: older.get(place, {}) | newer.get(place, {})
            for place in older.keys() | newer.keys()
        }
    )


def lowered(offsets: Offsets, target: Offsets) -> Offsets:
    """No number above the target's; what the target does not have is left out."""
    return from_entries(
        (place, stream, min(number, limit))
        for place, stream, number in entries(offsets)
        if (limit := number_of(target, place, stream)) is not None
    )


def limited(start: Offsets, end: Offsets, count_max: int) -> Offsets:
    """An end that is at most `count_max` messages after the start.

    Every stream gets a share by how much it has; what rounding leaves goes to the first ones.
    """
    waiting = [
        (place, stream, begin, number - begin)
        for place, stream, number in entries(end)
        if (begin := number_of(start, place, stream)) is not None and number > begin
    ]
    total = sum(count for *_, count in waiting)
    if total <= count_max:
        return end
    shares = [count * count_max // total for *_, count in waiting]
    left = count_max - sum(shares)
    given = []
    for (place, stream, begin, count), share in zip(waiting, shares, strict=True):
        extra = min(left, count - share, 1)
        left -= extra
        given.append((place, stream, begin + share + extra))
    return merged(end, from_entries(given))


def count_between(start: Offsets, end: Offsets) -> int:
    """How many messages stand between two offsets."""
    return sum(
        max(0, number - begin)
        for place, stream, number in entries(end)
        if (begin := number_of(start, place, stream)) is not None
    )
