"""Checking a store offline: what is damage, what is not, and that nothing is changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from log.helpers import files, flip, tree
from penstock.block import ENTRY_BYTES
from penstock.errors import StoreError, StoreInUse
from penstock.model import Persistence
from penstock.streams import origins
from penstock.streams import verify as verify_module
from penstock.streams.exports import ExportProgress
from penstock.streams.manager import StreamManager
from penstock.streams.store import LOCK_NAME, owned
from penstock.streams.verify import StreamReport, VerifyReport, verify_store
from streams.helpers import (
    PAYLOAD_BYTES,
    RECORD_BYTES,
    append,
    append_each,
    definition,
    exporting,
    kinesis,
    records,
)


@pytest.fixture
def root(tmp_path: Path) -> str:
    """A store with one stream of three segments, closed in order."""
    root = f"{tmp_path}/store"
    with owned(root, 1):
        manager = StreamManager(root)
        stream = manager.create(definition(export_definition=exporting(kinesis())))
        append_each(stream, records(10))
        stream.exports.save(ExportProgress("k", "KinesisConfig", 0, 3, exported_count=4))
        manager.close()
    return root


@pytest.fixture
def folder(root: str) -> Path:
    (name,) = os.listdir(f"{root}/streams")
    return Path(root, "streams", name)


def verify(store: str) -> VerifyReport:
    """Whatever is verified: not a byte and not a name may change."""
    before = tree(Path(store))
    try:
        return verify_store(store)
    finally:
        assert tree(Path(store)) == before


def only_stream(root: str) -> StreamReport:
    report = verify(root)
    (stream,) = report.streams
    assert report.damaged == bool(stream.findings)
    return stream


# --- sound -------------------------------------------------------------------------------------


def test_a_sound_store_is_described(root: str, folder: Path) -> None:
    stream = only_stream(root)
    assert stream == StreamReport(
        name="s",
        folder=str(folder),
        message_count=10,
        total_bytes=10 * RECORD_BYTES,
        first_sequence=0,
        next_sequence=10,
    )


def test_a_killed_server_leaves_a_sound_store(root: str) -> None:
    manager = StreamManager(root)
    append_each(manager.get("s"), records(3, 10))
    stream = only_stream(root)
    assert (stream.message_count, stream.next_sequence) == (13, 13)
    assert stream.findings == stream.notes == []
    manager.close()


def test_many_streams_are_checked_one_by_one(root: str) -> None:
    manager = StreamManager(root)
    append(manager.create(definition("other")), records(1))
    manager.create(definition("empty"))
    manager.create(definition("memory", persistence=Persistence.Memory))
    manager.close()
    report = verify(root)
    assert {stream.name: stream.message_count for stream in report.streams} == {
        "s": 10,
        "other": 1,
        "empty": 0,
    }
    assert not report.damaged


def test_a_stream_that_has_lost_its_oldest_segments_is_sound(root: str) -> None:
    manager = StreamManager(root)
    manager.get("s").log.drop_oldest(1)
    manager.close()
    stream = only_stream(root)
    assert (stream.first_sequence, stream.next_sequence, stream.message_count) == (4, 10, 6)
    assert stream.findings == stream.notes == []


def test_a_long_index_is_read_piece_by_piece(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_module, "ENTRIES_AT_ONCE", 3)
    assert only_stream(root).message_count == 10


# --- what crashes leave behind is no damage ----------------------------------------------------


def test_a_torn_tail_is_a_note(root: str, folder: Path) -> None:
    for path, torn in ((files(folder, ".data")[-1], 7), (files(folder, ".index")[-1], 5)):
        with open(path, "ab") as file:
            file.write(b"t" * torn)
    stream = only_stream(root)
    assert stream.findings == []
    assert stream.notes == ["12 bytes behind message 9 belong to none"]
    assert stream.message_count == 10


def test_a_torn_line_of_the_journal_is_a_note(root: str, folder: Path) -> None:
    with open(folder / "exports", "ab") as file:
        file.write(b"12345678 {")
    stream = only_stream(root)
    assert stream.findings == []
    assert stream.notes == ["exports: the last line is torn and left out"]


def test_what_was_cut_off_earlier_is_a_note(root: str, folder: Path) -> None:
    with open(files(folder, ".data")[-1], "ab") as file:
        file.write(b"torn")
    StreamManager(root).close()
    stream = only_stream(root)
    assert stream.findings == []
    (note,) = stream.notes
    assert note.endswith(".torn: 4 bytes cut off at an earlier start")


def test_numbers_that_were_lost_and_reported_before_are_a_note(root: str, folder: Path) -> None:
    os.truncate(files(folder, ".data")[-1], PAYLOAD_BYTES)
    os.truncate(files(folder, ".index")[-1], ENTRY_BYTES)
    StreamManager(root).close()
    stream = only_stream(root)
    assert stream.findings == []
    assert stream.notes == ["messages 9 to 9 are missing, since an earlier start"]
    assert (stream.message_count, stream.next_sequence) == (9, 10)


def test_an_interrupted_removal_is_a_note(root: str, folder: Path) -> None:
    files(folder, ".index")[0].unlink()
    stream = only_stream(root)
    assert stream.findings == []
    assert stream.notes == ["00000000000000000000.data: left over from a removed segment"]


def test_an_interrupted_update_is_a_note(root: str, folder: Path) -> None:
    manager = StreamManager(root)
    old = (folder / "stream.json").read_bytes()
    manager.update(definition(time_to_live_millis=60_000))
    manager.close()
    (folder / "stream.json").write_bytes(old)
    stream = only_stream(root)
    assert stream.findings == []
    (note,) = stream.notes
    assert "a change was interrupted" in note


def test_an_interrupted_creation_is_a_note(root: str, folder: Path) -> None:
    for path in folder.iterdir():
        if not path.name.startswith("stream.json"):
            path.unlink()
    stream = only_stream(root)
    assert stream.findings == []
    assert stream.notes == ["its creation was interrupted; it has never held a message"]
    (folder / "exports").touch()
    assert only_stream(root).findings == []


def test_half_made_and_half_deleted_streams_are_passed_over(root: str, folder: Path) -> None:
    for ending in (".creating", ".deleting"):
        os.makedirs(f"{folder}{ending}")
    assert only_stream(root).name == "s"


def test_an_empty_mark_is_a_note(root: str, folder: Path) -> None:
    """A power cut may leave it so if the stream has flushOnWrite."""
    os.truncate(folder / "mark", 0)
    stream = only_stream(root)
    assert stream.findings == []
    assert stream.notes == ["mark: the file is empty"]


# --- damage ------------------------------------------------------------------------------------


@pytest.mark.parametrize("position", [0, 3, 4, 9])
@pytest.mark.parametrize("entries_at_once", [1, 2, 4096])
def test_a_damaged_message_is_named(
    root: str,
    folder: Path,
    position: int,
    entries_at_once: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(verify_module, "ENTRIES_AT_ONCE", entries_at_once)
    data = files(folder, ".data")[position // 4]
    flip(data, (position % 4) * PAYLOAD_BYTES * 8 + 100)
    stream = only_stream(root)
    assert stream.findings == [f"messages {position} to {position} are damaged ({data.name})"]
    assert stream.message_count == 9
    assert stream.next_sequence == 10


def test_neighbours_are_reported_together(root: str, folder: Path) -> None:
    for position in (1, 2):
        flip(files(folder, ".index")[0], position * ENTRY_BYTES * 8)
    assert only_stream(root).findings == ["messages 1 to 2 are damaged (00000000000000000000.data)"]


def test_bytes_behind_a_sealed_segment_are_damage(root: str, folder: Path) -> None:
    with open(files(folder, ".data")[0], "ab") as file:
        file.write(b"more")
    assert only_stream(root).findings == ["4 bytes behind message 3 belong to none"]


def test_an_index_that_reaches_too_far_is_damage(root: str, folder: Path) -> None:
    first, second, _ = files(folder, ".index")
    with open(first, "ab") as file:
        file.write(second.read_bytes()[:ENTRY_BYTES])
    findings = only_stream(root).findings
    assert f"{first.name} reaches into the segment behind it" in findings


def test_missing_messages_at_the_end_are_damage(root: str, folder: Path) -> None:
    os.truncate(files(folder, ".data")[-1], PAYLOAD_BYTES)
    os.truncate(files(folder, ".index")[-1], ENTRY_BYTES)
    stream = only_stream(root)
    assert stream.findings == ["messages 9 to 9 are missing at the end"]
    assert stream.next_sequence == 10


def test_data_that_was_cut_short_is_damage(root: str, folder: Path) -> None:
    os.truncate(files(folder, ".data")[-1], PAYLOAD_BYTES + 1)
    assert only_stream(root).findings == ["messages 9 to 9 are damaged (00000000000000000008.data)"]


def test_a_missing_data_file_is_damage(root: str, folder: Path) -> None:
    data = files(folder, ".data")[1]
    data.unlink()
    (finding,) = only_stream(root).findings
    assert finding == f"{data}: cannot be read: No such file or directory"


def test_a_missing_index_is_damage(root: str, folder: Path) -> None:
    files(folder, ".index")[1].unlink()
    stream = only_stream(root)
    assert stream.findings == ["00000000000000000004.data: its index is missing"]
    assert stream.notes == ["messages 4 to 7 are missing, since an earlier start"]


def test_no_segment_at_all_is_damage(root: str, folder: Path) -> None:
    for path in files(folder, ".data", ".index"):
        path.unlink()
    stream = only_stream(root)
    assert stream.findings == ["messages 0 to 9 are missing at the end"]
    assert (stream.message_count, stream.next_sequence) == (0, 10)


def test_a_damaged_or_missing_mark_is_damage(root: str, folder: Path) -> None:
    flip(folder / "mark", 100)
    assert only_stream(root).findings == ["mark: checksum does not match"]
    (folder / "mark").unlink()
    assert only_stream(root).findings == ["mark: the file is missing"]


def test_a_damaged_or_missing_journal_is_damage(root: str, folder: Path) -> None:
    flip(folder / "exports", 100)
    assert only_stream(root).findings == ["exports: line 1 is damaged and left out"]
    (folder / "exports").unlink()
    assert only_stream(root).findings == ["exports: the file is missing"]


@pytest.mark.parametrize("name", ["stream.json", "stream.json.copy"])
def test_a_damaged_copy_of_the_definition_is_damage(root: str, folder: Path, name: str) -> None:
    flip(folder / name, 100)
    assert only_stream(root).findings == [f"{folder}/{name}: checksum does not match"]


def test_a_stream_without_a_sound_definition_is_damage_of_the_store(
    root: str, folder: Path
) -> None:
    for name in ("stream.json", "stream.json.copy"):
        flip(folder / name, 100)
    report = verify(root)
    assert report.streams == []
    (finding,) = report.findings
    assert finding.startswith(f"{folder}: cannot be read")
    assert report.damaged


# --- refusals ----------------------------------------------------------------------------------


def test_a_store_in_use_is_not_checked(root: str) -> None:
    with owned(root, 77), pytest.raises(StoreInUse, match="in use by process 77"):
        verify(root)


def test_a_damaged_line_of_origins_is_a_finding_and_a_torn_end_is_not(
    root: str, folder: Path
) -> None:
    line = origins.journal_line(origins.Record(origins.Origin("w", 0, 0), [(0, 1)], 0, 0))
    (folder / "origins").write_bytes(line + line[:-5])
    stream = only_stream(root)
    assert stream.findings == []
    assert stream.notes == ["origins: the last line is torn and left out"]

    flip(folder / "origins", 100)
    assert only_stream(root).findings == ["origins: line 1 is damaged and left out"]


def test_something_else_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is not a Penstock data directory"):
        verify_store(str(tmp_path / "nothing"))


def test_a_copied_store_without_a_lock_file_can_be_checked(root: str) -> None:
    os.unlink(f"{root}/{LOCK_NAME}")
    assert not verify(root).damaged
    assert not os.path.exists(f"{root}/{LOCK_NAME}")
