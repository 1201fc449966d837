"""Rows of Arrow become messages: every byte in its place, cut the same way every time."""

from __future__ import annotations

import datetime
import decimal
import json
import struct
from collections.abc import Sequence

import pyarrow as pa
import pytest

from penstock.client.calls import PackedPayloads
from penstock.spark.packing import Limits, Packed, chunks, packer, payload_column, rows_as_json
from penstock.spark.sink_options import SinkError

MANY = Limits(chunk_messages_max=1000, chunk_bytes_max=1 << 20, payload_bytes_max=1 << 16)


def messages(packed: Packed | PackedPayloads) -> list[bytes]:
    """The payloads one by one."""
    sizes = packed.sizes if isinstance(packed.sizes, bytes) else packed.sizes.tobytes()
    found, at = [], 0
    for (size,) in struct.iter_unpack("<I", sizes):
        found.append(packed.data[at : at + size])
        at += size
    assert at == len(packed.data)
    return found


def batch(values: Sequence[object], kind: pa.DataType | None = None) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, kind)], names=["payload"])


# --- a payload column --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", [pa.binary(), pa.large_binary(), pa.string(), pa.large_string()], ids=str
)
@pytest.mark.parametrize("sliced", [False, True])
def test_a_payload_column_is_taken_as_it_is(kind: pa.DataType, sliced: bool) -> None:
    texts = ["first", "zwölf", "x", "last"]
    values = texts if "string" in str(kind) else [text.encode() for text in texts]
    rows = batch(values, kind)
    wanted = [text.encode() for text in texts]
    if sliced:
        rows, wanted = rows.slice(1, 2), wanted[1:3]

    assert messages(payload_column(rows)) == wanted


def test_no_rows_are_no_messages() -> None:
    assert messages(payload_column(batch([], pa.binary()))) == []
    assert messages(rows_as_json(pa.record_batch({"a": pa.array([], pa.int64())}))) == []
    assert list(chunks([], MANY)) == []
    assert list(chunks([payload_column(batch([], pa.binary()))], MANY)) == []


def test_a_null_is_refused() -> None:
    with pytest.raises(SinkError, match="where payload is not null"):
        payload_column(batch([b"a", None], pa.binary()))


# --- a row as JSON -----------------------------------------------------------------------------


def test_a_row_becomes_a_json_object() -> None:
    rows = pa.record_batch(
        {
            "id": [1, 2],
            "text": ["line\nfeed", 'quote"'],
            "real": [0.5, 2.0],
            "when": pa.array(
                [datetime.datetime(2026, 1, 31, 12, 0, 0)] * 2, pa.timestamp("us", "UTC")
            ),
            "price": [decimal.Decimal("1.50"), decimal.Decimal("2.25")],
            "bytes": [b"\x00\xff", b""],
            "tags": [{"a": 1}, {"b": 2}],
            "map": pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int32())),
            "list": [[1, 2], []],
        }
    )

    first, second = map(json.loads, messages(rows_as_json(rows)))

    assert first == {
        "id": 1,
        "text": "line\nfeed",
        "real": 0.5,
        "when": "2026-01-31T12:00:00Z",
        "price": 1.5,
        "bytes": "AP8=",
        "tags": {"a": 1, "b": None},
        "map": {"k": 1},
        "list": [1, 2],
    }
    assert second["text"] == 'quote"'


def test_a_null_is_left_out_of_json() -> None:
    rows = pa.record_batch({"a": pa.array([1, None]), "b": pa.array([None, None], pa.int32())})
    assert messages(rows_as_json(rows)) == [b'{"a":1}', b"{}"]


# --- which of them -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "as_json", "expected"),
    [
        ({"payload": "binary"}, None, payload_column),
        ({"payload": "string"}, None, payload_column),
        ({"payload": "binary", "id": "bigint"}, False, payload_column),
        ({"payload": "binary"}, True, rows_as_json),
        ({"id": "bigint"}, None, rows_as_json),
        ({"id": "bigint"}, True, rows_as_json),
    ],
)
def test_the_columns_decide_and_the_option_overrules_them(
    columns: dict[str, str], as_json: bool | None, expected: object
) -> None:
    assert packer(columns, as_json) is expected


@pytest.mark.parametrize(
    ("columns", "as_json", "text"),
    [
        ({"id": "bigint", "at": "date"}, False, "no column payload among id, at"),
        ({"payload": "bigint"}, None, "column payload is of type bigint; .* cast it"),
        ({"payload": "binary", "id": "bigint"}, None, "the column id, which would be dropped"),
    ],
)
def test_columns_that_do_not_fit_are_refused(
    columns: dict[str, str], as_json: bool | None, text: str
) -> None:
    with pytest.raises(SinkError, match=text):
        packer(columns, as_json)


# --- chunks ------------------------------------------------------------------------------------


def cut(payloads: Sequence[bytes], limits: Limits, group: int) -> list[list[bytes]]:
    """The chunks of messages that arrive in groups of some size."""
    groups = [payloads[at : at + group] for at in range(0, len(payloads), group)]
    packed = (payload_column(batch(values, pa.binary())) for values in groups)
    return [messages(chunk) for chunk in chunks(packed, limits)]


def plain_cut(payloads: Sequence[bytes], limits: Limits) -> list[list[bytes]]:
    """The same, one message after another."""
    found: list[list[bytes]] = [[]]
    stored_bytes = 0
    for payload in payloads:
        stored_bytes += len(payload) + 32
        is_full = len(found[-1]) == limits.chunk_messages_max
        if found[-1] and (is_full or stored_bytes > limits.chunk_bytes_max):
            found.append([])
            stored_bytes = len(payload) + 32
        found[-1].append(payload)
    return found


@pytest.mark.parametrize("group", [1, 3, 7, 100, 1000])
@pytest.mark.parametrize(
    ("count_max", "bytes_max"), [(10, 1 << 20), (1000, 400), (7, 300), (1, 33)]
)
def test_the_cuts_do_not_depend_on_how_messages_arrive(
    group: int, count_max: int, bytes_max: int
) -> None:
    payloads = [b"%d" % number * (1 + number * number % 60) for number in range(300)]
    limits = Limits(count_max, bytes_max, 1 << 16)

    assert cut(payloads, limits, group) == plain_cut(payloads, limits)


def test_a_message_larger_than_a_chunk_goes_alone() -> None:
    limits = Limits(10, 100, 1000)
    assert cut([b"a", b"b" * 500, b"c"], limits, 3) == [[b"a"], [b"b" * 500], [b"c"]]


def test_messages_that_no_stream_takes_are_refused() -> None:
    with pytest.raises(SinkError, match="a payload is empty"):
        cut([b"a", b""], MANY, 10)
    with pytest.raises(SinkError, match="70000 bytes is larger than the 65536"):
        cut([b"x" * 70_000], MANY, 10)
