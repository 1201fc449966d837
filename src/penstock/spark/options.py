"""What a user may say about a read, checked before anything is opened."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any

from penstock.client.endpoint import PORT_DEFAULT
from penstock.spark.trouble import SourceError

OPTIONS = (
    "servers",
    "stream",
    "path",
    "startingSequence",
    "endingSequence",
    "startingTime",
    "endingTime",
    "maxMessagesPerTrigger",
    "minMessagesPerTrigger",
    "maxMessagesPerPartition",
    "filterPushdown",
    "token",
    "failOnDataLoss",
    "failOnUnreachable",
)

EARLIEST = "earliest"
LATEST = "latest"
# Fewest tasks that fill the cores are fastest, and half a million rows in one were best of all.
MESSAGES_PER_PARTITION = 500_000
GLOB = re.compile(r"[*?\[]")
SERVER = re.compile(
    r"((?P<name>[^=]+)=)?(\[(?P<ipv6>[0-9A-Fa-f:.%]+)\]|(?P<host>[A-Za-z0-9_.\-]+))(:(?P<port>[0-9]+))?"
)

Number = int | str
"""A sequence number, EARLIEST or LATEST."""


@dataclass(frozen=True)
class Position:
    """Where to begin or end in each stream."""

    default: Number
    by_stream: Mapping[str, Number] = field(default_factory=dict)
    by_place: Mapping[str, Mapping[str, Number]] = field(default_factory=dict)

    def of(self, place: str, stream: str) -> Number:
        return self.by_place.get(place, self.by_stream).get(stream, self.default)


@dataclass(frozen=True)
class ServerAddress:
    """A server, and under which name its messages and offsets go."""

    name: str
    host: str
    port: int
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Names:
    """Which streams are meant: exact names and patterns."""

    text: str
    exact: tuple[str, ...]
    patterns: tuple[str, ...]

    def match(self, stream: str) -> bool:
        return stream in self.exact or any(fnmatchcase(stream, each) for each in self.patterns)


@dataclass(frozen=True)
class SourceOptions:
    """All options of a read."""

    servers: tuple[ServerAddress, ...]
    paths: tuple[str, ...]
    streams: Names
    start: Position
    end: Position
    start_time_ms: int | None
    end_time_ms: int | None
    messages_per_trigger_max: int | None
    messages_per_trigger_min: int | None
    messages_per_partition_max: int
    filter_pushdown: bool
    fail_on_data_loss: bool
    fail_on_unreachable: bool
    given: frozenset[str]

    @property
    def has_server_column(self) -> bool:
        """Told by the options alone: a pattern of paths counts as several, whatever it finds."""
        return len(self.servers) + len(self.paths) > 1 or any(map(GLOB.search, self.paths))

    def refuse(self, names: tuple[str, ...], why: str) -> None:
        """Refuse options that have no meaning here."""
        for name in names:
            if name.lower() in self.given:
                raise SourceError(f"option {name} {why}; leave it out")


def parse_options(options: Mapping[str, str]) -> SourceOptions:
    """The options of a read, or SourceError."""
    given = {key.lower(): str(value).strip() for key, value in options.items()}
    known = {name.lower() for name in OPTIONS}
    unknown = sorted(given.keys() - known)
    if unknown:
        raise SourceError(
            f"option {unknown[0]} is not known to a read in format penstock; known are "
            f"{', '.join(OPTIONS)}"
        )
    read = _Reader(given)
    read.refuse_both("servers", "path")
    read.refuse_both("startingSequence", "startingTime")
    read.refuse_both("endingSequence", "endingTime")
    servers = read.value("servers", _servers, ())
    paths = read.value("path", _paths, ())
    if not servers and not paths:
        raise SourceError(
            "option servers is missing: give host:port of one or more servers, or with option "
            "path the data directory of one"
        )
    token = given.get("token") or None
    found = SourceOptions(
        servers=tuple(ServerAddress(name, host, port, token) for name, host, port in servers),
        paths=paths,
        streams=read.required("stream", _names, "name one, several with commas, or * for all"),
        start=read.value("startingSequence", _position(EARLIEST), Position(EARLIEST)),
        end=read.value("endingSequence", _position(LATEST), Position(LATEST)),
        start_time_ms=read.value("startingTime", _time_ms, None),
        end_time_ms=read.value("endingTime", _time_ms, None),
        messages_per_trigger_max=read.value("maxMessagesPerTrigger", _count, None),
        messages_per_trigger_min=read.value("minMessagesPerTrigger", _count, None),
        messages_per_partition_max=read.value(
            "maxMessagesPerPartition", _count, MESSAGES_PER_PARTITION
        ),
        filter_pushdown=read.value("filterPushdown", _flag, False),
        fail_on_data_loss=read.value("failOnDataLoss", _flag, True),
        fail_on_unreachable=read.value("failOnUnreachable", _flag, True),
        given=frozenset(given),
    )
    _check_position(found, "startingSequence", found.start)
    _check_position(found, "endingSequence", found.end)
    return found


def _check_position(options: SourceOptions, name: str, position: Position) -> None:
    """A name in a map that means nothing is a mistake, and would be taken for `earliest`."""
    servers = {server.name for server in options.servers}
    for place in position.by_place:
        if servers and place not in servers:
            raise SourceError(f"option {name} names {place}, which option servers does not")
    for streams in (position.by_stream, *position.by_place.values()):
        for stream in streams:
            if not options.streams.match(stream):
                raise SourceError(f"option {name} names {stream}, which option stream does not")


class _Reader:
    """Turns texts into values; an error names the option and what was given."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given

    def value(self, name: str, convert: Callable[[str], Any], default: Any) -> Any:
        text = self._given.get(name.lower())
        if text is None:
            return default
        try:
            return convert(text)
        except ValueError as error:
            raise SourceError(f"option {name} cannot be {text!r}: {error}") from error

    def required(self, name: str, convert: Callable[[str], Any], remedy: str) -> Any:
        if not self._given.get(name.lower()):
            raise SourceError(f"option {name} is missing: {remedy}")
        return self.value(name, convert, None)

    def refuse_both(self, one: str, other: str) -> None:
        if one.lower() in self._given and other.lower() in self._given:
            raise SourceError(f"options {one} and {other} exclude each other; leave one out")


