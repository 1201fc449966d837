"""A small JSON document on disk that survives crashes and a damaged copy.

Two equal copies, each with a checksum line, each replaced whole. The spare copy is written first,
so that a change counts from the moment the main one is replaced, and one of them is always sound.
"""

from __future__ import annotations

from typing import Any
from zlib import crc32

import msgspec

from penstock.errors import StoreError
from penstock.log.disk import Disk


def copy_path(path: str) -> str:
    return f"{path}.copy"


def write_document(disk: Disk, path: str, value: Any) -> None:
    text = msgspec.json.format(msgspec.json.encode(value), indent=2)
    content = b"%s\n%08x\n" % (text, crc32(text))
    disk.replace_file(copy_path(path), content)
    disk.replace_file(path, content)


def read_document(disk: Disk, path: str) -> tuple[Any, list[str]]:
    """The value, and what was wrong with one of the copies."""
    problems = []
    found: dict[str, Any] = {}
    for place in (path, copy_path(path)):
        try:
            found[place] = _checked(disk.read_file(place))
        except (OSError, ValueError) as error:
            problems.append(f"{place}: {error}")
    if path in found:
        if copy_path(path) in found and found[copy_path(path)] != found[path]:
            problems.append(f"{copy_path(path)}: differs from {path}, which counts")
        return found[path], problems
    if copy_path(path) in found:
        return found[copy_path(path)], problems
    raise StoreError(f"cannot be read: {'; '.join(problems)}")


def _checked(content: bytes) -> Any:
    text, _, checksum = content.removesuffix(b"\n").rpartition(b"\n")
    if checksum != b"%08x" % crc32(text):
        raise ValueError("checksum does not match")
    return msgspec.json.decode(text)
