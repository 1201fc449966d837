"""A small JSON document on disk that survives crashes and a damaged copy.

Two equal copies, each with a checksum line, each replaced whole. The spare copy is written first,
so that a change counts from the moment the main one is replaced, and one of them is always sound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from penstock.checksum import crc32
from penstock.errors import StoreError
from penstock.log.disk import Disk


@dataclass(frozen=True)
class Document:
    """What was read, what is wrong with a copy, and what a crash has left behind."""

    value: Any
    damage: list[str]
    notes: list[str]


def copy_path(path: str) -> str:
    return f"{path}.copy"


def write_document(disk: Disk, path: str, value: Any) -> None:
    text = msgspec.json.format(msgspec.json.encode(value), indent=2)
    content = b"%s\n%08x\n" % (text, crc32(text))
    disk.replace_file(copy_path(path), content)
    disk.replace_file(path, content)


def read_document(disk: Disk, path: str) -> Document:
    """The value of the main copy, or of the other one if that is damaged."""
    damage = []
    found: dict[str, Any] = {}
    for place in (path, copy_path(path)):
        try:
            found[place] = _checked(disk.read_file(place))
        except (OSError, ValueError) as error:
            damage.append(f"{place}: {error}")
    if not found:
        raise StoreError(f"cannot be read: {'; '.join(damage)}")
    if len(found) == 2 and found[path] != found[copy_path(path)]:
        note = f"{copy_path(path)}: differs from {path}, which counts: a change was interrupted"
        return Document(found[path], damage, [note])
    return Document(next(iter(found.values())), damage, [])


def _checked(content: bytes) -> Any:
    text, _, checksum = content.removesuffix(b"\n").rpartition(b"\n")
    if checksum != b"%08x" % crc32(text):
        raise ValueError("checksum does not match")
    return msgspec.json.decode(text)
