"""A measured figure, what was demanded of it, and how to show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Figure:
    """One line of the table. Without a bound it is there for information."""

    title: str
    unit: str
    values: Sequence[float]
    at_least: float | None = None
    at_most: float | None = None
    note: str = ""  # how it was measured, where the title does not say it

    @property
    def value(self) -> float:
        return median(self.values)

    @property
    def met(self) -> bool | None:
        """Whether the median keeps the bound; None if there is none."""
        if self.at_least is not None:
            return self.value >= self.at_least
        return None if self.at_most is None else self.value <= self.at_most

    def as_json(self, case: str) -> dict[str, Any]:
        judged = {"value": self.value, "met": self.met, "repeats": len(self.values)}
        return {"case": case, **judged, **asdict(self)}


def ratios(values: Sequence[float], others: Sequence[float]) -> list[float]:
    return [value / other for value, other in zip(values, others, strict=True)]


def show(figures: Sequence[tuple[str, Figure]]) -> None:
    """Print the table; in full width where nobody says how wide a line may be."""
    table = Table("case", "what", box=None, pad_edge=False)
    for heading in ("median", "unit", "demanded", "met", "lowest", "highest", "n"):
        table.add_column(heading, justify="left" if heading == "unit" else "right", no_wrap=True)
    for case, figure in figures:
        values = figure.values
        met = {None: "", True: "yes", False: "[bold red]NO[/]"}[figure.met]
        bounds = ((">=", figure.at_least), ("<=", figure.at_most))
        demand = " ".join(f"{sign} {_number(bound)}" for sign, bound in bounds if bound)
        judged = (_number(figure.value), figure.unit, demand, met)
        spread = (_number(min(values)), _number(max(values)), str(len(values)))
        table.add_row(case, figure.title, *judged, *spread)
    Console(width=None if Console().is_terminal else 150).print(table)


def _number(value: float) -> str:
    """Three digits that count, or whole numbers with their thousands apart."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
