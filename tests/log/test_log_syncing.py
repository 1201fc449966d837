"""A log that is synced, closed, and made to take back what nobody was told of."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from log.faulty_disk import FaultyDisk
from log.helpers import append, as_contents, contents, numbered
from log.power_cut import PowerCutDisk, lose_all
from log.test_disk import open_file_count
from log.test_log import SEGMENT_BYTES, in_thread
from penstock.block import ENTRY_BYTES
from penstock.errors import DiskFailed
from penstock.log.disk import Disk
from penstock.log.log import Log
from penstock.log.memory import Memory

# --- syncing -----------------------------------------------------------------------------------


def test_a_sync_that_has_begun_does_not_notice_what_happens_to_the_log(tmp_path: Path) -> None:
    log = Log(Disk(), str(tmp_path), segment_bytes_max=SEGMENT_BYTES, synced=True)
    append(log, numbered(8))
    sync = log.begin_sync()
    log.drop_oldest(99)
    append(log, numbered(8))
    in_thread(sync)
    log.close()
    assert open_file_count(tmp_path) == 0


def test_what_was_synced_survives_a_power_cut() -> None:
    disk = PowerCutDisk()
    log = Log(disk, "/log", segment_bytes_max=SEGMENT_BYTES, synced=True)
    append(log, numbered(8))
    log.begin_sync()()
    append(log, numbered(8, 8))
    log = Log(
        disk.cut(lose_all), "/log", segment_bytes_max=SEGMENT_BYTES, synced=True, power_lost=True
    )
    assert contents(log) == as_contents(numbered(8))
    assert log.next_sequence == 8, "nobody was told of the others"


def test_a_sync_after_a_failed_one_includes_what_that_one_left_out(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = Log(disk, str(tmp_path), segment_bytes_max=SEGMENT_BYTES, synced=True)
    append(log, numbered(4))
    disk.faults.fail_operation("sync")
    sync = log.begin_sync()
    with pytest.raises(OSError, match="No space"):
        sync()
    disk.faults.heal()
    synced = []
    disk.faults.fail_when(
        lambda _, operation, path: bool(
            operation.startswith("sync") and synced.append(os.path.basename(path))
        )
    )
    log.begin_sync()()
    assert synced == [
        "00000000000000000000.data",
        "00000000000000000000.index",
        "00000000000000000003.data",
        "00000000000000000003.index",
        tmp_path.name,
    ]
    synced.clear()
    log.begin_sync()()
    assert synced == []
    log.close()


def test_a_sync_that_cannot_begin_can_be_begun_again(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = Log(disk, str(tmp_path), segment_bytes_max=SEGMENT_BYTES, synced=True)
    append(log, numbered(4))
    disk.faults.fail_operation("dup", "3.index")
    with pytest.raises(OSError, match="No space"):
        log.begin_sync()
    disk.faults.heal()
    log.begin_sync()()
    assert not log._syncing
    log.close()
    assert open_file_count(tmp_path) == 0


@pytest.mark.parametrize("synced", [True, False])
def test_an_orderly_stop_syncs_everything_even_what_a_killed_process_left(synced: bool) -> None:
    disk = PowerCutDisk()
    killed = Log(disk, "/log", segment_bytes_max=SEGMENT_BYTES, synced=synced)
    append(killed, numbered(5))
    for _ in range(2):
        Log(disk, "/log", segment_bytes_max=SEGMENT_BYTES, synced=synced).abandon()
    log = Log(disk, "/log", segment_bytes_max=SEGMENT_BYTES, synced=synced)
    append(log, numbered(5, 5))
    log.close()
    log = Log(
        disk.cut(lose_all), "/log", segment_bytes_max=SEGMENT_BYTES, synced=synced, power_lost=True
    )
    assert log.notices == []
    assert contents(log) == as_contents(numbered(10))


@pytest.mark.parametrize("synced", [True, False])
def test_numbers_that_a_restart_made_visible_survive_a_power_cut(synced: bool) -> None:
    disk = PowerCutDisk()
    killed = Log(disk, "/log", segment_bytes_max=SEGMENT_BYTES, synced=synced)
    append(killed, numbered(5))
    Log(disk, "/log", segment_bytes_max=SEGMENT_BYTES, synced=synced)
    log = Log(
        disk.cut(lose_all), "/log", segment_bytes_max=SEGMENT_BYTES, synced=synced, power_lost=True
    )
    assert log.next_sequence >= 5


def test_closing_an_unsynced_log_opens_few_files(tmp_path: Path) -> None:
    disk = Disk()
    disk._open_files_max = 4
    log = Log(disk, str(tmp_path), segment_bytes_max=SEGMENT_BYTES)
    append(log, numbered(300))
    assert len(log.segments) == 100
    log.close()
    assert open_file_count(tmp_path) == 0


def test_a_log_that_cannot_be_closed_in_order_says_so_and_lets_go(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = Log(disk, str(tmp_path), segment_bytes_max=SEGMENT_BYTES)
    append(log, numbered(5))
    disk.faults.fail_operation("sync")
    with pytest.raises(DiskFailed, match="No space left"):
        log.close()
    assert open_file_count(tmp_path) == 0
    log = Log(Disk(), str(tmp_path), segment_bytes_max=SEGMENT_BYTES)
    assert contents(log) == as_contents(numbered(5))
    log.close()


def test_closing_first_takes_back_what_the_disk_had_refused_to_take_back(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = Log(disk, str(tmp_path), segment_bytes_max=SEGMENT_BYTES)
    append(log, [b"told"])
    disk.faults.fail_operation("write", "mark")
    with pytest.raises(DiskFailed):
        append(log, [b"refused"])
    disk.faults.heal()
    log.close()
    log = Log(Disk(), str(tmp_path), segment_bytes_max=SEGMENT_BYTES)
    assert log.notices == []
    assert contents(log) == {0: b"told"}
    assert log.next_sequence == 1
    log.close()


# --- taking back -------------------------------------------------------------------------------


@pytest.mark.parametrize("told", range(7))
def test_what_nobody_was_told_of_can_be_taken_back(tmp_path: Path, told: int) -> None:
    log = Log(Disk(), str(tmp_path), segment_bytes_max=SEGMENT_BYTES, synced=True)
    append(log, numbered(told) or [b"x"])
    end = log.end()
    before = contents(log)
    append(log, [b"untold"] * 10)
    log.return_to(end)
    assert contents(log) == before
    assert log.next_sequence == len(before)
    assert log.total_bytes == sum(len(payload) + ENTRY_BYTES for payload in before.values())
    log.abandon()
    log = Log(Disk(), str(tmp_path), segment_bytes_max=SEGMENT_BYTES, synced=True)
    assert log.notices == []
    assert contents(log) == before
    assert append(log, [b"told"]) == len(before)
    log.close()


def test_taking_back_after_retention_took_what_was_told(tmp_path: Path) -> None:
    log = Log(Disk(), str(tmp_path), segment_bytes_max=SEGMENT_BYTES, synced=True)
    append(log, numbered(4))
    end = log.end()
    append(log, [b"untold"] * 10)
    log.drop_oldest(3)
    log.return_to(end)
    assert (log.first_sequence, log.next_sequence, log.total_bytes) == (4, 4, 0)
    assert append(log, [b"four"]) == 4
    log.abandon()
    log = Log(Disk(), str(tmp_path), segment_bytes_max=SEGMENT_BYTES, synced=True)
    assert log.notices == []
    assert contents(log) == {4: b"four"}
    log.close()


def test_the_newest_time_is_taken_back_too(tmp_path: Path) -> None:
    log = Log(Disk(), str(tmp_path), segment_bytes_max=SEGMENT_BYTES, synced=True)
    append(log, [b"told"], time_ms=100)
    end = log.end()
    append(log, [b"untold"], time_ms=200)
    log.return_to(end)
    assert log.active.newest_time_ms() == 100
    log.close()


def test_running_out_of_memory_takes_the_append_back() -> None:
    class SmallMemory(Memory):
        def open(self, path: str) -> object:  # type: ignore[override]
            file = super().open(path)
            if path.endswith(".index") and full:
                raise MemoryError
            return file

    full = False
    log = Log(SmallMemory(), "/memory", segment_bytes_max=SEGMENT_BYTES)  # type: ignore[arg-type]
    append(log, numbered(3))
    full = True
    with pytest.raises(MemoryError):
        append(log, numbered(3, 3))
    full = False
    assert contents(log) == as_contents(numbered(3))
    assert append(log, numbered(3, 3)) == 3
    assert contents(log) == as_contents(numbered(6))
