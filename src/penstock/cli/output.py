"""What the command line prints: text, tables, JSON; and what it says when something is wrong."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from penstock.errors import (
    ConnectFailedException,
    ConnectionLostException,
    PenstockError,
    RequestTimeoutException,
    ResourceNotFoundException,
    ResponseStatusCode,
    ServerUnreachableException,
    SettingsError,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


class Status(IntEnum):
    """How a command ended."""

    DONE = 0
    FAILED = 1
    WRONG_USAGE = 2
    UNREACHABLE = 3
    INTERRUPTED = 130


class Failure(NamedTuple):
    """An expected error, as the user sees it."""

    text: str
    status: Status


class CommandFailed(Exception):
    """A command that has already found the words for what went wrong."""

    def __init__(self, text: str, status: Status = Status.FAILED) -> None:
        super().__init__(text)
        self.failure = Failure(text, status)


class OutputClosed(Exception):
    """Nobody reads standard output any more, as in `penstock read s | head`."""


# --- errors -------------------------------------------------------------------------------------


def explained(error: Exception) -> Failure | None:
    """Text and exit status of an expected error; None for a mistake of ours."""
    if isinstance(error, CommandFailed):
        return error.failure
    if isinstance(error, click.UsageError):
        return Failure(_usage_text(error), Status.WRONG_USAGE)
    if isinstance(error, click.ClickException):
        return Failure(sentence(error.format_message()), Status.FAILED)
    if isinstance(error, SettingsError):
        return Failure(str(error), Status.WRONG_USAGE)
    if isinstance(error, ServerUnreachableException):
        remedy = "Start a server with `penstock serve`, or name another with --host and --port."
        return Failure(f"{sentence(str(error))} {remedy}", Status.UNREACHABLE)
    if isinstance(error, ConnectionLostException | RequestTimeoutException):
        return Failure(sentence(str(error)), Status.UNREACHABLE)
    if isinstance(error, PenstockError):
        return Failure(f"{sentence(str(error))}{_remedy(error)}", Status.FAILED)
    if isinstance(error, OSError):
        return Failure(_os_text(error), Status.FAILED)
    return None


def complain(text: str) -> None:
    """Each line of the text on standard error, behind the program's name."""
    for line in text.splitlines():
        click.echo(f"penstock: {printable(line)}", err=True)


def sentence(text: str) -> str:
    """The text with a full stop, unless it has its own end."""
    return text if text.endswith((".", "!", "?", "?)")) else f"{text}."


def _remedy(error: PenstockError) -> str:
    """What to do, where the error itself cannot know that it speaks to a person at a shell."""
    if isinstance(error, ResourceNotFoundException):
        return " `penstock streams list` shows what there is."
    if isinstance(error, ConnectFailedException) and (
        error.status == ResponseStatusCode.Unauthorized
    ):
        return " Give a token with --token or AWS_CONTAINER_AUTHORIZATION_TOKEN."
    return ""


def _usage_text(error: click.UsageError) -> str:
    path = error.ctx.command_path if error.ctx else "penstock"
    text = " ".join(error.format_message().split())  # click lists choices line by line
    return f"{sentence(text)} Try `{path} --help`."


def _os_text(error: OSError) -> str:
    reason = error.strerror or str(error)
    place = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
    return sentence(f"{place}{reason}")


# --- standard output ----------------------------------------------------------------------------


def write(data: bytes, *, flush: bool = False) -> None:
    """Bytes to standard output. OutputClosed if nobody reads them any more."""
    if sys.stdout is None:
        raise OutputClosed
    try:
        sys.stdout.buffer.write(data)
        if flush:
            sys.stdout.buffer.flush()
    except BrokenPipeError as error:
        raise OutputClosed from error


def say(text: str) -> None:
    """A line to standard output."""
    write(text.encode(errors="surrogateescape") + b"\n", flush=True)


def show_json(value: Any) -> None:
    """One JSON document, for programs."""
    say(json.dumps(value, indent=2, ensure_ascii=False))


@contextmanager
def closing_output() -> Iterator[None]:
    """Flush at the end; a reader that went away ends the command quietly, with success."""
    try:
        yield
        write(b"", flush=True)
    except (OutputClosed, BrokenPipeError):  # the second one from click, which prints the help
        _discard_output()
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EIO):
            _discard_output()
        raise


def _discard_output() -> None:
    """What is still in the buffer would make the interpreter complain at its end."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# --- tables -------------------------------------------------------------------------------------


class Column(NamedTuple):
    """A heading, and on which side the values stand."""

    title: str
    is_number: bool = False


def show_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """A table: with rules and colour on a terminal, plain and never cut elsewhere."""
    cells = [[printable(cell) for cell in row] for row in rows]
    if output_is_screen():
        _show_rich_table(columns, cells)
    else:
        for line in plain_table(columns, cells):
            say(line)


def plain_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Lines with aligned columns, two spaces apart."""
    lines = [[column.title.upper() for column in columns], *rows]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    for line in lines:
        yield "  ".join(
            cell.rjust(width) if column.is_number else cell.ljust(width)
            for cell, width, column in zip(line, widths, columns, strict=True)
        ).rstrip()


def show_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Names and values, one pair per line."""
    pairs = list(facts)
    width = max(len(name) for name, _ in pairs)
    for name, value in pairs:
        label = click.style(name.ljust(width), dim=True) if output_is_coloured() else ""
        say(f"{label or name.ljust(width)}  {printable(value)}".rstrip())


def output_is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def output_is_screen() -> bool:
    """A terminal that can do more than add lines."""
    return output_is_terminal() and os.environ.get("TERM", "") not in ("", "dumb", "unknown")


def output_is_coloured() -> bool:
    """See no-color.org: any value of NO_COLOR that is not empty turns it off."""
    return output_is_screen() and not os.environ.get("NO_COLOR")


def terminal_console() -> Console:
    """rich's door to standard output."""
    from rich.console import Console

    return Console(no_color=not output_is_coloured(), highlight=False)


def errors_are_on_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def printable(text: str) -> str:
    """The text without characters that would steer a terminal: they become \\x1b and the like."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def plural(count: int, noun: str) -> str:
    """'1 message', '2,000 messages'."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def ruled_table() -> Table:
    """A table as terminals show it, without columns yet."""
    from rich import box
    from rich.table import Table

    return Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        header_style="bold",
        border_style="dim",
    )


def _show_rich_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    from rich.text import Text

    table = ruled_table()
    for column in columns:
        justify = "right" if column.is_number else "left"
        table.add_column(column.title, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*map(Text, row))
    terminal_console().print(table)
