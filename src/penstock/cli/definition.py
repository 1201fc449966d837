"""A stream's definition on the command line: options and files in, words out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, BinaryIO, get_args

import click

from penstock.cli.output import CommandFailed, Status, sentence
from penstock.model import (
    ExportConfig,
    ExportDefinition,
    MessageStreamDefinition,
    Persistence,
    StatusConfig,
    StrategyOnFull,
    dropped_keys,
)
from penstock.settings.sources import nearest
from penstock.units import parsed_bytes, parsed_millis, shown_bytes, shown_millis

STRATEGIES = {
    "reject": StrategyOnFull.RejectNewData,
    "overwrite": StrategyOnFull.OverwriteOldestData,
}
PERSISTENCES = {"file": Persistence.File, "memory": Persistence.Memory}
NEVER = "none"
REFUSALS = (
    (r"Expected `str` matching regex .*", "may have letters, digits, spaces and _ - . , only"),
    (r"Expected `str` of length >= 1", "must not be empty"),
    (r"Expected `str` of length <= (\d+)", r"must have at most \1 characters"),
    (r"Expected `int` >= (\d+)", r"must be at least \1"),
    (r"Expected `int` <= (\d+)", r"must be at most \1"),
    (r"Expected `(\w+)`, got `(\w+)`", r"must be \1, not \2"),
)


def size(text: str) -> int:
    """Bytes, with or without a unit."""
    try:
        return parsed_bytes(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def duration(text: str) -> int | str:
    """Milliseconds, from text with a unit; or the word none."""
    try:
        return NEVER if text == NEVER else parsed_millis(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def definition_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """What create and update have in common."""
    for option in reversed(
        (
            click.option("--max-size", type=size, help="Limit of the whole stream: 256MiB."),
            click.option("--segment-size", type=size, help="Size of one segment: 16MiB."),
            click.option(
                "--ttl",
                type=duration,
                help="How long messages are kept for certain: 90s, 1h, 7d or none.",
            ),
            click.option(
                "--on-full",
                type=click.Choice(list(STRATEGIES)),
                help="When the stream is full, reject new messages or overwrite the oldest.",
            ),
            click.option(
                "--flush/--no-flush",
                default=None,
                help="Whether an append waits until the message is on the disk.",
            ),
            click.option(
                "--definition",
                "file",
                type=click.File("rb"),
                metavar="FILE",
                help="JSON object with the keys of a MessageStreamDefinition, for example its "
                "exportDefinition; - is standard input. Other options are stronger.",
            ),
        )
    ):
        function = option(function)
    return function


def given_values(
    *,
    file: BinaryIO | None,
    max_size: int | None,
    segment_size: int | None,
    ttl: int | str | None,
    on_full: str | None,
    flush: bool | None,
    persistence: str | None = None,
) -> dict[str, Any]:
    """What file and options say, under wire names. A None takes a value away."""
    options = {
        "maxSize": max_size,
        "streamSegmentSize": segment_size,
        "timeToLiveMillis": ttl,
        "strategyOnFull": None if on_full is None else STRATEGIES[on_full],
        "persistence": None if persistence is None else PERSISTENCES[persistence],
        "flushOnWrite": flush,
    }
    values = _read_json(file) if file else {}
    values |= {key: value for key, value in options.items() if value is not None}
    if ttl == NEVER:
        values["timeToLiveMillis"] = None
    return values


def definition_of(name: str, values: dict[str, Any]) -> MessageStreamDefinition:
    """A checked definition; a name in the file must be the one on the command line."""
    if values.get("name", name) != name:
        raise _wrong(f'the definition is for stream "{values["name"]}", not for "{name}"')
    values = {**values, "name": name}
    try:
        definition = MessageStreamDefinition.from_dict(values)
    except ValueError as error:
        raise _wrong(in_words(str(error))) from error
    for place, key in dropped_keys(values, definition.as_dict()):
        raise _wrong(f'unknown key "{key}" in {place}.{nearest(key, known_keys())}')
    return definition


def in_words(refusal: str) -> str:
    """What msgspec says about a value, for people who have not seen the declaration."""
    for pattern, words in REFUSALS:
        refusal = re.sub(pattern, words, refusal)
    return refusal


def known_keys() -> set[str]:
    """Wire names of everything that a definition can hold."""
    kinds = (MessageStreamDefinition, ExportDefinition, StatusConfig, *get_args(ExportConfig))
    return {wire_name for kind in kinds for wire_name in kind.__struct_encode_fields__}


def definition_facts(definition: MessageStreamDefinition) -> dict[str, str]:
    """A definition in words, without its exports."""
    ttl_millis = definition.time_to_live_millis
    kept_in = "file" if definition.persistence == Persistence.File else "memory"
    is_overwriting = definition.strategy_on_full == StrategyOnFull.OverwriteOldestData
    return {
        "Limit": shown_bytes(definition.max_size),
        "Segment size": shown_bytes(definition.stream_segment_size),
        "Time to live": NEVER if ttl_millis is None else shown_millis(ttl_millis),
        "When full": "overwrite the oldest" if is_overwriting else "reject new messages",
        "Kept in": kept_in,
        "Flush on write": "yes" if definition.flush_on_write else "no",
    }


def _read_json(file: BinaryIO) -> dict[str, Any]:
    """The JSON object in a file."""
    try:
        values = json.load(file)
    except ValueError as error:
        raise _wrong(f"{file.name} is not JSON: {error}") from error
    if not isinstance(values, dict):
        raise _wrong(f"{file.name} does not hold a JSON object")
    return values


def _wrong(text: str) -> CommandFailed:
    return CommandFailed(sentence(text), Status.WRONG_USAGE)
