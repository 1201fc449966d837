"""What a user may say about a write, checked before anything is opened."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.errors import PenstockError
from penstock.model import MessageStreamDefinition, Persistence, StrategyOnFull
from penstock.spark.options import ServerAddress, parse_options

OPTIONS = (
    "servers",
    "stream",
    "token",
    "payload",
    "transactionId",
    "createStream",
    "definition",
    "maxSize",
    "streamSegmentSize",
    "timeToLiveMillis",
    "strategyOnFull",
    "persistence",
    "flushOnWrite",
)
# Spark's own, which it hands on to every sink of a streaming query.
OF_SPARK = ("checkpointLocation", "queryName")
PAYLOAD = "payload"
JSON = "json"
ENUMS: dict[str, type[StrategyOnFull] | type[Persistence]] = {
    "strategyOnFull": StrategyOnFull,
    "persistence": Persistence,
}
NUMBERS = ("maxSize", "streamSegmentSize", "timeToLiveMillis")
TRANSACTION_ID_CHARACTERS_MAX = 200


class SinkError(PenstockError):
    """A write cannot be done; the text names the option or the row, and the remedy."""


@dataclass(frozen=True)
class SinkOptions:
    """All options of a write."""

    server: ServerAddress
    stream: str
    as_json: bool | None  # None: whatever the columns say
    transaction_id: str | None
    definition: MessageStreamDefinition | None  # to create the stream with, if it is missing


def parse_sink_options(options: Mapping[str, str]) -> SinkOptions:
    """The options of a write, or SinkError."""
    given = {key.lower(): str(value).strip() for key, value in options.items()}
    unknown = sorted(given.keys() - {name.lower() for name in (*OPTIONS, *OF_SPARK)})
    if "path" in unknown:
        raise SinkError(
            "a write in format penstock has no path: leave out the argument of save() or start(), "
            "and name the stream with option stream"
        )
    if unknown:
        raise SinkError(
            f"option {unknown[0]} is not known to a write in format penstock; known are "
            f"{', '.join(OPTIONS)}"
        )
    stream = given.get("stream", "")
    if not stream:
        raise SinkError("option stream is missing: name the stream to write to")
    transaction_id = given.get("transactionid")
    if transaction_id is not None and not 0 < len(transaction_id) <= TRANSACTION_ID_CHARACTERS_MAX:
        raise SinkError(
            f"option transactionId has {len(transaction_id)} characters; give 1 to "
            f"{TRANSACTION_ID_CHARACTERS_MAX}"
        )
    return SinkOptions(
        server=_server(given),
        stream=stream,
        as_json=_as_json(given.get("payload")),
        transaction_id=transaction_id,
        definition=_definition(given, stream),
    )


def _server(given: Mapping[str, str]) -> ServerAddress:
    text = given.get("servers", "")
    if not text:
        raise SinkError("option servers is missing: give host:port of the server to write to")
    # The reader of a read's options knows what a server looks like; every stream will do for it.
    found = parse_options({"servers": text, "stream": "*", "token": given.get("token", "")})
    if len(found.servers) != 1:
        raise SinkError(f"option servers cannot be {text!r}: a write goes to one server")
    return found.servers[0]


def _as_json(text: str | None) -> bool | None:
    if text is None:
        return None
    if text.lower() not in (JSON, PAYLOAD):
        raise SinkError(
            f"option payload cannot be {text!r}: give json for the whole row as JSON, or payload "
            f"for the column of that name"
        )
    return text.lower() == JSON


def _definition(given: Mapping[str, str], stream: str) -> MessageStreamDefinition | None:
    """How to create the stream; None if that is not wanted."""
    if not _flag("createStream", given.get("createstream", "false")):
        for name in OPTIONS[OPTIONS.index("createStream") + 1 :]:
            if name.lower() in given:
                raise SinkError(
                    f"option {name} is for a stream that is created; set option createStream to "
                    f"true, or leave it out"
                )
        return None
    values: dict[str, Any] = {"strategyOnFull": StrategyOnFull.RejectNewData.value}
    if "definition" in given:
        values |= _definition_values(given["definition"])
    for name in NUMBERS:
        if name.lower() in given:
            values[name] = _number(name, given[name.lower()])
    for name, kind in ENUMS.items():
        if name.lower() in given:
            values[name] = _member(name, given[name.lower()], kind)
    if "flushonwrite" in given:
        values["flushOnWrite"] = _flag("flushOnWrite", given["flushonwrite"])
    if values.setdefault("name", stream) != stream:
        raise SinkError(f"option definition is for stream {values['name']}, not for {stream}")
    try:
        found = MessageStreamDefinition.from_dict(values)
    except ValueError as error:
        raise SinkError(f"the stream cannot be created so: {error}") from error
    unknown = sorted(values.keys() - found.as_dict().keys())
    if unknown:
        raise SinkError(f"option definition has the key {unknown[0]}, which no definition has")
    return found


def _definition_values(text: str) -> dict[str, Any]:
    """A JSON object, or what stands in the file of that name on the driver's machine."""
    where = "option definition"
    if not text.startswith("{"):
        where = f"option definition: {text}"
        try:
            text = Path(text).read_text()
        except OSError as error:
            raise SinkError(
                f"{where} cannot be read ({error.strerror}); give a JSON object or the path of a "
                f"file that holds one"
            ) from error
    try:
        values = json.loads(text)
    except ValueError as error:
        raise SinkError(f"{where} is not JSON: {error}") from error
    if not isinstance(values, dict):
        raise SinkError(f"{where} does not hold a JSON object")
    return {key: value for key, value in values.items() if value is not None}


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise SinkError(f"option {name} cannot be {text!r}: give a whole number")
    return int(text)


def _member(name: str, text: str, kind: type[StrategyOnFull] | type[Persistence]) -> int:
    for member in kind:
        if member.name.lower() == text.lower():
            return member.value
    names = " or ".join(member.name for member in kind)
    raise SinkError(f"option {name} cannot be {text!r}: give {names}")


def _flag(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise SinkError(f"option {name} cannot be {text!r}: give true or false")
    return text.lower() == "true"
