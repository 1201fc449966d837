"""Stored messages as bytes, beside a plain list of the same messages."""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.block import (
    ENTRY,
    ENTRY_BYTES,
    RESIDUE,
    Block,
    entries_intact,
    make_entries,
    message_count,
)
from penstock.model import Message

no_deadline = settings(deadline=None)

PAYLOADS = st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=12)


class Start(NamedTuple):
    """Where a run of messages begins: in its stream, in its segment, in time."""

    sequence: int
    end: int
    time_ms: int
    checksum: int


STARTS = st.builds(
    Start,
    sequence=st.integers(0, 2**63 - 100) | st.sampled_from([2**32 - 1, 2**32, 2**33 - 5]),
    end=st.integers(0, 2**40),
    time_ms=st.integers(-(2**63), 2**63 - 1),
    checksum=st.integers(0, 2**32 - 1),
)
START = Start(sequence=41, end=1000, time_ms=1_700_000_000_000, checksum=7)


def block_of(payloads: list[bytes], start: Start = START) -> Block:
    data = b"".join(payloads)
    index, _ = make_entries(
        data,
        [len(payload) for payload in payloads],
        end=start.end,
        time_ms=start.time_ms,
        sequence=start.sequence,
        checksum=start.checksum,
    )
    return Block(start.sequence, start.checksum, index, data)


@no_deadline
@given(PAYLOADS, STARTS)
def test_a_block_gives_back_the_list_it_was_made_of(payloads: list[bytes], start: Start) -> None:
    block = block_of(payloads, start)

    assert len(block) == len(payloads)
    assert block.next_sequence == start.sequence + len(payloads)
    assert block.last_ingest_time_ms == start.time_ms
    assert list(block.payloads()) == payloads
    assert block.messages("S") == [
        Message("S", sequence, start.time_ms, payload)
        for sequence, payload in enumerate(payloads, start.sequence)
    ]
    assert block.intact()


@no_deadline
@given(PAYLOADS, STARTS)
def test_entries_are_what_the_format_says(payloads: list[bytes], start: Start) -> None:
    block = block_of(payloads, start)

    end, checksum = start.end, start.checksum
    for position, payload in enumerate(payloads):
        end += len(payload)
        checksum = crc32(payload, checksum)
        raw = block.index[position * ENTRY_BYTES : (position + 1) * ENTRY_BYTES]
        assert raw[0:8] == end.to_bytes(8, "little")
        assert raw[8:16] == start.time_ms.to_bytes(8, "little", signed=True)
        assert raw[16:20] == len(payload).to_bytes(4, "little")
        assert raw[20:24] == ((start.sequence + position) % 2**32).to_bytes(4, "little")
        assert raw[24:28] == checksum.to_bytes(4, "little")
        assert raw[28:32] == crc32(raw[:28], RESIDUE).to_bytes(4, "little")


@no_deadline
@given(PAYLOADS, STARTS, st.data())
def test_messages_made_in_several_runs_are_the_same_bytes(
    payloads: list[bytes], start: Start, data: st.DataObject
) -> None:
    """Also one by one, for which there is a short cut."""
    cut = data.draw(st.integers(1, len(payloads)))
    index, checksum, end, sequence = b"", start.checksum, start.end, start.sequence
    for run in (payloads[:cut], *([payload] for payload in payloads[cut:])):
        joined = b"".join(run)
        entries, checksum = make_entries(
            joined,
            [len(payload) for payload in run],
            end=end,
            time_ms=start.time_ms,
            sequence=sequence,
            checksum=checksum,
        )
        index += entries
        end += len(joined)
        sequence += len(run)

    assert index == block_of(payloads, start).index
    assert checksum == crc32(b"".join(payloads), start.checksum)


