"""One data file and its index."""

from __future__ import annotations

from pathlib import Path

import pytest

from log.faulty_disk import FaultyDisk
from log.helpers import EVERYTHING, flip, numbered
from log.test_disk import open_file_count
from penstock.block import ENTRY_BYTES
from penstock.errors import DataDamaged
from penstock.log import segment as segment_module
from penstock.log.disk import Disk
from penstock.log.memory import Memory
from penstock.log.scan import Anchor
from penstock.log.segment import Segment, segment_names

FIRST = 7
PAYLOADS = numbered(10)


def fill(segment: Segment, payloads: list[bytes], time_ms: int = 1) -> Segment:
    segment.append(b"".join(payloads), list(map(len, payloads)), time_ms)
    return segment


@pytest.fixture
def segment(tmp_path: Path) -> Segment:
    return fill(Segment(Disk(), str(tmp_path), FIRST), PAYLOADS)


def payloads_of(
    segment: Segment, sequence: int, count_max: int = EVERYTHING, bytes_max: int = EVERYTHING
) -> list[bytes]:
    block = segment.read(sequence, count_max, bytes_max)
    assert block.first_sequence == sequence
    assert block.intact()
    return list(block.payloads())


def test_its_files_are_named_after_its_first_message() -> None:
    assert segment_names(42) == ("00000000000000000042.data", "00000000000000000042.index")
    largest = 2**63 - 1
    assert sorted([segment_names(largest)[0], segment_names(9)[0]])[0] == segment_names(9)[0]


def test_it_counts_what_it_holds(segment: Segment) -> None:
    assert (segment.count, segment.next_sequence) == (10, FIRST + 10)
    assert segment.data_bytes == 100
    assert segment.stored_bytes == 10 * (10 + ENTRY_BYTES)


def test_one_message_and_many_are_stored_alike(tmp_path: Path) -> None:
    together = fill(Segment(Disk(), str(tmp_path), 0), PAYLOADS)
    one_by_one = Segment(Memory(), "", 0)
    for payload in PAYLOADS:
        fill(one_by_one, [payload])
    assert one_by_one.index.read_at(1000, 0) == together.index.read_at(1000, 0)
    assert one_by_one.data.read_at(1000, 0) == together.data.read_at(1000, 0)
    together.close()


@pytest.mark.parametrize("start", range(10))
def test_a_read_starts_anywhere_and_ends_at_the_first_limit(segment: Segment, start: int) -> None:
    sequence = FIRST + start
    assert payloads_of(segment, sequence) == PAYLOADS[start:]
    assert payloads_of(segment, sequence, count_max=3) == PAYLOADS[start : start + 3]
    assert payloads_of(segment, sequence, bytes_max=29) == PAYLOADS[start : start + 2]
    assert payloads_of(segment, sequence, bytes_max=30) == PAYLOADS[start : start + 3]
    assert payloads_of(segment, sequence, bytes_max=0) == PAYLOADS[start : start + 1]
    segment.close()


def test_a_long_run_is_read_in_portions(monkeypatch: pytest.MonkeyPatch, segment: Segment) -> None:
    monkeypatch.setattr(segment_module, "ENTRIES_MAX", 4)
    assert payloads_of(segment, FIRST) == PAYLOADS[:4]
    assert payloads_of(segment, FIRST + 8) == PAYLOADS[8:]
    segment.close()


def test_bytes_behind_the_end_are_cut(segment: Segment) -> None:
    segment.data.write_at(b"rubbish", segment.data_bytes)
    segment.index.write_at(b"more rubbish", segment.count * ENTRY_BYTES)
    assert payloads_of(segment, FIRST) == PAYLOADS, "nobody reads them"
    segment.cut()
    assert segment.data.read_at(1000, 100) == b""
    assert segment.index.read_at(1000, 320) == b""
    segment.close()


def test_cutting_a_new_segment_makes_both_files(tmp_path: Path) -> None:
    segment = Segment(Disk(), str(tmp_path), 3)
    segment.cut()
    assert Disk().list_folder(str(tmp_path)) == dict.fromkeys(segment_names(3), 0)
    segment.close()


