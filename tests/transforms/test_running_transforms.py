"""Transforms that run: windows, targets, malformed payloads, a broken one among them, a kill."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow.dataset
import pytest
from transforms_rig import BATCH_S, TransformRig, running_transforms, wait_until

from failure_logs import show_on_failure
from penstock.model import ExportDefinition, KinesisConfig

CONFIG = """
[transforms.averages]
source = "Turbine"
schema = "ts TIMESTAMP, rpm DOUBLE, machine STRING"
watermark = "ts 10 minutes"
sql = '''
SELECT machine, window(ts, '1 minute') AS w, avg(rpm) AS rpm, count(*) AS n
FROM source GROUP BY machine, w
'''
target = { stream = "Averages" }

[transforms.strict]
source = "Mixed"
schema = "a INT, b STRING"
sql = "SELECT sequence_number, a, b FROM source"
trigger = "100 milliseconds"
messages_per_batch_max = 40
target = { stream = "Good" }

[transforms.lenient]
source = "Mixed"
format = "csv"
options = { sep = ";" }
schema = "a INT, b STRING"
malformed = "column"
sql = "SELECT b AS kind, a, _malformed, sequence_number FROM source"
target = { table = "lenient", partition_by = ["kind"] }

[transforms.aside]
source = "Later"
format = "raw"
sql = "SELECT sequence_number, CAST(payload AS STRING) AS text FROM source"
target = { format = "json", options = { path = "FOLDER/aside" } }

