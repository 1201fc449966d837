"""`penstock fleet report`: look over many servers and stores at once."""

from __future__ import annotations

import asyncio
import glob
import re
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.output import (
    Column,
    CommandFailed,
    Status,
    closing_output,
    plural,
    printable,
    say,
    show_json,
    show_table,
)
from penstock.units import shown_time

if TYPE_CHECKING:
    from penstock.fleet.report import FleetReport, PlaceReport, StreamReport
    from penstock.fleet.servers import ServerName

COLUMNS = (
    Column("Server"),
    Column("Stream"),
    Column("First", is_number=True),
    Column("Last", is_number=True),
    Column("Messages", is_number=True),
    Column("Missing", is_number=True),
    Column("Newest"),
    Column("Clock ms", is_number=True),
)
DUPLICATES = Column("Repeated", is_number=True)
SERVER = re.compile(r"(?:(?P<name>[^=]+)=)?(?P<host>\[[0-9a-fA-F:.]+\]|[^:]+):(?P<port>[0-9]{1,5})")


@click.group()
def fleet() -> None:
    """Look over many servers and stores at once."""


@fleet.command(short_help="Show what their streams hold, and what is wrong with them.")
@click.option(
    "--servers",
    multiple=True,
    metavar="HOST:PORT,...",
    help="Servers to ask, also as NAME=HOST:PORT; @FILE names a file with one per line.",
)
@click.option(
    "--paths",
    multiple=True,
    metavar="FOLDER,...",
    help="Data directories or copies of them to look at; may hold * and ?.",
)
@click.option("--stream", "patterns", multiple=True, metavar="NAME", help="Streams, with * and ?.")
@click.option(
    "--token",
    metavar="TEXT",
    help="Token to show to all servers.  [default: variable AWS_CONTAINER_AUTHORIZATION_TOKEN]",
)
@click.option(
    "--duplicates",
    is_flag=True,
    help="Find messages that repeat the payload of an earlier one. Reads every message.",
)
@click.option(
    "--window",
    default=1000,
    type=click.IntRange(1, 10_000_000),
    show_default=True,
    help="How many messages before each one --duplicates looks at.",
)
@click.option(
    "--clock-tolerance",
    "tolerance_ms",
    default=1000,
    type=click.IntRange(0, 10**9),
    show_default=True,
    metavar="MS",
    help="Clocks and ingest times that are further off are findings.",
)
@click.option(
    "--at-once",
    default=256,
    type=click.IntRange(1, 10_000),
    show_default=True,
    help="Servers that are asked at the same time.",
)
@click.option(
    "--timeout",
    "timeout_s",
    default=3.0,
    type=click.FloatRange(0.01, 600),
    show_default=True,
    metavar="SECONDS",
    help="How long a server may take to answer.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def report(
    servers: tuple[str, ...],
    paths: tuple[str, ...],
    patterns: tuple[str, ...],
    token: str | None,
    duplicates: bool,
    window: int,
    tolerance_ms: int,
    at_once: int,
    timeout_s: float,
    as_json: bool,
) -> int:
    """Show what the streams of many servers or stores hold, and what is wrong with them.

    Missing numbers inside a stream, repeated messages, clocks that differ from ours, ingest times
    that run backwards or lie in the future, and who does not answer. Exit status: 0 all is well,
    1 something was found, 3 a server or store could not be asked.
    """
    from penstock.fleet.report import FleetReport
    from penstock.fleet.servers import Asking, ask_servers
    from penstock.fleet.stores import look_at_store

    names = _servers(servers)
    folders = _folders(paths)
    if not names and not folders:
        raise CommandFailed(
            "Whom to ask is not said. Give --servers or --paths.", Status.WRONG_USAGE
        )
    wanted = _wanted(patterns)
    read_window = window if duplicates else None
    asking = Asking(token or None, timeout_s, at_once, wanted, read_window)
    places = asyncio.run(ask_servers(names, asking))
    places += [look_at_store(folder, wanted, read_window) for folder in folders]
    found = FleetReport(places, tolerance_ms)
    with closing_output():  # the status tells the truth, however much of the report is read
        if as_json:
            show_json(_as_json(found))
        else:
            _show(found, with_duplicates=duplicates)
    if found.unreachable:
        return Status.UNREACHABLE
    return Status.FAILED if found.findings else Status.DONE


# --- whom to ask --------------------------------------------------------------------------------


