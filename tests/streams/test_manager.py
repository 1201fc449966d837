"""All streams of a store."""

from __future__ import annotations

import json
import logging
import os
import shutil
from pathlib import Path

import pytest

from log.faulty_disk import FaultyDisk
from log.helpers import as_contents, tree
from penstock.errors import (
    InvalidRequestException,
    ResourceNotFoundException,
    UnknownFailureException,
    UpdateFailedException,
    UpdateNotAllowedException,
)
from penstock.log.disk import Disk
from penstock.log.document import write_document
from penstock.model import (
    ExportDefinition,
    Persistence,
    S3ExportTaskExecutorConfig,
    StatusConfig,
)
from penstock.streams.manager import DOCUMENT_NAME, StreamManager
from penstock.streams.store import LOCK_NAME
from streams.helpers import append, contents, definition, exporting, kinesis, records

MEMORY = Persistence.Memory


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path)


@pytest.fixture
def manager(root: str) -> StreamManager:
    return StreamManager(root)


def folders(root: str) -> list[str]:
    return sorted(os.listdir(f"{root}/streams"))


def only_folder(root: str) -> Path:
    (name,) = folders(root)
    return Path(root, "streams", name)


# --- creating and finding ----------------------------------------------------------------------


def test_an_empty_store_has_no_streams(root: str, manager: StreamManager) -> None:
    assert manager.names() == []
    assert list(manager) == []
    assert manager.find("s") is None
    assert folders(root) == []
    with pytest.raises(ResourceNotFoundException, match="stream s does not exist"):
        manager.get("s")
    assert manager.close() == []


def test_streams_are_found_by_name_and_listed_in_order(manager: StreamManager) -> None:
    for name in ("b", "a", "c"):
        manager.create(definition(name))
    assert manager.names() == ["a", "b", "c"]
    assert manager.get("b").name == "b"
    assert manager.find("b") is manager.get("b")
    assert {stream.name for stream in manager} == {"a", "b", "c"}
    manager.close()


def test_a_name_can_be_taken_once(manager: StreamManager) -> None:
    stream = manager.create(definition())
    with pytest.raises(InvalidRequestException, match="stream s already exists"):
        manager.create(definition())
    assert manager.get("s") is stream
    manager.close()


@pytest.mark.parametrize("orderly", [True, False])
def test_file_streams_survive_and_memory_streams_do_not(
    root: str, manager: StreamManager, orderly: bool
) -> None:
    made = definition("file", export_definition=exporting(kinesis()), time_to_live_millis=60_000)
    append(manager.create(made), records(3))
    append(manager.create(definition("memory", persistence=MEMORY)), records(3))
    if orderly:
        assert manager.close() == []
    again = StreamManager(root)
    assert again.names() == ["file"]
    assert again.get("file").definition == made
    assert contents(again.get("file")) == as_contents(records(3))
    again.close()


def test_memory_streams_leave_nothing_on_disk(root: str, manager: StreamManager) -> None:
    before = tree(Path(root))
    made = definition("m", persistence=MEMORY, export_definition=exporting(kinesis()))
    stream = manager.create(made)
    append(stream, records(10))
    manager.update(definition("m", persistence=MEMORY, time_to_live_millis=60_000))
    assert contents(stream) == as_contents(records(10))
    assert tree(Path(root)) == before
    assert folders(root) == []
    manager.delete("m")
    assert manager.names() == []
    assert manager.close() == []


WEIRD_NAMES = [".", "..", "...", ".log", "a.log", " ", "-", ",", "_", "a b", "x" * 255, "-rf ,"]


def test_any_legal_name_is_only_a_name(root: str, manager: StreamManager) -> None:
    for name in WEIRD_NAMES:
        append(manager.create(definition(name)), [name.encode()])
    manager.close()
    assert os.listdir(root) == ["streams"], "no name became a path"
    assert all(len(folder) == 16 for folder in folders(root))
    again = StreamManager(root)
    assert again.names() == sorted(WEIRD_NAMES)
    for name in WEIRD_NAMES:
        assert contents(again.get(name)) == {0: name.encode()}
        again.delete(name)
    assert folders(root) == []
    again.close()


# --- updating ----------------------------------------------------------------------------------


def test_an_update_replaces_the_whole_definition_for_good(
    root: str, manager: StreamManager
) -> None:
    manager.create(definition(time_to_live_millis=60_000, flush_on_write=True))
    new = definition(export_definition=exporting(kinesis()))
    assert manager.update(new) is manager.get("s")
    assert manager.get("s").definition == new
    assert manager.get("s").definition.time_to_live_millis is None
    again = StreamManager(root)
    assert again.get("s").definition == new
    again.close()
    manager.close()


def test_what_does_not_exist_cannot_be_updated(manager: StreamManager) -> None:
    with pytest.raises(ResourceNotFoundException):
        manager.update(definition("other"))


def test_a_forbidden_update_changes_nothing(root: str, manager: StreamManager) -> None:
    manager.create(definition())
    before = tree(Path(root))
    with pytest.raises(UpdateNotAllowedException):
        manager.update(definition(persistence=MEMORY))
    assert manager.get("s").definition == definition()
    assert tree(Path(root)) == before
    manager.close()


