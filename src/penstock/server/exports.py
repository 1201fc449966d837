"""Exports, seen from the connections: waiting for leases, reports, states, dead letters."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.errors import InvalidRequestException, ResponseStatusCode
from penstock.export_model import DeadLetter, ExportReport, ExportView, PipelineView
from penstock.exporting.bandwidth import Bandwidth
from penstock.exporting.dead_letters import DeadLetters
from penstock.exporting.desk import ExportDesk
from penstock.protocol import codec
from penstock.protocol.operations import (
    DeadLetterSelection,
    FindDeadLettersRequest,
    Operation,
    WatchExportsRequest,
    WatchExportsResponse,
)
from penstock.server.transforms import TransformService
from penstock.transforms.declaration import LETTERS_PREFIX, Transform

if TYPE_CHECKING:
    from penstock.server.tcp import Session

# Clients give up after 60 s; a watch is answered before, if need be with nothing.
WATCH_MS_MAX = 50_000
LETTERS_NAME = "dead-letters.sqlite"
# Letters of memory streams have numbers above this, so that no number is in both stores.
MEMORY_ID_FLOOR = 10**12


@dataclass(eq=False)
class Watcher:
    """A worker that waits for something to do."""

    session: Session
    request: WatchExportsRequest
    timer: asyncio.TimerHandle | None = None


class ExportService:
    """What a server knows and does about exports."""

    def __init__(
        self,
        root: str,
        loop: asyncio.AbstractEventLoop,
        now_ms: Callable[[], int],
        bandwidth_kbps_max: int | None,
        destination_settings: dict[str, Any],
        kinesis_streams_by_channel: dict[str, str],
        tables_by_channel: dict[str, str],
        transforms: Sequence[Transform] = (),
    ) -> None:
        self.pipeline = PipelineView(state="not needed")
        self.look: Callable[[], None] = lambda: None  # exports may have come or gone
        self.desk = ExportDesk(
            DeadLetters(f"{root}/{LETTERS_NAME}"),
            DeadLetters(":memory:", id_floor=MEMORY_ID_FLOOR),
            Bandwidth(bandwidth_kbps_max, now_ms()),
            now_ms,
            self._due,
            kinesis_streams_by_channel,
            tables_by_channel,
        )
        self.transforms = TransformService(root, transforms, self.desk, now_ms)
        self._loop = loop
        self._now_ms = now_ms
        self._settings = destination_settings | {
            "kinesis_streams_by_channel": kinesis_streams_by_channel,
            "tables_by_channel": tables_by_channel,
        }
        self._watchers: list[Watcher] = []
        self._scheduled = False
        self._alarm: asyncio.TimerHandle | None = None

    def watch(self, session: Session, request: WatchExportsRequest) -> None:
        """Answer with leases as soon as there are any, or with none when the time is over."""
        watcher = Watcher(session, request)
        session.on_lost.add(self._worker_lost)
        session.waiting_reads += 1
        self._watchers.append(watcher)
        self._due()  # before the timer, which may be over at once
        wait_s = min(request.wait_millis, WATCH_MS_MAX) / 1000
        watcher.timer = self._loop.call_later(wait_s, self._give_nothing, watcher)

    def report(self, session: Session, report: ExportReport) -> bool:
        session.on_lost.add(self._worker_lost)  # from now on the lease lives with this connection
        return self.desk.report(report, session)

    def renew(self, session: Session, lease_ids: list[int]) -> list[int]:
        session.on_lost.add(self._worker_lost)
        return self.desk.renew(lease_ids, session)

    def give_back(self, session: Session, lease_ids: list[int]) -> None:
        self.desk.give_back(lease_ids, session)

    def canceled(self, lease_ids: list[int]) -> list[int]:
        """Those of lost leases whose export or stream is gone."""
        return [lease_id for lease_id in lease_ids if self.desk.is_canceled(lease_id)]

    def views(self) -> list[ExportView]:
        return self.desk.views()

    def find_letters(self, request: FindDeadLettersRequest) -> list[DeadLetter]:
        found: list[DeadLetter] = []
        for letters in self.desk.all_letters():
            found += letters.find(
                request.stream_name,
                request.export_identifier,
                request.ids,
                after_id=request.after_id,
                count_max=request.count_max - len(found),
            )
            if found:
                break  # the other store's letters have higher numbers, and are asked for next
        return found

    def replay_letters(self, request: DeadLetterSelection) -> int:
        """Send letters again; how many were asked for. Those of transforms have no way to go."""
        count = transform_count = 0
        for letters in self.desk.all_letters():
            for stream, export in letters.counts():
                if request.stream_name not in (None, stream) or (
                    request.export_identifier not in (None, export)
                ):
                    continue
                chosen_count = letters.count(stream, export, request.ids)
                if export.startswith(LETTERS_PREFIX):
                    transform_count += chosen_count
                    continue
                count += chosen_count
                self.desk.replay(letters.ask_for_replay(stream, export, request.ids))
        if transform_count and not count:
            raise InvalidRequestException(
                "dead letters of a transform cannot be sent again, because its query has passed "
                "them. Append the corrected messages to their stream, and purge the letters"
            )
        return count

    def purge_letters(self, request: DeadLetterSelection) -> int:
        return sum(
            letters.purge(request.stream_name, request.export_identifier, request.ids)
            for letters in self.desk.all_letters()
        )

    def wants_pipeline(self) -> bool:
        return self.desk.wants_worker() or self.transforms.wants_worker()

    def stop(self) -> None:
        """Answer those who wait, and forget nothing."""
        for watcher in list(self._watchers):
            self._give_nothing(watcher)
        if self._alarm is not None:
            self._alarm.cancel()

    def close(self) -> None:
        self.transforms.close()
        for letters in self.desk.all_letters():
            letters.close()

    def keep_house(self) -> None:
        self.transforms.keep_house()
        for letters in self.desk.all_letters():
            letters.enforce_limits(self._now_ms())

    def _due(self) -> None:
        """Something may be due, now or at a new time: look at the end of this turn."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._serve)

    def _serve(self) -> None:
        self._scheduled = False
        self.desk.check_time()
        while self._watchers:
            watcher = self._watchers[0]
            leases = self.desk.take(watcher.session, watcher.request.count_max)
            if not leases:
                break
            self._answer(watcher, WatchExportsResponse(leases=leases, settings=self._settings))
        self._set_alarm()

    def _set_alarm(self) -> None:
        """Wake up when time alone makes something due."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        at_ms = self.desk.next_time_ms(somebody_waits=bool(self._watchers))
        if at_ms is not None:
            delay_s = max(1, at_ms - self._now_ms()) / 1000
            self._alarm = self._loop.call_later(min(delay_s, 3600), self._serve)

    def _give_nothing(self, watcher: Watcher) -> None:
        self._answer(watcher, WatchExportsResponse(leases=[]))

    def _answer(self, watcher: Watcher, response: WatchExportsResponse) -> None:
        self._forget(watcher)
        response.request_id = watcher.request.request_id
        response.status = ResponseStatusCode.Success
        response.error_message = ""
        watcher.session.answer(codec.encode(Operation.WatchExportsResponse, response))

    def _forget(self, watcher: Watcher) -> None:
        self._watchers.remove(watcher)
        watcher.session.waiting_reads -= 1
        if watcher.timer is not None:
            watcher.timer.cancel()

    def _worker_lost(self, session: Session) -> None:
        for watcher in [each for each in self._watchers if each.session is session]:
            self._forget(watcher)
        self.desk.worker_gone(session)
