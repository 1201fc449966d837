"""Transforms, seen from the connections: orders to the pipeline, its reports, states, resets."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import structs

from penstock.errors import (
    DataDamaged,
    InvalidRequestException,
    ResourceNotFoundException,
)
from penstock.transforms.declaration import Transform
from penstock.transforms.keys import start_position
from penstock.transforms.records import Record, Records
from penstock.transforms.reports import Malformed, Order, TransformReport, TransformView

if TYPE_CHECKING:
    from penstock.exporting.desk import ExportDesk
    from penstock.server.tcp import Session
    from penstock.streams.stream import Stream

log = logging.getLogger(__name__)

RECORDS_NAME = "transforms.json"
FOLDER_NAME = "transforms"
# After a crash, messages from the last stored number on are checked again, which finds the same
# letters. So without new letters the number is stored now and then only.
STORE_INTERVAL_MS = 10_000


class TransformService:
    """What a server knows and does about transforms."""

    def __init__(
        self,
        root: str,
        transforms: Sequence[Transform],
        desk: ExportDesk,
        now_ms: Callable[[], int],
    ) -> None:
        self.folder = f"{root}/{FOLDER_NAME}"
        # Set once the streams are open.
        self.stream_named: Callable[[str], Stream | None] = lambda name: None
        self._transforms = {transform.name: transform for transform in transforms}
        self._records = Records(f"{root}/{RECORDS_NAME}")
        self._checked: dict[str, int] = {}  # newer than what is stored
        self._stored_at_ms = 0
        self._reports: dict[str, TransformReport] = {}
        self._desk = desk
        self._now_ms = now_ms

    def wants_worker(self) -> bool:
        return bool(self._runnable())

    def take_reports(self, reports: Sequence[TransformReport]) -> list[Order]:
        """Keep what the pipeline says; the answer is what is to run."""
        for report in reports:
            transform = self._transforms.get(report.name)
            record = self._records[report.name]
            if transform is None or report.generation != record.generation:
                continue  # of before a restart of the server, or before a reset
            if report.malformed:
                self._bury(transform, report.malformed)
            self._note(report, record)
            self._reports[report.name] = structs.replace(report, malformed=[])
        return [self._order(each) for each in self._runnable()]

    def pipeline_lost(self, session: Session) -> None:
        """What it said last is not so any more."""
        self._reports.clear()

    def views(self) -> list[TransformView]:
        return [self._view(transform) for transform in self._transforms.values()]

    def reset(self, name: str, start: str) -> int:
        """Begin again with a new checkpoint; its number."""
        if name not in self._transforms:
            known = ", ".join(self._transforms) or "none"
            raise ResourceNotFoundException(f"there is no transform {name}; declared are: {known}")
        try:
            start = start_position(start)
        except ValueError as error:
            raise InvalidRequestException(
                f"start: {start} is neither earliest, latest nor a sequence number"
            ) from error
        record = Record(generation=self._records[name].generation + 1, start=start)
        self._records.put(name, record)
        self._reports.pop(name, None)
        self._checked.pop(name, None)
        log.info("Transform %s begins again at %s, generation %d.", name, start, record.generation)
        return record.generation

    def close(self) -> None:
        self._store_checked()

    def keep_house(self) -> None:
        if self._now_ms() - self._stored_at_ms >= STORE_INTERVAL_MS:
            self._store_checked()

    def _runnable(self) -> list[Transform]:
        """Without its source a transform could only fail; it runs as soon as there is one."""
        return [
            transform
            for transform in self._transforms.values()
            if transform.enabled and self.stream_named(transform.source) is not None
        ]

    def _order(self, transform: Transform) -> Order:
        record = self._records[transform.name]
        return Order(
            transform,
            record.generation,
            record.start or transform.start,
            record.has_run,
            record.fingerprint,
            self._checked.get(transform.name, record.checked_sequence_number),
        )

    def _note(self, report: TransformReport, record: Record) -> None:
        """Store what must be known after a crash."""
        name = report.name
        if report.checked_sequence_number is not None:
            self._checked[name] = report.checked_sequence_number
        if report.has_run and (not record.has_run or report.fingerprint != record.fingerprint):
            changed = structs.replace(record, has_run=True, fingerprint=report.fingerprint)
            self._records.put(name, changed)
        if report.malformed:
            self._store_checked()

    def _store_checked(self) -> None:
        self._stored_at_ms = self._now_ms()
        for name, sequence in self._checked.items():
            record = self._records[name]
            self._records.put(name, structs.replace(record, checked_sequence_number=sequence))

    def _bury(self, transform: Transform, malformed: Sequence[Malformed]) -> None:
        stream = self.stream_named(transform.source)
        if stream is None:
            log.warning(
                "Transform %s: %d malformed messages are gone with their stream %s.",
                transform.name,
                len(malformed),
                transform.source,
            )
            return
        letters = [_letter(stream, each) for each in malformed]
        self._desk.letters_of(stream).add(
            stream.name, transform.letters_name, self._now_ms(), letters
        )

    def _view(self, transform: Transform) -> TransformView:
        record = self._records[transform.name]
        view = TransformView(
            transform.name,
            transform.source,
            str(transform.target),
            "waiting" if transform.enabled else "paused",
            record.generation,
            dead_letters=self._letter_count(transform),
        )
        if not transform.enabled:
            return view
        stream = self.stream_named(transform.source)
        report = self._reports.get(transform.name)
        if stream is None:
            view.last_error = f"its source, stream {transform.source}, does not exist yet"
        elif report is not None:
            _add_report(view, report, stream)
        return view

    def _letter_count(self, transform: Transform) -> int:
        key = (transform.source, transform.letters_name)
        return self._desk.letter_counts().get(key, 0)


def _add_report(view: TransformView, report: TransformReport, stream: Stream) -> None:
    """What the pipeline says of it."""
    if report.next_sequence_number is not None:
        first = max(report.next_sequence_number, stream.log.first_sequence)
        view.lag_messages = max(0, stream.visible_next - first)
    view.state = report.state
    view.next_sequence_number = report.next_sequence_number
    view.rows_in, view.rows_out = report.rows_in, report.rows_out
    view.lost_messages = report.lost_messages
    view.rows_in_per_second = report.rows_in_per_second
    view.rows_out_per_second = report.rows_out_per_second
    view.batch_millis = report.batch_millis
    view.last_error, view.tries = report.error, report.tries
    view.next_retry_time = report.next_retry_time


def _letter(stream: Stream, malformed: Malformed) -> tuple[int, int, str, bytes]:
    """A dead letter: number, ingest time, reason, payload."""
    sequence, reason = malformed.sequence_number, malformed.reason
    time_ms, payload = 0, b""
    try:
        for block in stream.log.read(sequence, sequence + 1, 1, 1):
            time_ms, payload = block.last_ingest_time_ms, block.data
    except DataDamaged as error:
        reason = f"{reason}; and its data is damaged: {error}"
    return sequence, time_ms, reason, payload
