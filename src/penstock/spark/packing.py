"""Rows of Arrow -> messages as they travel: payloads one after another, and their sizes.

Nothing here goes through messages one by one, except that rows without a payload column have to
become Python objects on their way to JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa

from penstock.block import ENTRY_BYTES
from penstock.client.calls import PackedPayloads
from penstock.spark.sink_options import PAYLOAD, SinkError

if TYPE_CHECKING:
    from numpy.typing import NDArray

NEWLINE = 10
# Decimals as numbers and binaries as base64, as Spark's to_json writes them.
_ENCODER = msgspec.json.Encoder(decimal_format="number")


@dataclass(frozen=True)
class Limits:
    """How much goes into one chunk, and into one message."""

    chunk_messages_max: int
    chunk_bytes_max: int  # with what a message takes besides its payload
    payload_bytes_max: int


@dataclass(frozen=True)
class Packed:
    """A run of messages."""

    sizes: NDArray[np.uint32]
    data: bytes


def payload_column(batch: pa.RecordBatch) -> Packed:
    """The messages in the column `payload`, which is binary or text."""
    column = batch.column(PAYLOAD)
    if column.null_count:
        raise SinkError(
            "column payload is null in some rows, and a message cannot be; leave them out with "
            "where payload is not null"
        )
    wide = pa.types.is_large_binary(column.type) or pa.types.is_large_string(column.type)
    _, offsets_buffer, data_buffer = column.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64 if wide else np.int32)
    offsets = offsets[column.offset : column.offset + len(column) + 1]
    data = data_buffer[int(offsets[0]) : int(offsets[-1])].to_pybytes() if data_buffer else b""
    return Packed(np.diff(offsets).astype("<u4"), data)


def rows_as_json(batch: pa.RecordBatch) -> Packed:
    """Each row as a JSON object. As with to_json, a null is left out."""
    rows = batch.to_pylist(maps_as_pydicts="strict")
    if any(column.null_count for column in batch.columns):
        rows = [{name: value for name, value in row.items() if value is not None} for row in rows]
    try:
        lines = np.frombuffer(_ENCODER.encode_lines(rows), np.uint8)
    except (TypeError, ValueError) as error:
        raise SinkError(
            f"a row cannot be written as JSON: {error}; write the payload yourself, for example "
            f"to_json(struct(*)) AS payload"
        ) from error
    # Within JSON a line feed is written as \\n, so each one ends a row.
    is_end = lines == NEWLINE
    ends = np.flatnonzero(is_end)
    return Packed(np.diff(ends, prepend=-1).astype("<u4") - 1, lines[~is_end].tobytes())


def packer(columns: dict[str, str], as_json: bool | None) -> Callable[[Any], Packed]:
    """How rows of these columns (name -> Spark type) become messages."""
    if as_json or (as_json is None and PAYLOAD not in columns):
        return rows_as_json
    if PAYLOAD not in columns:
        raise SinkError(
            f"there is no column payload among {', '.join(columns)}; name one so, or set option "
            f"payload to json for the whole row as JSON"
        )
    if columns[PAYLOAD] not in ("binary", "string"):
        raise SinkError(
            f"column payload is of type {columns[PAYLOAD]}; it must be binary or string: cast it, "
            f"or set option payload to json for the whole row as JSON"
        )
    others = sorted(columns.keys() - {PAYLOAD})
    if others and as_json is None:
        raise SinkError(
            f"besides payload there is the column {others[0]}, which would be dropped; select "
            f"payload alone, or set option payload to payload, or to json for the whole row"
        )
    return payload_column


def chunks(messages: Iterable[Packed], limits: Limits) -> Iterator[PackedPayloads]:
    """The same messages, cut where the limits are reached.

    The cuts depend on the messages alone and not on how Spark has grouped them: the second time
    they must be the same.
    """
    sizes: NDArray[np.uint32] = np.empty(0, "<u4")
    data = b""
    for more in messages:
        _check(more, limits)
        sizes = np.concatenate((sizes, more.sizes))
        data = data + more.data if data else more.data
        ends = np.cumsum(sizes, dtype=np.int64)
        stored = ends + ENTRY_BYTES * np.arange(1, len(sizes) + 1)
        start = start_bytes = start_stored = 0
        while True:
            fitting = int(np.searchsorted(stored, start_stored + limits.chunk_bytes_max, "right"))
            stop = max(start + 1, min(fitting, start + limits.chunk_messages_max))
            if stop >= len(sizes):
                break  # the next message may still fit
            stop_bytes = int(ends[stop - 1])
            yield PackedPayloads(sizes[start:stop].tobytes(), data[start_bytes:stop_bytes])
            start, start_bytes, start_stored = stop, stop_bytes, int(stored[stop - 1])
        sizes, data = sizes[start:], data[start_bytes:]
    if len(sizes):
        yield PackedPayloads(sizes.tobytes(), data)


def _check(messages: Packed, limits: Limits) -> None:
    if not len(messages.sizes):
        return
    if messages.sizes.min() == 0:
        raise SinkError(
            "a payload is empty, and a message has at least one byte; leave such rows out with "
            "where length(payload) > 0"
        )
    largest = int(messages.sizes.max())
    if largest > limits.payload_bytes_max:
        raise SinkError(
            f"a message of {largest} bytes is larger than the {limits.payload_bytes_max} that the "
            f"stream takes; make it smaller, or raise the stream's maxSize or the server's "
            f"frame_bytes_max"
        )
