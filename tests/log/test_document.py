"""A small document that survives a crash and a damaged copy."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from log.faulty_disk import FaultyDisk
from log.helpers import every_bit
from penstock.errors import StoreError
from penstock.log.disk import Disk
from penstock.log.document import Document, copy_path, read_document, write_document

VALUE = {"name": "Ω", "numbers": [1, 2.5, None], "nested": {"yes": True}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "document.json"


def test_a_document_is_read_as_it_was_written(path: Path) -> None:
    write_document(Disk(), str(path), VALUE)
    assert read_document(Disk(), str(path)) == Document(VALUE, [], [])


def test_people_can_read_it(path: Path) -> None:
    write_document(Disk(), str(path), {"a": 1})
    assert path.read_text() == '{\n  "a": 1\n}\n67a9d990\n'


@pytest.mark.parametrize("which", ["main", "copy"])
def test_one_flipped_bit_anywhere_is_noticed_and_the_other_copy_counts(
    path: Path, which: str
) -> None:
    write_document(Disk(), str(path), VALUE)
    damaged = path if which == "main" else Path(copy_path(str(path)))
    for content in every_bit(damaged.read_bytes()):
        damaged.write_bytes(content)
        document = read_document(Disk(), str(path))
        assert document.value == VALUE
        assert [text for text in document.damage if text.startswith(f"{damaged}: ")]


@pytest.mark.parametrize("which", ["main", "copy"])
def test_one_copy_may_be_missing_or_cut_off_anywhere(path: Path, which: str) -> None:
    write_document(Disk(), str(path), VALUE)
    damaged = path if which == "main" else Path(copy_path(str(path)))
    content = damaged.read_bytes()
    # Without its last line feed it says the same.
    for size in range(len(content) - 1):
        damaged.write_bytes(content[:size])
        document = read_document(Disk(), str(path))
        assert document.value == VALUE
        assert len(document.damage) == 1
    damaged.unlink()
    document = read_document(Disk(), str(path))
    assert document.value == VALUE
    assert "No such file" in document.damage[0]


def test_two_damaged_copies_are_an_error_that_names_both(path: Path) -> None:
    write_document(Disk(), str(path), VALUE)
    path.write_bytes(b"")
    os.unlink(copy_path(str(path)))
    with pytest.raises(StoreError) as caught:
        read_document(Disk(), str(path))
    assert f"{path}: checksum does not match" in str(caught.value)
    assert copy_path(str(path)) in str(caught.value)


def test_text_with_a_right_checksum_that_is_no_json_is_damage(path: Path) -> None:
    path.write_bytes(b"\n00000000\n")
    with pytest.raises(StoreError, match="cannot be read"):
        read_document(Disk(), str(path))


def test_every_interrupted_change_leaves_the_old_document_or_the_new_one(path: Path) -> None:
    disk = FaultyDisk()
    write_document(disk, str(path), {"version": 0})
    operation_count = disk.faults.count
    assert operation_count == 4, "two files, each replaced and its folder synced"
    for number in range(1, operation_count + 1):
        before = read_document(disk, str(path)).value
        disk.faults.count = 0
        disk.faults.fail_once(number)
        with pytest.raises(OSError, match="No space"):
            write_document(disk, str(path), {"version": number})
        disk.faults.heal()
        document = read_document(disk, str(path))
        # From the moment the main copy is replaced, the change counts.
        assert document.value == ({"version": number} if number == 4 else before)
        assert document.damage == []
        assert len(document.notes) == (number in (2, 3)), "the copies differ, which is no damage"
        write_document(disk, str(path), document.value)
        assert read_document(disk, str(path)).notes == []
