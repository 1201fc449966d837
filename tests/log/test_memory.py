"""Memory has the same face as the disk, and stands being read while it grows."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from log.power_cut import PowerCutDisk
from penstock.log.disk import Disk, Storage
from penstock.log.memory import Memory, MemoryFile


@pytest.fixture(params=[Disk, Memory, PowerCutDisk])
def storage(request: pytest.FixtureRequest) -> Storage:
    """Every storage there is; the tests' own one must not be kinder than the others."""
    made: Storage = request.param()
    return made


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path)


def test_what_is_written_is_read(storage: Storage, folder: str) -> None:
    file = storage.open(f"{folder}/a")
    file.write_at(b"hello", 0)
    file.write_at(b"p!", 3)
    assert file.read_at(100, 0) == b"help!"
    assert file.read_at(2, 1) == b"el"
    assert file.read_at(2, 5) == b""
    file.sync()
    file.close()


def test_truncating_cuts_the_end(storage: Storage, folder: str) -> None:
    file = storage.open(f"{folder}/a")
    file.write_at(b"hello", 0)
    file.truncate(2)
    assert file.read_at(100, 0) == b"he"
    file.write_at(b"y", 2)
    assert file.read_at(100, 0) == b"hey"
    file.close()


def test_a_file_opened_twice_is_the_same_file(storage: Storage, folder: str) -> None:
    first, second = storage.open(f"{folder}/a"), storage.open(f"{folder}/a")
    first.write_at(b"abc", 0)
    assert second.read_at(3, 0) == b"abc"
    first.close()
    second.close()


def test_files_are_listed_with_their_sizes(storage: Storage, folder: str) -> None:
    for name, content in (("a", b"1"), ("b", b"22")):
        file = storage.open(f"{folder}/{name}")
        file.write_at(content, 0)
        file.close()
    assert storage.list_folder(folder) == {"a": 1, "b": 2}
    storage.remove(f"{folder}/a")
    storage.remove(f"{folder}/a")
    storage.sync_folder(folder)
    assert storage.list_folder(folder) == {"b": 2}


def test_replacing_and_renaming(storage: Storage, folder: str) -> None:
    storage.replace_file(f"{folder}/a", b"old and long")
    storage.replace_file(f"{folder}/a", b"new")
    storage.rename(f"{folder}/a", f"{folder}/b")
    file = storage.open(f"{folder}/b")
    assert file.read_at(100, 0) == b"new"
    file.close()
    assert storage.list_folder(folder) == {"b": 3}


def test_a_detached_handle_outlives_the_file(storage: Storage, folder: str) -> None:
    file = storage.open(f"{folder}/a")
    file.write_at(b"abc", 0)
    detached = file.detached()
    file.close()
    storage.remove(f"{folder}/a")
    assert detached.read_at(3, 0) == b"abc"
    detached.close()


@pytest.fixture
def impatient_threads() -> Iterator[None]:
    """Let threads take turns in the middle of everything."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("impatient_threads")
def test_a_file_can_grow_and_shrink_while_other_threads_read_it() -> None:
    file = MemoryFile()
    file.write_at(b"x" * 1000, 0)
    stop = threading.Event()
    wrong: list[bytes] = []

    def read() -> None:
        while not stop.is_set():
            if (data := file.read_at(1000, 0)) != b"x" * 1000:
                wrong.append(data)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    try:
        for _ in range(3000):
            file.write_at(b"y" * 1000, len(file))
            if len(file) > 20_000:
                file.truncate(1000)
    finally:
        stop.set()
        for reader in readers:
            reader.join()
    assert not wrong