@no_deadline
@given(PAYLOADS, STARTS, st.data())
def test_any_run_of_entries_out_of_a_block_is_intact_in_itself(
    payloads: list[bytes], start: Start, data: st.DataObject
) -> None:
    block = block_of(payloads, start)
    first = data.draw(st.integers(0, len(payloads) - 1))
    stop = data.draw(st.integers(first + 1, len(payloads)))
    ends = [0, *accumulate(map(len, payloads))]

    part = Block(
        block.first_sequence + first,
        crc32(block.data[: ends[first]], start.checksum),
        block.index[first * ENTRY_BYTES : stop * ENTRY_BYTES],
        block.data[ends[first] : ends[stop]],
    )

    assert part.intact()
    assert list(part.payloads()) == payloads[first:stop]
    assert part.messages("S") == block.messages("S")[first:stop]


def test_any_flipped_bit_is_noticed() -> None:
    block = block_of([b"one", b"2", b"three", b"\x00\x00"])

    for position in range(len(block.index) * 8):
        damaged = Block(41, 7, flipped(block.index, position), block.data)
        assert not entries_intact(damaged.index)
        assert not damaged.intact()
    for position in range(len(block.data) * 8):
        assert not Block(41, 7, block.index, flipped(block.data, position)).intact()


@no_deadline
@given(PAYLOADS, STARTS, st.integers(min_value=0), st.booleans())
def test_any_flipped_bit_in_any_block_is_noticed(
    payloads: list[bytes], start: Start, position: int, in_index: bool
) -> None:
    block = block_of(payloads, start)
    index = flipped(block.index, position) if in_index else block.index
    data = block.data if in_index else flipped(block.data, position)

    assert not Block(start.sequence, start.checksum, index, data).intact()


def flipped(data: bytes, position: int) -> bytes:
    byte, bit = divmod(position % (len(data) * 8), 8)
    changed = bytearray(data)
    changed[byte] ^= 1 << bit
    return bytes(changed)


BLOCK = block_of([b"one", b"two", b"three"])
ENTRIES = [BLOCK.index[at : at + ENTRY_BYTES] for at in range(0, 96, ENTRY_BYTES)]
NOT_INTACT = {
    "nothing at all": Block(41, 7, b"", b""),
    "data without an index": Block(41, 7, b"", BLOCK.data),
    "half an entry": Block(41, 7, BLOCK.index[:-1], BLOCK.data),
    "bytes behind the index": Block(41, 7, BLOCK.index + b"\x00", BLOCK.data),
    "data cut short": Block(41, 7, BLOCK.index, BLOCK.data[:-1]),
    "bytes behind the data": Block(41, 7, BLOCK.index, BLOCK.data + b"\x00"),
    "the first entry missing": Block(41, 7, BLOCK.index[ENTRY_BYTES:], BLOCK.data),
    "the last entry missing": Block(41, 7, BLOCK.index[:-ENTRY_BYTES], BLOCK.data),
    "an entry missing between": Block(41, 7, ENTRIES[0] + ENTRIES[2], BLOCK.data),
    "an entry twice": Block(41, 7, ENTRIES[0] + ENTRIES[1] + BLOCK.index[32:], BLOCK.data),
    "another place in the stream": Block(42, 7, BLOCK.index, BLOCK.data),
    "another checksum before it": Block(41, 8, BLOCK.index, BLOCK.data),
}


@pytest.mark.parametrize("block", NOT_INTACT.values(), ids=NOT_INTACT.keys())
def test_what_was_not_stored_together_is_not_intact(block: Block) -> None:
    assert BLOCK.intact()
    assert not block.intact()


@no_deadline
@given(PAYLOADS, STARTS, st.integers(0, 600))
def test_as_many_messages_count_as_fit_into_the_bytes(
    payloads: list[bytes], start: Start, bytes_max: int
) -> None:
    expected = sum(total <= bytes_max for total in accumulate(map(len, payloads)))

    assert block_of(payloads, start).count_within(bytes_max) == expected


def test_the_messages_of_several_blocks_are_counted() -> None:
    assert message_count([]) == 0
    assert message_count([block_of([b"a"]), block_of([b"b", b"c"])]) == 3


def test_an_entry_has_the_size_that_the_protocol_counts_per_message() -> None:
    assert ENTRY.size == ENTRY_BYTES == 32
