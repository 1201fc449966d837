"""`penstock dead-letters`: messages that a destination refused for good."""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.connection import Server, connection_options, stream_names
from penstock.cli.output import (
    Column,
    CommandFailed,
    Status,
    plural,
    say,
    show_facts,
    show_json,
    show_table,
)
from penstock.cli.streams import json_option
from penstock.export_model import DeadLetter
from penstock.units import rounded_bytes, shown_time

if TYPE_CHECKING:
    from penstock.client.sync import StreamManagerClient

COLUMNS = (
    Column("Id", is_number=True),
    Column("Stream"),
    Column("Export"),
    Column("Number", is_number=True),
    Column("Size", is_number=True),
    Column("Refused"),
    Column("Replay"),
    Column("Reason"),
)
PAGE_SIZE = 1000


def selection(function: Callable[..., Any]) -> Callable[..., Any]:
    """Which letters: --stream and --export."""
    function = click.option("--export", metavar="NAME", help="Only of this export.")(function)
    return click.option(
        "--stream", metavar="NAME", help="Only of this stream.", shell_complete=stream_names
    )(function)


@click.group("dead-letters")
def dead_letters() -> None:
    """Treat messages that a destination refused."""


@dead_letters.command("list")
@selection
@json_option
@connection_options
def list_letters(server: Server, stream: str | None, export: str | None, as_json: bool) -> None:
    """Show all dead letters, oldest first."""
    with server.connected() as client:
        letters = list(_all(client, stream, export))
    if as_json:
        show_json([_as_json(letter) for letter in letters])
    elif letters:
        show_table(COLUMNS, [_row(letter) for letter in letters])
    else:
        say("There are no dead letters.")


@dead_letters.command()
@click.argument("letter_id", type=int, metavar="ID")
@json_option
@connection_options
def show(server: Server, letter_id: int, as_json: bool) -> None:
    """Show one dead letter whole, with its payload."""
    with server.connected() as client:
        found = client.find_dead_letters(ids=[letter_id])
    if not found:
        raise CommandFailed(
            f"There is no dead letter {letter_id}. `penstock dead-letters list` shows them."
        )
    letter = found[0]
    if as_json:
        show_json(_as_json(letter))
        return
    show_facts(
        [
            ("stream", letter.stream_name),
            ("export", letter.export_identifier),
            ("number", str(letter.sequence_number)),
            ("appended", shown_time(letter.ingest_time)),
            ("refused", shown_time(letter.refused_time)),
            ("reason", letter.reason),
            ("size", rounded_bytes(len(letter.payload))),
            ("payload", letter.payload.decode(errors="backslashreplace")),
        ]
    )


@dead_letters.command()
@click.argument("letter_ids", type=int, nargs=-1, metavar="[ID]...")
@click.option("--all", "everything", is_flag=True, help="All that fit --stream and --export.")
@selection
@connection_options
def replay(
    server: Server,
    letter_ids: tuple[int, ...],
    everything: bool,
    stream: str | None,
    export: str | None,
) -> None:
    """Send dead letters again; those that go through are forgotten."""
    _check_selection(letter_ids, everything, stream, export)
    with server.connected() as client:
        count = client.replay_dead_letters(stream, export, list(letter_ids))
    say(f"{plural(count, 'dead letter')} will be sent again.")


@dead_letters.command()
@click.argument("letter_ids", type=int, nargs=-1, metavar="[ID]...")
@click.option("--all", "everything", is_flag=True, help="All that fit --stream and --export.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@selection
@connection_options
def purge(
    server: Server,
    letter_ids: tuple[int, ...],
    everything: bool,
    yes: bool,
    stream: str | None,
    export: str | None,
) -> None:
    """Throw dead letters away."""
    _check_selection(letter_ids, everything, stream, export)
    if not yes:
        if not sys.stdin.isatty():
            raise CommandFailed("Nothing was purged: give --yes to confirm.", Status.WRONG_USAGE)
        click.confirm("Throw these dead letters away for good?", abort=True)
    with server.connected() as client:
        count = client.purge_dead_letters(stream, export, list(letter_ids))
    say(f"{plural(count, 'dead letter')} purged.")


def _check_selection(
    letter_ids: tuple[int, ...], everything: bool, stream: str | None, export: str | None
) -> None:
    if not letter_ids and not everything and stream is None and export is None:
        raise CommandFailed(
            "Which dead letters? Give ids, --stream, --export, or --all.", Status.WRONG_USAGE
        )


def _all(
    client: StreamManagerClient, stream: str | None, export: str | None
) -> Iterator[DeadLetter]:
    after_id = 0
    while page := client.find_dead_letters(stream, export, after_id=after_id, count_max=PAGE_SIZE):
        yield from page
        after_id = page[-1].id


def _as_json(letter: DeadLetter) -> dict[str, Any]:
    return letter.as_dict() | {"payload": base64.b64encode(letter.payload).decode()}


def _row(letter: DeadLetter) -> list[str]:
    return [
        str(letter.id),
        letter.stream_name,
        letter.export_identifier,
        str(letter.sequence_number),
        rounded_bytes(len(letter.payload)),
        shown_time(letter.refused_time),
        "asked for" if letter.replay else "",
        letter.reason,
    ]
