"""What must outlive the server about each transform: one small document in the data directory."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from penstock.errors import StoreError
from penstock.log.disk import Disk
from penstock.log.document import copy_path, read_document, write_document


class Record(msgspec.Struct):
    """One transform's."""

    generation: int = 1
    start: str = ""  # where the generation begins, if a reset said so
    has_run: bool = False
    fingerprint: str = ""
    checked_sequence_number: int | None = None


class Records:
    """The records of all transforms that ever ran, by name."""

    def __init__(self, path: str, disk: Disk | None = None) -> None:
        self._path = path
        self._disk = disk or Disk()
        self._records = self._load()

    def __getitem__(self, name: str) -> Record:
        return self._records.get(name) or Record()

    def put(self, name: str, record: Record) -> None:
        """On disk before it counts."""
        if self._records.get(name) == record:
            return
        records = {**self._records, name: record}
        write_document(self._disk, self._path, msgspec.to_builtins(records))
        self._records = records

    def _load(self) -> dict[str, Record]:
        if not any(map(os.path.exists, (self._path, copy_path(self._path)))):
            return {}
        found: Any = read_document(self._disk, self._path).value
        try:
            return msgspec.convert(found, dict[str, Record])
        except msgspec.ValidationError as error:
            raise StoreError(f"{self._path} is not a list of transforms: {error}") from error