def _servers(given: Sequence[str]) -> list[ServerName]:
    """Each of them once, in the order in which they are named."""
    from penstock.fleet.servers import ServerName

    found: dict[str, ServerName] = {}
    for text in _listed(given):
        parts = SERVER.fullmatch(text)
        if parts is None or not 0 < int(parts["port"]) < 65536:
            raise CommandFailed(f"--servers {text} is not HOST:PORT.", Status.WRONG_USAGE)
        host, port = parts["host"].strip("[]"), int(parts["port"])
        name = parts["name"] or f"{parts['host']}:{port}"
        if found.setdefault(name, ServerName(name, host, port)) != (name, host, port):
            raise CommandFailed(f"--servers names two different {name}.", Status.WRONG_USAGE)
    return list(found.values())


def _listed(given: Sequence[str]) -> Iterator[str]:
    for text in given:
        for part in text.split(","):
            if part.startswith("@"):
                yield from _lines(part[1:])
            elif part.strip():
                yield part.strip()


def _lines(path: str) -> Iterator[str]:
    """A file's lines without what stands behind a #."""
    with open(path, encoding="utf-8") as file:
        for line in file:
            text = line.partition("#")[0].strip()
            if text:
                yield text


def _folders(given: Sequence[str]) -> list[str]:
    found: list[str] = []
    for text in given:
        for part in filter(None, (each.strip() for each in text.split(","))):
            matches = sorted(glob.glob(part)) if glob.has_magic(part) else [part]
            if not matches:
                raise CommandFailed(f"--paths {part} matches no folder.", Status.WRONG_USAGE)
            found += [match.rstrip("/") or "/" for match in matches]
    return list(dict.fromkeys(found))


def _wanted(patterns: Sequence[str]) -> Callable[[str], bool]:
    return lambda name: not patterns or any(fnmatchcase(name, each) for each in patterns)


# --- what is shown ------------------------------------------------------------------------------


def _show(found: FleetReport, *, with_duplicates: bool) -> None:
    columns = (*COLUMNS, DUPLICATES) if with_duplicates else COLUMNS
    rows = [
        _row(place, stream)[: len(columns)] for place in found.places for stream in place.streams
    ]
    if rows:
        show_table(columns, rows)
    for place in found.unreachable:
        say(printable(f"Not asked: {place.name}: {place.trouble}"))
    for place, text in found.findings:
        say(printable(f"Found: {place.name}: {text}"))
    say(_summary(found))


def _row(place: PlaceReport, stream: StreamReport) -> list[str]:
    survey = stream.survey
    return [
        place.name,
        survey.name,
        "" if stream.first is None else str(stream.first),
        "" if stream.last is None else str(stream.last),
        f"{survey.message_count:,}",
        f"{stream.missing_count:,}",
        "" if survey.newest_time is None else shown_time(survey.newest_time),
        "" if place.clock is None else f"{place.clock.ahead_ms:+,}",
        "" if stream.contents is None else f"{stream.contents.duplicate_count:,}",
    ]


def _summary(found: FleetReport) -> str:
    answered = [place for place in found.places if place.trouble is None]
    streams = [stream for place in answered for stream in place.streams]
    count = sum(stream.survey.message_count for stream in streams)
    asked = f"{len(answered):,} of {plural(len(found.places), 'place')} answered"
    held = f"{plural(len(streams), 'stream')}, {plural(count, 'message')}"
    return f"{asked}: {held}, {plural(len(found.findings), 'finding')}."


def _as_json(found: FleetReport) -> dict[str, Any]:
    return {
        "findings": [{"name": place.name, "text": text} for place, text in found.findings],
        "unreachable": {place.name: place.trouble for place in found.unreachable},
        "places": [_place_as_json(place) for place in found.places if place.trouble is None],
    }


def _place_as_json(place: PlaceReport) -> dict[str, Any]:
    clock = place.clock
    return {
        "name": place.name,
        "askedAt": place.asked_at_ms,
        "clockAheadMillis": None if clock is None else clock.ahead_ms,
        "clockUncertaintyMillis": None if clock is None else clock.uncertainty_ms,
        "streams": [_stream_as_json(stream) for stream in place.streams],
    }


def _stream_as_json(stream: StreamReport) -> dict[str, Any]:
    survey, contents = stream.survey, stream.contents
    return {
        "name": survey.name,
        "firstSequenceNumber": stream.first,
        "lastSequenceNumber": stream.last,
        "messageCount": survey.message_count,
        "totalBytes": survey.total_bytes,
        "gaps": [{"first": gap.first, "last": gap.stop - 1} for gap in stream.gaps],
        "oldestIngestTime": survey.oldest_time,
        "newestIngestTime": survey.newest_time,
        "timeStepsBack": survey.time_steps_back if contents is None else contents.time_steps_back,
        "duplicateCount": None if contents is None else contents.duplicate_count,
        "duplicates": None
        if contents is None
        else [
            {"sequenceNumber": each.sequence_number, "earlier": each.earlier_sequence_number}
            for each in contents.duplicates
        ],
    }
