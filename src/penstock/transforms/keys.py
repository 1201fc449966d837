"""The keys of a transform's table: what each value must be."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from penstock.model import I64_MAX, Name

FORMATS = ("json", "csv", "raw")
MALFORMED_PLACES = ("dead-letters", "column")
OUTPUT_MODES = ("append", "update", "complete")
STARTS = ("earliest", "latest")
_ONE_DURATION = r"\d+ ?(?:milliseconds?|seconds?|minutes?|hours?|days?)"
DURATION = re.compile(rf"{_ONE_DURATION}(?: {_ONE_DURATION})*")
WATERMARK = re.compile(rf"[^\s`]+ {DURATION.pattern}")


class Key(NamedTuple):
    """How a value is checked, and what it must be, as the end of a sentence."""

    accepted: Callable[[object], Any]  # ValueError if the value cannot be used
    allowed: str


def found_values(
    table: Mapping[str, object], keys: Mapping[str, Key | None]
) -> tuple[dict[str, Any], list[str]]:
    """The values of a table, and a sentence for each that cannot be used.

    A key without a description is known, and somebody else's business.
    """
    values, problems = {}, []
    for key, value in table.items():
        if key not in keys:
            problems.append(
                f'key "{key}" is unknown.{_nearest(key, keys)} Known are {shown_keys(keys)}.'
            )
            continue
        description = keys[key]
        if description is None:
            continue
        try:
            values[key] = description.accepted(value)
        except ValueError:
            problems.append(
                f'key "{key}" is {_shown(value)}, which cannot be used. Give {description.allowed}.'
            )
    return values, problems


def shown_keys(keys: Iterable[str]) -> str:
    return ", ".join(keys)


def start_position(value: object) -> str:
    """earliest, latest, or a sequence number, as text."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else _text(value)
    if text in STARTS:
        return text
    if not text.isascii() or not text.isdecimal() or int(text) > I64_MAX:
        raise ValueError
    return str(int(text))


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError
    return value.strip()


def _stream_name(value: object) -> str:
    return msgspec.convert(value, Name)  # its ValidationError is a ValueError


def _choice(choices: tuple[str, ...]) -> Key:
    def accepted(value: object) -> str:
        if value not in choices:
            raise ValueError
        return str(value)

    return Key(accepted, f"one of {', '.join(choices)}")


def _matching(pattern: re.Pattern[str], allowed: str) -> Key:
    def accepted(value: object) -> str:
        if not pattern.fullmatch(text := _text(value)):
            raise ValueError
        return text

    return Key(accepted, allowed)


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= 2**31 - 1:
        raise ValueError
    return value


def _texts(value: object) -> list[str]:
    if not isinstance(value, list):
        raise ValueError
    return [_text(each) for each in value]


def _options(value: object) -> dict[str, str]:
    """Spark takes options as text."""
    if not isinstance(value, dict):
        raise ValueError
    return {key: _option(each) for key, each in value.items()}


def _option(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int | float):
        raise ValueError
    return str(value)


def _payload_options(value: object) -> dict[str, str]:
    options = _options(value)
    # What is malformed is found by these.
    if any(key.lower() in ("mode", "columnnameofcorruptrecord") for key in options):
        raise ValueError
    return options


_A_STREAM = Key(_stream_name, "the name of a stream")
TRANSFORM_KEYS: dict[str, Key | None] = {
    "source": _A_STREAM,
    "format": _choice(FORMATS),
    "schema": Key(_text, 'columns and their types, such as "ts TIMESTAMP, rpm DOUBLE"'),
    "options": Key(
        _payload_options,
        "a table of Spark's options for reading the format, without mode and "
        "columnNameOfCorruptRecord",
    ),
    "watermark": _matching(WATERMARK, 'a column and a duration, such as "ts 10 minutes"'),
    "sql": Key(_text, "one SELECT statement"),
    "malformed": _choice(MALFORMED_PLACES),
    "output_mode": _choice(OUTPUT_MODES),
    "trigger": _matching(DURATION, 'a duration, such as "5 seconds"'),
    "start": Key(start_position, f"{', '.join(STARTS)}, or a sequence number"),
    "messages_per_batch_max": Key(_count, f"a whole number from 1 to {2**31 - 1}"),
    "fail_on_data_loss": Key(_truth, "true or false"),
    "enabled": Key(_truth, "true or false"),
    "target": None,
}
TARGET_KEYS: dict[str, Key | None] = {
    "stream": _A_STREAM,
    "create": Key(_truth, "true or false"),
    "table": Key(_text, "a folder, or an address that Spark can write to"),
    "partition_by": Key(_texts, 'a list of columns, such as ["machine"]'),
    "format": Key(_text, "the name of a Spark format"),
    "options": Key(_options, "a table of the format's options"),
}


def _nearest(name: str, known: Iterable[str]) -> str:
    import difflib  # only who made a mistake pays for it

    found = difflib.get_close_matches(name.lower(), list(known), n=1, cutoff=0.6)
    return f' Did you mean "{found[0]}"?' if found else ""


def _shown(value: object) -> str:
    """A refused value in the words of TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else str(value)
