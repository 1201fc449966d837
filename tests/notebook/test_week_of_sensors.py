"""The notebook of examples/ runs as it is, and leaves what it says it leaves."""

from __future__ import annotations

import os
from datetime import date, timedelta
from pathlib import Path

import nbformat
import pyarrow
import pyarrow.compute
import pyarrow.parquet
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parent.parent.parent / "examples" / "week-of-sensors.ipynb"
# The whole takes 20 s; the rest is for two busy cores.
CELL_TIMEOUT_S = 120
# Nothing runs long enough here for the better compiler to pay.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
DAYS = [date(2026, 3, 2) + timedelta(days=day) for day in range(7)]
MINUTES_OF_A_DAY = 24 * 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the notebook takes for the folder of temporary files."""
    return tmp_path_factory.mktemp("notebook")


@pytest.fixture(scope="module")
def executed(folder: Path) -> nbformat.NotebookNode:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    place = {"metadata": {"path": str(NOTEBOOK.parent)}}
    client = NotebookClient(notebook, timeout=CELL_TIMEOUT_S, resources=place)
    return client.execute(env=os.environ | {"TMPDIR": str(folder), "JAVA_TOOL_OPTIONS": QUICK_JAVA})


@pytest.fixture(scope="module")
def table(executed: nbformat.NotebookNode, folder: Path) -> pyarrow.Table:
    return pyarrow.parquet.read_table(folder / "week-of-sensors" / "table")


def test_the_table_has_each_reading_of_each_day_once(table: pyarrow.Table) -> None:
    by_sensor_and_day = table.group_by(["sensor", "day"]).aggregate([("time", "count_distinct")])

    found = {(row["sensor"], str(row["day"])): row for row in by_sensor_and_day.to_pylist()}
    wanted = {(sensor, str(day)) for sensor in ("boiler", "hall", "roof") for day in DAYS}
    assert set(found) == wanted
    assert {row["time_count_distinct"] for row in found.values()} == {MINUTES_OF_A_DAY}
    assert table.num_rows == len(wanted) * MINUTES_OF_A_DAY
    assert sorted(table["sequence_number"].to_pylist()) == list(range(table.num_rows))


def test_the_lag_shows_the_outages_and_nothing_else(table: pyarrow.Table) -> None:
    late = table.filter(pyarrow.compute.greater(table["lag_s"], 60))

    longest_h = {
        row["sensor"]: row["lag_s_max"] / 3600
        for row in late.group_by("sensor").aggregate([("lag_s", "max")]).to_pylist()
    }
    assert longest_h == pytest.approx({"boiler": 2.5, "hall": 2.5, "roof": 7.0}, abs=0.01)
    # Seven hours of one sensor and two and a half of three, but for the last minute of each.
    assert late.num_rows == pytest.approx(7 * 60 + 3 * 150, abs=4)
    assert pyarrow.compute.min(table["lag_s"]).as_py() > 0


def test_the_week_and_its_lag_are_drawn(executed: nbformat.NotebookNode) -> None:
    outputs = [output for cell in executed.cells for output in cell.get("outputs", [])]

    pictures = [
        output.data["image/png"] for output in outputs if "image/png" in output.get("data", {})
    ]
    assert len(pictures) == 1
    assert len(pictures[0]) > 20_000


def test_the_notebook_is_kept_without_outputs() -> None:
    cells = nbformat.read(NOTEBOOK, as_version=4).cells

    assert not [cell.id for cell in cells if cell.get("outputs") or cell.get("execution_count")]