def _listed(text: str) -> list[str]:
    """A comma list, or a JSON list for names that have commas themselves."""
    if text.startswith("["):
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if isinstance(found, list) and all(isinstance(each, str) for each in found):
            return found
    return [part.strip() for part in text.split(",") if part.strip()]


def _names(text: str) -> Names:
    parts = _listed(text)
    if not parts:
        raise ValueError("name a stream, or give * for all")
    patterns = tuple(part for part in parts if GLOB.search(part))
    return Names(text, tuple(part for part in parts if not GLOB.search(part)), patterns)


def _servers(text: str) -> tuple[tuple[str, str, int], ...]:
    found: dict[str, tuple[str, str, int]] = {}
    for part in _listed(text):
        name, host, port = _server(part)
        if name in found:
            raise ValueError(f"{name} is there twice")
        found[name] = (name, host, port)
    if not found:
        raise ValueError("give host:port, for example 127.0.0.1:8088")
    return tuple(found.values())


def _server(text: str) -> tuple[str, str, int]:
    """`host:port`, `host`, or `name=host:port`."""
    match = SERVER.fullmatch(text)
    if match is None:
        raise ValueError(f"{text} is not host:port, for example 127.0.0.1:8088")
    port = int(match["port"] or PORT_DEFAULT)
    if not 1 <= port <= 65535:
        raise ValueError(f"the port of {text} is not within 1..65535")
    shown = match["host"] or f"[{match['ipv6']}]"
    return match["name"] or f"{shown}:{port}", match["host"] or match["ipv6"], port


def _paths(text: str) -> tuple[str, ...]:
    found = []
    for part in _listed(text):
        path = part.removeprefix("file://") if part.startswith("file:///") else part
        if re.match(r"[a-z0-9+]+:/", path):
            raise ValueError("only folders that every worker sees as local ones can be read")
        found.append(path.rstrip("/") or "/")
    if not found:
        raise ValueError("give the data directory of a server")
    return tuple(dict.fromkeys(found))


def _position(default: str) -> Callable[[str], Position]:
    def convert(text: str) -> Position:
        if not text.startswith("{"):
            return Position(_number(text))
        try:
            found = json.loads(text)
        except ValueError as error:
            raise ValueError(f"it is not JSON ({error})") from error
        by_stream = {key: _number(value) for key, value in found.items() if not _is_map(value)}
        by_place = {
            place: {stream: _number(value) for stream, value in streams.items()}
            for place, streams in found.items()
            if _is_map(streams)
        }
        if by_place and by_stream:
            raise ValueError("give either stream -> number or server -> stream -> number")
        return Position(default, by_stream, by_place)

    return convert


def _is_map(value: object) -> bool:
    return isinstance(value, dict)


def _number(value: object) -> Number:
    text = value.lower() if isinstance(value, str) else value
    if text in (EARLIEST, LATEST):
        return str(text)
    if isinstance(text, str) and text.isascii() and text.isdigit():
        return int(text)
    if isinstance(text, int) and not isinstance(text, bool) and text >= 0:
        return text
    raise ValueError(
        f'{value!r} is not earliest, latest, a number from 0 on, or a map such as {{"stream": 42}}'
    )


def _time_ms(text: str) -> int:
    if re.fullmatch(r"-?[0-9]+", text):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(
            "give milliseconds since 1970 or ISO 8601, for example 2026-01-31T12:00:00Z"
        ) from error
    if moment.tzinfo is None:
        # Driver and workers may live in different time zones.
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) >= 1):
        raise ValueError("give a number from 1 on")
    return int(text)


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("give true or false")
    return text.lower() == "true"
