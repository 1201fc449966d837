"""Where workers get leases and bring back what they did."""

from __future__ import annotations

import heapq
import logging
from collections import deque
from collections.abc import Callable, Iterable
from itertools import count

from penstock.errors import DataDamaged
from penstock.export_model import ExportReport, ExportView, Lease, Refusal
from penstock.exporting.bandwidth import Bandwidth
from penstock.exporting.dead_letters import DeadLetters
from penstock.exporting.due import Waiting, due
from penstock.exporting.life import fields_of, tell_configuration, tell_report
from penstock.exporting.state import Export, Grant
from penstock.exporting.tables import stop_of_file, table_of
from penstock.exporting.views import destination_of, oldest_time_ms, target_of, view_of
from penstock.model import (
    ExportConfig,
    Persistence,
    to_wire,
)
from penstock.streams.stream import Stream

log = logging.getLogger(__name__)

# A worker renews its leases every few seconds; after this long without a word it is dead.
LEASE_MS = 12_000
# Before its first word it has to be started, which takes long on a busy machine. If it fails, the
# driver gives its leases back; if the driver dies, its connection closes.
FIRST_WORD_MS = 60_000
# Who has been due this long goes before everybody, once: the lowest priority gets a trickle.
AGING_MS = 30_000
# A lease without progress for this long is stuck at its destination.
STUCK_MS = 3_000
REPLAY_COUNT_MAX = 500
# Workers learn within seconds that their export is gone; more than this never go at once.
CANCELED_KEPT_MAX = 10_000


