"""Whether a checkpoint can be gone on with is told before Spark looks at it. No Spark here."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from penstock.pipeline.transform_frame import TransformBroken
from penstock.pipeline.transform_query import (
    Checkpoint,
    check_checkpoint,
    check_fingerprint,
    offset_number,
)
from penstock.transforms.declaration import Target, Transform
from penstock.transforms.reports import Order

TRANSFORM = Transform(name="t", source="In", sql="SELECT 1", target=Target(stream="Out"))
FILES = {
    "metadata": '{"id":"cd86d560-5d61-4244-afa4-7525a0c5d798"}',
    "offsets/0": 'v1\n{"batchWatermarkMs":0,"conf":{}}\n{"server": {"In": 3}}',
    "offsets/1": 'v1\n{"batchWatermarkMs":0,"conf":{}}\n{"server": {"In": 9}}',
    "commits/0": 'v1\n{"nextBatchWatermarkMs":0}',
}


def order(*, has_run: bool = True, fingerprint: str = "stream In") -> Order:
    return Order(TRANSFORM, 2, "earliest", has_run, fingerprint)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint as Spark leaves it between the plan of a batch and its end."""
    for name, text in FILES.items():
        path = tmp_path / "t" / "2" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def check(folder: Path, *, has_run: bool = True) -> None:
    wanted = order(has_run=has_run)
    check_checkpoint(wanted, Checkpoint(str(folder), wanted))


@pytest.mark.parametrize("has_run", [True, False])
def test_a_whole_checkpoint_is_gone_on_with(folder: Path, has_run: bool) -> None:
    check(folder, has_run=has_run)


def test_a_transform_that_never_ran_needs_none(tmp_path: Path) -> None:
    check(tmp_path, has_run=False)


@pytest.mark.parametrize("part", ["t", "t/2", "t/2/offsets"])
def test_one_that_is_gone_is_not_begun_anew(folder: Path, part: str) -> None:
    shutil.rmtree(folder / part)

    with pytest.raises(TransformBroken, match=r"it has run before, but its checkpoint .* is gone"):
        check(folder)


def test_a_checkpoint_of_an_older_generation_does_not_count(folder: Path) -> None:
    (folder / "t" / "2").rename(folder / "t" / "1")

    with pytest.raises(TransformBroken, match="is gone"):
        check(folder)


@pytest.mark.parametrize("name", ["metadata", "offsets/1", "commits/0"])
def test_a_file_that_is_cut_off_anywhere_is_damage(folder: Path, name: str) -> None:
    path = folder / "t" / "2" / name
    for length in range(len(FILES[name])):
        path.write_text(FILES[name][:length])
        with pytest.raises(
            TransformBroken, match=r"its checkpoint is damaged: .*transforms reset t"
        ):
            check(folder)


@pytest.mark.parametrize("name", ["metadata", "offsets/1", "commits/0"])
def test_a_file_of_zeros_is_damage(folder: Path, name: str) -> None:
    """What a power cut leaves of a file whose size was known and whose content was not."""
    (folder / "t" / "2" / name).write_bytes(bytes(len(FILES[name])))

    with pytest.raises(TransformBroken, match="damaged"):
        check(folder)


def test_a_state_of_something_else_is_refused_with_both_texts() -> None:
    check_fingerprint(order(), "stream In")
    check_fingerprint(order(has_run=False), "stream Other")

    with pytest.raises(TransformBroken, match='is of "stream In", and now it is "stream Other"'):
        check_fingerprint(order(), "stream Other")


def test_the_number_of_a_stream_is_found_in_an_offset() -> None:
    offsets = json.dumps({"server": {"In": 7}})

    assert offset_number(offsets, "In") == 7
    assert offset_number(offsets, "Other") is None
    assert offset_number("null", "In") is None
    assert offset_number(None, "In") is None
