"""All metrics as Prometheus reads them: its text format, version 0.0.4."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.console.metric import Table
from penstock.console.metric_table import TABLES
from penstock.observe_model import Observation

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def exposition(observation: Observation) -> bytes:
    """What /metrics answers."""
    lines = [line for table in TABLES for line in _table_lines(table, observation)]
    return ("\n".join(lines) + "\n").encode()


def _table_lines(table: Table[Any], observation: Observation) -> Iterator[str]:
    rows = table.rows(observation)
    labels = [_labels(table, row) for row in rows]  # once, and not for each metric
    name = ""
    for metric in table.metrics:
        if metric.name != name:
            name = metric.name
            yield f"# HELP {name} {metric.text}"
            yield f"# TYPE {name} {'counter' if metric.is_counter else 'gauge'}"
        member = _label(*metric.member) if metric.member else ""
        for row, row_labels in zip(rows, labels, strict=True):
            value = metric.value(row)
            if value is not None:
                yield f"{name}{_braced(row_labels, member)} {value}"


def _labels(table: Table[Any], row: object) -> str:
    return ",".join(_label(name, value(row)) for name, value in table.labels.items())


def _label(name: str, value: str) -> str:
    return f'{name}="{value.translate(ESCAPES)}"'


def _braced(labels: str, member: str) -> str:
    both = f"{labels},{member}" if labels and member else labels or member
    return f"{{{both}}}" if both else ""
