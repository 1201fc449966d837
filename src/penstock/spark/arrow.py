"""Blocks as Arrow batches: the payloads stay where they are, and there is no loop over messages."""

from __future__ import annotations

from typing import Any

import numpy
import pyarrow

from penstock.block import Block

ENTRIES = numpy.dtype(
    [
        ("end", "<u8"),
        ("time_ms", "<i8"),
        ("payload_bytes", "<u4"),
        ("sequence_low", "<u4"),
        ("data_checksum", "<u4"),
        ("entry_checksum", "<u4"),
    ]
)
"""An index entry, see penstock.block."""

# Arrow counts the bytes of a column's batch in 32 bits, and Spark takes no other kind. A message
# has at most half of this.
BATCH_BYTES_MAX = 2**31 - 1

COLUMNS = (
    pyarrow.field("stream", pyarrow.string()),
    pyarrow.field("sequence_number", pyarrow.int64()),
    pyarrow.field("ingest_time", pyarrow.timestamp("us", tz="UTC")),
    pyarrow.field("payload", pyarrow.binary()),
)
SCHEMA = pyarrow.schema(COLUMNS)
SCHEMA_WITH_SERVER = pyarrow.schema((pyarrow.field("server", pyarrow.string()), *COLUMNS))


def to_batch(block: Block, stream: str, server: str | None) -> pyarrow.RecordBatch:
    """The messages of a verified block as rows; `server` if there is a column for it."""
    entries = numpy.frombuffer(block.index, ENTRIES)
    count = len(entries)
    columns = [
        _repeated(stream, count),
        pyarrow.array(numpy.arange(block.first_sequence, block.next_sequence, dtype=numpy.int64)),
        _timestamps(entries["time_ms"]),
        _payloads(block, entries),
    ]
    if server is None:
        return pyarrow.RecordBatch.from_arrays(columns, schema=SCHEMA)
    return pyarrow.RecordBatch.from_arrays(
        [_repeated(server, count), *columns], schema=SCHEMA_WITH_SERVER
    )


def _payloads(block: Block, entries: Any) -> pyarrow.Array:
    if len(block.data) > BATCH_BYTES_MAX:
        raise AssertionError(f"a block of {len(block.data)} bytes was to be read in parts")
    ends = entries["end"]
    offsets: Any = numpy.empty(len(entries) + 1, numpy.int32)
    offsets[0] = 0
    offsets[1:] = ends - (ends[0] - entries["payload_bytes"][0])
    return pyarrow.Array.from_buffers(
        pyarrow.binary(),
        len(entries),
        [None, pyarrow.py_buffer(offsets), pyarrow.py_buffer(block.data)],
    )


def _timestamps(times_ms: Any) -> pyarrow.Array:
    micros: Any = times_ms * 1000
    return pyarrow.Array.from_buffers(
        pyarrow.timestamp("us", tz="UTC"), len(micros), [None, pyarrow.py_buffer(micros)]
    )


def _repeated(text: str, count: int) -> pyarrow.Array:
    """One text for every row, without making as many objects."""
    encoded = text.encode()
    offsets: Any = numpy.arange(0, (count + 1) * len(encoded), len(encoded) or 1, dtype=numpy.int32)
    return pyarrow.Array.from_buffers(
        pyarrow.string(),
        count,
        [None, pyarrow.py_buffer(offsets), pyarrow.py_buffer(encoded * count)],
    )
