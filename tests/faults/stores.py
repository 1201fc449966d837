"""A small store whose content is known, opened after something was done to its files."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import DataDamaged
from penstock.model import (
    ExportDefinition,
    HTTPConfig,
    MessageStreamDefinition,
    StrategyOnFull,
)
from penstock.streams.exports import ExportProgress
from penstock.streams.manager import StreamManager
from penstock.streams.stream import Stream

NAME = "s"
SEGMENT_BYTES = 1024
RANGE = re.compile(r"messages (\d+) to (\d+)")


@dataclass(frozen=True)
class KnownStore:
    """A store on disk and everything that was acknowledged in it."""

    root: Path
    acknowledged: dict[int, bytes]

    @property
    def folder(self) -> Path:
        (folder,) = (self.root / "streams").iterdir()
        return folder

    def last_segment(self) -> tuple[Path, Path]:
        """Its data and its index."""
        return max(self.folder.glob("*.data")), max(self.folder.glob("*.index"))

    def copied_to(self, root: Path) -> KnownStore:
        if root.exists():
            shutil.rmtree(root)
        shutil.copytree(self.root, root)
        return KnownStore(root, self.acknowledged)


def make_store(root: Path, message_count: int = 25) -> KnownStore:
    """Two segments and an export, left behind as by a process that was killed."""
    manager = StreamManager(str(root))
    definition = MessageStreamDefinition(
        name=NAME,
        stream_segment_size=SEGMENT_BYTES,
        strategy_on_full=StrategyOnFull.RejectNewData,
        export_definition=ExportDefinition(http=[HTTPConfig("e", "http://127.0.0.1:1/")]),
    )
    stream = manager.create(definition)
    acknowledged = {}
    for number in range(message_count):
        payload = b"message %d " % number + b"." * (number % 7)
        assert stream.append(payload, [len(payload)], 1_700_000_000_000 + number) == number
        acknowledged[number] = payload
    stream.exports.save(ExportProgress("e", "HTTPConfig", 0, 3, 4, 40))
    assert len(stream.log.segments) == 2
    stream.abandon()
    return KnownStore(root, acknowledged)


def reopened(store: KnownStore) -> Iterator[Stream]:
    """The stream, if it can still be served."""
    manager = StreamManager(str(store.root))
    stream = manager.find(NAME)
    if stream is not None:
        yield stream
        stream.abandon()


def check_stream(stream: Stream, acknowledged: dict[int, bytes], *, notices: list[str]) -> None:
    """Everything is read back equal or reported, and no number is given twice."""
    reported = {
        number
        for notice in notices
        for first, last in RANGE.findall(notice)
        for number in range(int(first), int(last) + 1)
    }
    for number, payload in acknowledged.items():
        found = read_one(stream, number)
        assert found == payload or (found is None and number in reported), (
            f"message {number}: read {found!r}, stored {payload!r}, reported {sorted(reported)}"
        )
    next_number = stream.append(b"the next one", [12], 1_800_000_000_000)
    assert next_number > max(acknowledged), "a number was given twice"
    stream.show_appended(next_number + 1)
    assert read_one(stream, next_number) == b"the next one"


def read_one(stream: Stream, number: int) -> bytes | None:
    """The payload; None if it is damaged, in which case the error names it, or missing."""
    try:
        blocks = stream.log.read(number, stream.log.next_sequence, 1, 1 << 20)
    except DataDamaged as error:
        check_text(error, number)
        return DAMAGED
    if not blocks or blocks[0].first_sequence != number:
        return None
    return blocks[0].data


class _Damaged(bytes):
    """Compares equal to anything that was stored: a read that says "damaged" is a report."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


DAMAGED = _Damaged()


def check_text(error: DataDamaged, number: int) -> None:
    """An operator needs the file and the byte, a reader the number to go on from."""
    assert error.first_sequence <= number <= error.last_sequence
    text = str(error)
    assert ".data" in text, text
    assert "read on from" in text, text
    assert str(number) in text, text
