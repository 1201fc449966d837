"""What was changed, deleted or damaged between two runs: go on where it fits, otherwise say so."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from transforms_rig import TransformRig, running_transforms

from failure_logs import show_on_failure

TRANSFORM = """
[transforms.{name}]
source = "In"
schema = "a INT, b STRING"
watermark = "ingest_time 1 minute"
trigger = "100 milliseconds"
sql = "{sql}"
target = {{ stream = "{name}" }}
"""
COUNT = "SELECT a, count(*) AS n FROM source GROUP BY a, window(ingest_time, '1 minute')"
COPY = "SELECT a FROM source"
FIRST = {"counting": COUNT, "copying": COPY, "deleted": COPY, "damaged": COPY}
SECOND = FIRST | {
    "counting": COUNT.replace("SELECT a,", "SELECT a, b,").replace("BY a,", "BY a, b,"),
    "copying": "SELECT a * 10 AS tenfold, b FROM source WHERE a > 0",
}


def config(statements: dict[str, str]) -> str:
    return "".join(TRANSFORM.format(name=name, sql=sql) for name, sql in statements.items())


@pytest.fixture(scope="module")
def rig(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[TransformRig]:
    """After a restart with other statements, a deleted checkpoint, and a damaged one."""
    folder = tmp_path_factory.mktemp("changed")
    show_on_failure(request, folder / "server.log")
    with running_transforms(folder, config(FIRST)) as running:
        running.create("In")
        running.append("In", [{"a": number, "b": "x"} for number in (1, 2, 1)])
        for name in FIRST:
            running.wait_until_read(name, 3)
        running.server.stop()
        checkpoints = checkpoints_of(running)
        shutil.rmtree(checkpoints / "deleted")
        offsets = checkpoints / "damaged" / "1" / "offsets"
        newest = max(
            offsets.iterdir(), key=lambda path: int(path.name) if path.name.isdigit() else -1
        )
        newest.write_bytes(newest.read_bytes()[:-7])
        (folder / "penstock.toml").write_text(config(SECOND))
        running.server.restart()
        running.append("In", [{"a": 3, "b": "y"}])
        yield running


def checkpoints_of(rig: TransformRig) -> Path:
    return rig.server.data_dir / "transforms"


def test_an_edit_that_fits_goes_on_where_it_was(rig: TransformRig) -> None:
    rig.wait_until_read("copying", 4)

    assert rig.rows("copying") == [{"a": 1}, {"a": 2}, {"a": 1}, {"tenfold": 30, "b": "y"}]


def test_an_edit_that_does_not_fit_the_state_is_told_with_both_sides(rig: TransformRig) -> None:
    view = rig.wait_for_state("counting", "blocked")

    assert view.last_error is not None
    assert "does not fit what it remembers" in view.last_error
    assert (
        "Aggregate [a int, window struct<start:timestamp,end:timestamp>], [count(1)]"
        in view.last_error
    )
    assert "Aggregate [a int, b string, window" in view.last_error
    assert "`penstock transforms reset counting`" in view.last_error


def test_a_damaged_checkpoint_is_told_with_the_file(rig: TransformRig) -> None:
    view = rig.wait_for_state("damaged", "blocked")

    assert view.last_error is not None
    assert "its checkpoint is damaged" in view.last_error
    assert "damaged/1/offsets/" in view.last_error
    assert "`penstock transforms reset damaged`" in view.last_error


def test_a_deleted_checkpoint_does_not_begin_again_until_a_reset_says_where(
    rig: TransformRig,
) -> None:
    view = rig.wait_for_state("deleted", "blocked")
    assert view.last_error is not None
    assert "it has run before, but its checkpoint" in view.last_error
    assert rig.rows("deleted") == [{"a": 1}, {"a": 2}, {"a": 1}]

    done = rig.command(
        "transforms", "reset", "deleted", "--from", "2", "--port", str(rig.server.port)
    )

    assert done.lines == ["deleted begins again at 2, generation 2."]
    rig.wait_until_read("deleted", 4)
    assert rig.rows("deleted")[3:] == [{"a": 1}, {"a": 3}]


def test_a_reset_keeps_the_old_checkpoint(rig: TransformRig) -> None:
    rig.wait_for_state("counting", "blocked")

    rig.client.reset_transform("counting", "earliest")
    rig.wait_until_read("counting", 4)

    kept = checkpoints_of(rig) / "counting"
    assert {path.name for path in kept.iterdir()} == {"1", "2"}
