"""SiteWise's entries: what the service takes, checked before it is asked. Pure.

The rules are the service's own. They are wider than those of AWS's stream manager SDKs: negative
integers, empty texts and values that are missing on purpose pass too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from penstock.model import I32_MAX

# The service takes values from 7 days ago up to 10 minutes ahead, both included.
PAST_S_MAX = 7 * 86_400
FUTURE_S_MAX = 600

NULL_UUID = "00000000-0000-0000-0000-000000000000"
Id = Annotated[str, Meta(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")]
Alias = Annotated[str, Meta(min_length=1, max_length=2048, pattern=r"^[^\x00-\x1f\x7f]+\Z")]
Text = Annotated[str, Meta(max_length=1024, pattern=r"^[^\x00-\x1f\x7f]*\Z")]


class Wire(Struct, rename="camel", omit_defaults=True):
    """What all types share: the service's spelling, and nothing that was not said."""


class NullValue(Wire):
    """A value that is missing on purpose, and of which type it would be."""

    value_type: Literal["D", "B", "S", "I", "U"]


class Variant(Wire):
    """A value: exactly one field is set."""

    string_value: Text | None = None
    integer_value: Annotated[int, Meta(ge=-I32_MAX - 1, le=I32_MAX)] | None = None
    double_value: float | Literal["NaN"] | None = None
    boolean_value: bool | None = None
    null_value: NullValue | None = None


class Time(Wire):
    """A point in time."""

    time_in_seconds: Annotated[int, Meta(ge=1, le=9_223_372_036_854_774)]
    offset_in_nanos: Annotated[int, Meta(ge=0, le=999_999_999)] = 0


class Value(Wire):
    """A value, its time and its quality."""

    value: Variant
    timestamp: Time
    quality: Literal["GOOD", "BAD", "UNCERTAIN"] | None = None


class Entry(Wire):
    """Values of one property."""

    entry_id: Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[a-zA-Z0-9_-]+\Z")]
    property_values: Annotated[list[Value], Meta(min_length=1, max_length=10)]
    asset_id: Id | None = None
    property_id: Id | None = None
    property_alias: Alias | None = None


class Request(Struct, rename="camel"):
    """Up to ten entries."""

    entries: list[Entry]
    # Of an entry with a bad value, the service keeps the good ones.
    enable_partial_entry_processing: bool = True


class EntryError(Struct, rename="camel"):
    """What is wrong with some values of an entry, or with all."""

    error_code: str
    error_message: str = ""
    timestamps: list[Time] = []

    def text(self) -> str:
        at = ", ".join(str(stamp.time_in_seconds) for stamp in self.timestamps)
        return f"{self.error_code}: {self.error_message}" + (f" (values at {at} s)" if at else "")


class EntryErrors(Struct, rename="camel"):
    """All that is wrong with an entry."""

    entry_id: str
    errors: list[EntryError]

    def codes(self) -> set[str]:
        return {error.error_code for error in self.errors}

    def text(self) -> str:
        return "; ".join(error.text() for error in self.errors)


class Answer(Struct, rename="camel"):
    """Only what failed is named."""

    error_entries: list[EntryErrors]


ENTRIES = msgspec.json.Decoder(Entry)
ANSWERS = msgspec.json.Decoder(Answer)


@dataclass(frozen=True)
class Checked:
    """What of a message can be sent, and why the rest, or all of it, cannot."""

    entry: Entry | None = None
    refusal: str | None = None


def checked(payload: bytes) -> Checked:
    """The entry in a payload, if it keeps the service's rules."""
    try:
        entry = ENTRIES.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return Checked(refusal=f"not a PutAssetPropertyValueEntry: {error}")
    if broken := broken_rule(entry):
        return Checked(refusal=f"not a PutAssetPropertyValueEntry: {broken}")
    return Checked(entry)


def broken_rule(entry: Entry) -> str | None:
    """The rules over several fields."""
    if entry.property_alias is None and (entry.asset_id is None or entry.property_id is None):
        return "it needs propertyAlias, or assetId and propertyId"
    if NULL_UUID in (entry.asset_id, entry.property_id):
        return "assetId and propertyId must not be all zeros"
    for value in entry.property_values:
        if sum(item is not None for item in msgspec.structs.astuple(value.value)) != 1:
            return (
                "exactly one of stringValue, integerValue, doubleValue, booleanValue, nullValue "
                "must be set"
            )
    if len(points(entry)) < len(entry.property_values):
        return "two of its propertyValues have the same timestamp"
    return None


def in_window(checked: Checked, now_s: float) -> Checked:
    """The same without the values that the service takes no more, or not yet, and why."""
    if checked.entry is None:
        return checked
    values = checked.entry.property_values
    taken = [value for value in values if not late(value, now_s) and not early(value, now_s)]
    if len(taken) == len(values):
        return checked
    reasons = []
    if any(late(value, now_s) for value in values):
        reasons.append("older than 7 days")
    if any(early(value, now_s) for value in values):
        reasons.append("more than 10 minutes in the future")
    reason = f"{len(values) - len(taken)} of {len(values)} values are {' or '.join(reasons)}"
    if not taken:
        return Checked(refusal=f"{reason}; SiteWise takes no such values")
    return Checked(
        msgspec.structs.replace(checked.entry, property_values=taken),
        f"{reason}; SiteWise takes no such values, the others were delivered",
    )


def late(value: Value, now_s: float) -> bool:
    return seconds(value) < now_s - PAST_S_MAX


def early(value: Value, now_s: float) -> bool:
    return seconds(value) > now_s + FUTURE_S_MAX


def seconds(value: Value) -> float:
    return value.timestamp.time_in_seconds + value.timestamp.offset_in_nanos / 1e9


def parts_without_conflict(entries: Sequence[Checked], alone: Iterable[bool]) -> list[range]:
    """Cut where a property would have two values of one time in the same request.

    Whatever is marked as `alone` gets a part for itself.
    """
    starts: list[int] = []
    seen: set[tuple[str, ...]] = set()
    after_one_alone = True
    for position, (found, is_alone) in enumerate(zip(entries, alone, strict=True)):
        here = points(found.entry) if found.entry is not None else set()
        if after_one_alone or is_alone or not seen.isdisjoint(here):
            starts.append(position)
            seen = set()
        seen |= here
        after_one_alone = is_alone
    return [range(start, stop) for start, stop in pairwise([*starts, len(entries)])]


def points(entry: Entry) -> set[tuple[str, ...]]:
    """Property and time of every value."""
    name = (
        ("alias", entry.property_alias)
        if entry.property_alias is not None
        else ("ids", f"{entry.asset_id} {entry.property_id}")
    )
    return {
        (*name, f"{value.timestamp.time_in_seconds}.{value.timestamp.offset_in_nanos:09d}")
        for value in entry.property_values
    }
