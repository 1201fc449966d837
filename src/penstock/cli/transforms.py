"""`penstock transforms`: look at declared transforms, try them out, begin them again."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import click

from penstock.cli.connection import Server, connection_options, stream_names
from penstock.cli.output import (
    Column,
    CommandFailed,
    Status,
    complain,
    plural,
    printable,
    say,
    show_json,
    show_table,
)
from penstock.cli.streams import json_option
from penstock.errors import PenstockError, ResourceNotFoundException
from penstock.settings import Settings
from penstock.settings.sources import nearest
from penstock.transforms.declaration import Transform
from penstock.transforms.keys import STARTS, start_position
from penstock.transforms.reports import TransformView
from penstock.units import shown_time

COLUMNS = (
    Column("Transform"),
    Column("From"),
    Column("To"),
    Column("State"),
    Column("Lag", is_number=True),
    Column("In per s", is_number=True),
    Column("Out per s", is_number=True),
    Column("In", is_number=True),
    Column("Out", is_number=True),
    Column("Batch", is_number=True),
    Column("Dead", is_number=True),
)
LAST_DEFAULT = 1000


def config_option(function: Callable[..., Any]) -> Callable[..., Any]:
    text = "Settings file, as serve would get it."
    return click.option("--config", "config_path", metavar="FILE", help=text)(function)


def recorded_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Which recorded messages: --last, of a server or --path."""
    for option in (
        click.option(
            "--path", metavar="FOLDER", help="Data directory to read, instead of a server."
        ),
        click.option(
            "--last",
            default=LAST_DEFAULT,
            show_default=True,
            type=click.IntRange(1, 10_000_000),
            metavar="NUMBER",
            help="Messages to take, the newest ones.",
        ),
        connection_options,
    ):
        function = option(function)
    return function


@click.group()
def transforms() -> None:
    """Look at declared transforms, try them out, begin them again."""


@transforms.command("list")
@json_option
@connection_options
def list_transforms(server: Server, as_json: bool) -> None:
    """Show what every transform of a server is doing."""
    with server.connected() as client:
        views = client.describe_transforms()
    if as_json:
        show_json([view.as_dict() for view in views])
    elif views:
        show_transforms(views)
    else:
        say("The server has no transforms: none was declared in its penstock.toml.")


@transforms.command()
@click.argument("name", required=False)
@config_option
def validate(name: str | None, config_path: str | None) -> int:
    """Have Spark check the declared transforms, or one of them."""
    chosen = [declared(name, config_path)] if name else all_declared(config_path)
    from penstock.pipeline.transform_tools import validate as verdicts_of

    verdicts = verdicts_of(chosen)
    for verdict in verdicts:
        if verdict.problem:
            complain(f"transform {verdict.name}: {verdict.problem}")
        else:
            say(printable(f"{verdict.name} is fine. It gives {verdict.columns}."))
    return Status.FAILED if any(verdict.problem for verdict in verdicts) else Status.DONE


@transforms.command("dry-run")
@click.argument("name")
@recorded_options
@config_option
def dry_run(
    server: Server, name: str, last: int, path: str | None, config_path: str | None
) -> None:
    """Print what a transform would emit from recorded messages, and write nothing.

    One row per line, as JSON. Malformed messages are told on standard error. All windows are shown,
    also those that a running transform would still keep open.
    """
    transform = declared(name, config_path)
    from penstock.pipeline.transform_tools import dry_run as rehearse

    place = place_of(server, path, transform.source)
    try:
        rehearsal = rehearse(transform, place, last)
    except PenstockError as error:
        raise CommandFailed(f"transform {name}: {error}") from error
    for malformed in rehearsal.malformed:
        complain(f"message {malformed.sequence_number} is malformed: {malformed.reason}")
    for row in rehearsal.rows:
        say(row)
    if sys.stderr is not None and sys.stderr.isatty():
        counts = plural(rehearsal.message_count, "message"), plural(len(rehearsal.rows), "row")
        complain(f"{counts[0]} in, {counts[1]} out; nothing was written.")


