"""Messages that a destination refused for good, with the reason, until a person decides.

SQLite, because letters are listed, picked, replayed and purged one by one, and because it keeps its
promises without our help. The letters of memory streams are kept in memory.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Any

from penstock.errors import StoreError
from penstock.export_model import DeadLetter

# The message is still in its stream as long as retention keeps it; here it stays this long at most.
AGE_MS_MAX = 30 * 24 * 3600 * 1000
BYTES_MAX = 256 * 1024 * 1024
# One answer to who looks for letters; they ask again for more.
FIND_BYTES_MAX = 16 * 1024 * 1024

_SCHEMA = """
CREATE TABLE IF NOT EXISTS letters (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    stream TEXT NOT NULL,
    export TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    ingest_time_ms INTEGER NOT NULL,
    refused_time_ms INTEGER NOT NULL,
    reason TEXT NOT NULL,
    replay INTEGER NOT NULL DEFAULT 0,
    payload BLOB NOT NULL,
    UNIQUE (stream, export, sequence) ON CONFLICT REPLACE
);
CREATE INDEX IF NOT EXISTS by_replay ON letters (stream, export) WHERE replay = 1;
"""
_COLUMNS = "id, stream, export, sequence, ingest_time_ms, refused_time_ms, reason, replay, payload"


class DeadLetters:
    """The letters of one store."""

    def __init__(self, path: str, *, id_floor: int = 0) -> None:
        try:
            self._database = sqlite3.connect(path, isolation_level=None)
            # WAL with FULL: a letter is on the disk before its message counts as done.
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = FULL")
            self._database.executescript(_SCHEMA)
            if id_floor:
                self._database.execute(
                    "INSERT INTO sqlite_sequence VALUES ('letters', ?)", (id_floor,)
                )
        except sqlite3.Error as error:
            raise StoreError(f"the dead letters in {path} cannot be opened: {error}") from error
        self._counts: dict[tuple[str, str], int] | None = None  # None: to be counted

    def add(
        self,
        stream: str,
        export: str,
        now_ms: int,
        letters: Iterable[tuple[int, int, str, bytes]],
    ) -> None:
        """Keep refused messages: (sequence, ingest time, reason, payload) each."""
        rows = [
            (stream, export, sequence, time_ms, now_ms, reason, payload)
            for sequence, time_ms, reason, payload in letters
        ]
        self._counts = None
        with self._database:
            self._database.execute("BEGIN")
            self._database.executemany(
                "INSERT INTO letters (stream, export, sequence, ingest_time_ms, refused_time_ms, "
                "reason, payload) VALUES (?, ?, ?, ?, ?, ?, ?)",
                rows,
            )

    def find(
        self,
        stream: str | None = None,
        export: str | None = None,
        ids: Sequence[int] = (),
        *,
        after_id: int = 0,
        count_max: int = 1000,
        bytes_max: int = FIND_BYTES_MAX,
    ) -> list[DeadLetter]:
        """Letters, first refused first; ends at a limit, but not before the first one."""
        where, values = _where(stream, export, ids)
        query = f"SELECT {_COLUMNS} FROM letters WHERE {where} AND id > ? ORDER BY id LIMIT ?"
        found: list[DeadLetter] = []
        found_bytes = 0
        with closing(self._database.execute(query, (*values, after_id, count_max))) as cursor:
            for row in cursor:
                letter = _letter(row)
                found_bytes += len(letter.payload)
                if found and found_bytes > bytes_max:
                    break
                found.append(letter)
        return found

    def count(
        self, stream: str | None = None, export: str | None = None, ids: Sequence[int] = ()
    ) -> int:
        where, values = _where(stream, export, ids)
        query = f"SELECT count(*) FROM letters WHERE {where}"
        with closing(self._database.execute(query, values)) as cursor:
            return int(cursor.fetchone()[0])

    def counts(self) -> dict[tuple[str, str], int]:
        """How many letters each export has. Those who watch ask every second, so it is kept."""
        if self._counts is None:
            query = "SELECT stream, export, count(*) FROM letters GROUP BY stream, export"
            with closing(self._database.execute(query)) as cursor:
                self._counts = {(stream, export): count for stream, export, count in cursor}
        return self._counts

    def ask_for_replay(
        self, stream: str | None, export: str | None, ids: Sequence[int] = ()
    ) -> set[tuple[str, str]]:
        """Mark letters to be sent again; the exports concerned."""
        where, values = _where(stream, export, ids)
        query = f"UPDATE letters SET replay = 1 WHERE {where} RETURNING stream, export"
        with self._database, closing(self._database.execute(query, values)) as cursor:
            return {(row[0], row[1]) for row in cursor}

    def to_replay(self, stream: str, export: str, count_max: int) -> list[DeadLetter]:
        query = (
            f"SELECT {_COLUMNS} FROM letters WHERE stream = ? AND export = ? AND replay = 1 "
            "ORDER BY sequence LIMIT ?"
        )
        with closing(self._database.execute(query, (stream, export, count_max))) as cursor:
            return [_letter(row) for row in cursor]

    def refuse_again(self, now_ms: int, reasons: dict[int, str]) -> None:
        """A replay was refused as well."""
        with self._database:
            self._database.execute("BEGIN")
            self._database.executemany(
                "UPDATE letters SET replay = 0, reason = ?, refused_time_ms = ? WHERE id = ?",
                [(reason, now_ms, identifier) for identifier, reason in reasons.items()],
            )

    def purge(
        self, stream: str | None = None, export: str | None = None, ids: Sequence[int] = ()
    ) -> int:
        """Throw letters away; how many."""
        where, values = _where(stream, export, ids)
        self._counts = None
        with self._database:
            return self._database.execute(f"DELETE FROM letters WHERE {where}", values).rowcount

    def enforce_limits(
        self, now_ms: int, age_ms_max: int = AGE_MS_MAX, bytes_max: int = BYTES_MAX
    ) -> int:
        """Throw away what is too old, and the oldest of what is too much; how many."""
        with self._database:
            self._database.execute("BEGIN")
            count = self._database.execute(
                "DELETE FROM letters WHERE refused_time_ms < ?", (now_ms - age_ms_max,)
            ).rowcount
            count += self._database.execute(
                "DELETE FROM letters WHERE id IN (SELECT id FROM (SELECT id, sum(length(payload)) "
                "OVER (ORDER BY id DESC) AS newer FROM letters) WHERE newer > ?)",
                (bytes_max,),
            ).rowcount
        if count:
            self._counts = None
        return count

    def close(self) -> None:
        self._database.close()


def _where(
    stream: str | None, export: str | None, ids: Sequence[int]
) -> tuple[str, tuple[object, ...]]:
    conditions, values = ["1"], list[object]()
    if stream is not None:
        conditions.append("stream = ?")
        values.append(stream)
    if export is not None:
        conditions.append("export = ?")
        values.append(export)
    if ids:
        conditions.append(f"id IN ({','.join('?' * len(ids))})")
        values += ids
    return " AND ".join(conditions), tuple(values)


def _letter(row: Sequence[Any]) -> DeadLetter:
    values = dict(zip(DeadLetter.__struct_fields__, row, strict=True))
    return DeadLetter(**{**values, "replay": bool(values["replay"])})
