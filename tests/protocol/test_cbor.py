"""The pieces of CBOR that are made by hand are those that cbor2 makes."""

from __future__ import annotations

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.protocol import cbor

no_deadline = settings(deadline=None)

WIDTHS = [2**8, 2**16, 2**32]
EDGES = [0, 1, 23, 24, *(edge + step for edge in WIDTHS for step in (-1, 0)), 2**63 - 1, 2**64 - 1]


@pytest.mark.parametrize("number", EDGES)
def test_every_width_of_an_integer_is_the_shortest(number: int) -> None:
    assert cbor.head(cbor.UNSIGNED, number) == cbor2.dumps(number)
    assert cbor.integer(number) == cbor2.dumps(number)
    assert cbor.integer(-1 - number) == cbor2.dumps(-1 - number)


@no_deadline
@given(st.integers(-(2**64), 2**64 - 1))
def test_any_integer_is_what_cbor2_makes_of_it(number: int) -> None:
    assert cbor.integer(number) == cbor2.dumps(number)


@no_deadline
@given(st.text())
def test_any_text_is_what_cbor2_makes_of_it(value: str) -> None:
    assert cbor.text(value) == cbor2.dumps(value)


@pytest.mark.parametrize("size", [0, 23, 24, 255, 256, 65535, 65536])
def test_the_heads_of_bytes_arrays_and_maps_are_what_cbor2_makes(size: int) -> None:
    assert cbor.head(cbor.BYTES, size) + bytes(size) == cbor2.dumps(bytes(size))
    assert cbor.head(cbor.ARRAY, size) + b"\x00" * size == cbor2.dumps([0] * size)
    keys = range(size)
    entries = b"".join(cbor2.dumps(key) + b"\x00" for key in keys)
    assert cbor.head(cbor.MAP, size) + entries == cbor2.dumps(dict.fromkeys(keys, 0))
