"""Sizes, durations and times, as people write and read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.units import (
    parsed_bytes,
    parsed_millis,
    parsed_truth,
    parsed_whole,
    rounded_bytes,
    shown_bytes,
    shown_millis,
    shown_time,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("1024", 1024),
        ("1KiB", 1024),
        ("1 kb", 1000),
        ("64MiB", 64 * 1024**2),
        (" 2 GiB ", 2 * 1024**3),
        ("3tib", 3 * 1024**4),
    ],
)
def test_sizes_have_binary_and_decimal_units(text, expected):
    assert parsed_bytes(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("250ms", 250), ("90s", 90_000), ("15m", 900_000), ("1 h", 3_600_000), ("7d", 604_800_000)],
)
def test_durations_have_a_unit(text, expected):
    assert parsed_millis(text) == expected


@pytest.mark.parametrize("parse", [parsed_bytes, parsed_millis, parsed_truth, parsed_whole])
@pytest.mark.parametrize("text", ["", "x", "1.5MiB", "5 furlongs", "1_0", "٣", "1" * 100])
def test_other_text_is_refused_with_the_text(parse, text):
    with pytest.raises(ValueError, match="is n") as caught:
        parse(text)
    assert f'"{text}"' in str(caught.value)


def test_a_duration_without_a_unit_is_refused():
    with pytest.raises(ValueError, match="not a duration such as 90s"):
        parsed_millis("60000")


@given(st.integers(min_value=0, max_value=2**63))
def test_what_is_shown_exactly_is_read_back_equal(number):
    assert parsed_bytes(shown_bytes(number)) == number
    assert parsed_millis(shown_millis(number)) == number


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (10 * 1024**2 + 99, "10 MiB"),
        (3 * 1024**4, "3 TiB"),
    ],
)
def test_sizes_for_tables_are_rounded(size, expected):
    assert rounded_bytes(size) == expected


@pytest.mark.parametrize(
    ("time_ms", "expected"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_767_268_800_007, "2026-01-01T12:00:00.007Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (2**63 - 1, "292278994-08-17T07:12:55.807Z"),
        (-(10**30), "-1000000000000000000000000000000 ms"),
    ],
)
def test_times_are_shown_in_utc_with_milliseconds(time_ms, expected):
    assert shown_time(time_ms) == expected
