"""Frames come out whole and in order, however the bytes come in."""

from __future__ import annotations

import struct
import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.protocol.framing import (
    FRAME_LENGTH_MAX,
    OVERSIZED_HEAD_BYTES,
    Frame,
    FrameDecoder,
    FramingError,
    Oversized,
    frame,
)

# The machine may be busy; correctness has no deadline.
no_deadline = settings(deadline=None)

# Around these sizes the decoder changes its mind: the limit, and the head that it keeps of a frame
# above the limit.
LIMIT = 64
PAYLOADS = st.one_of(
    st.binary(min_size=1, max_size=LIMIT + 8),
    st.integers(OVERSIZED_HEAD_BYTES - 8, OVERSIZED_HEAD_BYTES + 8).map(lambda size: b"m" * size),
    st.integers(3000, 5000).map(lambda size: b"l" * size),
)
FRAMES = st.lists(st.tuples(st.integers(0, 255), PAYLOADS), max_size=8)


def expected_frames(sent: list[tuple[int, bytes]], length_max: int) -> list[Frame]:
    """What must come out, said without any state."""
    return [
        (operation, payload)
        if len(payload) + 1 <= length_max
        else (operation, Oversized(len(payload) + 1, payload[:OVERSIZED_HEAD_BYTES]))
        for operation, payload in sent
    ]


def chopped(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:stop] for start, stop in pairwise(edges)]


def fed(decoder: FrameDecoder, chunks: list[bytes]) -> list[Frame]:
    return [found for chunk in chunks for found in decoder.feed(chunk)]


@no_deadline
@given(FRAMES, st.lists(st.integers(min_value=0), max_size=30))
def test_any_frames_in_any_pieces_come_out_whole_and_in_order(
    sent: list[tuple[int, bytes]], cuts: list[int]
) -> None:
    data = b"".join(frame(*one) for one in sent)

    frames = fed(FrameDecoder(LIMIT), chopped(data, cuts))

    assert frames == expected_frames(sent, LIMIT)


@no_deadline
@given(FRAMES)
def test_frames_fed_one_byte_at_a_time_come_out_as_soon_as_they_are_complete(
    sent: list[tuple[int, bytes]],
) -> None:
    decoder = FrameDecoder(LIMIT)
    expected = expected_frames(sent, LIMIT)
    for position, one in enumerate(sent):
        *before, last = (bytes((byte,)) for byte in frame(*one))
        assert fed(decoder, before) == []
        assert decoder.feed(last) == [expected[position]]


@no_deadline
@given(FRAMES, st.sampled_from([0, 1, -1, -(2**31), 2**30 + 1, 2**31 - 1]), st.data())
def test_a_length_out_of_range_ends_it_wherever_it_stands_and_however_it_is_cut(
    sent: list[tuple[int, bytes]], length: int, data: st.DataObject
) -> None:
    broken = b"".join(frame(*one) for one in sent) + struct.pack(">i", length) + b"\x04"
    cuts = data.draw(st.lists(st.integers(min_value=0), max_size=10))

    with pytest.raises(FramingError, match=rf"frame length {length} is not within 2\.\.1073741824"):
        fed(FrameDecoder(LIMIT), chopped(broken, cuts))


def test_a_bad_length_is_told_as_soon_as_its_header_is_there() -> None:
    decoder = FrameDecoder()

    assert decoder.feed(b"\x00\x00\x00\x01") == []
    with pytest.raises(FramingError):
        decoder.feed(b"\x04")


def test_the_limit_itself_is_within_the_limit() -> None:
    at_limit = frame(4, b"x" * (LIMIT - 1))
    above_limit = frame(4, b"x" * LIMIT)

    assert FrameDecoder(LIMIT).feed(at_limit) == [(4, b"x" * (LIMIT - 1))]
    assert FrameDecoder(LIMIT).feed(above_limit) == [(4, Oversized(LIMIT + 1, b"x" * LIMIT))]


def test_the_largest_length_of_the_protocol_is_no_framing_error() -> None:
    header = struct.pack(">ib", FRAME_LENGTH_MAX, 4)

    assert FrameDecoder().feed(header + b"a") == []
    assert FrameDecoder(LIMIT).feed(header + b"a" * 5000) == []


def test_the_smallest_frame_has_one_byte_of_payload() -> None:
    assert FrameDecoder().feed(b"\x00\x00\x00\x02\x0b\xa0") == [(11, b"\xa0")]


def test_a_frame_that_is_too_large_takes_no_memory() -> None:
    decoder = FrameDecoder(LIMIT)
    length = 1 + 1000 * 10_000
    chunk = b"z" * 10_000
    tracemalloc.start()
    try:
        decoder.feed(struct.pack(">ib", length, 4))
        assert all(decoder.feed(chunk) == [] for _ in range(999))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak_bytes < 5 * len(chunk)
    assert decoder.feed(chunk + frame(11, b"\xa0")) == [
        (4, Oversized(length, b"z" * OVERSIZED_HEAD_BYTES)),
        (11, b"\xa0"),
    ]


def test_a_raised_limit_holds_for_a_frame_that_has_begun() -> None:
    decoder = FrameDecoder(LIMIT)
    large = frame(4, b"x" * 500)
    assert decoder.feed(large[:100]) == []

    decoder.frame_bytes_max = FRAME_LENGTH_MAX

    assert decoder.feed(large[100:]) == [(4, b"x" * 500)]


def test_operations_with_the_top_bit_set_are_numbers_above_127() -> None:
    assert FrameDecoder().feed(frame(0xFF, b"\xa0")) == [(255, b"\xa0")]
