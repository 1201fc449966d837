"""The file system as the log sees it."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.log import disk as disk_module
from penstock.log.disk import Disk, ReadOnlyDisk, locked_file, raised_file_limit


@contextmanager
def file_size_limit(byte_count: int) -> Iterator[None]:
    """Let the kernel refuse to write files beyond this size."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    old_action = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (byte_count, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, old_action)


def open_file_count(folder: Path) -> int:
    """How many descriptors of this process point below a folder."""
    count = 0
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            count += os.readlink(f"/proc/self/fd/{descriptor}").startswith(str(folder))
        except FileNotFoundError:
            continue  # the descriptor that listed the folder
    return count


def test_a_file_is_made_when_it_is_first_used(tmp_path: Path) -> None:
    file = Disk().open(f"{tmp_path}/a")
    assert not (tmp_path / "a").exists()
    file.write_at(b"abc", 0)
    assert (tmp_path / "a").read_bytes() == b"abc"
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600
    file.close()


def test_a_closed_file_opens_itself_again(tmp_path: Path) -> None:
    file = Disk().open(f"{tmp_path}/a")
    file.write_at(b"abc", 0)
    file.close()
    file.close()
    assert file.read_at(10, 1) == b"bc"
    file.close()


def test_many_files_share_few_descriptors(tmp_path: Path) -> None:
    disk = Disk()
    disk._open_files_max = 3
    files = [disk.open(f"{tmp_path}/{number}") for number in range(20)]
    for turn in range(3):
        for number, file in enumerate(files):
            file.write_at(b"%d" % number, 2 * turn)
            assert open_file_count(tmp_path) <= 3
    assert [file.read_at(10, 4) for file in files] == [b"%d" % number for number in range(20)]
    for file in files:
        file.close()
    assert open_file_count(tmp_path) == 0
    assert not disk._open_files


def test_a_detached_handle_outlives_the_file_and_counts_for_nobody(tmp_path: Path) -> None:
    disk = Disk()
    disk._open_files_max = 1
    file = disk.open(f"{tmp_path}/a")
    file.write_at(b"abc", 0)
    detached = file.detached()
    file.close()
    disk.remove(f"{tmp_path}/a")
    assert detached.read_at(3, 0) == b"abc"
    detached.sync()
    assert not disk._open_files
    detached.close()
    assert open_file_count(tmp_path) == 0


def test_a_detached_handle_opens_itself_again_too(tmp_path: Path) -> None:
    disk = Disk()
    file = disk.open(f"{tmp_path}/a")
    file.write_at(b"abc", 0)
    detached = file.detached()
    file.close()
    detached.close()
    assert detached.read_at(3, 0) == b"abc"
    assert not disk._open_files
    detached.close()
    assert open_file_count(tmp_path) == 0


