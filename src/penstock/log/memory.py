"""The same face without a disk: what memory streams are kept in."""

from __future__ import annotations

from threading import Lock


class MemoryFile:
    """Bytes in memory."""

    __slots__ = ("_bytes", "_lock")

    def __init__(self) -> None:
        self._bytes = bytearray()
        # A bytearray that another thread is copying from cannot grow.
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._bytes)

    def write_at(self, data: bytes, offset: int) -> None:
        with self._lock:
            self._bytes[offset : offset + len(data)] = data

    def read_at(self, byte_count: int, offset: int) -> bytes:
        with self._lock, memoryview(self._bytes) as view:
            return bytes(view[offset : offset + byte_count])

    def truncate(self, size: int) -> None:
        with self._lock:
            del self._bytes[size:]

    def sync(self) -> None:
        """Memory streams promise nothing beyond the process."""

    def detached(self) -> MemoryFile:
        return self

    def postponed(self) -> MemoryFile:
        return self

    def close(self) -> None:
        """Nothing to give back: the bytes go with the last reference."""


class Memory:
    """Folders of files, in a dictionary."""

    def __init__(self) -> None:
        self._files: dict[str, MemoryFile] = {}

    def open(self, path: str) -> MemoryFile:
        return self._files.setdefault(path, MemoryFile())

    def list_folder(self, path: str) -> dict[str, int]:
        start = f"{path}/"
        return {
            name.removeprefix(start): len(file)
            for name, file in self._files.items()
            if name.startswith(start)
        }

    def remove(self, path: str) -> None:
        self._files.pop(path, None)

    def rename(self, old: str, new: str) -> None:
        self._files[new] = self._files.pop(old)

    def replace_file(self, path: str, content: bytes) -> None:
        file = MemoryFile()
        file.write_at(content, 0)
        self._files[path] = file

    def sync_folder(self, path: str) -> None:
        """Memory streams promise nothing beyond the process."""