class ExportDesk:
    """All exports of a server."""

    def __init__(
        self,
        dead_letters: DeadLetters,
        memory_dead_letters: DeadLetters,
        bandwidth: Bandwidth,
        now_ms: Callable[[], int],
        on_due: Callable[[], None],
        kinesis_streams_by_channel: dict[str, str] | None = None,
        tables_by_channel: dict[str, str] | None = None,
    ) -> None:
        self._letters = dead_letters
        self._memory_letters = memory_dead_letters
        self._bandwidth = bandwidth
        self._now_ms = now_ms
        self._on_due = on_due
        self._redirects = kinesis_streams_by_channel or {}
        self._tables = tables_by_channel or {}
        self._exports: dict[tuple[str, str], Export] = {}
        self._by_stream: dict[str, list[Export]] = {}
        self._ready: dict[tuple[str, str], Export] = {}
        self._leased: dict[int, Export] = {}
        self._vacant: dict[int, Export] = {}
        self._timers: list[tuple[int, int, Export]] = []
        # Not from 1: a worker that outlived the last server must not hit a lease of this one.
        self._ids = count(now_ms() * 1000)
        self._canceled: deque[int] = deque(maxlen=CANCELED_KEPT_MAX)
        self.uploaded_bytes: dict[str, int] = {}  # since the server started, by destination

    # --- what streams tell ------------------------------------------------------------------

    def stream_changed(self, stream: Stream) -> None:
        """A stream was opened, created or updated: its exports are what its definition says."""
        old = {export.key: export for export in self._by_stream.pop(stream.name, ())}
        exports = []
        for config in stream.definition.export_definition.configs():
            key = (stream.name, config.identifier)
            known = old.pop(key, None)
            if known is not None and known.config == config:
                exports.append(known)
                continue
            if known is not None:
                tell_configuration(known, config)
                self._replace(known, config)
            table = table_of(config, self._tables)
            exports.append(
                Export(
                    stream,
                    config,
                    replay_wanted=self._replay_asked_for(stream, key),
                    table=table,
                    target=target_of(config, self._redirects, table),
                )
            )
            self._exports[key] = exports[-1]
        for gone in old.values():
            self._remove(gone)
        if exports:
            self._by_stream[stream.name] = exports
        for export in exports:
            self._look_at(export)

    def stream_removed(self, stream: Stream) -> None:
        for export in self._by_stream.pop(stream.name, ()):
            self._remove(export)

    def appended(self, stream: Stream) -> None:
        """There are new messages."""
        for export in self._by_stream.get(stream.name, ()):
            if export.lease is None and not export.due_since_ms:
                self._look_at(export)

    def exports_of(self, stream: Stream) -> list[Export]:
        return list(self._by_stream.get(stream.name, ()))

    def wants_worker(self) -> bool:
        """Whether there is any export that is not paused."""
        return any(not export.config.disabled for export in self._exports.values())

    # --- what workers ask for ---------------------------------------------------------------

    def take(self, worker: object, count_max: int) -> list[Lease]:
        """Leases for due exports, most urgent first."""
        self.check_time()
        now_ms = self._now_ms()
        granted: list[Lease] = []
        for export in sorted(self._ready.values(), key=lambda each: _urgency(each, now_ms)):
            if len(granted) >= count_max or self._must_give_way(export, now_ms):
                break
            lease = self._lease(export, worker, now_ms)
            if lease is None:
                break  # the bandwidth is used up, for those behind as well
            granted.append(lease)
        return granted

    def renew(self, lease_ids: Iterable[int], worker: object) -> list[int]:
        """Keep leases for a while longer; those that are lost."""
        return [lease_id for lease_id in lease_ids if self._held(lease_id, worker) is None]

    def report(self, report: ExportReport, worker: object) -> bool:
        """Take what a worker did. False: the lease is lost and nothing was taken."""
        export = self._held(report.lease_id, worker)
        if export is None or export.lease is None:
            return False
        now_ms = self._now_ms()
        tell_report(export, report, now_ms)
        self._count_bytes(export, export.lease, report.sent_bytes + report.file_bytes, now_ms)
        export.note_sent(now_ms, report.messages, report.sent_bytes + report.file_bytes)
        destination = destination_of(export.config)
        uploaded_bytes = self.uploaded_bytes.get(destination, 0)
        self.uploaded_bytes[destination] = uploaded_bytes + report.sent_bytes + report.file_bytes
        if export.lease.replay:
            self._take_replay(export, report, now_ms)
        else:
            self._take_progress(export, report, now_ms)
        if report.error:
            export.tries += 1
            export.blocked = report.blocked
            export.retry_at_ms = now_ms + report.retry_after_millis
        elif report.messages:
            export.tries, export.retry_at_ms, export.blocked = 0, 0, False
        if report.done:
            self._end_lease(export)
            self._look_at(export)
        return True

    def is_canceled(self, lease_id: int) -> bool:
        """Whether a lost lease was lost because its export or stream is gone."""
        return lease_id in self._canceled

    def give_back(self, lease_ids: Iterable[int], worker: object) -> None:
        """Leases that a worker will not use. Those that another one speaks of are not its own."""
        for lease_id in lease_ids:
            export = self._leased.get(lease_id)
            if export is not None and export.holder is worker:
                self._vacate(export)

    def worker_gone(self, worker: object) -> None:
        """Take back everything a worker had."""
        for export in list(self._leased.values()):
            if export.holder is worker:
                self._vacate(export)

    def check_time(self) -> None:
        """Do what time alone makes due."""
        now_ms = self._now_ms()
        for export in list(self._leased.values()):
            if export.lease_until_ms < now_ms:
                log.warning(
                    "Export %s of stream %s: its worker is silent; the lease is taken back.",
                    export.config.identifier,
                    export.stream.name,
                    extra=fields_of(export),
                )
                self._vacate(export)
        while self._timers and self._timers[0][0] <= now_ms:
            _, _, export = heapq.heappop(self._timers)
            if self._exports.get(export.key) is export and export.lease is None:
                self._look_at(export)

    def next_time_ms(self, *, somebody_waits: bool = True) -> int | None:
        """When to call check_time next, or take again if somebody waits for a lease."""
        times = [export.lease_until_ms + 1 for export in self._leased.values()]
        if self._timers:
            times.append(self._timers[0][0])
        if self._ready and somebody_waits:
            now_ms = self._now_ms()
            first = min(self._ready.values(), key=lambda each: _urgency(each, now_ms))
            if self._must_give_way(first, now_ms):
                times.append(now_ms + STUCK_MS)
            else:
                times.append(self._bandwidth.next_portion_ms(now_ms))
        return min(times, default=None)

    # --- what people ask for ----------------------------------------------------------------

    def views(self) -> list[ExportView]:
        counts = self.letter_counts()
        now_ms = self._now_ms()
        return [
            view_of(export, counts.get(key, 0), now_ms)
            for key, export in sorted(self._exports.items())
        ]

    def letter_counts(self) -> dict[tuple[str, str], int]:
        """How many dead letters there are, by stream and export."""
        return self._letters.counts() | self._memory_letters.counts()

    def letters_of(self, stream: Stream) -> DeadLetters:
        """Memory streams leave nothing on disk, dead letters included."""
        in_memory = stream.definition.persistence == Persistence.Memory
        return self._memory_letters if in_memory else self._letters

    def all_letters(self) -> tuple[DeadLetters, DeadLetters]:
        return self._letters, self._memory_letters

    def replay(self, exports: Iterable[tuple[str, str]]) -> None:
        """Dead letters of these exports were marked to be sent again."""
        for key in exports:
            export = self._exports.get(key)
            if export is not None:
                export.replay_wanted = True
                self._look_at(export)

    # --- inside -----------------------------------------------------------------------------

    def _look_at(self, export: Export) -> None:
        """Find out whether an export is due, or when it may be."""
        if export.config.disabled or export.lease is not None:
            return
        now_ms = self._now_ms()
        if export.retry_at_ms > now_ms:
            self._set_timer(export, export.retry_at_ms)
            self._ready.pop(export.key, None)
            export.due_since_ms = 0
            return
        found: int | Waiting
        if export.replay_wanted:
            found = export.next_sequence
        else:
            found = due(
                export.pace,
                export.next_sequence,
                export.stream.visible_next,
                lambda: oldest_time_ms(export),
                now_ms,
            )
        if isinstance(found, Waiting):
            export.waiting_for = found.reason
            export.due_since_ms = 0
            self._ready.pop(export.key, None)
            if found.until_ms is not None:
                self._set_timer(export, found.until_ms)
            return
        export.waiting_for = ""
        if not export.due_since_ms:
            export.due_since_ms = now_ms
        if export.key not in self._ready:
            self._ready[export.key] = export
            self._on_due()

    def _must_give_way(self, export: Export, now_ms: int) -> bool:
        """Whether the bandwidth is meant for an export of higher priority that has more to send.

        While that one sends its portion, the next one gathers; without this rule the less urgent
        would take it, and both would go at the same pace. One that hangs keeps nobody waiting.
        """
        if not self._bandwidth.is_limited:
            return False
        urgency, _ = _urgency(export, now_ms)
        return any(
            other.priority < urgency
            and other.next_sequence < other.stream.visible_next
            and now_ms - other.progress_at_ms < STUCK_MS
            for other in self._leased.values()
        )

    def _lease(self, export: Export, worker: object, now_ms: int) -> Lease | None:
        # A table is on this machine: it takes nothing of the bandwidth.
        portion = None if export.table else self._bandwidth.portion(now_ms)
        if portion == 0:
            return None
        replay: tuple[int, ...] = ()
        if export.replay_wanted:
            letters = self.letters_of(export.stream)
            wanted = letters.to_replay(*export.key, REPLAY_COUNT_MAX)
            replay = tuple(letter.id for letter in wanted)
            export.replay_wanted = len(replay) == REPLAY_COUNT_MAX
        start = export.next_sequence
        self._count_lost(export, start)
        stop = due(
            export.pace,
            start,
            export.stream.visible_next,
            lambda: oldest_time_ms(export),
            now_ms,
        )
        if isinstance(stop, Waiting):
            stop = start
        elif export.table:
            stop = stop_of_file(export.stream, start, stop)
        grant = Grant(
            next(self._ids),
            start,
            stop,
            portion,
            replay,
        )
        self._grant(export, grant, worker, now_ms)
        return Lease(
            grant.id,
            export.stream.name,
            type(export.config).__name__,
            to_wire(export.config),
            grant.start,
            grant.stop,
            export.tries,
            grant.bytes_max,
            list(grant.replay),
            export.stream.id,
        )

    def _count_lost(self, export: Export, start: int) -> None:
        """Messages that are gone before they were sent are not silently skipped."""
        progress = export.progress
        lost = start - progress.last_exported_sequence - 1
        if lost <= 0:
            return
        log.warning(
            "Export %s of stream %s: messages %d to %d were removed before they were sent.",
            export.config.identifier,
            export.stream.name,
            progress.last_exported_sequence + 1,
            start - 1,
            extra=fields_of(export),
        )
        progress.lost_count += lost
        progress.last_exported_sequence = start - 1
        export.stream.exports.save(progress)

    def _grant(self, export: Export, grant: Grant, worker: object, now_ms: int) -> None:
        self._forget_vacant(export)
        export.lease, export.holder = grant, worker
        export.lease_until_ms = now_ms + FIRST_WORD_MS
        export.progress_at_ms = now_ms
        export.due_since_ms = 0
        export.sent_bytes = 0
        self._ready.pop(export.key, None)
        self._leased[grant.id] = export

    def _held(self, lease_id: int, worker: object) -> Export | None:
        """The export of a lease that a worker speaks of, which keeps it; None if it is lost."""
        now_ms = self._now_ms()
        export = self._leased.get(lease_id)
        if export is None:
            export = self._vacant.get(lease_id)
            if export is None or export.vacant is None:
                return None
            # It has a new connection, and nobody was faster.
            self._bandwidth.owe(export.vacant.bytes_max or 0, now_ms)
            self._grant(export, export.vacant, worker, now_ms)
        export.holder = worker
        export.lease_until_ms = now_ms + LEASE_MS
        return export

    def _vacate(self, export: Export) -> None:
        """Its lease has no holder: it is for everybody, or for the same one if that returns."""
        grant = export.lease
        self._end_lease(export)
        if grant is not None:
            export.vacant = grant
            self._vacant[grant.id] = export
        self._look_at(export)

    def _forget_vacant(self, export: Export) -> None:
        if export.vacant is not None:
            del self._vacant[export.vacant.id]
            export.vacant = None

    def _end_lease(self, export: Export) -> None:
        if export.lease is None:
            return
        self._leased.pop(export.lease.id, None)
        self._bandwidth.settle(export.lease.bytes_max, export.sent_bytes)
        if export.lease.replay:
            export.replay_wanted = True  # what is left of it is found in the store
        export.lease = export.holder = None

    def _count_bytes(self, export: Export, grant: Grant, sent_bytes: int, now_ms: int) -> None:
        """An upload cannot be stopped midway: what goes beyond its portion is owed at once."""
        before_bytes = export.sent_bytes
        export.sent_bytes += sent_bytes
        if grant.bytes_max is not None:
            excess_bytes = export.sent_bytes - max(before_bytes, grant.bytes_max)
            self._bandwidth.owe(max(0, excess_bytes), now_ms)

    def _take_progress(self, export: Export, report: ExportReport, now_ms: int) -> None:
        progress = export.progress
        if report.refused:
            self._bury(export, report.refused, now_ms)
            progress.refused_count += len(report.refused)
        if report.next_sequence_number is not None:
            position = report.next_sequence_number - 1
            progress.last_exported_sequence = max(progress.last_exported_sequence, position)
        progress.exported_count += report.messages
        progress.exported_bytes += report.sent_bytes
        progress.last_export_time_ms = now_ms
        progress.error = report.error or _refusal_text(report.refused)
        export.stream.exports.save(progress)

    def _take_replay(self, export: Export, report: ExportReport, now_ms: int) -> None:
        letters = self.letters_of(export.stream)
        if report.replayed_ids:
            letters.purge(ids=report.replayed_ids)
        if report.refused:
            reasons = {refusal.number: refusal.reason for refusal in report.refused}
            letters.refuse_again(now_ms, reasons)
        progress = export.progress
        progress.exported_count += report.messages
        progress.exported_bytes += report.sent_bytes
        progress.last_export_time_ms = now_ms
        progress.error = report.error or ""
        export.stream.exports.save(progress)

    def _bury(self, export: Export, refused: list[Refusal], now_ms: int) -> None:
        """Keep refused messages before the position passes them."""
        letters = []
        for refusal in refused:
            sequence, reason = refusal.number, refusal.reason
            time_ms, payload = 0, b""
            try:
                for block in export.stream.log.read(sequence, sequence + 1, 1, 1):
                    time_ms, payload = block.last_ingest_time_ms, block.data
            except DataDamaged as error:
                reason = f"{reason}; and its data is damaged: {error}"
            letters.append((sequence, time_ms, reason, payload))
        self.letters_of(export.stream).add(*export.key, now_ms, letters)

    def _replace(self, export: Export, config: ExportConfig) -> None:
        """An export has another configuration now; with another type it is another export."""
        if type(export.config) is not type(config):
            self._remove(export)
            return
        self._end_lease(export)
        self._forget_vacant(export)
        self._ready.pop(export.key, None)

    def _replay_asked_for(self, stream: Stream, key: tuple[str, str]) -> bool:
        """Whether letters wait to be sent again, perhaps since before the server started."""
        return bool(self.letters_of(stream).to_replay(*key, 1))

    def _remove(self, export: Export) -> None:
        if export.lease is not None:
            self._canceled.append(export.lease.id)
        self._end_lease(export)
        self._forget_vacant(export)
        self._ready.pop(export.key, None)
        if self._exports.get(export.key) is export:
            del self._exports[export.key]

    def _set_timer(self, export: Export, at_ms: int) -> None:
        heapq.heappush(self._timers, (at_ms, next(self._ids), export))
        self._on_due()  # whoever sleeps must know the new time


def _refusal_text(refused: list[Refusal]) -> str:
    if not refused:
        return ""
    last = refused[-1]
    return f"message {last.number} was refused and is a dead letter: {last.reason}"


def _urgency(export: Export, now_ms: int) -> tuple[int, int]:
    aged = now_ms - export.due_since_ms > AGING_MS
    return (0 if aged else export.priority, export.due_since_ms)
