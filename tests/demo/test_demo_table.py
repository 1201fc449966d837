"""The demo's table is read as Spark reads it: by the log of its batches."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from penstock.demo.table import Average, Table

START = datetime(2026, 1, 1)


def written(folder: Path, window: int) -> str:
    """A file with one row, and its line in the log."""
    path = folder / f"part-{window:05}.parquet"
    row = {
        "start": START + timedelta(seconds=5 * window),
        "machine": "pump-1",
        "readings": 50,
        "vibration_mm_s": 1.5,
        "peak_mm_s": 3.0,
    }
    parquet.write_table(pa.Table.from_pylist([row]), path)
    return json.dumps({"path": path.as_uri(), "action": "add"})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A name that must be quoted in an address, as the log has them."""
    folder = tmp_path / "a table"
    (folder / "_spark_metadata").mkdir(parents=True)
    return folder


def log(folder: Path, batch: str, *lines: str) -> None:
    (folder / "_spark_metadata" / batch).write_text("\n".join(("v1", *lines)))


def test_a_table_that_is_not_there_yet_has_no_rows(tmp_path: Path) -> None:
    assert Table(tmp_path / "nothing").row_count() == 0
    assert Table(tmp_path / "nothing").rows() == []


def test_files_that_no_batch_has_named_are_not_in_the_table(folder: Path) -> None:
    log(folder, "0", written(folder, window=0))
    written(folder, window=1)

    assert Table(folder).row_count() == 1


def test_what_a_compact_batch_repeats_counts_once(folder: Path) -> None:
    lines = [written(folder, window) for window in range(3)]
    log(folder, "8", lines[0])
    log(folder, "9.compact", *lines[:2])
    log(folder, "10", lines[2])
    (folder / "_spark_metadata" / ".10.crc").write_bytes(b"x")

    assert Table(folder).row_count() == 3
    assert Table(folder).rows() == [
        Average(START.replace(tzinfo=UTC) + timedelta(seconds=5 * window), "pump-1", 50, 1.5, 3.0)
        for window in range(3)
    ]


def test_rows_that_come_later_are_counted(folder: Path) -> None:
    table = Table(folder)
    log(folder, "0", written(folder, window=0))
    assert table.row_count() == 1

    log(folder, "1", written(folder, window=1))
    assert table.row_count() == 2
