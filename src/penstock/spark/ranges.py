"""Ranges of messages: how they are packed into tasks, and read there."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil

from penstock.block import Block
from penstock.spark.places import RESTART_S, Place, patiently
from penstock.spark.survey import Address, name_of, open_place
from penstock.spark.trouble import DataLoss

log = logging.getLogger(__name__)

# Half a million messages of 1 KiB in a task were faster than more or fewer.
PARTITION_BYTES = 512 * 1024 * 1024
# A task costs about 40 ms; a quarter of a full one is worth it while a core is idle.
PARTITION_SHARE_MIN = 0.25


@dataclass(frozen=True)
class Range:
    """Messages `first` up to, not including, `stop` of one stream."""

    address: Address
    stream: str
    first: int
    stop: int
    bytes_per_message: float = 0.0

    def __len__(self) -> int:
        return max(0, self.stop - self.first)


def pack(ranges: list[Range], cores: int, messages_max: int) -> list[list[Range]]:
    """Distribute ranges over tasks of about the same size: the fewest that fill the cores."""
    weights = [_weight(each, messages_max) for each in ranges]
    total = sum(weights)
    if not total:
        return []
    count = max(ceil(total), min(cores, ceil(total / PARTITION_SHARE_MIN)))
    if count > cores:
        count = ceil(count / cores) * cores  # no core is idle in the last round
    room = share = total / count
    tasks: list[list[Range]] = [[]]
    for whole, weight in zip(ranges, weights, strict=True):
        rest = whole
        while len(rest):
            if room <= 1e-9 and len(tasks) < count:
                tasks.append([])
                room += share
            fitting = len(rest) if len(tasks) == count else round(room / weight * len(whole))
            part = replace(rest, stop=min(rest.stop, rest.first + max(1, fitting)))
            tasks[-1].append(part)
            room -= weight * len(part) / len(whole)
            rest = replace(rest, first=part.stop)
    return tasks


def _weight(wanted: Range, messages_max: int) -> float:
    """In full tasks."""
    return max(len(wanted) / messages_max, len(wanted) * wanted.bytes_per_message / PARTITION_BYTES)


def read_ranges(
    ranges: tuple[Range, ...], fail_on_data_loss: bool
) -> Iterator[tuple[Range, Block]]:
    """All messages of some ranges, with the range that each block belongs to."""
    place: Place | None = None
    address: Address | None = None
    try:
        for wanted in ranges:
            if place is None or wanted.address != address:
                if place is not None:
                    place.close()
                place, address = _opened(wanted.address), wanted.address
            for block in read_range(place, wanted, fail_on_data_loss):
                yield wanted, block
    finally:
        if place is not None:
            place.close()


def _opened(address: Address) -> Place:
    """The range was promised to the query: wait a little for a server that is restarting."""
    return patiently(lambda: open_place(address), RESTART_S)


def read_range(place: Place, wanted: Range, fail_on_data_loss: bool) -> Iterator[Block]:
    """All messages of a range; what is missing although it was there before is a loss."""
    expected = wanted.first
    for block in place.blocks(wanted.stream, wanted.first, wanted.stop):
        if block.first_sequence > expected:
            _check_missing(place, wanted, expected, block.first_sequence, fail_on_data_loss)
        yield block
        expected = block.next_sequence
    if expected < wanted.stop:
        _check_missing(place, wanted, expected, wanted.stop, fail_on_data_loss)


def _check_missing(
    place: Place, wanted: Range, first: int, stop: int, fail_on_data_loss: bool
) -> None:
    """Numbers in no segment were skipped after a power cut; all other missing ones are lost."""
    bounds = place.bounds(wanted.stream)
    if bounds is None:
        why = "the stream was deleted"
    elif bounds.first_sequence > first:
        why = f"they were overwritten or expired, the oldest message is {bounds.first_sequence}"
        stop = min(stop, bounds.first_sequence)
    elif bounds.next_sequence < stop:
        why = f"the stream was made anew, its next number is {bounds.next_sequence}"
    else:
        log.warning(
            "Stream %s at %s has no messages %d to %d: a power cut took their numbers along.",
            wanted.stream,
            place.name,
            first,
            stop - 1,
        )
        return
    report_loss(name_of(wanted.address), wanted.stream, first, stop, why, fail_on_data_loss)


def report_loss(
    place: str, stream: str, first: int, stop: int | None, why: str, fail_on_data_loss: bool
) -> None:
    """Raise DataLoss, or log the gap, as the option says. Without `stop` it has no known end."""
    which = f"from {first} on" if stop is None else f"{first} to {stop - 1}"
    text = f"messages {which} of stream {stream} at {place} are lost: {why}"
    if fail_on_data_loss:
        raise DataLoss(
            f"{text}. Set failOnDataLoss to false to go on with what is there, or start a new "
            f"query with a checkpoint of its own"
        )
    log.warning("%s. The query goes on behind the gap.", text)