def test_a_short_read_is_continued_up_to_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real kernel reads less than asked only above 2 GiB, so a small one is played here."""
    file = Disk().open(f"{tmp_path}/a")
    file.write_at(b"0123456789", 0)
    pread = os.pread
    monkeypatch.setattr(disk_module.os, "pread", lambda fd, n, at: pread(fd, min(n, 3), at))
    assert file.read_at(7, 1) == b"1234567"
    assert file.read_at(100, 4) == b"456789"
    assert file.read_at(1, 10) == b""
    file.close()


def test_a_short_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = Disk().open(f"{tmp_path}/a")
    pwrite = os.pwrite
    monkeypatch.setattr(disk_module.os, "pwrite", lambda fd, data, at: pwrite(fd, data[:3], at))
    file.write_at(b"0123456789", 2)
    assert (tmp_path / "a").read_bytes() == b"\0\x000123456789"
    file.close()


def test_a_write_that_fails_half_way_says_so(tmp_path: Path) -> None:
    file = Disk().open(f"{tmp_path}/a")
    with file_size_limit(6), pytest.raises(OSError, match="File too large"):
        file.write_at(b"0123456789", 0)
    assert (tmp_path / "a").read_bytes() == b"012345"
    file.close()


def test_a_replaced_file_is_the_old_one_or_the_new_one(tmp_path: Path) -> None:
    disk, path = Disk(), tmp_path / "a"
    disk.replace_file(str(path), b"old")
    with file_size_limit(6), pytest.raises(OSError, match="File too large"):
        disk.replace_file(str(path), b"0123456789")
    assert path.read_bytes() == b"old"
    disk.replace_file(str(path), b"new")
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["a"]


def test_what_a_killed_replacement_left_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "a.new").write_bytes(b"left over, and longer")
    Disk().replace_file(f"{tmp_path}/a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["a"]


def test_files_and_folders_are_listed_apart(tmp_path: Path) -> None:
    disk = Disk()
    disk.make_folder(f"{tmp_path}/b/c")
    disk.make_folder(f"{tmp_path}/a")
    disk.make_folder(f"{tmp_path}/a")
    (tmp_path / "file").write_bytes(b"abc")
    assert disk.list_folder(str(tmp_path)) == {"file": 3}
    assert disk.list_folders(str(tmp_path)) == ["a", "b"]
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700


def test_removing_and_renaming(tmp_path: Path) -> None:
    disk = Disk()
    disk.make_folder(f"{tmp_path}/a/b")
    disk.rename(f"{tmp_path}/a", f"{tmp_path}/c")
    assert disk.list_folders(f"{tmp_path}/c") == ["b"]
    disk.remove_folder(f"{tmp_path}/c")
    disk.remove(f"{tmp_path}/not there")
    assert os.listdir(tmp_path) == []


def test_a_read_only_disk_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    disk = ReadOnlyDisk()
    file = disk.open(f"{tmp_path}/a")
    assert file.read_at(3, 0) == b"abc"
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.write_at(b"x", 0)
    file.close()
    with pytest.raises(FileNotFoundError):
        disk.open(f"{tmp_path}/b").read_at(1, 0)
    assert os.listdir(tmp_path) == ["a"]


def test_a_lock_is_held_by_one_writer_or_by_many_readers(tmp_path: Path) -> None:
    path = f"{tmp_path}/lock"
    with locked_file(path, write=True):
        for write in (True, False):
            with pytest.raises(BlockingIOError), locked_file(path, write=write):
                pass
    with (
        locked_file(path, write=False),
        locked_file(path, write=False),
        pytest.raises(BlockingIOError),
        locked_file(path, write=True),
    ):
        pass
    with locked_file(path, write=True):
        pass


def test_a_reader_s_lock_makes_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), locked_file(f"{tmp_path}/lock", write=False):
        pass
    assert os.listdir(tmp_path) == []


def test_a_lock_is_not_inherited_by_child_processes(tmp_path: Path) -> None:
    """A program that the server starts must not keep the store locked when the server is gone."""
    with locked_file(f"{tmp_path}/lock", write=True):
        descriptors = [
            int(name)
            for name in os.listdir("/proc/self/fd")
            if os.path.exists(f"/proc/self/fd/{name}")
            and os.readlink(f"/proc/self/fd/{name}") == f"{tmp_path}/lock"
        ]
        assert len(descriptors) == 1
        assert fcntl.fcntl(descriptors[0], fcntl.F_GETFD) & fcntl.FD_CLOEXEC


MILLION = 1 << 20
INFINITE = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("soft", "hard", "answer", "asked_for"),
    [
        (1024, 4096, 4096, 4096),
        (1024, INFINITE, MILLION, MILLION),
        (1024, MILLION * 4, MILLION, MILLION),
        (4096, 4096, 4096, None),
        (INFINITE, INFINITE, MILLION, None),
    ],
)
def test_as_many_open_files_as_the_system_allows(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, answer: int, asked_for: int | None
) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda kind, limits: asked.append(limits))
    assert raised_file_limit() == answer
    assert asked == ([] if asked_for is None else [(asked_for, hard)])


@pytest.mark.parametrize("refusal", [ValueError, PermissionError])
def test_a_system_that_refuses_more_open_files_is_believed(
    monkeypatch: pytest.MonkeyPatch, refusal: type[Exception]
) -> None:
    def refuse(kind: int, limits: tuple[int, int]) -> None:
        raise refusal

    monkeypatch.setattr(resource, "getrlimit", lambda kind: (256, 4096))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert raised_file_limit() == 256
