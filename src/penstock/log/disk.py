"""The only place that opens, writes, syncs, renames and removes files.

Everything above works with `Storage` and `StoredFile`, so that tests can break the disk and memory
streams can do without one.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import shutil
from collections import OrderedDict
from collections.abc import Iterator
from typing import Protocol

# A stream keeps three files open. Beyond this share of the process's limit the one opened longest
# ago is closed, and opened again when needed, so that 10,000 streams fit; the rest is for clients.
OPEN_FILES_SHARE = 0.5


class StoredFile(Protocol):
    """Bytes that are written and read at positions."""

    def write_at(self, data: bytes, offset: int) -> None: ...

    def read_at(self, byte_count: int, offset: int) -> bytes:
        """At most `byte_count` bytes; fewer only at the end."""

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None: ...

    def detached(self) -> StoredFile:
        """A second handle, for use in another thread. The caller closes it."""

    def postponed(self) -> StoredFile:
        """The same for reading, opened when it is used; FileNotFoundError if that is too late."""

    def close(self) -> None: ...


class Storage(Protocol):
    """Folders of files."""

    def open(self, path: str) -> StoredFile:
        """The file, made if it is not there."""

    def list_folder(self, path: str) -> dict[str, int]:
        """Names and sizes of the files in a folder."""

    def remove(self, path: str) -> None:
        """Remove a file; one that is gone already is fine."""

    def rename(self, old: str, new: str) -> None:
        """Rename durably."""

    def replace_file(self, path: str, content: bytes) -> None:
        """Replace a file whole and durably: after a crash it is the old one or the new one."""

    def sync_folder(self, path: str) -> None:
        """Make creations, renames and removals in this folder survive a power cut."""


class Disk:
    """Storage on a file system."""

    open_flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC

    def __init__(self) -> None:
        self._open_files: OrderedDict[DiskFile, None] = OrderedDict()
        self._open_files_max = int(raised_file_limit() * OPEN_FILES_SHARE)

    def open(self, path: str) -> DiskFile:
        return DiskFile(path, self, self.open_flags)

    def list_folder(self, path: str) -> dict[str, int]:
        with os.scandir(path) as entries:
            return {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}

    def list_folders(self, path: str) -> list[str]:
        with os.scandir(path) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())

    def make_folder(self, path: str) -> None:
        os.makedirs(path, mode=0o700, exist_ok=True)

    def remove(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def remove_folder(self, path: str) -> None:
        shutil.rmtree(path)

    def rename(self, old: str, new: str) -> None:
        """Rename durably."""
        os.rename(old, new)
        self.sync_folder(os.path.dirname(new))

    def sync_folder(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def read_file(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def replace_file(self, path: str, content: bytes) -> None:
        """Replace a file whole and durably: after a crash it is the old one or the new one."""
        temporary = f"{path}.new"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            write_all(descriptor, content, 0)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
        self.sync_folder(os.path.dirname(path))

    def opened(self, file: DiskFile) -> None:
        """A file got a descriptor: close another one if there are too many."""
        self._open_files[file] = None
        if len(self._open_files) > self._open_files_max:
            oldest, _ = self._open_files.popitem(last=False)
            oldest.close()

    def closed(self, file: DiskFile) -> None:
        self._open_files.pop(file, None)


class ReadOnlyDisk(Disk):
    """For looking at a store without changing it."""

    open_flags = os.O_RDONLY | os.O_CLOEXEC


class DiskFile:
    """A file that opens itself when it is used and may be closed at any time between two uses."""

    __slots__ = ("_descriptor", "_disk", "_flags", "path")

    def __init__(self, path: str, disk: Disk | None, flags: int, descriptor: int = -1) -> None:
        self.path = path
        self._disk = disk
        self._flags = flags
        self._descriptor = descriptor

    def descriptor(self) -> int:
        if self._descriptor < 0:
            self._descriptor = os.open(self.path, self._flags, 0o600)
            if self._disk is not None:
                self._disk.opened(self)
        return self._descriptor

    def write_at(self, data: bytes, offset: int) -> None:
        descriptor = self._descriptor if self._descriptor >= 0 else self.descriptor()
        written = os.pwrite(descriptor, data, offset)
        if written < len(data):
            write_all(descriptor, data[written:], offset + written)

    def read_at(self, byte_count: int, offset: int) -> bytes:
        descriptor = self.descriptor()
        data = os.pread(descriptor, byte_count, offset)
        while len(data) < byte_count:
            # The kernel gives at most 2 GiB at once, and nothing at the end.
            more = os.pread(descriptor, byte_count - len(data), offset + len(data))
            if not more:
                break
            data += more
        return data

    def truncate(self, size: int) -> None:
        os.ftruncate(self.descriptor(), size)

    def sync(self) -> None:
        os.fdatasync(self.descriptor())

    def detached(self) -> DiskFile:
        # The same open file description, so that a write error the kernel noticed later is told
        # to whoever syncs.
        return DiskFile(self.path, None, self._flags, os.dup(self.descriptor()))

    def postponed(self) -> DiskFile:
        return DiskFile(self.path, None, os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            if self._disk is not None:
                self._disk.closed(self)


def write_all(descriptor: int, data: bytes, offset: int) -> None:
    """Write everything: the system call may write less than it was given."""
    written = os.pwrite(descriptor, data, offset)
    if written < len(data):
        view = memoryview(data)
        while written < len(data):
            written += os.pwrite(descriptor, view[written:], offset + written)


def raised_file_limit() -> int:
    """Allow as many open files as the system lets us, and say how many that is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # No more than a million: some systems say "infinity" and then refuse it.
    wanted = 1 << 20 if hard == resource.RLIM_INFINITY else min(hard, 1 << 20)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return wanted
    return wanted if soft == resource.RLIM_INFINITY else soft


@contextlib.contextmanager
def locked_file(path: str, *, write: bool) -> Iterator[None]:
    """Hold a lock on a file; BlockingIOError if somebody else has it.

    With `write` it is held alone, and the file is made if it is not there; without, it is shared.
    """
    flags = os.O_RDWR | os.O_CREAT if write else os.O_RDONLY
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_EX if write else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
