"""A disk that refuses what it is told to refuse.

Nothing is really synced: nobody cuts the power here, and thousands of syncs would take minutes.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from penstock.log.disk import Disk, DiskFile

Decision = Callable[[int, str, str], bool]


def never(number: int, operation: str, path: str) -> bool:
    return False


class Faults:
    """Which operations fail. They are counted from 1."""

    def __init__(self) -> None:
        self.count = 0
        self.failed: list[str] = []
        self.error = errno.ENOSPC
        self._fails: Decision = never

    def fail_when(self, decision: Decision) -> None:
        """Ask this for every operation from now on: number, kind, path."""
        self._fails = decision

    def fail_once(self, number: int) -> None:
        self.fail_when(lambda count, *_: count == number)

    def fail_from(self, number: int) -> None:
        self.fail_when(lambda count, *_: count >= number)

    def fail_operation(self, name: str, path_end: str = "") -> None:
        """Every operation of one kind, on files whose path ends so."""
        self.fail_when(lambda _, operation, path: operation == name and path.endswith(path_end))

    def fail_always(self) -> None:
        self.fail_from(0)

    def heal(self) -> None:
        self.fail_when(never)

    def check(self, operation: str, path: str) -> None:
        """Raise if this operation is to fail."""
        self.count += 1
        if self._fails(self.count, operation, path):
            self.failed.append(operation)
            raise OSError(self.error, os.strerror(self.error), path)


class FaultyDisk(Disk):
    """The real disk behind a filter."""

    def __init__(self) -> None:
        super().__init__()
        self.faults = Faults()

    def open(self, path: str) -> FaultyFile:
        return FaultyFile(path, self, self.open_flags, self.faults)

    def make_folder(self, path: str) -> None:
        self.faults.check("make_folder", path)
        super().make_folder(path)

    def remove(self, path: str) -> None:
        self.faults.check("remove", path)
        super().remove(path)

    def remove_folder(self, path: str) -> None:
        self.faults.check("remove_folder", path)
        super().remove_folder(path)

    def rename(self, old: str, new: str) -> None:
        self.faults.check("rename", new)
        super().rename(old, new)

    def sync_folder(self, path: str) -> None:
        self.faults.check("sync_folder", path)

    def read_file(self, path: str) -> bytes:
        self.faults.check("read", path)
        return super().read_file(path)

    def replace_file(self, path: str, content: bytes) -> None:
        try:
            self.faults.check("replace_file", path)
        except OSError:
            # The disk was full half way through the new file.
            with open(f"{path}.new", "wb") as file:
                file.write(content[: len(content) // 2])
            raise
        with open(f"{path}.new", "wb") as file:
            file.write(content)
        os.replace(f"{path}.new", path)
        self.sync_folder(os.path.dirname(path))


class FaultyFile(DiskFile):
    """A file of a FaultyDisk."""

    __slots__ = ("_faults",)

    def __init__(
        self, path: str, disk: Disk | None, flags: int, faults: Faults, descriptor: int = -1
    ) -> None:
        super().__init__(path, disk, flags, descriptor)
        self._faults = faults

    def descriptor(self) -> int:
        if self._descriptor < 0:
            self._faults.check("open", self.path)
        return super().descriptor()

    def write_at(self, data: bytes, offset: int) -> None:
        self.descriptor()
        try:
            self._faults.check("write", self.path)
        except OSError:
            # As the real one does it: a short write, and the error for the rest.
            super().write_at(data[: len(data) // 2], offset)
            raise
        super().write_at(data, offset)

    def read_at(self, byte_count: int, offset: int) -> bytes:
        self.descriptor()
        self._faults.check("read", self.path)
        return super().read_at(byte_count, offset)

    def truncate(self, size: int) -> None:
        self.descriptor()
        self._faults.check("truncate", self.path)
        super().truncate(size)

    def sync(self) -> None:
        self.descriptor()
        self._faults.check("sync", self.path)

    def detached(self) -> FaultyFile:
        descriptor = self.descriptor()
        self._faults.check("dup", self.path)
        return FaultyFile(self.path, None, self._flags, self._faults, os.dup(descriptor))
