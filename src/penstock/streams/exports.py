"""How far each export got: saved, shown, used to keep numbers from being given twice.

The definition is the truth about which exports there are; the journal only adds progress to it.
So a changed definition takes effect at once and whole, whatever the journal still says.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from penstock.checksum import crc32
from penstock.log.disk import Storage
from penstock.model import (
    ExportConfig,
    ExportDefinition,
    ExportStatus,
    S3ExportTaskExecutorConfig,
)

# A line per delivered batch; rewritten when this much has gathered.
JOURNAL_BYTES_MAX = 64 * 1024


class ExportProgress(msgspec.Struct):
    """One export's state as it is saved."""

    identifier: str
    # The type of its configuration: positions of different types differ in meaning.
    destination: str
    start_sequence: int
    last_exported_sequence: int
    exported_count: int = 0
    exported_bytes: int = 0
    refused_count: int = 0
    lost_count: int = 0  # removed by retention, or lost in a crash, before they were sent
    last_export_time_ms: int = 0
    error: str = ""

    def status(self) -> ExportStatus:
        return ExportStatus(
            export_config_identifier=self.identifier,
            last_exported_sequence_number=self.last_exported_sequence,
            last_export_time=self.last_export_time_ms,
            error_message=self.error,
            exported_bytes_from_stream=self.exported_bytes,
            exported_messages_count=self.exported_count,
        )

    def numbers_seen(self) -> int:
        """Numbers below this were seen outside. A start that nobody reached yet is no evidence."""
        if self.last_exported_sequence < self.start_sequence:
            return 0
        return self.last_exported_sequence + 1


def start_of(config: ExportConfig) -> int:
    """Where an export begins; S3 tasks always begin with the first."""
    return 0 if isinstance(config, S3ExportTaskExecutorConfig) else config.start_sequence_number


def reconciled(
    definition: ExportDefinition, saved: dict[str, ExportProgress]
) -> dict[str, ExportProgress]:
    """Progress for exactly the exports of a definition.

    A new export, one whose type changed, and one whose start changed begin at their start.
    """
    progress = {}
    for config in definition.configs():
        known = saved.get(config.identifier)
        start = start_of(config)
        destination = type(config).__name__
        if known is None or (known.destination, known.start_sequence) != (destination, start):
            known = ExportProgress(config.identifier, destination, start, start - 1)
        progress[config.identifier] = known
    return progress


class Exports:
    """The exports of one stream, and their journal."""

    def __init__(self, storage: Storage, path: str, definition: ExportDefinition) -> None:
        self._storage = storage
        self._path = path
        self._file = storage.open(path)
        content = b""
        while piece := self._file.read_at(1 << 20, len(content)):
            content += piece
        journal = read_journal(content)
        self.notices = journal.damage + journal.notes
        self.progress = reconciled(definition, journal.saved)
        self._size = content.rfind(b"\n") + 1
        self._rewrite_due = bool(self.notices) or journal.saved != self.progress
        if self._rewrite_due:
            self._try_to_rewrite()

    def follow(self, definition: ExportDefinition) -> None:
        """A new definition is in force."""
        self.progress = reconciled(definition, self.progress)
        self._rewrite()

    def save(self, progress: ExportProgress) -> None:
        """Note how far an export got. After a crash at most the last notes are missing."""
        self.progress[progress.identifier] = progress
        line = journal_line(progress)
        if self._rewrite_due or self._size + len(line) > JOURNAL_BYTES_MAX:
            self._rewrite()
            return
        self._file.write_at(line, self._size)
        self._size += len(line)

    def statuses(self) -> list[ExportStatus]:
        return [progress.status() for progress in self.progress.values()]

    def numbers_seen(self) -> int:
        return max((progress.numbers_seen() for progress in self.progress.values()), default=0)

    def close(self) -> None:
        self._file.close()

    def _rewrite(self) -> None:
        """Replace the journal by a line per export. If it fails, the next step tries again."""
        self._rewrite_due = True
        content = b"".join(journal_line(progress) for progress in self.progress.values())
        try:
            self._storage.replace_file(self._path, content)
        finally:
            # Whether it was replaced or not: what is open may be the old one.
            self._file.close()
            self._file = self._storage.open(self._path)
        self._size = len(content)
        self._rewrite_due = False

    def _try_to_rewrite(self) -> None:
        """A full disk must not keep anybody from reading the stream."""
        try:
            self._rewrite()
        except OSError as error:
            self.notices.append(f"exports: cannot be rewritten yet: {error.strerror}")


@dataclass
class Journal:
    """What a journal says. Damage is what no crash leaves behind."""

    saved: dict[str, ExportProgress] = field(default_factory=dict)
    damage: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def journal_line(progress: ExportProgress) -> bytes:
    text = msgspec.json.encode(progress)
    return b"%08x %s\n" % (crc32(text), text)


def read_journal(content: bytes) -> Journal:
    """The newest sound line of each export, and what is wrong with the others."""
    journal = Journal()
    *lines, rest = content.split(b"\n")
    for number, line in enumerate(lines, 1):
        progress = _parsed(line)
        if progress is None:
            journal.damage.append(f"exports: line {number} is damaged and left out")
        else:
            journal.saved[progress.identifier] = progress
    if rest:
        progress = _parsed(rest[:-1])
        if progress is None:
            journal.notes.append("exports: the last line is torn and left out")
        else:
            journal.damage.append("exports: the end of the last line is damaged")
            journal.saved[progress.identifier] = progress
    return journal


def _parsed(line: bytes) -> ExportProgress | None:
    checksum, _, text = line.partition(b" ")
    if checksum != b"%08x" % crc32(text):
        return None
    try:
        return msgspec.json.decode(text, type=ExportProgress)
    except msgspec.DecodeError:
        return None
