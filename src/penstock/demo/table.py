"""The table that the transform keeps: which files are in it, and what they hold."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

METADATA = "_spark_metadata"
COMPACT = ".compact"


class Average(NamedTuple):
    """One row: a machine in a window of time."""

    start: datetime
    machine: str
    readings: int
    vibration_mm_s: float
    peak_mm_s: float


class Table:
    """Spark's files in a folder. Files never change, so each is looked at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._row_counts: dict[Path, int] = {}

    def row_count(self) -> int:
        from pyarrow import parquet

        for path in self._files():
            if path not in self._row_counts:
                self._row_counts[path] = parquet.read_metadata(path).num_rows
        return sum(self._row_counts.values())

    def rows(self) -> list[Average]:
        """All rows, in order of time and machine."""
        from pyarrow import parquet

        found: list[dict[str, Any]] = []
        for path in self._files():
            found += parquet.read_table(path, partitioning=None).to_pylist()
        # Spark writes times in UTC, in a form that does not say so.
        return sorted(Average(**row | {"start": row["start"].replace(tzinfo=UTC)}) for row in found)

    def _files(self) -> list[Path]:
        """Those that a finished batch has named; others may be half written."""
        log = self._folder / METADATA
        batches = {
            int(path.name.removesuffix(COMPACT)): path
            for path in (log.iterdir() if log.exists() else ())
            if path.name.removesuffix(COMPACT).isdecimal()
        }
        # A compact one repeats everything before it.
        first = max((number for number, path in batches.items() if path.suffix), default=0)
        lines = [
            line
            for number, path in sorted(batches.items())
            if number >= first
            for line in path.read_text().splitlines()[1:]  # the first one is the version
        ]
        return [Path(unquote(urlsplit(json.loads(line)["path"]).path)) for line in lines]
