"""Stored bytes as rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from penstock.block import Block, make_entries
from penstock.spark.arrow import to_batch

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def block_of(payloads: list[bytes], first: int, end: int, time_ms: int) -> Block:
    data = b"".join(payloads)
    sizes = [len(each) for each in payloads]
    index, _ = make_entries(data, sizes, end=end, time_ms=time_ms, sequence=first, checksum=0)
    return Block(first, 0, index, data)


@given(
    st.lists(st.binary(max_size=40), min_size=1, max_size=50),
    st.integers(0, 2**62),
    st.integers(0, 2**40),
    st.integers(-(10**12), 10**13),
)
def test_every_message_is_a_row_with_its_own_number_time_and_bytes(
    payloads: list[bytes], first: int, end: int, time_ms: int
) -> None:
    rows = to_batch(block_of(payloads, first, end, time_ms), "S", "pump").to_pylist()

    assert rows == [
        {
            "server": "pump",
            "stream": "S",
            "sequence_number": first + position,
            "ingest_time": EPOCH + timedelta(milliseconds=time_ms),
            "payload": payload,
        }
        for position, payload in enumerate(payloads)
    ]


def test_the_payloads_are_not_copied() -> None:
    block = block_of([b"x" * 1000] * 1000, 0, 0, 0)

    payload = to_batch(block, "S", None).column("payload")

    assert payload.buffers()[2].address == id(block.data) + bytes.__basicsize__ - 1


def test_one_place_needs_no_column_for_it() -> None:
    batch = to_batch(block_of([b"x"], 0, 0, 0), "S", None)

    assert batch.schema.names == ["stream", "sequence_number", "ingest_time", "payload"]
