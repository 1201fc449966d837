"""Store folders made by the server's own code, with a clock of the test's choice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from penstock import MessageStreamDefinition, StrategyOnFull
from penstock.block import Block
from penstock.streams.manager import StreamManager
from penstock.streams.stream import Stream

SEGMENT_BYTES = 4096
TIME_MS = 1_700_000_000_000


@contextmanager
def open_store(root: Path) -> Iterator[StreamManager]:
    """A store that is being written to."""
    manager = StreamManager(str(root))
    try:
        yield manager
    finally:
        assert manager.close() == []


def make_stream(manager: StreamManager, name: str = "S", **fields: object) -> Stream:
    settings: dict[str, object] = {
        "strategy_on_full": StrategyOnFull.OverwriteOldestData,
        "stream_segment_size": SEGMENT_BYTES,
    }
    return manager.create(MessageStreamDefinition(name, **(settings | fields)))


def append(stream: Stream, payloads: Sequence[bytes], time_ms: int = TIME_MS) -> None:
    stream.append(b"".join(payloads), [len(each) for each in payloads], time_ms)
    stream.show_appended(stream.log.next_sequence)


def make_store(root: Path, **streams: Sequence[bytes]) -> Path:
    """A closed store; each stream with its payloads."""
    with open_store(root) as manager:
        for name, payloads in streams.items():
            append(make_stream(manager, name), payloads)
    return root


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [b"message %d" % number for number in range(first, first + count)]


def payloads_of(blocks: Iterator[Block]) -> list[bytes]:
    return [payload for block in blocks for payload in block.payloads()]


def stream_folder(root: Path) -> Path:
    """The folder of the only stream."""
    (folder,) = (root / "streams").iterdir()
    return folder


def flip_bit(file: Path, position: int) -> None:
    content = bytearray(file.read_bytes())
    content[position] ^= 1
    file.write_bytes(content)