@transforms.command()
@click.argument("stream", shell_complete=stream_names)
@click.option(
    "--format",
    "payload_format",
    default="json",
    show_default=True,
    type=click.Choice(["json", "csv"]),
    help="Of the payloads.",
)
@recorded_options
def infer(server: Server, stream: str, payload_format: str, last: int, path: str | None) -> None:
    """Print a schema for a stream's messages, to paste into a declaration."""
    from penstock.pipeline.transform_tools import infer as inferred_from

    inferred = inferred_from(stream, payload_format, place_of(server, path, stream), last)
    if inferred.malformed_count:
        complain(
            f"{inferred.malformed_count} of {plural(inferred.message_count, 'message')} are not "
            "JSON objects and were left out."
        )
    say(f"schema = {json.dumps(inferred.schema, ensure_ascii=False)}")


@transforms.command()
@click.argument("name")
@click.option(
    "--from",
    "start",
    default="earliest",
    show_default=True,
    metavar="|".join([*STARTS, "NUMBER"]),
    help="Where it begins.",
)
@connection_options
def reset(server: Server, name: str, start: str) -> None:
    """Begin a transform again, with a new checkpoint.

    The old checkpoint stays in the data directory. What the transform has written stays too: from
    earlier messages it will write again.
    """
    try:
        start = start_position(start)
    except ValueError:
        raise CommandFailed(
            f"--from {start} cannot be used. Give {', '.join(STARTS)}, or a sequence number.",
            Status.WRONG_USAGE,
        ) from None
    with server.connected() as client:
        try:
            generation = client.reset_transform(name, start)
        except ResourceNotFoundException as error:
            raise CommandFailed(
                f"{error}. `penstock transforms list` shows what the server has."
            ) from error
    say(printable(f"{name} begins again at {start}, generation {generation}."))


# --- what the commands share --------------------------------------------------------------------


def show_transforms(views: Sequence[TransformView]) -> None:
    """A table, and below it why things are so."""
    show_table(COLUMNS, [_row(view) for view in views])
    for view in views:
        for note in notes(view):
            say(printable(f"transform {view.name}: {note}"))


def _row(view: TransformView) -> list[str]:
    return [
        view.name,
        view.source,
        view.target,
        view.state,
        "" if view.lag_messages is None else f"{view.lag_messages:,}",
        f"{view.rows_in_per_second:,.0f}",
        f"{view.rows_out_per_second:,.0f}",
        f"{view.rows_in:,}",
        f"{view.rows_out:,}",
        f"{view.batch_millis:,} ms",
        f"{view.dead_letters:,}",
    ]


def notes(view: TransformView) -> Iterator[str]:
    """What does not fit a table."""
    if view.next_retry_time is not None:
        tries = "try" if view.tries == 1 else "tries"
        until = shown_clock(view.next_retry_time)
        yield f"{view.state} until {until} after {view.tries} {tries}: {view.last_error or ''}"
    elif view.last_error:
        yield view.last_error
    if view.lost_messages:
        count = plural(view.lost_messages, "message")
        yield f"{count} had been removed from the stream before they could be read"


def shown_clock(time_ms: int) -> str:
    """The time of day, in UTC: 12:00:00Z."""
    return f"{shown_time(time_ms).rpartition('T')[2].partition('.')[0]}Z"


def all_declared(config_path: str | None) -> list[Transform]:
    found = list(Settings.load({}, os.environ, config_path).settings.transforms)
    if not found:
        raise CommandFailed(
            "No transform is declared. Write [transforms.NAME] into penstock.toml, or name the "
            "file with --config."
        )
    return found


def declared(name: str, config_path: str | None) -> Transform:
    by_name = {transform.name: transform for transform in all_declared(config_path)}
    if name not in by_name:
        raise CommandFailed(
            f"There is no transform {name}.{nearest(name, by_name)} Declared are: "
            f"{', '.join(by_name)}."
        )
    return by_name[name]


def place_of(server: Server, path: str | None, stream: str) -> dict[str, str]:
    """A server that has the stream, or a folder, as the Spark source wants it."""
    if path is not None:
        return {"path": json.dumps([os.path.abspath(path)])}
    with server.connected() as client:
        client.describe_message_stream(stream)  # told now, not when Spark has started
    token = {"token": server.token} if server.token else {}
    return {"servers": f"{server.host}:{server.port}", **token}
