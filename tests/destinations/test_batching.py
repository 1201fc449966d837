"""Batches keep to every limit, in order, and lose nothing."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from surroundings import batch_of

from penstock.destinations.base import BatchLimits
from penstock.destinations.batching import pieces


def sizes_of(cut: list[int], limits: BatchLimits, batch_size: int | None = None) -> list[list[int]]:
    """Cut payloads of these sizes; the sizes of each piece."""
    found = pieces(batch_of(*(b"x" * size for size in cut)), limits, batch_size)
    return [list(map(len, piece.batch.payloads)) for piece in found]


@pytest.mark.parametrize(
    ("limits", "batch_size", "expected"),
    [
        (BatchLimits(10, 1000, 1000), None, [[1, 2, 3, 4, 5]]),
        (BatchLimits(2, 1000, 1000), None, [[1, 2], [3, 4], [5]]),
        (BatchLimits(10, 1000, 1000), 3, [[1, 2, 3], [4, 5]]),
        (BatchLimits(2, 1000, 1000), 3, [[1, 2], [3, 4], [5]]),
        (BatchLimits(10, 6, 1000), None, [[1, 2, 3], [4], [5]]),
        (BatchLimits(10, 9, 1000), None, [[1, 2, 3], [4, 5]]),
        (BatchLimits(10, 9, 1000, message_overhead_bytes=2), None, [[1, 2], [3], [4], [5]]),
        (BatchLimits(10, 10, 1000, message_overhead_bytes=1), None, [[1, 2, 3], [4], [5]]),
        (BatchLimits(10, 3, 1000), None, [[1, 2], [3], [4], [5]]),
    ],
)
def test_a_request_keeps_to_the_count_and_the_bytes(
    limits: BatchLimits, batch_size: int | None, expected: list[list[int]]
) -> None:
    assert sizes_of([1, 2, 3, 4, 5], limits, batch_size) == expected


def test_a_message_that_no_request_can_carry_is_refused_alone_and_the_others_go() -> None:
    payloads = [b"x" * size for size in (1, 11, 1, 1, 12, 13, 10)]

    found = list(pieces(batch_of(*payloads), BatchLimits(10, 100, 10)))

    assert [(list(piece.batch.sequence_numbers), piece.refusal) for piece in found] == [
        ([100], None),
        ([101], "it has 11 bytes; the destination takes 10 at most"),
        ([102, 103], None),
        ([104], "it has 12 bytes; the destination takes 10 at most"),
        ([105], "it has 13 bytes; the destination takes 10 at most"),
        ([106], None),
    ]


def test_nothing_is_cut_from_nothing() -> None:
    assert list(pieces(batch_of(), BatchLimits(10, 100, 10))) == []


@given(
    sizes=st.lists(st.integers(0, 60), max_size=60),
    messages_max=st.integers(1, 12),
    bytes_max=st.integers(1, 100),
    message_bytes_max=st.integers(1, 60),
    overhead=st.integers(0, 9),
    batch_size=st.none() | st.integers(1, 20),
)
def test_pieces_are_the_batch_again_and_each_is_as_long_as_it_may_be(
    sizes: list[int],
    messages_max: int,
    bytes_max: int,
    message_bytes_max: int,
    overhead: int,
    batch_size: int | None,
) -> None:
    limits = BatchLimits(messages_max, bytes_max, message_bytes_max, overhead)
    batch = batch_of(*(bytes([n]) * size for n, size in enumerate(sizes)))

    cut = list(pieces(batch, limits, batch_size))
    found = [piece.batch for piece in cut]

    def fits(payloads: list[bytes]) -> bool:
        return (
            len(payloads) <= min(messages_max, batch_size or messages_max)
            and sum(len(payload) + overhead for payload in payloads) <= bytes_max
            and max(map(len, payloads)) <= message_bytes_max
        )

    assert [piece.refusal is not None for piece in cut] == [
        len(piece) == 1 and len(piece.payloads[0]) > message_bytes_max for piece in found
    ]
    assert [n for piece in found for n in piece.sequence_numbers] == batch.sequence_numbers
    assert [t for piece in found for t in piece.ingest_times_ms] == batch.ingest_times_ms
    assert [p for piece in found for p in piece.payloads] == batch.payloads
    assert all(len(piece) == 1 or fits(list(piece.payloads)) for piece in found)
    for piece, following in pairwise(found):
        assert not fits([*piece.payloads, following.payloads[0]])
