"""Short ways to say what stream tests say all the time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from log.helpers import EVERYTHING, messages
from penstock.block import ENTRY_BYTES
from penstock.errors import DataDamaged
from penstock.model import (
    ExportDefinition,
    KinesisConfig,
    MessageStreamDefinition,
    Persistence,
    StrategyOnFull,
)
from penstock.streams.stream import Stream

# Ten payload bytes and an entry; segments of two of them are the smallest that are allowed to be
# smaller than the stream.
SEGMENT_BYTES = 1024
PAYLOAD_BYTES = 1024 // 4 - ENTRY_BYTES
RECORD_BYTES = 1024 // 4


def definition(name: str = "s", **options: Any) -> MessageStreamDefinition:
    """A stream of four records per segment and four segments, unless told otherwise."""
    values = {
        "max_size": 4 * SEGMENT_BYTES,
        "stream_segment_size": SEGMENT_BYTES,
        "strategy_on_full": StrategyOnFull.RejectNewData,
        "persistence": Persistence.File,
    }
    return MessageStreamDefinition(name, **(values | options)).validated()


def exporting(*configs: KinesisConfig) -> ExportDefinition:
    return ExportDefinition(kinesis=list(configs))


def kinesis(identifier: str = "k", start: int = 0, **options: Any) -> KinesisConfig:
    return KinesisConfig(identifier, "target", start_sequence_number=start, **options)


def records(count: int, start: int = 0) -> list[bytes]:
    """Payloads that differ, each a quarter of a segment with its entry."""
    return [
        f"{number:06d}".encode().ljust(PAYLOAD_BYTES, b".")
        for number in range(start, start + count)
    ]


def append(stream: Stream, payloads: Sequence[bytes], now_ms: int = 1) -> int:
    """Append and show, as the server does without flushOnWrite."""
    first = stream.append(b"".join(payloads), list(map(len, payloads)), now_ms)
    stream.show_appended(stream.log.next_sequence)
    return first


def append_each(stream: Stream, payloads: Sequence[bytes], now_ms: int = 1) -> None:
    for payload in payloads:
        append(stream, [payload], now_ms)


def contents(stream: Stream) -> dict[int, bytes]:
    """Everything a reader can get, damage left out."""
    return contents_and_damage(stream)[0]


def contents_and_damage(stream: Stream) -> tuple[dict[int, bytes], set[int]]:
    found: dict[int, bytes] = {}
    damaged: set[int] = set()
    sequence = 0
    while stream.available_from(sequence):
        try:
            blocks = stream.read(sequence, EVERYTHING, EVERYTHING)
            if callable(blocks):
                blocks = blocks()
        except DataDamaged as error:
            reported = range(error.first_sequence, error.last_sequence + 1)
            damaged.update(reported)
            sequence = reported.stop
            continue
        found.update(messages(blocks))
        sequence = blocks[-1].next_sequence
    return found, damaged


def stored_bytes(payloads: Sequence[bytes]) -> int:
    return sum(len(payload) + ENTRY_BYTES for payload in payloads)
