"""Short ways to say what log tests say all the time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from penstock.block import Block
from penstock.errors import DataDamaged
from penstock.log.log import Log

EVERYTHING = 1 << 40


def append(log: Log, payloads: Sequence[bytes], time_ms: int = 1) -> int:
    """Append a batch; the number of its first message."""
    return log.append(b"".join(payloads), list(map(len, payloads)), time_ms)


def messages(blocks: Iterable[Block]) -> dict[int, bytes]:
    """Numbers and payloads, after a look at the blocks themselves."""
    found = {}
    for block in blocks:
        assert block.intact(), "every read verifies what it returns"
        found.update(enumerate(block.payloads(), block.first_sequence))
    return found


def contents(log: Log) -> dict[int, bytes]:
    """Everything that can be read; damaged messages are left out."""
    found, _ = contents_and_damage(log)
    return found


def contents_and_damage(log: Log) -> tuple[dict[int, bytes], set[int]]:
    """Everything that can be read, and the numbers that reads call damaged."""
    found: dict[int, bytes] = {}
    damaged: set[int] = set()
    sequence = log.first_sequence
    while sequence < log.next_sequence:
        try:
            blocks = log.read(sequence, log.next_sequence, EVERYTHING, EVERYTHING)
        except DataDamaged as error:
            reported = range(error.first_sequence, error.last_sequence + 1)
            if sequence not in reported:
                raise
            damaged.update(reported)
            sequence = reported.stop
            continue
        if not blocks:
            break
        found.update(messages(blocks))
        sequence = blocks[-1].next_sequence
    return found, damaged


def numbered(count: int, start: int = 0, size: int = 10) -> list[bytes]:
    """Payloads that differ from each other."""
    return [f"{number:06d}".encode().ljust(size, b".") for number in range(start, start + count)]


def as_contents(payloads: Sequence[bytes], start: int = 0) -> dict[int, bytes]:
    return dict(enumerate(payloads, start))


def files(folder: Path, *endings: str) -> list[Path]:
    """The files of a folder whose names end so, sorted."""
    return sorted(path for path in folder.iterdir() if path.name.endswith(endings))


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def flip(path: Path, bit: int) -> None:
    """Change one bit of a file."""
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


def every_bit(content: bytes) -> Iterator[bytes]:
    """The same bytes with one bit changed, for every bit."""
    for bit in range(len(content) * 8):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        yield bytes(changed)
