"""`penstock append` and `penstock read`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from time import monotonic
from typing import TYPE_CHECKING, Any

import click
import msgspec

from penstock.cli.connection import Server, connection_options, stream_names
from penstock.cli.input import batches_of, opened_input, progress_of
from penstock.cli.output import (
    CommandFailed,
    complain,
    explained,
    output_is_terminal,
    plural,
    printable,
    say,
    show_json,
    write,
)
from penstock.errors import (
    ConnectionLostException,
    NotEnoughMessagesException,
    PenstockError,
    RequestTimeoutException,
)
from penstock.model import Message, ReadMessagesOptions, StorageStatus
from penstock.units import parsed_whole, rounded_bytes, shown_time

if TYPE_CHECKING:
    from penstock.client.sync import StreamManagerClient

# One read: large enough to be fast, small enough to show something soon.
READ_MESSAGES_MAX = 1000
# The rate of a handful of messages says more about the clock than about the server.
RATE_MESSAGES_MIN = 1000


# --- append -------------------------------------------------------------------------------------


@click.command(short_help="Append messages to a stream.")
@click.argument("stream", shell_complete=stream_names)
@click.argument("messages", metavar="[MESSAGE]...", nargs=-1)
@click.option("--file", "path", metavar="FILE", help="Append what is in FILE; - is standard input.")
@click.option(
    "--lines/--whole",
    default=True,
    help="Each line of the input is a message (default), or all of it is one.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@connection_options
def append(
    server: Server,
    stream: str,
    messages: tuple[str, ...],
    path: str | None,
    lines: bool,
    as_json: bool,
) -> None:
    """Append to STREAM each MESSAGE, or what is in a file or comes from standard input.

    A single hyphen as MESSAGE is standard input, too. Lines end with a line feed, or carriage
    return and line feed, which are not stored. Empty lines are skipped: a message has at least one
    byte.
    """
    path = _input_path(messages, path)
    tally = Tally(stream, from_input=path is not None)
    with ExitStack() as stack:
        if path is None:
            batches: Iterable[list[bytes]] = [[os.fsencode(text) for text in messages]]
        else:
            source = stack.enter_context(opened_input(path))
            chunks = stack.enter_context(progress_of(source, tally.state))
            batches = batches_of(chunks, whole=not lines)
        client = stack.enter_context(server.connected())
        append_batches(client, batches, tally)
    if as_json:
        show_json(tally.as_dict())
    else:
        say(tally.summary())


def _input_path(messages: tuple[str, ...], path: str | None) -> str | None:
    """The file to read, - for standard input, or None if the messages are on the command line."""
    context = click.get_current_context()
    if messages == ("-",):
        messages, path = (), path or "-"
    if messages and path is not None:
        raise click.UsageError("Give messages or --file, not both.", context)
    if "" in messages:
        raise click.UsageError("A MESSAGE is empty, but a message has at least one byte.", context)
    if messages or path is not None:
        return path
    if sys.stdin is None or sys.stdin.isatty():
        raise click.UsageError(
            "Nothing to append: give messages, --file, or - to type lines.", context
        )
    return "-"


class Tally:
    """What an append has done so far."""

    def __init__(self, stream: str, *, from_input: bool) -> None:
        self.stream = stream
        self.from_input = from_input
        self.first_sequence: int | None = None
        self.last_sequence: int | None = None
        self.message_count = 0
        self.total_bytes = 0
        self.empty_count = 0
        self.unanswered_count = 0
        self._started_s: float | None = None
        self._seconds = 0.0

    def sending(self, payloads: list[bytes]) -> None:
        if self._started_s is None:
            self._started_s = monotonic()
        self.unanswered_count = len(payloads)

    def stored(self, payloads: list[bytes], first: int, last: int) -> None:
        if self.first_sequence is None:
            self.first_sequence = first
        self.last_sequence = last
        self.message_count += len(payloads)
        self.total_bytes += sum(map(len, payloads))
        self.unanswered_count = 0
        self._seconds = monotonic() - (self._started_s or 0.0)

    def state(self) -> str:
        """For the progress bar."""
        return f"{plural(self.message_count, 'message')}, {self._rate():,.0f}/s"

    def summary(self) -> str:
        if not self.message_count:
            return f"Appended nothing to {self.stream}: the input holds no message."
        text = f"Appended {plural(self.message_count, 'message')} to {self.stream}: "
        text += f"{self._numbers()} ({rounded_bytes(self.total_bytes)}"
        if self.message_count >= RATE_MESSAGES_MIN:
            text += f" in {self._seconds:.1f} s, {self._rate():,.0f}/s"
        text += ")."
        if self.empty_count:
            text += f" {plural(self.empty_count, 'empty line')} skipped."
        return text

    def so_far(self, *, is_certain: bool) -> str:
        """What was done before an error. Without input there is one batch: nothing came before."""
        if not self.from_input:
            return ""
        held = plural(self.message_count, "message") if self.message_count else "nothing"
        text = f" Stored before that: {held}"
        text += f", {self._numbers()}." if self.message_count else "."
        if not is_certain and self.unanswered_count:
            text += f" {plural(self.unanswered_count, 'more message')} may have been stored."
        return text

    def as_dict(self) -> dict[str, Any]:
        return {
            "streamName": self.stream,
            "messageCount": self.message_count,
            "firstSequenceNumber": self.first_sequence,
            "lastSequenceNumber": self.last_sequence,
            "totalBytes": self.total_bytes,
            "emptyLinesSkipped": self.empty_count,
            "seconds": round(self._seconds, 6),
        }

    def _numbers(self) -> str:
        if self.first_sequence == self.last_sequence:
            return f"number {self.first_sequence}"
        return f"numbers {self.first_sequence} to {self.last_sequence}"

    def _rate(self) -> float:
        return self.message_count / max(self._seconds, 1e-6)


def append_batches(
    client: StreamManagerClient, batches: Iterable[list[bytes]], tally: Tally
) -> None:
    """Send every batch; an error says what had been stored before it."""
    try:
        for batch in batches:
            payloads = [payload for payload in batch if payload]
            tally.empty_count += len(batch) - len(payloads)
            if payloads:
                tally.sending(payloads)
                appended = client.append_messages(tally.stream, payloads)
                tally.stored(payloads, *appended)
    except KeyboardInterrupt:
        complain(f"interrupted.{tally.so_far(is_certain=False)}")
        raise
    except (PenstockError, OSError, CommandFailed) as error:
        failure = explained(error)
        assert failure is not None, "all three are expected errors"
        is_certain = not isinstance(error, ConnectionLostException | RequestTimeoutException)
        text = failure.text + tally.so_far(is_certain=is_certain)
        raise CommandFailed(text, failure.status) from error


# --- read ---------------------------------------------------------------------------------------


@click.command(short_help="Print the messages of a stream.")
@click.argument("stream", shell_complete=stream_names)
@click.option(
    "--start",
    default="oldest",
    show_default=True,
    metavar="NUMBER|oldest|newest",
    help="First message. A negative number counts from the end. With --follow, newest means only "
    "messages that come from now on.",
)
@click.option("--count", type=click.IntRange(min=1), help="Stop after so many messages.")
@click.option("--follow", is_flag=True, help="Wait for more messages, until Ctrl-C.")
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["text", "json", "hex", "raw"]),
    default="text",
    show_default=True,
    help="text: a line per message; on a terminal with number and time, and without control "
    "characters. json: an object per line, the payload in base64. hex: a line of digits. raw: the "
    "bytes, with nothing between them.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@connection_options
def read(
    server: Server,
    stream: str,
    start: str,
    count: int | None,
    follow: bool,
    format_name: str,
    as_json: bool,
) -> None:
    """Print the messages of STREAM: those that are there now, or with --follow for ever."""
    shown = _format("json" if as_json else format_name)
    with server.connected() as client:
        storage = client.describe_message_stream(stream).storage_status
        first = _first_sequence(start, storage, follow=follow)
        shown_count = 0
        next_sequence = first
        for message in stored_messages(client, stream, first, storage, count):
            write(shown(message))
            next_sequence = (message.sequence_number or 0) + 1
            shown_count += 1
        write(b"", flush=True)
        if not follow:
            if not shown_count:
                complain(f"stream {stream} holds no message from number {first} on.")
            return
        if count is not None and shown_count >= count:
            return
        for message in client.follow(stream, max(next_sequence, first)):
            write(shown(message), flush=True)
            shown_count += 1
            if shown_count == count:
                return


def stored_messages(
    client: StreamManagerClient,
    stream: str,
    first: int,
    storage: StorageStatus,
    count: int | None,
) -> Iterator[Message]:
    """Messages from `first` to the newest of `storage`, at most `count`."""
    newest = storage.newest_sequence_number
    left = newest - first + 1 if count is None else min(count, newest - first + 1)
    next_sequence = first
    while left > 0 and next_sequence <= newest:
        options = ReadMessagesOptions(
            desired_start_sequence_number=next_sequence,
            max_message_count=min(left, READ_MESSAGES_MAX, newest - next_sequence + 1),
        )
        try:
            messages = client.read_messages(stream, options)
        except NotEnoughMessagesException:
            return  # they were removed while we read
        yield from messages
        left -= len(messages)
        next_sequence = (messages[-1].sequence_number or 0) + 1


def _first_sequence(start: str, storage: StorageStatus, *, follow: bool) -> int:
    """The number to begin with."""
    newest = storage.newest_sequence_number
    if start == "oldest":
        return storage.oldest_sequence_number
    if start == "newest":
        return newest + 1 if follow else max(newest, storage.oldest_sequence_number)
    try:
        number = parsed_whole(start)
    except ValueError:
        raise click.BadParameter(
            f'"{start}" is not a number, oldest or newest',
            click.get_current_context(),
            param_hint="--start",
        ) from None
    if number < 0:
        number = newest + 1 + number
    return max(number, storage.oldest_sequence_number)


def _format(name: str) -> Callable[[Message], bytes]:
    if name in ("text", "hex") and output_is_terminal():
        return _text_for_terminal if name == "text" else _hex_for_terminal
    return {
        "text": lambda message: message.payload + b"\n",
        "json": lambda message: msgspec.json.encode(message) + b"\n",
        "hex": lambda message: message.payload.hex().encode() + b"\n",
        "raw": lambda message: message.payload,
    }[name]


def _text_for_terminal(message: Message) -> bytes:
    text = printable(message.payload.decode(errors="backslashreplace"))
    return _labelled(message, text)


def _hex_for_terminal(message: Message) -> bytes:
    return _labelled(message, message.payload.hex(" "))


def _labelled(message: Message, text: str) -> bytes:
    time = shown_time(message.ingest_time or 0)
    label = click.style(f"{message.sequence_number:>8}  {time}", dim=True)
    return f"{label}  {text}\n".encode()
