"""The mark remembers which numbers were given, whatever is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from log.faulty_disk import FaultyDisk
from log.helpers import every_bit
from log.power_cut import PowerCutDisk, keep_all, lose_all
from penstock.log.disk import Disk
from penstock.log.mark import MARK_BYTES, RESERVATION_MAX, RESERVATION_MIN, Mark

PATH = "/log/mark"


def after_power_cut(disk: PowerCutDisk) -> Mark:
    return Mark(disk.cut(lose_all), PATH)


def durable_disk(*, next_sequence: int) -> PowerCutDisk:
    """A disk with a mark that has been there for long."""
    disk = PowerCutDisk()
    Mark(disk, PATH).settle(next_sequence)
    disk.sync_folder("/log")
    return disk


def test_a_new_mark_knows_nothing() -> None:
    mark = Mark(PowerCutDisk(), PATH)
    assert (mark.missing, mark.damaged) == (True, False)
    assert (mark.next_sequence, mark.reserved_sequence) == (0, 0)
    assert not mark.is_settled_at(0)


@pytest.mark.parametrize("reserve", [True, False])
def test_the_next_number_survives_the_death_of_the_process(tmp_path: Path, reserve: bool) -> None:
    mark = Mark(Disk(), f"{tmp_path}/mark")
    for next_sequence in (1, 2, 7):
        mark.advance(next_sequence, reserve=reserve)
        assert Mark(Disk(), f"{tmp_path}/mark").next_sequence == next_sequence
    mark.close()


def test_numbers_are_reserved_on_disk_before_they_are_given() -> None:
    disk = durable_disk(next_sequence=0)
    mark = Mark(disk, PATH)
    for next_sequence in range(1, 5 * RESERVATION_MIN, 100):
        mark.advance(next_sequence, reserve=True)
        assert after_power_cut(disk).reserved_sequence >= next_sequence


def test_reservations_grow_so_that_a_busy_stream_syncs_seldom() -> None:
    disk = durable_disk(next_sequence=0)
    mark = Mark(disk, PATH)
    steps = []
    for next_sequence in range(1, 600_000, 500):
        before = mark.reserved_sequence
        mark.advance(next_sequence, reserve=True)
        if mark.reserved_sequence != before:
            steps.append(mark.reserved_sequence - next_sequence)
    assert steps[:3] == [RESERVATION_MIN, 2 * RESERVATION_MIN, 4 * RESERVATION_MIN]
    assert steps[-2:] == [RESERVATION_MAX, RESERVATION_MAX]
    assert len(steps) < 20


def test_without_reservation_nothing_is_synced() -> None:
    disk = durable_disk(next_sequence=5)
    Mark(disk, PATH).advance(9, reserve=False)
    assert after_power_cut(disk).next_sequence == 5
    assert Mark(disk.cut(keep_all), PATH).next_sequence == 9


def test_a_reservation_of_a_killed_process_is_not_relied_on() -> None:
    """It may have been written and not synced: then a power cut still takes it back."""
    disk = durable_disk(next_sequence=0)
    killed = Mark(disk, PATH)
    killed._write(1, 1 + RESERVATION_MIN)

    mark = Mark(disk, PATH)
    assert mark.reserved_sequence == 1 + RESERVATION_MIN
    mark.advance(2, reserve=True)
    assert after_power_cut(disk).reserved_sequence >= 2


def test_a_reservation_whose_sync_failed_is_not_relied_on(tmp_path: Path) -> None:
    disk = FaultyDisk()
    mark = Mark(disk, f"{tmp_path}/mark")
    disk.faults.fail_operation("sync")
    with pytest.raises(OSError, match="No space"):
        mark.advance(1, reserve=True)
    with pytest.raises(OSError, match="No space"):
        mark.advance(1, reserve=True)
    disk.faults.heal()
    mark.advance(1, reserve=True)
    syncs_before = disk.faults.count
    mark.advance(2, reserve=True)
    assert disk.faults.count == syncs_before + 1, "one write, no sync"
    mark.close()


def test_a_secured_number_survives_a_power_cut_and_nothing_is_skipped() -> None:
    disk = durable_disk(next_sequence=0)
    mark = Mark(disk, PATH)
    mark.advance(10, reserve=False)
    mark.secure(11)
    found = after_power_cut(disk)
    assert max(found.next_sequence, found.reserved_sequence) == 11
    assert not found.is_settled_at(11), "the log was not closed"
    mark.advance(12, reserve=True)
    assert after_power_cut(disk).reserved_sequence >= 12


def test_what_a_reservation_covers_needs_no_securing() -> None:
    disk = durable_disk(next_sequence=0)
    mark = Mark(disk, PATH)
    mark.advance(10, reserve=True)
    reserved = mark.reserved_sequence
    mark.secure(10)
    assert mark.reserved_sequence == reserved


def test_a_settled_mark_says_that_the_log_was_closed_here() -> None:
    found = after_power_cut(durable_disk(next_sequence=7))
    assert found.is_settled_at(7)
    assert not found.is_settled_at(8)
    assert found.reserved_sequence == 7


def test_one_flipped_bit_anywhere_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "mark"
    Mark(Disk(), str(path)).settle(0x1122334455667788)
    for content in every_bit(path.read_bytes()):
        path.write_bytes(content)
        mark = Mark(Disk(), str(path))
        assert mark.damaged
        assert not mark.missing
        assert not mark.is_settled_at(0)
        assert (mark.next_sequence, mark.reserved_sequence) == (0, 0)
        mark.close()


def test_a_mark_that_was_cut_short_is_damaged_and_an_empty_one_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "mark"
    Mark(Disk(), str(path)).settle(5)
    content = path.read_bytes()
    assert len(content) == MARK_BYTES
    for size in range(MARK_BYTES):
        path.write_bytes(content[:size])
        mark = Mark(Disk(), str(path))
        assert (mark.damaged, mark.missing) == (size > 0, size == 0)
        mark.close()


def test_a_damaged_mark_is_good_again_after_the_next_write(tmp_path: Path) -> None:
    path = tmp_path / "mark"
    path.write_bytes(b"rubbish that is longer than a mark has any right to be")
    mark = Mark(Disk(), str(path))
    assert mark.damaged
    mark.advance(3, reserve=False)
    mark.close()
    again = Mark(Disk(), str(path))
    assert not again.damaged
    assert again.next_sequence == 3
    again.close()