def test_removal_begins_with_the_index(tmp_path: Path) -> None:
    disk = FaultyDisk()
    segment = fill(Segment(disk, str(tmp_path), FIRST), PAYLOADS)
    disk.faults.fail_operation("remove", ".data")
    with pytest.raises(OSError, match="No space"):
        segment.remove()
    assert disk.list_folder(str(tmp_path)) == {segment_names(FIRST)[0]: 100}
    disk.faults.heal()
    segment.remove()
    assert disk.list_folder(str(tmp_path)) == {}


def test_a_detached_copy_reads_and_syncs_after_the_removal(
    tmp_path: Path, segment: Segment
) -> None:
    copy = segment.detached()
    segment.remove()
    assert payloads_of(copy, FIRST + 2) == PAYLOADS[2:]
    copy.sync()
    copy.close()
    assert open_file_count(tmp_path) == 0


@pytest.mark.parametrize("ending", [".data", ".index"])
def test_a_copy_that_cannot_be_made_leaves_nothing_open(tmp_path: Path, ending: str) -> None:
    disk = FaultyDisk()
    segment = fill(Segment(disk, str(tmp_path), FIRST), PAYLOADS)
    disk.faults.fail_operation("dup", ending)
    with pytest.raises(OSError, match="No space"):
        segment.detached()
    segment.close()
    assert open_file_count(tmp_path) == 0


def test_the_newest_time_is_that_of_the_last_message(tmp_path: Path) -> None:
    segment = Segment(Disk(), str(tmp_path), 0)
    assert segment.newest_time_ms() is None
    fill(segment, [b"a"], 100)
    fill(segment, [b"b", b"c"], 200)
    assert segment.newest_time_ms() == 200
    reopened = Segment(Disk(), str(tmp_path), 0, 3, 3)
    assert reopened.newest_time_ms() == 200
    segment.close()
    reopened.close()


def test_a_damaged_newest_time_cannot_be_told(tmp_path: Path, segment: Segment) -> None:
    flip(tmp_path / segment_names(FIRST)[1], 9 * ENTRY_BYTES * 8 + 64)
    assert Segment(Disk(), str(tmp_path), FIRST, 10, 100).newest_time_ms() is None
    segment.close()


def test_an_index_that_ends_too_early_has_no_newest_time(tmp_path: Path, segment: Segment) -> None:
    segment.index.truncate(9 * ENTRY_BYTES + 5)
    assert Segment(Disk(), str(tmp_path), FIRST, 10, 100).newest_time_ms() is None
    segment.close()


# --- damage ------------------------------------------------------------------------------------


def damage(
    segment: Segment, *, data: set[int] = frozenset(), index: set[int] = frozenset()
) -> None:
    """Spoil the payloads and the entries of these messages."""
    for position in data:
        segment.data.write_at(b"X", position * 10 + 4)
    for position in index:
        segment.index.write_at(b"XXXX", position * ENTRY_BYTES + 16)


@pytest.mark.parametrize("where", ["data", "index"])
def test_a_damaged_message_hides_no_other(segment: Segment, where: str) -> None:
    damage(segment, **{where: {3}})
    assert payloads_of(segment, FIRST) == PAYLOADS[:3]
    assert payloads_of(segment, FIRST + 1) == PAYLOADS[1:3]
    with pytest.raises(DataDamaged) as caught:
        segment.read(FIRST + 3, EVERYTHING, EVERYTHING)
    assert (caught.value.first_sequence, caught.value.last_sequence) == (FIRST + 3, FIRST + 3)
    for start in range(4, 10):
        assert payloads_of(segment, FIRST + start) == PAYLOADS[start:]
    segment.close()


def test_behind_a_message_that_lost_both_entry_and_data_one_more_cannot_be_checked(
    segment: Segment,
) -> None:
    damage(segment, data={3}, index={3})
    with pytest.raises(DataDamaged) as caught:
        segment.read(FIRST + 3, EVERYTHING, EVERYTHING)
    assert (caught.value.first_sequence, caught.value.last_sequence) == (FIRST + 3, FIRST + 4)
    assert payloads_of(segment, FIRST + 5) == PAYLOADS[5:]
    segment.close()


