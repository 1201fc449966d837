"""A real disk that a test can watch, slow down and break, operation by operation."""

from __future__ import annotations

import errno
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.log.disk import Disk, DiskFile


class ScriptedDisk(Disk):
    """Before each operation the test's function of that name is called with the path."""

    def __init__(self) -> None:
        super().__init__()
        self.before: dict[str, Callable[[str], None]] = {}
        self.counts: Counter[str] = Counter()

    def note(self, operation: str, path: str) -> None:
        self.counts[operation] += 1
        if operation in self.before:
            self.before[operation](path)

    @contextmanager
    def failing(self, operation: str, path_end: str = "") -> Iterator[None]:
        """Every such operation is refused for a while."""

        def refuse(path: str) -> None:
            if path.endswith(path_end):
                raise OSError(errno.EIO, os.strerror(errno.EIO), path)

        with self.hooked(operation, refuse):
            yield

    @contextmanager
    def held(self, operation: str, path_end: str = "") -> Iterator[Gate]:
        """Every such operation waits until the gate opens, at the end by itself."""
        gate = Gate(path_end)
        with self.hooked(operation, gate.wait):
            try:
                yield gate
            finally:
                gate.open()

    @contextmanager
    def hooked(self, operation: str, hook: Callable[[str], None]) -> Iterator[None]:
        """Call this before every such operation, instead of what was called until now."""
        previous = self.before.get(operation, _nothing)
        self.before[operation] = hook
        try:
            yield
        finally:
            self.before[operation] = previous

    def open(self, path: str) -> ScriptedFile:
        return ScriptedFile(path, self, self)

    def make_folder(self, path: str) -> None:
        self.note("make_folder", path)
        super().make_folder(path)

    def remove(self, path: str) -> None:
        self.note("remove", path)
        super().remove(path)


def _nothing(path: str) -> None:
    """Let it happen."""


class Gate:
    """Where operations wait."""

    def __init__(self, path_end: str) -> None:
        self._path_end = path_end
        self._arrived = threading.Semaphore(0)
        self._open = threading.Event()

    def wait(self, path: str) -> None:
        if path.endswith(self._path_end):
            self._arrived.release()
            assert self._open.wait(20), "the test forgot to open the gate"

    def somebody_waits(self) -> None:
        """Return when an operation has come to the gate."""
        assert self._arrived.acquire(timeout=20), "nobody came"

    def open(self) -> None:
        self._open.set()


class ScriptedFile(DiskFile):
    """A file of a ScriptedDisk."""

    __slots__ = ("_script",)

    def __init__(
        self, path: str, disk: Disk | None, script: ScriptedDisk, descriptor: int = -1
    ) -> None:
        super().__init__(path, disk, script.open_flags, descriptor)
        self._script = script

    def write_at(self, data: bytes, offset: int) -> None:
        self._script.note("write", self.path)
        super().write_at(data, offset)

    def read_at(self, byte_count: int, offset: int) -> bytes:
        self._script.note("read", self.path)
        return super().read_at(byte_count, offset)

    def truncate(self, size: int) -> None:
        self._script.note("truncate", self.path)
        super().truncate(size)

    def sync(self) -> None:
        self._script.note("sync", self.path)
        super().sync()

    def detached(self) -> ScriptedFile:
        return ScriptedFile(self.path, None, self._script, os.dup(self.descriptor()))