def test_an_update_that_the_disk_refuses_leaves_the_old_definition_in_force(root: str) -> None:
    """Whichever of its operations fails, now and after a restart."""
    disk = FaultyDisk()
    manager = StreamManager(root, disk=disk)
    manager.create(definition())
    for number in range(1, 5):
        disk.faults.count = 0
        disk.faults.fail_once(number)
        with pytest.raises(UpdateFailedException, match="could not be updated"):
            manager.update(definition(time_to_live_millis=60_000 + number))
        disk.faults.heal()
        assert manager.get("s").definition == definition()
        again = StreamManager(root)
        assert again.get("s").definition == definition()
        again.close()
    manager.update(definition(time_to_live_millis=60_000))
    manager.close()


def test_an_update_whose_journal_cannot_be_rewritten_is_in_force(
    root: str, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FaultyDisk()
    manager = StreamManager(root, disk=disk)
    manager.create(definition(export_definition=exporting(kinesis("a"))))
    disk.faults.fail_operation("replace_file", "exports")
    new = definition(export_definition=exporting(kinesis("b")))
    manager.update(new)
    assert "positions of its exports cannot be written anew yet" in caplog.text
    assert manager.get("s").definition == new
    again = StreamManager(root)
    assert again.get("s").exports.progress.keys() == {"b"}
    again.close()


# --- deleting ----------------------------------------------------------------------------------


def test_a_deleted_stream_is_gone_and_its_name_starts_at_zero(
    root: str, manager: StreamManager
) -> None:
    append(manager.create(definition()), records(5))
    deleted = manager.delete("s")
    assert deleted.name == "s"
    assert folders(root) == []
    with pytest.raises(ResourceNotFoundException):
        manager.delete("s")
    assert append(manager.create(definition()), [b"x"]) == 0
    manager.close()


def test_a_read_that_has_begun_outlives_the_stream(root: str, manager: StreamManager) -> None:
    stream = manager.create(definition())
    append(stream, records(5))
    read = stream.log.begin_read(0, 5, 10, 10_000)
    manager.delete("s")
    assert sum(len(block) for block in read()) == 5
    manager.close()


@pytest.mark.parametrize("operation", ["rename", "sync_folder"])
def test_a_stream_that_cannot_be_deleted_goes_on(root: str, operation: str) -> None:
    disk = FaultyDisk()
    manager = StreamManager(root, disk=disk)
    append(manager.create(definition()), records(2))
    disk.faults.count = 0
    disk.faults.fail_when(lambda count, name, path: name == operation and count <= 2)
    with pytest.raises(UnknownFailureException, match="stream s could not be deleted"):
        manager.delete("s")
    disk.faults.heal()
    assert append(manager.get("s"), records(1, 2)) == 2
    assert contents(manager.get("s")) == as_contents(records(3))
    manager.delete("s")
    assert folders(root) == []


def test_what_could_not_be_removed_is_removed_at_the_next_start(root: str) -> None:
    disk = FaultyDisk()
    manager = StreamManager(root, disk=disk)
    manager.create(definition())
    disk.faults.fail_operation("remove_folder")
    manager.delete("s")
    assert manager.names() == []
    assert len(folders(root)) == 1
    disk.faults.heal()
    again = StreamManager(root, disk=disk)
    assert again.names() == []
    assert folders(root) == []


# --- crashes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".creating", ".deleting"])
def test_half_made_and_half_deleted_streams_are_removed(
    root: str, manager: StreamManager, ending: str
) -> None:
    manager.create(definition("other"))
    manager.create(definition())
    folder = manager.get("s").folder
    manager.close()
    os.rename(folder, folder + ending)
    again = StreamManager(root)
    assert again.names() == ["other"]
    assert len(folders(root)) == 1
    again.close()


def test_leftovers_that_cannot_be_removed_do_not_stop_the_start(
    root: str, caplog: pytest.LogCaptureFixture
) -> None:
    os.makedirs(f"{root}/streams/0123.deleting")
    disk = FaultyDisk()
    disk.faults.fail_operation("remove_folder")
    assert StreamManager(root, disk=disk).names() == []
    assert "0123.deleting cannot be removed yet" in caplog.text


def test_a_stream_killed_right_after_it_got_its_name_is_whole(
    root: str, manager: StreamManager
) -> None:
    manager.create(definition())
    folder = only_folder(root)
    manager.close()
    for path in folder.iterdir():
        if not path.name.startswith(DOCUMENT_NAME):
            path.unlink()
    again = StreamManager(root)
    assert append(again.get("s"), [b"x"]) == 0
    again.close()


@pytest.mark.parametrize("damaged", [[""], [".copy"]])
def test_one_sound_copy_of_the_definition_restores_the_other(
    root: str, manager: StreamManager, damaged: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    append(manager.create(definition()), records(2))
    folder = only_folder(root)
    manager.close()
    whole = tree(folder)
    (folder / f"{DOCUMENT_NAME}{damaged[0]}").write_bytes(b"{damaged")
    again = StreamManager(root)
    assert f"{DOCUMENT_NAME}{damaged[0]}: checksum does not match" in caplog.text
    assert contents(again.get("s")) == as_contents(records(2))
    again.close()
    assert tree(folder) == whole
    caplog.clear()
    StreamManager(root).close()
    assert caplog.text == ""


def test_a_definition_that_cannot_be_restored_yet_is_still_used(
    root: str, manager: StreamManager, caplog: pytest.LogCaptureFixture
) -> None:
    manager.create(definition())
    manager.close()
    (only_folder(root) / DOCUMENT_NAME).write_bytes(b"")
    disk = FaultyDisk()
    disk.faults.fail_operation("replace_file")
    again = StreamManager(root, disk=disk)
    assert again.names() == ["s"]
    assert f"{DOCUMENT_NAME} cannot be written anew yet: No space left" in caplog.text
    again.close()


def test_with_no_sound_copy_a_stream_is_reported_and_left_alone(
    root: str, manager: StreamManager, caplog: pytest.LogCaptureFixture
) -> None:
    manager.create(definition())
    folder = only_folder(root)
    manager.create(definition("other"))
    manager.close()
    for ending in ("", ".copy"):
        (folder / f"{DOCUMENT_NAME}{ending}").write_bytes(b"damaged")
    before = tree(folder)
    again = StreamManager(root)
    assert again.names() == ["other"]
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert f"The stream in {folder} cannot be opened and is left out" in record.getMessage()
    assert tree(folder) == before
    append(again.create(definition()), [b"a new one"])
    assert again.names() == ["other", "s"]
    again.close()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([], "is not of format 1"),
        ({"format": 2}, "is not of format 1"),
        ({"format": 1}, "Expected `object`"),
        ({"format": 1, "definition": {"name": "s"}}, "strategyOnFull: is required"),
    ],
)
def test_a_definition_that_this_version_cannot_read_is_reported(
    root: str, manager: StreamManager, value: object, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    manager.create(definition())
    manager.close()
    write_document(Disk(), str(only_folder(root) / DOCUMENT_NAME), value)
    assert StreamManager(root).names() == []
    assert text in caplog.text


def test_two_folders_with_the_same_name_are_not_mixed_up(
    root: str, manager: StreamManager, caplog: pytest.LogCaptureFixture
) -> None:
    append(manager.create(definition()), records(2))
    manager.close()
    folder = only_folder(root)
    shutil.copytree(folder, folder.with_name("ffffffffffffffff"))
    before = tree(folder.with_name("ffffffffffffffff"))
    again = StreamManager(root)
    assert again.names() == ["s"]
    assert f"its name s is that of the stream in {folder}" in caplog.text
    assert append(again.get("s"), records(1, 2)) == 2
    again.close()
    assert tree(folder.with_name("ffffffffffffffff")) == before


def test_notices_of_a_stream_are_logged_with_its_name(
    root: str, manager: StreamManager, caplog: pytest.LogCaptureFixture
) -> None:
    manager.create(definition())
    (only_folder(root) / "mark").write_bytes(b"damaged")
    StreamManager(root).close()
    assert "Stream s: " in caplog.text
    assert "mark was damaged" in caplog.text


def test_a_power_cut_counts_as_dealt_with_when_all_streams_are_open(root: str) -> None:
    lock = Path(root, LOCK_NAME)
    for readable in (False, True):
        lock.write_text(json.dumps({"process": 5, "boot": "another"}))
        os.makedirs(f"{root}/streams/0123456789abcdef", exist_ok=True)
        if readable:
            shutil.rmtree(f"{root}/streams/0123456789abcdef")
        StreamManager(root, power_lost=True).close()
        assert (json.loads(lock.read_text())["boot"] != "another") == readable


def test_a_lock_file_that_cannot_be_written_does_not_stop_the_start(
    root: str, caplog: pytest.LogCaptureFixture
) -> None:
    os.makedirs(f"{root}/{LOCK_NAME}")
    assert StreamManager(root, power_lost=True).names() == []
    assert "The lock file in" in caplog.text


def test_what_cannot_be_closed_in_order_is_told(root: str) -> None:
    disk = FaultyDisk()
    manager = StreamManager(root, disk=disk)
    for name in ("a", "b"):
        append(manager.create(definition(name)), records(1))
    disk.faults.fail_operation("sync")
    problems = manager.close()
    assert [problem.split(":")[0] for problem in problems] == ["stream a", "stream b"]
    assert "No space left on device" in problems[0]


def test_a_missing_status_stream_is_worth_a_warning(
    manager: StreamManager, caplog: pytest.LogCaptureFixture
) -> None:
    tasks = ExportDefinition(
        s3_task_executor=[
            S3ExportTaskExecutorConfig("s3", status_config=StatusConfig(status_stream_name="st")),
            S3ExportTaskExecutorConfig("quiet"),
        ]
    )
    manager.create(definition(export_definition=tasks))
    assert "Export s3 of stream s wants its statuses in stream st" in caplog.text
    caplog.clear()
    manager.create(definition("st"))
    manager.update(definition(export_definition=tasks))
    assert caplog.text == ""
    manager.close()
