"""A disk in memory that can lose its power: what was not synced may be lost, or half lost."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

# A disk writes a sector whole or not at all.
SECTOR_BYTES = 512
# Answers how many of at most n: of pending writes that reached the disk, of bytes of the last one.
Choice = Callable[[int], int]


@dataclass(frozen=True)
class Write:
    """One change of a file that is not yet safe."""

    offset: int
    data: bytes
    is_truncation: bool = False

    def applied_to(self, content: bytearray) -> None:
        if self.is_truncation:
            del content[self.offset :]
        content.extend(bytes(max(0, self.offset - len(content))))
        content[self.offset : self.offset + len(self.data)] = self.data


def torn(old: bytes, write: Write, choose: Choice) -> bytearray:
    """A write of which some sectors arrived and some did not; where the file grew, as zeros."""
    new = bytearray(old)
    write.applied_to(new)
    if write.is_truncation:
        return new if choose(1) else bytearray(old)
    found = bytearray(old)
    found.extend(bytes(max(0, len(new) - len(old))))
    for start in range(0, len(new), SECTOR_BYTES):
        if choose(1):
            found[start : start + SECTOR_BYTES] = new[start : start + SECTOR_BYTES]
    grown_bytes = len(found) - len(old)
    del found[len(old) + choose(grown_bytes) :]
    return found


class PowerCutFile:
    """Bytes as programs see them, and as the disk has them."""

    def __init__(self, content: bytes = b"") -> None:
        self.content = bytearray(content)
        self.durable = bytes(content)
        self.pending: list[Write] = []

    def write_at(self, data: bytes, offset: int) -> None:
        self._change(Write(offset, bytes(data)))

    def read_at(self, byte_count: int, offset: int) -> bytes:
        return bytes(self.content[offset : offset + byte_count])

    def truncate(self, size: int) -> None:
        self._change(Write(size, b"", is_truncation=True))

    def sync(self) -> None:
        self.durable = bytes(self.content)
        self.pending = []

    def detached(self) -> PowerCutFile:
        return self

    def postponed(self) -> PowerCutFile:
        return self

    def close(self) -> None:
        """There is no descriptor."""

    def after_cut(self, choose: Choice) -> PowerCutFile:
        """The file as it may be found: some writes are there, the last of them in part."""
        content = bytearray(self.durable)
        arrived = choose(len(self.pending))
        for write in self.pending[:arrived]:
            write.applied_to(content)
        if arrived < len(self.pending):
            content = torn(bytes(content), self.pending[arrived], choose)
        return PowerCutFile(bytes(content))

    def _change(self, write: Write) -> None:
        write.applied_to(self.content)
        self.pending.append(write)


class PowerCutDisk:
    """Storage whose power can be cut."""

    def __init__(self) -> None:
        self.files: dict[str, PowerCutFile] = {}
        self.durable_files: dict[str, PowerCutFile] = {}

    def open(self, path: str) -> PowerCutFile:
        return self.files.setdefault(path, PowerCutFile())

    def list_folder(self, path: str) -> dict[str, int]:
        return {
            os.path.basename(name): len(file.content)
            for name, file in self.files.items()
            if os.path.dirname(name) == path
        }

    def remove(self, path: str) -> None:
        self.files.pop(path, None)

    def rename(self, old: str, new: str) -> None:
        self.files[new] = self.files.pop(old)
        self.sync_folder(os.path.dirname(new))

    def replace_file(self, path: str, content: bytes) -> None:
        self.files[path] = PowerCutFile(content)
        self.sync_folder(os.path.dirname(path))

    def sync_folder(self, path: str) -> None:
        self.durable_files = dict(self.files)

    def cut(self, choose: Choice) -> PowerCutDisk:
        """The disk after the power came back."""
        found = PowerCutDisk()
        for name in sorted(self.files.keys() | self.durable_files.keys()):
            if name.endswith(".torn"):
                continue  # named after the time, and nobody reads them: they would only be noise
            file = (self.files if choose(1) else self.durable_files).get(name)
            if file is not None:
                found.files[name] = file.after_cut(choose)
        found.sync_folder("")
        return found


def lose_all(most: int) -> int:
    """Nothing that was not synced has arrived."""
    return 0


def keep_all(most: int) -> int:
    """Everything arrived, synced or not."""
    return most
