"""How far exports got, whatever happens to the file that says so."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pytest

from log.faulty_disk import FaultyDisk
from log.helpers import every_bit
from log.test_disk import open_file_count
from penstock.log.disk import Disk
from penstock.log.memory import Memory
from penstock.model import (
    ExportDefinition,
    HTTPConfig,
    IoTAnalyticsConfig,
    IoTSiteWiseConfig,
    S3ExportTaskExecutorConfig,
)
from penstock.streams import exports as exports_module
from penstock.streams.exports import (
    ExportProgress,
    Exports,
    journal_line,
    read_journal,
    reconciled,
    start_of,
)
from streams.helpers import exporting, kinesis


def progress(
    identifier: str = "k", last: int = 9, start: int = 0, **more: object
) -> ExportProgress:
    return ExportProgress(identifier, "KinesisConfig", start, last, **more)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "exports"


def opened(path: Path, *configs: object, disk: Disk | None = None) -> Exports:
    return Exports(disk or Disk(), str(path), exporting(*(configs or (kinesis(),))))


def position(exports: Exports, identifier: str = "k") -> int:
    return exports.progress[identifier].last_exported_sequence


# --- starting ----------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [0, 7])
def test_a_new_export_stands_before_its_start(path: Path, start: int) -> None:
    exports = opened(path, kinesis(start=start))
    (status,) = exports.statuses()
    assert status.export_config_identifier == "k"
    assert status.last_exported_sequence_number == start - 1
    assert status.exported_messages_count == status.exported_bytes_from_stream == 0
    exports.close()


def test_s3_tasks_start_with_the_first_message() -> None:
    assert start_of(S3ExportTaskExecutorConfig("s3")) == 0
    assert start_of(kinesis(start=5)) == 5


def test_statuses_come_in_the_documented_order(path: Path) -> None:
    definition = ExportDefinition(
        s3_task_executor=[S3ExportTaskExecutorConfig("e")],
        iot_sitewise=[IoTSiteWiseConfig("d")],
        kinesis=[kinesis("c")],
        iot_analytics=[IoTAnalyticsConfig("b", "channel")],
        http=[HTTPConfig("a", "http://localhost")],
    )
    exports = Exports(Disk(), str(path), definition)
    assert [status.export_config_identifier for status in exports.statuses()] == list("abcde")
    exports.close()


def test_a_status_tells_all_that_is_known(path: Path) -> None:
    exports = opened(path)
    exports.save(
        progress(
            last=4, exported_count=5, exported_bytes=50, last_export_time_ms=1234, error="sour"
        )
    )
    (status,) = exports.statuses()
    assert status.last_exported_sequence_number == 4
    assert status.exported_messages_count == 5
    assert status.exported_bytes_from_stream == 50
    assert status.last_export_time == 1234
    assert status.error_message == "sour"
    exports.close()


# --- crashes -----------------------------------------------------------------------------------


def test_positions_survive_the_death_of_the_process(path: Path) -> None:
    exports = opened(path)
    for last in range(5):
        exports.save(progress(last=last, exported_count=last + 1))
        again = opened(path)
        assert again.progress == {"k": progress(last=last, exported_count=last + 1)}
        assert again.notices == []
        again.close()
    exports.close()


def test_a_line_torn_anywhere_leaves_the_one_before(path: Path) -> None:
    exports = opened(path)
    exports.save(progress(last=1))
    exports.save(progress(last=2))
    exports.close()
    content = path.read_bytes()
    line_bytes = len(journal_line(progress(last=2)))
    for torn_bytes in range(1, line_bytes):
        path.write_bytes(content[:-torn_bytes])
        again = opened(path)
        assert position(again) == 1
        assert again.notices == ["exports: the last line is torn and left out"]
        again.save(progress(last=3))
        again.close()
        once_more = opened(path)
        assert position(once_more) == 3
        assert once_more.notices == []
        once_more.close()


def test_any_flipped_bit_is_noticed_and_other_lines_count(path: Path) -> None:
    """A damaged line feed takes the lines on both sides; older ones are still there."""
    before = [progress("a", 1), progress("b", 2)]
    after = [progress("a", 3), progress("b", 4)]
    content = b"".join(map(journal_line, before + after))
    for changed in every_bit(content):
        journal = read_journal(changed)
        assert journal.damage, changed
        assert not journal.notes
        assert journal.saved["a"] in (before[0], after[0])
        assert journal.saved["b"] in (before[1], after[1])


def test_a_damaged_journal_is_written_anew(path: Path) -> None:
    exports = opened(path)
    exports.save(progress(last=1))
    exports.close()
    path.write_bytes(b"rubbish\n" + path.read_bytes())
    again = opened(path)
    assert again.notices == ["exports: line 1 is damaged and left out"]
    assert position(again) == 1
    again.close()
    assert path.read_bytes() == journal_line(progress(last=1))


def test_a_line_that_no_version_of_ours_wrote_is_left_out(path: Path) -> None:
    for text in (b"{}", b"[]", b'{"identifier": 5}', b""):
        line = b"%08x %s\n" % (crc32(text), text)
        assert read_journal(line).damage == ["exports: line 1 is damaged and left out"]


def test_fields_of_later_versions_are_ignored() -> None:
    text = (
        b'{"identifier":"k","destination":"KinesisConfig","start_sequence":0,'
        b'"last_exported_sequence":7,"mood":"good"}'
    )
    journal = read_journal(b"%08x %s\n" % (crc32(text), text))
    assert journal.saved == {"k": progress(last=7)}


# --- the definition is the truth ---------------------------------------------------------------


def test_an_unchanged_export_keeps_its_position(path: Path) -> None:
    exports = opened(path)
    exports.save(progress(last=9))
    exports.follow(exporting(kinesis(disabled=True, batch_size=7)))
    assert position(exports) == 9
    exports.close()
    again = opened(path, kinesis(disabled=True))
    assert position(again) == 9
    again.close()


def test_a_changed_start_moves_the_position_there(path: Path) -> None:
    exports = opened(path)
    exports.save(progress(last=9, exported_count=10))
    exports.follow(exporting(kinesis(start=4)))
    assert exports.progress == {"k": progress(last=3, start=4)}
    exports.close()
    again = opened(path, kinesis(start=4))
    assert position(again) == 3
    again.close()


def test_a_start_changed_while_the_server_was_killed_moves_the_position_too(path: Path) -> None:
    """The definition was written, the journal not yet."""
    exports = opened(path)
    exports.save(progress(last=9))
    exports.close()
    again = opened(path, kinesis(start=4))
    assert position(again) == 3
    again.close()


def test_an_identifier_that_moves_to_another_type_starts_anew(path: Path) -> None:
    exports = opened(path)
    exports.save(progress(last=9))
    exports.follow(ExportDefinition(http=[HTTPConfig("k", "http://localhost")]))
    assert position(exports) == -1
    assert exports.progress["k"].destination == "HTTPConfig"
    exports.close()


def test_an_export_that_was_removed_and_added_again_starts_anew(path: Path) -> None:
    exports = opened(path)
    exports.save(progress(last=9))
    exports.follow(exporting())
    assert exports.statuses() == []
    exports.follow(exporting(kinesis()))
    assert position(exports) == -1
    exports.close()
    again = opened(path)
    assert position(again) == -1
    again.close()


def test_reconciling_changes_nothing_that_was_saved() -> None:
    saved = {"k": progress(last=9), "gone": progress("gone")}
    assert reconciled(exporting(kinesis()), saved) == {"k": saved["k"]}
    assert saved.keys() == {"k", "gone"}


# --- numbers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "last", "seen"),
    [(0, -1, 0), (0, 0, 1), (0, 9, 10), (1000, 999, 0), (1000, 1000, 1001)],
)
def test_what_an_export_passed_was_seen(start: int, last: int, seen: int) -> None:
    assert progress(start=start, last=last).numbers_seen() == seen


def test_messages_that_a_destination_refused_were_seen_too() -> None:
    """Their export has a position and has delivered nothing."""
    assert progress(last=9, exported_count=0).numbers_seen() == 10


def test_the_furthest_export_counts(path: Path) -> None:
    exports = opened(path, kinesis("a"), kinesis("b"), kinesis("c", start=500))
    assert exports.numbers_seen() == 0
    exports.save(progress("a", 3))
    exports.save(progress("b", 7))
    assert exports.numbers_seen() == 8
    exports.close()
    none = Exports(Disk(), f"{path}-none", ExportDefinition())
    assert none.numbers_seen() == 0
    none.close()


# --- the file ----------------------------------------------------------------------------------


def test_the_journal_is_compacted_when_it_grows(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports_module, "JOURNAL_BYTES_MAX", 1000)
    exports = opened(path, kinesis("a"), kinesis("b"))
    for last in range(100):
        exports.save(progress("a", last))
        exports.save(progress("b", 2 * last))
        assert path.stat().st_size <= 1000
    assert open_file_count(path.parent) <= 1, "compacting must not leave the old file open"
    exports.close()
    again = opened(path, kinesis("a"), kinesis("b"))
    assert (position(again, "a"), position(again, "b")) == (99, 198)
    again.close()


def test_opening_a_sound_journal_writes_nothing(path: Path) -> None:
    exports = opened(path)
    exports.save(progress(last=1))
    exports.save(progress(last=2))
    exports.close()
    disk = FaultyDisk()
    disk.faults.fail_when(lambda _, operation, path: operation not in ("open", "read"))
    again = opened(path, disk=disk)
    assert position(again) == 2
    assert disk.faults.failed == []
    again.close()


@pytest.mark.parametrize("number", [1, 2])
def test_a_full_disk_does_not_keep_a_journal_from_being_opened(path: Path, number: int) -> None:
    """Neither before the file was replaced nor between that and the sync of its folder."""
    exports = opened(path)
    exports.save(progress(last=5))
    exports.close()
    with open(path, "ab") as file:
        file.write(b"torn")
    disk = FaultyDisk()
    kinds = ["replace_file", "sync_folder"]
    disk.faults.fail_operation(kinds[number - 1])
    again = opened(path, disk=disk)
    assert position(again) == 5
    assert "exports: cannot be rewritten yet: No space left on device" in again.notices
    with pytest.raises(OSError, match="No space"):
        again.save(progress(last=6))
    disk.faults.heal()
    again.save(progress(last=7))
    again.save(progress(last=8))
    again.close()
    once_more = opened(path)
    assert once_more.notices == []
    assert position(once_more) == 8
    once_more.close()


def test_a_refused_line_is_overwritten_by_the_next_one(path: Path) -> None:
    disk = FaultyDisk()
    exports = opened(path, disk=disk)
    exports.save(progress(last=1, error="a long text that makes this line the longer one"))
    disk.faults.fail_operation("write")
    with pytest.raises(OSError, match="No space"):
        exports.save(progress(last=2, error="a long text that makes this line the longer one"))
    disk.faults.heal()
    exports.save(progress(last=3))
    exports.close()
    again = opened(path)
    assert position(again) == 3
    assert again.notices == []
    again.close()


def test_memory_streams_have_exports_too() -> None:
    exports = Exports(Memory(), "/memory/exports", exporting(kinesis()))
    exports.save(progress(last=3))
    exports.follow(exporting(kinesis(), kinesis("b")))
    exports.save(progress("b", 5))
    assert (position(exports, "k"), position(exports, "b")) == (3, 5)
    exports.close()


def test_a_large_journal_is_read_whole(path: Path) -> None:
    lines = b"".join(journal_line(progress(last=n, error="x" * 1000)) for n in range(1500))
    assert len(lines) > 1 << 20
    path.write_bytes(lines)
    exports = opened(path)
    assert position(exports) == 1499
    exports.close()
