"""The ordered segments: append, read, roll, drop, sync."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from log.faulty_disk import FaultyDisk
from log.helpers import EVERYTHING, append, as_contents, contents, files, messages, numbered
from log.power_cut import PowerCutDisk, lose_all
from log.test_disk import open_file_count
from penstock.block import ENTRY_BYTES, message_count
from penstock.errors import DataDamaged, DiskFailed
from penstock.log import log as log_module
from penstock.log.disk import Disk
from penstock.log.log import Log
from penstock.log.memory import Memory

RECORD_BYTES = 10 + ENTRY_BYTES
SEGMENT_BYTES = 3 * RECORD_BYTES


def segment_sizes(log: Log) -> list[int]:
    """How many messages each segment has."""
    return [segment.count for segment in log.segments]


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(Disk(), str(tmp_path), segment_bytes_max=SEGMENT_BYTES)


def test_a_new_log_is_empty(log: Log) -> None:
    assert (log.first_sequence, log.next_sequence, log.total_bytes) == (0, 0, 0)
    assert log.notices == []
    assert log.read(0, 0, 10, 10) == []
    log.close()


def test_numbers_count_up_from_zero(log: Log) -> None:
    assert append(log, [b"a"]) == 0
    assert append(log, [b"b", b"c"]) == 1
    assert append(log, [b"d"]) == 3
    assert contents(log) == {0: b"a", 1: b"b", 2: b"c", 3: b"d"}
    log.close()


# --- where segments end ------------------------------------------------------------------------


def test_a_segment_is_filled_exactly(log: Log) -> None:
    append(log, numbered(3))
    assert segment_sizes(log) == [3]
    append(log, [b"x"])
    assert segment_sizes(log) == [3, 1]
    log.close()


def test_a_batch_is_cut_where_segments_end(log: Log) -> None:
    append(log, numbered(2))
    append(log, numbered(8, 2))
    assert segment_sizes(log) == [3, 3, 3, 1]
    assert contents(log) == as_contents(numbered(10))
    log.close()


def test_a_message_larger_than_a_segment_has_one_of_its_own(log: Log) -> None:
    large = b"L" * (2 * SEGMENT_BYTES)
    append(log, [b"before"])
    append(log, [large])
    append(log, [b"after"])
    append(log, [b"and after"])
    assert segment_sizes(log) == [1, 1, 2]
    append(log, [b"x", large, large, b"y", b"z"])
    assert segment_sizes(log) == [1, 1, 3, 1, 1, 2]
    log.close()


def test_a_smaller_segment_size_takes_effect_with_the_next_message(log: Log) -> None:
    append(log, numbered(3))
    log.segment_bytes_max = RECORD_BYTES
    for number in range(3, 6):
        append(log, numbered(1, number))
    assert segment_sizes(log) == [3, 1, 1, 1]
    log.close()


def test_segments_need_not_fit_a_single_message(tmp_path: Path) -> None:
    log = Log(Disk(), str(tmp_path), segment_bytes_max=1)
    append(log, numbered(3))
    assert segment_sizes(log) == [1, 1, 1]
    assert contents(log) == as_contents(numbered(3))
    log.close()


# --- reading -----------------------------------------------------------------------------------


def test_a_read_crosses_segments_and_ends_at_its_limits(log: Log) -> None:
    payloads = numbered(8)
    append(log, payloads)
    assert messages(log.read(1, 8, 4, EVERYTHING)) == as_contents(payloads[1:5], 1)
    assert messages(log.read(1, 8, EVERYTHING, 49)) == as_contents(payloads[1:5], 1)
    assert messages(log.read(1, 3, EVERYTHING, EVERYTHING)) == as_contents(payloads[1:3], 1)
    assert messages(log.read(2, 8, EVERYTHING, 0)) == {2: payloads[2]}
    assert messages(log.read(2, 8, EVERYTHING, 10)) == {2: payloads[2]}
    assert messages(log.read(2, 8, EVERYTHING, 15)) == {2: payloads[2]}
    log.close()


def test_a_read_from_before_the_oldest_begins_with_the_oldest(log: Log) -> None:
    append(log, numbered(8))
    log.drop_oldest(1)
    assert messages(log.read(0, 8, 2, EVERYTHING)) == as_contents(numbered(2, 3), 3)
    log.close()


def test_a_read_beyond_the_end_is_empty(log: Log) -> None:
    append(log, numbered(2))
    assert log.read(2, 2, 10, 10) == []
    assert log.read(5, 2, 10, 10) == []
    log.close()


def test_damage_ends_a_read_and_begins_the_next_one(tmp_path: Path, log: Log) -> None:
    payloads = numbered(9)
    append(log, payloads)
    (tmp_path / "00000000000000000003.data").write_bytes(b"x" * 30)
    assert messages(log.read(1, 9, EVERYTHING, EVERYTHING)) == as_contents(payloads[1:3], 1)
    with pytest.raises(DataDamaged) as caught:
        log.read(3, 9, EVERYTHING, EVERYTHING)
    assert (caught.value.first_sequence, caught.value.last_sequence) == (3, 5)
    assert messages(log.read(6, 9, EVERYTHING, EVERYTHING)) == as_contents(payloads[6:], 6)
    log.close()


def test_the_size_of_a_read_can_be_guessed(log: Log) -> None:
    assert log.payload_bytes_estimate(0, 100) == 0
    append(log, [*numbered(3), b"x"])
    assert log.payload_bytes_estimate(1, 2) == 20
    assert log.payload_bytes_estimate(3, 1000) == 1000
    assert log.payload_bytes_estimate(99, 1) == 1
    log.close()


# --- reading in another thread -----------------------------------------------------------------


def in_thread(work: Callable[[], object]) -> object:
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    thread.join()
    return results[0]


@pytest.mark.parametrize("make_storage", [Disk, Memory])
def test_a_read_that_has_begun_does_not_notice_what_happens_to_the_log(
    tmp_path: Path, make_storage: Callable[[], Disk | Memory]
) -> None:
    log = Log(make_storage(), str(tmp_path), segment_bytes_max=SEGMENT_BYTES)
    payloads = numbered(8)
    append(log, payloads)
    read = log.begin_read(1, 8, EVERYTHING, EVERYTHING)
    log.drop_oldest(99)
    append(log, [b"something else"] * 10)
    assert messages(in_thread(read)) == as_contents(payloads[1:], 1)  # type: ignore[arg-type]
    log.close()
    assert open_file_count(tmp_path) == 0


def test_a_read_opens_no_more_segments_than_it_may_need(tmp_path: Path) -> None:
    disk = Disk()
    disk._open_files_max = 1
    log = Log(disk, str(tmp_path), segment_bytes_max=SEGMENT_BYTES)
    append(log, numbered(60))
    for count_max, bytes_max, segment_count in (
        (EVERYTHING, EVERYTHING, 20),
        (1, EVERYTHING, 2),
        (6, EVERYTHING, 3),
        (EVERYTHING, 45, 3),
    ):
        read = log.begin_read(0, 60, count_max, bytes_max)
        assert open_file_count(tmp_path) <= 2 * segment_count + 1
        assert message_count(read()) == min(60, count_max, bytes_max // 10)
        assert open_file_count(tmp_path) == 1
    assert len(messages(log.begin_read(0, 4, EVERYTHING, EVERYTHING)())) == 4
    log.close()


@pytest.mark.parametrize("make_storage", [Disk, Memory])
def test_a_read_over_very_many_segments_opens_few_at_a_time(
    tmp_path: Path,
    make_storage: Callable[[], Disk | Memory],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_module, "SEGMENTS_DETACHED_MAX", 4)
    log = Log(make_storage(), str(tmp_path), segment_bytes_max=SEGMENT_BYTES)
    append(log, numbered(60))
    log.abandon()
    read = log.begin_read(1, 60, 100, EVERYTHING)
    log.abandon()
    assert open_file_count(tmp_path) <= 2 * 4
    assert messages(read()) == as_contents(numbered(59, 1), 1)
    assert open_file_count(tmp_path) == 0


def test_a_long_read_ends_where_retention_was_faster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "SEGMENTS_DETACHED_MAX", 4)
    log = Log(Disk(), str(tmp_path), segment_bytes_max=SEGMENT_BYTES)
    append(log, numbered(60))
    read = log.begin_read(1, 60, 100, EVERYTHING)
    log.drop_oldest(99)
    assert messages(read()) == as_contents(numbered(11, 1), 1)
    log.close()
    assert len(files(tmp_path, ".data", ".index")) == 2, "reading must not make files anew"
    assert open_file_count(tmp_path) == 0


def test_a_read_that_cannot_begin_leaves_nothing_open(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = Log(disk, str(tmp_path), segment_bytes_max=SEGMENT_BYTES)
    append(log, numbered(9))
    log.abandon()
    disk.faults.fail_operation("dup", "6.index")
    with pytest.raises(OSError, match="No space"):
        log.begin_read(0, 9, EVERYTHING, EVERYTHING)
    log.abandon()
    assert open_file_count(tmp_path) == 0


def test_an_error_in_the_thread_leaves_nothing_open(tmp_path: Path, log: Log) -> None:
    append(log, numbered(3))
    (tmp_path / "00000000000000000000.data").write_bytes(b"damaged")
    read = log.begin_read(0, 3, EVERYTHING, EVERYTHING)
    with pytest.raises(DataDamaged):
        read()
    log.close()
    assert open_file_count(tmp_path) == 0


# --- dropping ----------------------------------------------------------------------------------


def test_dropping_takes_the_oldest_segments(log: Log) -> None:
    append(log, numbered(8))
    log.drop_oldest(0)
    assert log.first_sequence == 0
    log.drop_oldest(1)
    assert (log.first_sequence, log.next_sequence) == (3, 8)
    assert log.total_bytes == 5 * RECORD_BYTES
    assert log.count_from(0, 8) == 5
    assert contents(log) == as_contents(numbered(5, 3), 3)
    log.close()


@pytest.mark.parametrize("orderly", [True, False])
@pytest.mark.parametrize("count", [3, 99])
def test_dropping_all_keeps_the_numbers(
    tmp_path: Path, log: Log, count: int, orderly: bool
) -> None:
    append(log, numbered(8))
    log.drop_oldest(count)
    assert (log.first_sequence, log.next_sequence, log.total_bytes) == (8, 8, 0)
    assert len(files(tmp_path, ".data", ".index")) == 2
    if orderly:
        log.close()
    else:
        log.abandon()
    log = Log(Disk(), str(tmp_path), segment_bytes_max=SEGMENT_BYTES)
    assert log.notices == []
    assert (log.first_sequence, log.next_sequence) == (8, 8)
    assert append(log, [b"x"]) == 8
    log.close()


def test_dropping_from_an_empty_log_changes_nothing(tmp_path: Path, log: Log) -> None:
    log.drop_oldest(1)
    log.drop_oldest(1)
    assert log.next_sequence == 0
    assert len(files(tmp_path, ".data", ".index")) == 2
    log.close()


@pytest.mark.parametrize("synced", [True, False])
def test_numbers_survive_a_power_cut_that_keeps_removals_and_loses_creations(synced: bool) -> None:
    """The worst order in which a file system can do its work."""
    disk = PowerCutDisk()
    log = Log(disk, "/log", segment_bytes_max=SEGMENT_BYTES, synced=synced)
    append(log, numbered(8))
    log.begin_sync()()
    log.drop_oldest(99)
    for path in [path for path in disk.durable_files if path not in disk.files]:
        del disk.durable_files[path]
    log = Log(
        disk.cut(lose_all), "/log", segment_bytes_max=SEGMENT_BYTES, synced=synced, power_lost=True
    )
    assert log.next_sequence >= 8


def test_numbers_told_after_a_sync_are_remembered_when_later_ones_need_none() -> None:
    """flushOnWrite was turned off, and everything expired before the next append."""
    disk = PowerCutDisk()
    log = Log(disk, "/log", segment_bytes_max=SEGMENT_BYTES, synced=True)
    append(log, numbered(8))
    log.begin_sync()()
    log.synced = False
    log.drop_oldest(99)
    disk.sync_folder("/log")
    for path in list(disk.durable_files):
        if path != "/log/mark":
            del disk.durable_files[path]
    after = Log(disk.cut(lose_all), "/log", segment_bytes_max=SEGMENT_BYTES, power_lost=True)
    assert after.next_sequence >= 8


def test_files_that_cannot_be_removed_are_removed_before_the_next_append(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = Log(disk, str(tmp_path), segment_bytes_max=SEGMENT_BYTES)
    append(log, numbered(8))
    disk.faults.fail_operation("remove", "3.data")
    with pytest.raises(DiskFailed, match="No space left"):
        log.drop_oldest(2)
    assert (log.first_sequence, log.next_sequence) == (6, 8)
    assert log.total_bytes == 2 * RECORD_BYTES
    assert contents(log) == as_contents(numbered(2, 6), 6)
    with pytest.raises(DiskFailed, match="No space left"):
        append(log, [b"x"])
    disk.faults.heal()
    assert append(log, [b"x"]) == 8
    assert {path.name[:20] for path in files(tmp_path, ".data", ".index")} == {f"{6:020d}"}
    log.close()


def test_a_killed_server_may_bring_back_whole_segments_that_could_not_be_removed(
    tmp_path: Path,
) -> None:
    disk = FaultyDisk()
    log = Log(disk, str(tmp_path), segment_bytes_max=SEGMENT_BYTES)
    append(log, numbered(8))
    disk.faults.fail_operation("remove", "0.data")
    with pytest.raises(DiskFailed):
        log.drop_oldest(2)
    log.abandon()
    log = Log(Disk(), str(tmp_path), segment_bytes_max=SEGMENT_BYTES)
    assert contents(log) == as_contents(numbered(5, 3), 3)
    assert log.notices == []
    log.close()
