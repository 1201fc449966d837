"""What a log remembers for those who watch: bytes appended, and the times at both ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from log.faulty_disk import FaultyDisk
from log.helpers import append, numbered
from penstock.block import ENTRY_BYTES
from penstock.errors import DiskFailed
from penstock.log.disk import Disk
from penstock.log.log import Log

SEGMENT_BYTES = 3 * (10 + ENTRY_BYTES)


def opened(folder: Path, disk: Disk | None = None) -> Log:
    return Log(disk or Disk(), str(folder), segment_bytes_max=SEGMENT_BYTES)


def test_appended_bytes_count_payloads_since_the_log_was_opened(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, numbered(7))
    assert log.appended_bytes == 70
    log.drop_oldest(1)
    assert log.appended_bytes == 70  # what was appended stays appended
    log.close()

    log = opened(tmp_path)
    assert log.appended_bytes == 0
    log.close()


@pytest.mark.parametrize("count", [1, 2, 8])
def test_what_is_taken_back_was_not_appended(tmp_path: Path, count: int) -> None:
    log = opened(tmp_path)
    append(log, numbered(2))
    end = log.end()
    append(log, numbered(count))
    log.return_to(end)

    assert log.appended_bytes == 20
    append(log, [b"12345"])
    assert log.appended_bytes == 25
    log.close()


def test_an_append_that_the_disk_refuses_is_not_counted(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = opened(tmp_path, disk)
    append(log, numbered(2))
    for later in range(1, 6):  # in the first segment, at its end, in the next ones
        disk.faults.fail_once(disk.faults.count + later)
        with pytest.raises(DiskFailed):
            append(log, numbered(8))
        assert log.appended_bytes == 20
    log.close()


def test_a_segment_knows_the_times_of_its_first_and_last_message(tmp_path: Path) -> None:
    log = opened(tmp_path)
    assert (log.active.oldest_time_ms(), log.active.newest_time_ms()) == (None, None)
    for time_ms in (5, 7, 6):
        log.append(b"0123456789", [10], time_ms)
    assert (log.active.oldest_time_ms(), log.active.newest_time_ms()) == (5, 6)
    log.close()

    segment = opened(tmp_path).segments[0]
    assert segment.first_time_ms is None
    assert (segment.oldest_time_ms(), segment.newest_time_ms()) == (5, 6)
    segment.close()


def test_a_segment_whose_messages_were_all_taken_back_has_the_times_of_the_next_ones(
    tmp_path: Path,
) -> None:
    log = opened(tmp_path)
    end = log.end()
    log.append(b"x", [1], 5)
    log.return_to(end)
    assert log.active.oldest_time_ms() is None
    log.append(b"x", [1], 9)
    assert log.active.oldest_time_ms() == 9
    log.close()