[transforms.broken]
source = "Mixed"
schema = "a INT"
sql = "SELECT aa FROM source"
target = { stream = "Never" }
"""
START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def rig(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[TransformRig]:
    folder = tmp_path_factory.mktemp("transforms")
    show_on_failure(request, folder / "server.log")
    with running_transforms(folder, CONFIG.replace("FOLDER", str(folder))) as running:
        running.cloud.kinesis.create_stream("cloud")
        kinesis = ExportDefinition(kinesis=[KinesisConfig("export", "cloud")])
        running.create("Averages", kinesis)
        running.create("Turbine")
        running.create("Mixed")
        yield running


def reading(seconds: float, rpm: float, machine: str) -> dict[str, object]:
    return {"ts": (START + timedelta(seconds=seconds)).isoformat(), "rpm": rpm, "machine": machine}


def test_a_window_over_late_data_gives_what_batch_mode_gives_and_goes_to_kinesis(
    rig: TransformRig,
) -> None:
    # Each portion brings messages up to 9 minutes late, so windows get rows from several batches.
    for portion in range(3):
        late = [reading(120 * portion - 60 * back, back + portion, "a") for back in range(10)]
        new = [reading(120 * portion + at, at, "ab"[at % 2]) for at in range(0, 120, 7)]
        rig.append("Turbine", [*new, *late])
        rig.wait_until_read("averages", len(rig.payloads("Turbine")))
    # Far ahead of everything: it closes all windows but its own.
    rig.append("Turbine", [reading(3600, 1, "a")])
    before = rig.client.list_streams(), rig.payloads("Averages")

    batch = rig.command("transforms", "dry-run", "averages", "--port", str(rig.server.port))

    assert batch.status == 0, batch.errors
    assert rig.client.list_streams() == before[0]
    expected = [json.loads(line) for line in batch.lines]
    closed = [row for row in expected if row["w"]["start"] < "2026-01-01T01:00"]
    assert len(closed) == len(expected) - 1 > 10
    wait_until(
        lambda: len(rig.payloads("Averages")) >= len(closed),
        "all closed windows",
        BATCH_S,
        lambda: rig.view("averages"),
    )
    assert comparable(rig.rows("Averages")) == comparable(closed)

    wait_until(
        lambda: len(rig.cloud.kinesis.records("cloud")) >= len(closed),
        "the windows in Kinesis",
        BATCH_S,
        rig.client.describe_exports,
    )
    sent = [record.data for record in rig.cloud.kinesis.records("cloud")]
    assert sent == rig.payloads("Averages")


def comparable(rows: list[dict[str, object]]) -> list[tuple[object, ...]]:
    """Windows by machine and start, however their times are written."""
    return sorted(
        (row["machine"], moment(row["w"]["start"]), row["rpm"], row["n"])  # type: ignore[index]
        for row in rows
    )


def moment(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def test_malformed_payloads_become_letters_or_a_column_also_when_the_pipeline_is_killed(
    rig: TransformRig,
) -> None:
    rig.wait_for_state("strict", "running")
    good: list[int] = []
    bad: dict[int, str] = {}
    number = 0
    for portion in range(4):
        values: list[object] = []
        for at in range(50):
            if at % 10 == 3:
                values.append(b"3;left" if at % 20 == 3 else {"a": f"x{number}"})
                bad[number] = "not JSON" if at % 20 == 3 else f'a is "x{number}", not INT'
            else:
                values.append({"a": number, "b": "ok"})
                good.append(number)
            number += 1
        rig.append("Mixed", values)
        if portion in (0, 2):
            # Somewhere between the plan of a batch and the last letter of it.
            rig.wait_until_read("strict", number - 40)
            rig.kill_pipeline()
    rig.wait_until_read("strict", number)
    letters = rig.wait_for_letters("strict", len(bad))

    assert letters.keys() == bad.keys()
    assert all(bad[each] in reason for each, reason in letters.items()), letters
    assert [row["sequence_number"] for row in rig.rows("Good")] == good
    view = rig.view("strict")
    assert (view.dead_letters, view.lag_messages, view.last_error) == (len(bad), 0, None)

    rig.wait_until_read("lenient", number)
    found = table(rig.folder / "lenient")
    fitting = [row for row in found if row["_malformed"] is None]
    assert {(row["a"], row["kind"]) for row in fitting} == {(3, "left")}
    assert sorted(row["sequence_number"] for row in found) == list(range(number))
    assert (rig.folder / "lenient" / "kind=left").is_dir()
    assert rig.letters("lenient") == {}


def table(folder: Path) -> list[dict[str, object]]:
    """Rows of the files that Spark counts as written; a killed pipeline may leave others."""
    lines = [
        json.loads(line)
        for log in (folder / "_spark_metadata").glob("[0-9]*")
        for line in log.read_text().splitlines()[1:]
    ]
    files = sorted({unquote(urlsplit(line["path"]).path) for line in lines})
    hive = pyarrow.dataset.partitioning(flavor="hive")
    source = pyarrow.dataset.dataset(
        files, format="parquet", partitioning=hive, partition_base_dir=str(folder)
    )
    return source.to_table().to_pylist()


def test_a_source_may_come_later_and_a_target_be_any_format_of_sparks(rig: TransformRig) -> None:
    rig.wait_for_state("lenient", "running")
    assert "Later" in str(rig.wait_for_state("aside", "waiting").last_error)

    rig.create("Later")
    rig.append("Later", [b"first", b"second"])

    rig.wait_until_read("aside", 2)
    files = (rig.folder / "aside").glob("part-*.json")
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert sorted((row["sequence_number"], row["text"]) for row in rows) == [
        (0, "first"),
        (1, "second"),
    ]
    assert rig.view("aside").target.endswith("json")


def test_one_that_is_broken_is_told_and_the_others_go_on(rig: TransformRig) -> None:
    view = rig.wait_for_state("broken", "blocked")

    assert view.last_error is not None
    assert 'key "sql" is refused by Spark' in view.last_error
    assert "The columns of source are sequence_number, ingest_time, a." in view.last_error
    assert view.next_retry_time is not None
    for name in ("averages", "strict", "lenient"):
        assert rig.wait_for_state(name, "running").last_error is None
    shown = "\n".join(rig.command("status", "--port", str(rig.server.port)).lines)
    assert "transform broken: blocked until" in shown
    assert rig.command("transforms", "list", "--port", str(rig.server.port)).status == 0
