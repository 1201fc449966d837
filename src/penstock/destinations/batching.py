"""Cut messages into requests by count and bytes. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

from penstock.destinations.base import Batch, BatchLimits


class Piece(NamedTuple):
    """What goes into one request, or one message that no request can carry."""

    batch: Batch
    # Not None: do not send, the message is refused for this reason.
    refusal: str | None = None


def pieces(batch: Batch, limits: BatchLimits, batch_size: int | None = None) -> Iterator[Piece]:
    """Cut a batch, in order, so that each piece keeps to the limits and the configured batch size.

    A message that is too large becomes a piece of its own, with the reason.
    """
    count = len(batch)
    count_max = min(limits.messages_max, batch_size or limits.messages_max)
    # What all messages before this one cost together: one search finds the end of a piece.
    costs_before = list(accumulate(_costs(batch, limits), initial=0))
    start = 0
    while start < count:
        cost_max = costs_before[start] + limits.bytes_max
        stop_max = min(start + count_max, count)
        # At least one: what fits no request with others goes alone.
        stop = bisect_right(costs_before, cost_max, start + 2, stop_max + 1) - 1
        refusal = _refusal(len(batch.payloads[start]), limits) if stop == start + 1 else None
        yield Piece(batch[start:stop], refusal)
        start = stop


def _costs(batch: Batch, limits: BatchLimits) -> Iterator[int]:
    """What each message takes of a request; one that is too large takes more than there is."""
    overhead, size_max = limits.message_overhead_bytes, limits.message_bytes_max
    too_much = limits.bytes_max + 1
    for size in map(len, batch.payloads):
        yield size + overhead if size <= size_max else too_much


def _refusal(size: int, limits: BatchLimits) -> str | None:
    if size <= limits.message_bytes_max:
        return None
    return f"it has {size} bytes; the destination takes {limits.message_bytes_max} at most"
