"""Which messages are sound, told apart one by one."""

from __future__ import annotations

from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.block import ENTRY_BYTES, make_entries
from penstock.log.memory import MemoryFile
from penstock.log.scan import Anchor, check_each

PAYLOADS = [b"zero", b"one", b"two and a half", b"x", b"four"]
FIRST = 2**32 - 2  # the low half of the number starts again within the run


def stored(payloads: list[bytes], first: int = FIRST) -> tuple[bytearray, MemoryFile]:
    """An index and a data file."""
    data = b"".join(payloads)
    index, _ = make_entries(
        data, list(map(len, payloads)), end=0, time_ms=1, sequence=first, checksum=0
    )
    file = MemoryFile()
    file.write_at(data, 0)
    return bytearray(index), file


def check(index: bytearray, file: MemoryFile, first: int = FIRST) -> list[bool]:
    return check_each(bytes(index), file, first, Anchor(0, 0))


def test_an_anchor_moves_through_data() -> None:
    anchor = Anchor(0, 0).through(b"abc").through(b"de")
    assert anchor == Anchor(5, crc32(b"abcde"))


def test_what_was_stored_is_sound() -> None:
    assert check(*stored(PAYLOADS)) == [True] * 5


def test_no_entries_no_answers() -> None:
    assert check(bytearray(), MemoryFile()) == []


@pytest.mark.parametrize("position", range(5))
def test_a_flipped_bit_in_an_entry_spoils_that_message_alone(position: int) -> None:
    for bit in range(ENTRY_BYTES * 8):
        index, file = stored(PAYLOADS)
        index[position * ENTRY_BYTES + bit // 8] ^= 1 << bit % 8
        assert check(index, file) == [number != position for number in range(5)]


@pytest.mark.parametrize("position", range(5))
def test_a_flipped_bit_in_a_payload_spoils_that_message_alone(position: int) -> None:
    start = sum(map(len, PAYLOADS[:position]))
    for bit in range(len(PAYLOADS[position]) * 8):
        index, file = stored(PAYLOADS)
        byte = file.read_at(1, start + bit // 8)[0] ^ (1 << bit % 8)
        file.write_at(bytes([byte]), start + bit // 8)
        assert check(index, file) == [number != position for number in range(5)]


def test_data_that_is_cut_short_spoils_what_it_held() -> None:
    whole = b"".join(PAYLOADS)
    for size in range(len(whole)):
        index, file = stored(PAYLOADS)
        file.truncate(size)
        ends = [len(b"".join(PAYLOADS[: number + 1])) for number in range(5)]
        assert check(index, file) == [end <= size for end in ends]


def test_an_entry_of_another_message_is_not_taken_for_its_own() -> None:
    index, file = stored([b"same", b"same", b"same"])
    index[ENTRY_BYTES : 2 * ENTRY_BYTES] = index[:ENTRY_BYTES]
    assert check(index, file) == [True, False, True]


def test_an_intact_entry_that_reaches_back_is_not_sound() -> None:
    """An entry from an earlier life of the file may be intact by itself."""
    index, file = stored([b"aaaa", b"bbbb"])
    earlier, _ = make_entries(b"aa", [2], end=1, time_ms=1, sequence=FIRST + 1, checksum=0)
    index[ENTRY_BYTES:] = earlier
    assert check(index, file) == [True, False]


def test_checking_can_begin_anywhere() -> None:
    index, file = stored(PAYLOADS)
    before = Anchor(0, 0).through(b"".join(PAYLOADS[:3]))
    assert check_each(bytes(index[3 * ENTRY_BYTES :]), file, FIRST + 3, before) == [True, True]
    wrong = Anchor(before.end, before.checksum ^ 1)
    assert check_each(bytes(index[3 * ENTRY_BYTES :]), file, FIRST + 3, wrong) == [False, True]


@given(st.lists(st.binary(min_size=1, max_size=20), min_size=1, max_size=20), st.data())
def test_any_set_of_damaged_entries_spoils_exactly_those(
    payloads: list[bytes], data: st.DataObject
) -> None:
    broken = data.draw(st.sets(st.integers(0, len(payloads) - 1)))
    index, file = stored(payloads)
    for position in broken:
        index[position * ENTRY_BYTES : (position + 1) * ENTRY_BYTES] = bytes(ENTRY_BYTES)
    assert check(index, file) == [number not in broken for number in range(len(payloads))]