def test_the_error_says_what_where_and_how_to_go_on(segment: Segment) -> None:
    damage(segment, data={3, 4}, index={5})
    with pytest.raises(DataDamaged) as caught:
        segment.read(FIRST + 3, EVERYTHING, EVERYTHING)
    text = str(caught.value)
    assert "messages 10 to 12 are damaged" in text
    assert f"{segment.data_path} from byte 30" in text
    assert f"{segment.index_path} from byte 96" in text
    assert text.endswith("read on from 13")
    assert payloads_of(segment, 13) == PAYLOADS[6:]
    segment.close()


def test_limits_hold_in_front_of_damage_too(segment: Segment) -> None:
    damage(segment, index={7})
    assert payloads_of(segment, FIRST + 1, bytes_max=35) == PAYLOADS[1:4]
    assert payloads_of(segment, FIRST + 1, bytes_max=0) == PAYLOADS[1:2]
    assert payloads_of(segment, FIRST + 1, count_max=2) == PAYLOADS[1:3]
    segment.close()


def test_behind_damaged_entries_a_block_still_knows_its_checksum(segment: Segment) -> None:
    """Message 5 starts where message 1 ended, as far as the index can tell."""
    damage(segment, index={2, 3, 4, 7})
    assert payloads_of(segment, FIRST + 5) == PAYLOADS[5:7]
    segment.close()


def test_everything_damaged_up_to_the_end(segment: Segment) -> None:
    damage(segment, index=set(range(6, 10)))
    with pytest.raises(DataDamaged) as caught:
        segment.read(FIRST + 6, EVERYTHING, EVERYTHING)
    assert caught.value.last_sequence == FIRST + 9
    segment.close()


def test_a_long_damage_is_reported_in_portions(
    monkeypatch: pytest.MonkeyPatch, segment: Segment
) -> None:
    monkeypatch.setattr(segment_module, "DAMAGE_WINDOW", 3)
    damage(segment, index=set(range(1, 9)))
    ranges = []
    sequence = FIRST + 1
    while sequence < FIRST + 9:
        with pytest.raises(DataDamaged) as caught:
            segment.read(sequence, EVERYTHING, EVERYTHING)
        ranges.append((caught.value.first_sequence, caught.value.last_sequence))
        sequence = caught.value.last_sequence + 1
    assert ranges == [(8, 10), (11, 13), (14, 15)]
    assert payloads_of(segment, FIRST + 9) == PAYLOADS[9:]
    segment.close()


def test_data_that_was_cut_short_is_damage(segment: Segment) -> None:
    segment.data.truncate(45)
    short = Segment(Disk(), str(Path(segment.data_path).parent), FIRST, 10, 45)
    assert payloads_of(short, FIRST) == PAYLOADS[:4]
    with pytest.raises(DataDamaged):
        short.read(FIRST + 4, EVERYTHING, EVERYTHING)
    segment.close()
    short.close()


def test_an_index_that_was_cut_short_is_damage(segment: Segment) -> None:
    segment.index.truncate(4 * ENTRY_BYTES + 7)
    assert payloads_of(segment, FIRST) == PAYLOADS[:4]
    with pytest.raises(DataDamaged) as caught:
        segment.read(FIRST + 4, EVERYTHING, EVERYTHING)
    assert caught.value.last_sequence == FIRST + 9
    segment.close()


def test_an_anchor_is_found_behind_any_amount_of_damage(
    monkeypatch: pytest.MonkeyPatch, segment: Segment
) -> None:
    for window in (1, 2, 3, 100):
        monkeypatch.setattr(segment_module, "ANCHOR_WINDOW", window)
        expected = Anchor(0, 0).through(b"".join(PAYLOADS[:2]))
        assert segment.anchor(2) == expected
    damage(segment, index=set(range(2, 10)))
    for window in (1, 2, 3, 100):
        monkeypatch.setattr(segment_module, "ANCHOR_WINDOW", window)
        assert segment.anchor(10) == expected
        assert segment.anchor(3) == expected
    damage(segment, index={0, 1})
    assert segment.anchor(10) == Anchor(0, 0)
    assert segment.anchor(0) == Anchor(0, 0)
    segment.close()


def test_an_entry_of_another_place_is_no_anchor(segment: Segment) -> None:
    entry = segment.index.read_at(ENTRY_BYTES, 0)
    segment.index.write_at(entry, 4 * ENTRY_BYTES)
    assert segment.anchor(5) == Anchor(0, 0).through(b"".join(PAYLOADS[:4]))
    segment.close()
