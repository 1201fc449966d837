"""What `penstock append` reads: chunks of a file or of standard input, cut into batches."""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from io import RawIOBase
from typing import NamedTuple

from penstock.cli.output import CommandFailed, errors_are_on_terminal
from penstock.units import rounded_bytes

# What is read at once is sent at once: a slow pipe delivers each line as it comes, a file in
# requests that are large enough to be fast and far below every frame limit.
CHUNK_BYTES = 256 * 1024
# Lines of a few bytes make long lists; this keeps one request from blocking the server for long.
BATCH_MESSAGES_MAX = 10_000
# The frame limit of the wire: a longer message cannot be sent, so reading on is of no use.
MESSAGE_BYTES_MAX = 2**30


class Input(NamedTuple):
    """An open file, and its size if it is known."""

    file: RawIOBase
    size_bytes: int | None

    def chunks(self) -> Iterator[bytes]:
        """What there is, without waiting for a chunk to fill up."""
        while (chunk := self.file.read(CHUNK_BYTES)) != b"":
            if chunk is None:
                # Another program has made a pipe that we share non-blocking: wait here instead.
                select.select([self.file], [], [])
            else:
                yield chunk


@contextmanager
def opened_input(path: str) -> Iterator[Input]:
    """A file, or standard input if the path is a hyphen."""
    if path == "-" and sys.stdin is None:
        raise CommandFailed("standard input is closed. Give messages or --file.")
    # Unbuffered: a read returns what is there.
    with open(
        sys.stdin.fileno() if path == "-" else path, "rb", buffering=0, closefd=path != "-"
    ) as file:
        found = os.fstat(file.fileno())
        size_bytes = found.st_size if stat.S_ISREG(found.st_mode) else None
        yield Input(file, size_bytes)


def batches_of(chunks: Iterable[bytes], *, whole: bool) -> Iterator[list[bytes]]:
    """Messages in portions that are worth a request each. Empty ones are still there."""
    for messages in _all_of(chunks) if whole else lines_of(chunks):
        for start in range(0, len(messages), BATCH_MESSAGES_MAX):
            yield messages[start : start + BATCH_MESSAGES_MAX]


def lines_of(chunks: Iterable[bytes]) -> Iterator[list[bytes]]:
    """For each chunk, the lines that it completes; the last line needs no end."""
    pending: list[bytes] = []
    pending_bytes = 0
    for chunk in chunks:
        first, *rest = chunk.split(b"\n")
        pending.append(first)
        pending_bytes = _checked_size(pending_bytes + len(first))
        if rest:
            lines = [b"".join(pending), *rest[:-1]]
            pending, pending_bytes = [rest[-1]], len(rest[-1])
            yield [line.removesuffix(b"\r") for line in lines]
    last = b"".join(pending)
    if last:
        yield [last.removesuffix(b"\r")]


def _all_of(chunks: Iterable[bytes]) -> Iterator[list[bytes]]:
    pieces: list[bytes] = []
    size_bytes = 0
    for chunk in chunks:
        pieces.append(chunk)
        size_bytes = _checked_size(size_bytes + len(chunk))
    yield [b"".join(pieces)]


def _checked_size(size_bytes: int) -> int:
    if size_bytes > MESSAGE_BYTES_MAX:
        raise CommandFailed(
            f"a message is longer than {rounded_bytes(MESSAGE_BYTES_MAX)}, the limit of the "
            "protocol. Cut the input into smaller messages."
        )
    return size_bytes


@contextmanager
def progress_of(source: Input, state: Callable[[], str]) -> Iterator[Iterator[bytes]]:
    """The input's chunks; while they are taken, a bar on standard error if that is a terminal.

    Not when somebody types the input: the bar would run over the letters.
    """
    if not errors_are_on_terminal() or source.file.isatty():
        yield source.chunks()
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        BarColumn(),
        DownloadColumn(binary_units=True),
        TextColumn("{task.description}"),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=source.size_bytes)

        def watched() -> Iterator[bytes]:
            for chunk in source.chunks():
                yield chunk
                # Back here the chunk has been appended.
                progress.update(task, advance=len(chunk), description=state())

        yield watched()
