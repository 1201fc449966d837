"""Rows get into a table exactly once, whichever step of it fails. No Spark here: files are staged
as Spark leaves them."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from log.faulty_disk import FaultyDisk
from penstock.destinations.base import Transient
from penstock.errors import StoreError
from penstock.log.disk import Disk
from penstock.pipeline.tables_commit import Origin, Range, Share, merged, opened_share

ORIGIN = Origin("0123abcd", "Turbine 7/north", "cloud", "turbines")
FIRST_DAY, SECOND_DAY = "day=2026-01-31", "day=2026-02-01"
DAY_ENDS_AT = 15


@pytest.fixture
def table(tmp_path: Path) -> str:
    return str(tmp_path / "tables" / "analytics")


def stage(share: Share, wanted: Range) -> str:
    """Write a range as a Spark job does, with what it leaves beside the files."""
    folder = share.new_folder()
    days = {
        FIRST_DAY: range(wanted.start, min(wanted.stop, DAY_ENDS_AT)),
        SECOND_DAY: range(max(wanted.start, DAY_ENDS_AT), wanted.stop),
    }
    for day, numbers in days.items():
        if numbers:
            os.makedirs(f"{folder}/{day}")
            rows = pyarrow.table({"sequence_number": list(numbers)})
            parquet.write_table(rows, f"{folder}/{day}/part-00000-{os.urandom(4).hex()}.parquet")
            Path(f"{folder}/{day}/.part-00000.parquet.crc").touch()
    Path(f"{folder}/_SUCCESS").touch()
    return folder


def export(disk: Disk, table: str, wanted: Range, origin: Origin = ORIGIN) -> list[Range]:
    """Work off a lease; what had to be written."""
    written = []
    with opened_share(disk, table, origin) as share:
        while (missing := share.missing(wanted)) is not None:
            share.commit(stage(share, missing), [missing])
            written.append(missing)
    return written


def numbers_in(table: str) -> list[int]:
    """What a reader of the table sees at this moment."""
    found: list[int] = []
    for path in sorted(Path(table).glob("channel=*/day=*/[!._]*")):
        found += parquet.read_table(path, partitioning=None)["sequence_number"].to_pylist()
    return sorted(found)


def files_in(table: str) -> list[str]:
    return sorted(str(path.relative_to(table)) for path in Path(table).glob("channel=*/*/*"))


def test_rows_are_in_folders_by_channel_and_day_under_names_that_tell_their_range(
    table: str,
) -> None:
    export(Disk(), table, Range(10, 20))
    assert numbers_in(table) == list(range(10, 20))
    name = f"Turbine_7_north-{ORIGIN.key}-10-19.parquet"
    assert files_in(table) == [
        f"channel=turbines/{FIRST_DAY}/{name}",
        f"channel=turbines/{SECOND_DAY}/{name}",
    ]


def test_other_users_may_read_the_table(table: str) -> None:
    mask = os.umask(0o022)
    try:
        export(Disk(), table, Range(0, 1))
    finally:
        os.umask(mask)
    assert os.stat(table).st_mode & 0o777 == 0o755
    assert os.stat(f"{table}/channel=turbines/{FIRST_DAY}").st_mode & 0o777 == 0o755


def failures(decide: Callable[[FaultyDisk, int], None], table: str) -> int:
    """Fail at each step of a second range, then go on with a longer one; how many steps failed."""
    for number in count(1):
        place = f"{table}-{number}"
        disk = FaultyDisk()
        export(disk, place, Range(0, 10))
        disk.faults.count = 0
        decide(disk, number)
        with suppress(OSError, StoreError):
            export(disk, place, Range(10, 20))
        if not disk.faults.failed:
            return number - 1
        seen = numbers_in(place)
        assert len(seen) == len(set(seen)), f"a row was seen twice after step {number}"
        assert set(range(10)) <= set(seen)
        disk.faults.heal()
        export(disk, place, Range(10, 25))
        assert numbers_in(place) == list(range(25)), f"after step {number}"
        leftovers = [each.name for each in Path(place, "_penstock", ORIGIN.key).iterdir()]
        assert sorted(leftovers) == ["lock", "written", "written.copy"]
    raise AssertionError("count ends")


def test_whichever_step_is_the_last_one_of_a_process_every_number_is_there_once(
    table: str,
) -> None:
    assert failures(lambda disk, number: disk.faults.fail_from(number), table) > 15


def test_whichever_step_fails_alone_every_number_is_there_once(table: str) -> None:
    assert failures(lambda disk, number: disk.faults.fail_once(number), table) > 15


def test_at_every_step_a_reader_sees_a_row_at_most_once(table: str) -> None:
    disk = FaultyDisk()
    export(disk, table, Range(0, 10))
    seen: list[int] = []

    def look(*_: object) -> bool:
        numbers = numbers_in(table)
        assert len(numbers) == len(set(numbers))
        assert set(range(10)) <= set(numbers)
        seen.append(len(numbers))
        return False

    disk.faults.fail_when(look)
    export(disk, table, Range(10, 20))
    assert seen == sorted(seen)
    assert {10, 15, 20} == set(seen), "each day's rows come all at once"


def test_everything_is_synced_before_it_counts_and_again_when_it_has_moved(table: str) -> None:
    disk = FaultyDisk()
    steps: list[tuple[str, str]] = []

    def note(_: int, operation: str, path: str) -> bool:
        steps.append((operation, os.path.relpath(path, table)))
        return False

    disk.faults.fail_when(note)
    export(disk, table, Range(10, 20))
    own = f"_penstock/{ORIGIN.key}"
    counts_at = steps.index(("replace_file", f"{own}/written"))
    before, after = steps[:counts_at], steps[counts_at:]
    assert {("sync_folder", folder) for folder in (".", "_penstock", own)} <= set(before)
    synced = [path for operation, path in before if operation == "sync"]
    assert [path.split("/")[3] for path in synced] == [FIRST_DAY, SECOND_DAY]
    for path in synced:
        assert ("sync_folder", os.path.dirname(path)) in before
        assert ("sync_folder", os.path.dirname(os.path.dirname(path))) in before
    arrived_at = len(after) - 1 - after[::-1].index(("replace_file", f"{own}/written"))
    days = [f"channel=turbines/{day}" for day in (FIRST_DAY, SECOND_DAY)]
    for folder in (".", "channel=turbines", *days):
        assert ("sync_folder", folder) in after[:arrived_at]


def test_numbers_that_are_there_are_not_written_again(table: str) -> None:
    export(Disk(), table, Range(5, 8))
    export(Disk(), table, Range(12, 20))
    assert export(Disk(), table, Range(0, 25)) == [Range(0, 5), Range(8, 12), Range(20, 25)]
    assert numbers_in(table) == list(range(25))
    assert export(Disk(), table, Range(3, 25)) == []


def test_what_somebody_deletes_from_the_table_does_not_come_back(table: str) -> None:
    export(Disk(), table, Range(0, 20))
    for path in Path(table, "channel=turbines", FIRST_DAY).iterdir():
        path.unlink()
    assert export(Disk(), table, Range(0, 20)) == []
    assert numbers_in(table) == list(range(15, 20))


def test_other_streams_exports_and_channels_have_their_own_numbers(table: str) -> None:
    others = [
        ORIGIN._replace(stream_id="made anew"),
        ORIGIN._replace(export_identifier="second"),
        ORIGIN._replace(channel="pumps"),
    ]
    for origin in (ORIGIN, *others):
        assert export(Disk(), table, Range(0, 3), origin) == [Range(0, 3)]
    assert numbers_in(table) == sorted([0, 1, 2] * 4)
    assert len(set(files_in(table))) == 4


def test_two_pipelines_never_write_for_one_export_at_a_time(table: str) -> None:
    export(Disk(), table, Range(0, 3))
    with open(f"{table}/_penstock/{ORIGIN.key}/lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(Transient, match="another pipeline is still writing for this export"):
            export(Disk(), table, Range(3, 5))
        export(Disk(), table, Range(0, 1), ORIGIN._replace(export_identifier="second"))
    export(Disk(), table, Range(3, 5))
    assert numbers_in(table) == [0, 0, 1, 2, 3, 4]


def test_one_damaged_copy_of_what_is_written_is_enough_and_two_stop_the_export(table: str) -> None:
    export(Disk(), table, Range(0, 3))
    document = Path(table, "_penstock", ORIGIN.key, "written")
    sound = document.read_bytes()
    document.write_bytes(b"?" + sound[1:])
    assert export(Disk(), table, Range(0, 3)) == []
    assert document.read_bytes() == sound, "it is mended"
    document.write_bytes(b"")
    document.with_suffix(".copy").write_bytes(b"")
    with pytest.raises(StoreError, match=r"cannot be read.*written"):
        export(Disk(), table, Range(0, 3))


def test_a_file_in_place_of_the_table_is_named(tmp_path: Path) -> None:
    in_the_way = tmp_path / "table"
    in_the_way.touch()
    with pytest.raises(FileExistsError, match="table"):
        export(Disk(), str(in_the_way), Range(0, 3))


def test_ranges_are_merged_where_they_touch() -> None:
    ranges = [Range(7, 9), Range(0, 3), Range(3, 5), Range(8, 12), Range(20, 21)]
    assert merged(ranges) == [Range(0, 5), Range(7, 12), Range(20, 21)]


@pytest.mark.parametrize("name", ["_hidden", ".hidden", "___", "日本", "a" * 255])
def test_no_name_of_a_stream_hides_its_files(name: str) -> None:
    prefix = ORIGIN._replace(stream_name=name).file_prefix
    assert prefix[0].isalnum()
    assert prefix.isascii()
    assert len(prefix) < 60
