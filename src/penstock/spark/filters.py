"""What filters on stream, server, sequence_number and ingest_time leave to be read.

Always at least what the filters let through, since Spark applies them again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from penstock.block import Block
from penstock.spark.arrow import ENTRIES

TEXT_COLUMNS = ("stream", "server")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Limits:
    """Bounds on what is read; None: no bound."""

    first: int = 0
    stop: int | None = None
    from_ms: int | None = None
    before_ms: int | None = None
    texts: tuple[Filter, ...] = field(default=())

    @property
    def has_times(self) -> bool:
        return self.from_ms is not None or self.before_ms is not None

    def allows(self, column: str, text: str) -> bool:
        return all(_text_passes(each, text) for each in self.texts if each.attribute == (column,))

    def within(self, first: int, stop: int) -> tuple[int, int]:
        return max(first, self.first), stop if self.stop is None else min(stop, self.stop)

    def may_hold(self, block: Block) -> bool:
        """Whether any message of a block can pass."""
        if not self.has_times:
            return True
        times_ms = numpy.frombuffer(block.index, ENTRIES)["time_ms"]
        is_late = self.from_ms is None or times_ms.max() >= self.from_ms
        is_early = self.before_ms is None or times_ms.min() < self.before_ms
        return bool(is_late and is_early)


def limits_of(filters: Iterable[Filter]) -> Limits:
    """The bounds that follow from filters which must all hold."""
    limits = Limits()
    for each in filters:
        column = getattr(each, "attribute", None)
        if column == ("sequence_number",):
            limits = _with_numbers(limits, each)
        elif column == ("ingest_time",):
            limits = _with_times(limits, each)
        elif column in [(name,) for name in TEXT_COLUMNS]:
            limits = replace(limits, texts=(*limits.texts, each))
    return limits


def _with_numbers(limits: Limits, wanted: Filter) -> Limits:
    span = _span(wanted)
    if span is None or not all(isinstance(value, int) for value in span if value is not None):
        return limits
    low, high = span
    first = limits.first if low is None else max(limits.first, low)
    stop = limits.stop if high is None else _least(limits.stop, high + 1)
    return replace(limits, first=first, stop=stop)


def _with_times(limits: Limits, wanted: Filter) -> Limits:
    span = _span(wanted)
    if span is None or not all(isinstance(value, datetime) for value in span if value is not None):
        return limits
    low, high = span
    # Times are stored in whole milliseconds, filters come in microseconds: round outwards.
    from_ms = limits.from_ms if low is None else _greatest(limits.from_ms, _floor_ms(low))
    before_ms = limits.before_ms if high is None else _least(limits.before_ms, _floor_ms(high) + 1)
    return replace(limits, from_ms=from_ms, before_ms=before_ms)


def _span(wanted: Filter) -> tuple[Any, Any] | None:
    """The least and the greatest value that a filter lets through; None: it cannot be told."""
    if isinstance(wanted, In):
        values = [value for value in wanted.value if value is not None]
        return (min(values), max(values)) if values else None
    value = getattr(wanted, "value", None)
    if value is None:
        return None
    if isinstance(wanted, EqualTo | EqualNullSafe):
        return value, value
    if isinstance(wanted, GreaterThan | GreaterThanOrEqual):
        return value, None
    if isinstance(wanted, LessThan | LessThanOrEqual):
        return None, value
    return None


def _text_passes(wanted: Filter, text: str) -> bool:
    match wanted:
        case EqualTo(value=value) | EqualNullSafe(value=value):
            return bool(text == value)
        case In(value=values):
            return text in values
        case StringStartsWith(value=value):
            return text.startswith(value)
        case StringEndsWith(value=value):
            return text.endswith(value)
        case StringContains(value=value):
            return value in text
    return True


def _floor_ms(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(milliseconds=1)


def _least(one: int | None, other: int) -> int:
    return other if one is None else min(one, other)


def _greatest(one: int | None, other: int) -> int:
    return other if one is None else max(one, other)
