"""What a metric is: a name, a unit, a meaning, and where its value comes from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from penstock.observe_model import Observation

Row = TypeVar("Row")
Number = int | float


@dataclass(frozen=True)
class Metric(Generic[Row]):
    """One metric of a kind of thing, or one member of it if it has a label of its own."""

    name: str
    text: str
    value: Callable[[Row], Number | None]
    unit: str = ""  # as UCUM has it: By, s, {message}
    member: tuple[str, str] | None = None

    @property
    def is_counter(self) -> bool:
        return self.name.endswith("_total")

    @property
    def otel_name(self) -> str:
        """`penstock_export_lag_bytes` as OpenTelemetry writes it: `penstock.export.lag_bytes`."""
        return self.name.removesuffix("_total").replace("_", ".", 2)


@dataclass(frozen=True)
class Table(Generic[Row]):
    """A kind of thing: which ones there are, how they are told apart, what is told of each."""

    rows: Callable[[Observation], Sequence[Row]]
    metrics: tuple[Metric[Row], ...]
    labels: dict[str, Callable[[Row], str]] = field(default_factory=dict)
    counts_from_start: bool = True  # of the server; else from some time before or after


def states(
    name: str, text: str, known: tuple[str, ...], state: Callable[[Row], str]
) -> tuple[Metric[Row], ...]:
    """A metric with a member for each state: 1 for the present one, 0 for the others."""

    def member(word: str) -> Metric[Row]:
        return Metric(name, text, lambda row: int(state(row) == word), member=("state", word))

    other: Metric[Row] = Metric(
        name, text, lambda row: int(state(row) not in known), member=("state", "other")
    )
    return (*map(member, known), other)
