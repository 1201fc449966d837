"""Opening after a crash: what is kept, what is cut, which number comes next."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from log.faulty_disk import FaultyDisk
from log.helpers import append, as_contents, contents, files, numbered
from penstock.block import ENTRY_BYTES
from penstock.log import recovery
from penstock.log.disk import Disk
from penstock.log.log import Log
from penstock.log.mark import Mark
from penstock.log.memory import Memory
from penstock.log.recovery import examine_tail, find_segments, is_rubbish, last_sound
from penstock.log.segment import Segment, segment_names

PAYLOADS = numbered(10)
FIRST_DATA, FIRST_INDEX = segment_names(0)


def open_log(folder: Path, **options: object) -> Log:
    return Log(Disk(), str(folder), segment_bytes_max=1 << 20, **options)


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    """A folder with ten messages in one segment, left behind by a process that died."""
    log = open_log(tmp_path)
    append(log, PAYLOADS)
    log.abandon()
    return tmp_path


def torn_files(folder: Path) -> dict[str, bytes]:
    return {path.name.split(".")[1]: path.read_bytes() for path in files(folder, ".torn")}


# --- finding -----------------------------------------------------------------------------------


def test_segments_are_found_by_name_and_nothing_is_read(tmp_path: Path) -> None:
    sizes = {
        "00000000000000000005.index": 2 * ENTRY_BYTES,
        "00000000000000000005.data": 7,
        "00000000000000000000.index": 5 * ENTRY_BYTES + 3,
        "00000000000000000000.data": 11,
        "00000000000000000009.index": ENTRY_BYTES,
        "mark": 28,
        "00000000000000000005.index.1.torn": 9,
        "5.index": 32,
    }
    segments, left_over = find_segments(Disk(), f"{tmp_path}/not there", sizes)
    found = [(segment.first_sequence, segment.count, segment.data_bytes) for segment in segments]
    assert found == [(0, 5, 11), (5, 2, 7), (9, 1, 0)]
    assert left_over == []


def test_a_segment_ends_where_the_next_one_begins() -> None:
    sizes = {segment_names(0)[1]: 8 * ENTRY_BYTES, segment_names(5)[1]: ENTRY_BYTES}
    segments, _ = find_segments(Memory(), "", sizes)
    assert [segment.count for segment in segments] == [5, 1]


def test_data_without_an_index_is_named() -> None:
    sizes = {segment_names(3)[0]: 10, segment_names(5)[1]: ENTRY_BYTES, segment_names(5)[0]: 1}
    segments, left_over = find_segments(Memory(), "", sizes)
    assert [segment.first_sequence for segment in segments] == [5]
    assert left_over == [segment_names(3)[0]]


@pytest.mark.parametrize(
    ("first", "size", "answer"),
    [
        (3, 10, True),  # retention was removing it
        (7, 10, False),  # it stands in the middle of the log
        (12, 10, True),  # nobody was told of it
        (7, 0, True),  # it was just being made
    ],
)
def test_data_without_an_index_may_be_rubbish(first: int, size: int, answer: bool) -> None:
    segments = [Segment(Memory(), "", 5), Segment(Memory(), "", 10)]
    name = segment_names(first)[0]
    assert is_rubbish(name, {name: size}, segments, next_sequence=12) is answer


# --- the end of a segment ----------------------------------------------------------------------


@pytest.mark.parametrize("broken_count", [0, 1, 15, 16, 17, 79, 80, 81, 399, 400])
def test_the_last_sound_message_is_found_behind_any_number_of_broken_ones(
    broken_count: int,
) -> None:
    payloads = numbered(400)
    segment = Segment(Memory(), "", 3)
    segment.append(b"".join(payloads), list(map(len, payloads)), 1)
    sound_count = 400 - broken_count
    segment.index.write_at(bytes(broken_count * ENTRY_BYTES), sound_count * ENTRY_BYTES)
    assert last_sound(segment, 400) == sound_count
    tail = examine_tail(segment, 400 * ENTRY_BYTES)
    assert (tail.sound_count, tail.entry_count) == (sound_count, 400)
    assert tail.data_end == 10 * sound_count
    assert tail.torn_index_bytes == broken_count * ENTRY_BYTES
    assert tail.torn_data_bytes == 10 * broken_count
    assert tail.is_torn == (broken_count > 0)
    assert tail.newest_time_ms == (1 if sound_count else None)


def test_damage_before_the_end_does_not_move_the_end() -> None:
    segment = Segment(Memory(), "", 0)
    segment.append(b"".join(PAYLOADS), [10] * 10, 1)
    segment.index.write_at(bytes(ENTRY_BYTES), 4 * ENTRY_BYTES)
    assert last_sound(segment, 10) == 10


# --- after the death of the process ------------------------------------------------------------


def test_a_log_that_was_closed_is_opened_without_a_write(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, PAYLOADS)
    log.close()
    disk = FaultyDisk()
    disk.faults.fail_when(lambda _, operation, path: operation not in ("open", "read"))
    reopened = Log(disk, str(tmp_path), segment_bytes_max=1 << 20)
    assert reopened.notices == []
    assert disk.faults.failed == []
    assert contents(reopened) == as_contents(PAYLOADS)
    reopened.abandon()


def test_a_log_that_was_not_closed_says_the_same(crashed: Path) -> None:
    log = open_log(crashed)
    assert log.notices == []
    assert contents(log) == as_contents(PAYLOADS)
    assert append(log, [b"more"]) == 10
    log.close()


@pytest.mark.parametrize("byte_count", [1, ENTRY_BYTES - 1])
def test_half_an_entry_is_cut_and_kept(crashed: Path, byte_count: int) -> None:
    """The process died between the two halves of a write; nobody was told of the message."""
    with open(crashed / FIRST_DATA, "ab") as data, open(crashed / FIRST_INDEX, "ab") as index:
        data.write(b"payload")
        index.write(b"i" * byte_count)
    log = open_log(crashed)
    (notice,) = log.notices
    assert f"{FIRST_DATA}: 7 torn bytes, and {byte_count} of its index, after message 9" in notice
    assert torn_files(crashed) == {"data": b"payload", "index": b"i" * byte_count}
    assert contents(log) == as_contents(PAYLOADS)
    assert append(log, [b"eleven"]) == 10
    log.abandon()
    again = open_log(crashed)
    assert again.notices == []
    assert contents(again) == as_contents([*PAYLOADS, b"eleven"])
    again.close()


def test_data_without_any_entry_is_cut_and_kept(crashed: Path) -> None:
    with open(crashed / FIRST_DATA, "ab") as data:
        data.write(b"payload")
    log = open_log(crashed)
    assert torn_files(crashed) == {"data": b"payload"}
    assert (crashed / FIRST_DATA).stat().st_size == 100
    log.close()


def test_a_torn_end_is_copied_piece_by_piece(
    crashed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "COPY_BYTES", 3)
    with open(crashed / FIRST_DATA, "ab") as data:
        data.write(b"0123456")
    open_log(crashed).close()
    assert torn_files(crashed) == {"data": b"0123456"}


def test_a_full_disk_does_not_keep_anybody_from_reading(crashed: Path) -> None:
    with open(crashed / FIRST_DATA, "ab") as data:
        data.write(b"payload")
    disk = FaultyDisk()
    disk.faults.fail_when(lambda _, operation, path: operation in ("write", "replace_file"))
    log = Log(disk, str(crashed), segment_bytes_max=1 << 20)
    assert [text for text in log.notices if "they could not be kept: No space left" in text]
    assert [text for text in log.notices if "can be read but not written to" in text]
    assert contents(log) == as_contents(PAYLOADS)
    disk.faults.heal()
    assert append(log, [b"eleven"]) == 10
    log.close()
    assert contents(open_log(crashed)) == as_contents([*PAYLOADS, b"eleven"])


def test_a_number_in_the_mark_that_is_nowhere_else_is_not_given_again(crashed: Path) -> None:
    os.truncate(crashed / FIRST_DATA, 70)
    os.truncate(crashed / FIRST_INDEX, 7 * ENTRY_BYTES)
    log = open_log(crashed)
    (notice,) = log.notices
    assert "messages 7 to 9 are not in" in notice
    assert contents(log) == as_contents(PAYLOADS[:7])
    assert log.next_sequence == 10
    assert log.count_from(0, 10) == 7
    assert log.count_from(8, 10) == 0
    assert append(log, [b"eleven"]) == 10
    log.abandon()
    again = open_log(crashed)
    assert again.notices == []
    assert contents(again) == as_contents(PAYLOADS[:7]) | {10: b"eleven"}
    again.close()


def test_a_broken_last_entry_still_counts_as_a_number(crashed: Path) -> None:
    os.unlink(crashed / "mark")
    with open(crashed / FIRST_INDEX, "r+b") as index:
        index.seek(9 * ENTRY_BYTES)
        index.write(bytes(ENTRY_BYTES))
    log = open_log(crashed)
    assert log.next_sequence >= 10
    assert [text for text in log.notices if "mark was missing" in text]
    assert contents(log) == as_contents(PAYLOADS[:9])
    log.close()


def test_without_the_mark_every_torn_byte_may_have_been_a_message(crashed: Path) -> None:
    os.truncate(crashed / FIRST_INDEX, 4 * ENTRY_BYTES)
    (crashed / "mark").write_bytes(b"damaged")
    log = open_log(crashed)
    assert log.next_sequence == 4 + 60, "each message has at least a byte"
    assert [text for text in log.notices if "mark was damaged" in text]
    assert append(log, [b"next"]) == 64
    log.close()
    assert open_log(crashed).notices == []


def test_a_damaged_mark_is_written_anew_at_once(crashed: Path) -> None:
    (crashed / "mark").write_bytes(b"damaged")
    log = open_log(crashed)
    assert len(log.notices) == 1
    log.abandon()
    assert open_log(crashed).notices == []
    mark = Mark(Disk(), f"{crashed}/mark")
    assert mark.next_sequence == 10
    mark.close()


def test_the_damaged_mark_of_an_empty_log_is_written_anew_too(tmp_path: Path) -> None:
    open_log(tmp_path).close()
    (tmp_path / "mark").write_bytes(b"damaged")
    log = open_log(tmp_path)
    assert len(log.notices) == 1
    log.abandon()
    assert open_log(tmp_path).notices == []


def test_numbers_seen_elsewhere_are_not_given_again(crashed: Path) -> None:
    log = open_log(crashed, number_floor=15)
    (notice,) = log.notices
    assert "messages 10 to 14 are not in" in notice
    assert append(log, [b"x"]) == 15
    log.close()
    assert open_log(crashed, number_floor=15).notices == []


def test_an_empty_last_segment_gives_way_to_the_one_that_is_needed(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.abandon()
    log = open_log(tmp_path, number_floor=5)
    assert [segment.first_sequence for segment in log.segments] == [5]
    assert {path.name for path in files(tmp_path, ".data", ".index")} == set(segment_names(5))
    log.close()


def test_what_an_interrupted_removal_left_is_removed(crashed: Path) -> None:
    log = open_log(crashed)
    log.drop_oldest(1)
    append(log, [b"ten"])
    log.abandon()
    (crashed / FIRST_DATA).write_bytes(b"of the removed segment")
    log = open_log(crashed)
    assert log.notices == []
    assert not (crashed / FIRST_DATA).exists()
    assert contents(log) == {10: b"ten"}
    log.close()


def test_data_that_lost_its_index_is_put_aside(tmp_path: Path) -> None:
    log = Log(Disk(), str(tmp_path), segment_bytes_max=100)
    append(log, PAYLOADS)
    log.close()
    data_name, index_name = segment_names(2)
    (tmp_path / index_name).unlink()
    lost = (tmp_path / data_name).read_bytes()
    log = Log(Disk(), str(tmp_path), segment_bytes_max=100)
    (notice,) = log.notices
    assert f"{data_name} has lost its index; it is kept in a .torn file" in notice
    assert torn_files(tmp_path) == {"data": lost}
    assert contents(log).keys() == {0, 1, 4, 5, 6, 7, 8, 9}
    log.abandon()
    assert Log(Disk(), str(tmp_path), segment_bytes_max=100).notices == []


def test_data_that_cannot_be_put_aside_stays(tmp_path: Path) -> None:
    log = Log(Disk(), str(tmp_path), segment_bytes_max=100)
    append(log, PAYLOADS)
    log.close()
    (tmp_path / segment_names(2)[1]).unlink()
    disk = FaultyDisk()
    disk.faults.fail_operation("rename")
    log = Log(disk, str(tmp_path), segment_bytes_max=100)
    (notice,) = log.notices
    assert "it could not be renamed: No space left" in notice
    assert (tmp_path / segment_names(2)[0]).exists()
    log.close()


# --- after a power cut -------------------------------------------------------------------------


def test_after_a_power_cut_reserved_numbers_are_skipped(crashed: Path) -> None:
    log = open_log(crashed, power_lost=True)
    assert log.next_sequence > 10
    (notice,) = log.notices
    assert f"messages 10 to {log.next_sequence - 1} are not in" in notice
    assert append(log, [b"x"]) == log.next_sequence - 1
    log.close()
    assert open_log(crashed, power_lost=True).notices == [
        f"messages 10 to {log.next_sequence - 2} are missing"
    ]


def test_after_an_orderly_stop_a_power_cut_skips_nothing(crashed: Path) -> None:
    open_log(crashed).close()
    log = open_log(crashed, power_lost=True)
    assert log.next_sequence == 10
    assert log.notices == []
    log.close()


def sealed_segments(folder: Path) -> list[Path]:
    """Five sealed segments of two messages, settled on disk; their index files."""
    log = Log(Disk(), str(folder), segment_bytes_max=100)
    append(log, PAYLOADS)
    log.close()
    return files(folder, ".index")


def test_a_power_cut_may_tear_sealed_segments_too(tmp_path: Path) -> None:
    indexes = sealed_segments(tmp_path)
    os.truncate(indexes[1], ENTRY_BYTES + 5)
    os.truncate(str(indexes[3]).replace(".index", ".data"), 13)
    log = Log(Disk(), str(tmp_path), segment_bytes_max=100, power_lost=True)
    assert contents(log).keys() == {0, 1, 2, 4, 5, 6, 8, 9}
    assert [text for text in log.notices if text == "messages 3 to 3 are missing"]
    assert [text for text in log.notices if text == "messages 7 to 7 are missing"]
    assert len(files(tmp_path, ".torn")) == 4
    assert log.total_bytes == 8 * (10 + ENTRY_BYTES)
    log.abandon()
    again = Log(Disk(), str(tmp_path), segment_bytes_max=100)
    assert again.notices == []
    assert contents(again) == contents(log)
    again.close()


@pytest.mark.parametrize("position", [0, 2])
def test_a_segment_of_which_a_power_cut_left_nothing_is_removed(
    tmp_path: Path, position: int
) -> None:
    indexes = sealed_segments(tmp_path)
    os.truncate(indexes[position], 0)
    os.truncate(str(indexes[position]).replace(".index", ".data"), 0)
    log = Log(Disk(), str(tmp_path), segment_bytes_max=100, power_lost=True)
    lost = {2 * position, 2 * position + 1}
    assert log.notices == [f"messages {min(lost)} to {max(lost)} are missing"]
    assert contents(log).keys() == set(range(10)) - lost
    assert not indexes[position].exists()
    log.close()
