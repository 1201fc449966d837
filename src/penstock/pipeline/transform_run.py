"""One transform in a thread of its own: started, watched, and started again when it breaks."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec import structs

from penstock.client.worker import WorkerClient
from penstock.errors import PenstockError
from penstock.pipeline.task import Address
from penstock.pipeline.transform_frame import COUNTED_IN, COUNTED_OUT, TransformBroken, said
from penstock.pipeline.transform_letters import malformed_of
from penstock.pipeline.transform_query import (
    Checkpoint,
    begin,
    first_number,
    offset_number,
    range_of,
    remedy,
)
from penstock.transforms.reports import Order, TransformReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery
    from pyspark.sql.streaming.listener import StreamingQueryProgress

log = logging.getLogger(__name__)

RETRY_S_MIN, RETRY_S_MAX = 1.0, 60.0
# What only a person can mend; a stream or a folder that was missing may have come, though.
BLOCKED_RETRY_S = 300.0
# Spark's errors about what a checkpoint holds, and about what it does not.
OF_CHECKPOINT = re.compile("checkpoint|state (store|schema)|stateful operator", re.IGNORECASE)
# The next transform does not wait longer than this for one that starts.
INITIALIZED_WITHIN_S = 30.0
# How often a query is asked what it has done.
LOOK_INTERVAL_S = 0.5
# Payloads of so many messages are looked at in one job, to have few of them in memory at once.
CHECKED_AT_ONCE_MAX = 20_000


@dataclass(frozen=True)
class Surroundings:
    """What all transforms of a pipeline share."""

    session: Callable[[], SparkSession]
    client: WorkerClient
    address: Address
    folder: str
    starting: threading.Lock


class TransformRun:
    """A transform while its order stands."""

    def __init__(self, order: Order, around: Surroundings, after: TransformRun | None) -> None:
        self.order = order
        self._transform = order.transform
        self._around = around
        self._after = after
        self._stopping = threading.Event()
        self._batch_id = -1  # the last one that was looked at
        self._lock = threading.Lock()
        self._report = TransformReport(
            self._transform.name,
            order.generation,
            "starting",
            order.has_run,
            order.fingerprint,
            checked_sequence_number=order.checked_sequence_number,
        )
        self._thread = threading.Thread(
            target=self._run, name=f"transform-{self._transform.name}", daemon=True
        )
        self._thread.start()

    def report(self) -> TransformReport:
        with self._lock:
            return structs.replace(self._report)

    def is_for(self, order: Order) -> bool:
        """Whether this is what is ordered; what the server knows of it comes from here anyway."""
        return (order.transform, order.generation) == (self._transform, self.order.generation)

    def stop(self) -> None:
        """Let it end; the next one of this name waits for it."""
        self._stopping.set()

    def _run(self) -> None:
        if self._after is not None:
            self._after._thread.join()
            self._after = None
        while not self._stopping.is_set():
            self._say(state="starting", next_retry_time=None)
            try:
                self._run_query()
            except Exception as error:  # noqa: BLE001  Spark raises many kinds
                if not self._stopping.is_set():
                    self._pause_after(error)

    def _run_query(self) -> None:
        """Until it is told to stop; what breaks the query is raised."""
        around = self._around
        session = around.session()
        place = Checkpoint(around.folder, self.order)
        start = 0
        if not self._report.has_run and not place.has_begun:
            start = first_number(around.client, self._transform, self.order.start)
            self._say(next_sequence_number=start, checked_sequence_number=start)
        order = structs.replace(
            self.order, has_run=self._report.has_run, fingerprint=self._report.fingerprint
        )
        self._batch_id = -1
        # One after the other: each starts Python processes, and Spark waits 10 s for them only.
        with around.starting:
            query, fingerprint = begin(session, order, around.address, place, start)
            self._wait_until_initialized(query)
        try:
            self._say(state="running")
            while not self._stopping.is_set() and not query.awaitTermination(LOOK_INTERVAL_S):
                self._look_at(query, fingerprint)
        finally:
            query.stop()

    def _wait_until_initialized(self, query: StreamingQuery) -> None:
        deadline = time.monotonic() + INITIALIZED_WITHIN_S
        while (
            str(query.status["message"]).startswith("Initializing")
            and time.monotonic() < deadline
            and not self._stopping.is_set()
            and not query.awaitTermination(0.1)
        ):
            pass

    def _look_at(self, query: StreamingQuery, fingerprint: str) -> None:
        """Take what the query's batches since the last look say."""
        last = query.lastProgress
        if last is None:
            return
        # An idle query shows the number of the batch that it would run next.
        missed = last.batchId > self._batch_id + 1
        batches = [
            progress
            for progress in (query.recentProgress if missed else [last])
            if _is_batch(progress) and progress.batchId > self._batch_id
        ]
        if batches:
            self._say(has_run=True, fingerprint=fingerprint, error=None, tries=0)
        elif not _is_batch(last):
            self._take_idle(last)
        for progress in batches:
            self._take_batch(progress)
            self._batch_id = progress.batchId

    def _take_batch(self, progress: StreamingQueryProgress) -> None:
        first, stop = self._range(progress)
        counted = progress.observedMetrics.get(COUNTED_IN)
        rows_in = counted.rows if counted else 0
        malformed_count = counted.malformed if counted and "malformed" in counted else 0
        written = progress.observedMetrics.get(COUNTED_OUT)
        rows_out = written.rows if written else 0
        took_ms = progress.durationMs.get("triggerExecution", 0)
        lost_count = 0 if first is None or stop is None else max(0, stop - first - rows_in)
        so_far = self.report()
        self._say(
            next_sequence_number=stop if stop is not None else so_far.next_sequence_number,
            rows_in=so_far.rows_in + rows_in,
            rows_out=so_far.rows_out + rows_out,
            lost_messages=so_far.lost_messages + lost_count,
            rows_in_per_second=_finite(progress.inputRowsPerSecond),
            rows_out_per_second=rows_out * 1000 / max(took_ms, 1),
            batch_millis=took_ms,
        )
        if stop is not None:
            self._check(first, stop, malformed_count)

    def _take_idle(self, progress: StreamingQueryProgress) -> None:
        _, stop = self._range(progress)
        self._say(rows_in_per_second=0.0, rows_out_per_second=0.0)
        if stop is not None:
            self._say(next_sequence_number=stop)
            self._check(stop, stop, 0)

    def _range(self, progress: StreamingQueryProgress) -> tuple[int | None, int | None]:
        """The first number of a batch, and the one after its last."""
        source = progress.sources[0]
        stop = offset_number(source.endOffset, self._transform.source)
        first = offset_number(source.startOffset, self._transform.source)
        return (self._report.next_sequence_number if first is None else first), stop

    def _check(self, first: int | None, stop: int, malformed_count: int) -> None:
        """Have the malformed messages below `stop` among the dead letters, before it is noted.

        A batch without any needs no look; one that ended while nobody watched does, as after a
        crash.
        """
        if not self._transform.keeps_letters:
            return
        checked = self._report.checked_sequence_number or 0
        seen = first is not None and first <= checked
        if malformed_count or not seen:
            while checked < stop:
                checked = self._bury(checked, min(stop, checked + CHECKED_AT_ONCE_MAX))
        self._say(checked_sequence_number=max(checked, stop))

    def _bury(self, first: int, stop: int) -> int:
        around = self._around
        messages = range_of(around.session(), self._transform, around.address, first, stop)
        found = malformed_of(messages, self._transform)
        if found:
            log.info("Transform %s: %d malformed messages.", self._transform.name, len(found))
        self._say(checked_sequence_number=stop)
        around.client.report_transforms([structs.replace(self.report(), malformed=found)])
        return stop

    def _pause_after(self, error: Exception) -> None:
        blocked, text = judged(error, self.order)
        tries = self._report.tries + 1
        pause_s = BLOCKED_RETRY_S if blocked else min(RETRY_S_MAX, RETRY_S_MIN * 2 ** (tries - 1))
        log.warning("Transform %s: %s", self._transform.name, text)
        self._say(
            state="blocked" if blocked else "backing off",
            error=text,
            tries=tries,
            next_retry_time=int((time.time() + pause_s) * 1000),
            rows_in_per_second=0.0,
            rows_out_per_second=0.0,
        )
        self._stopping.wait(pause_s)

    def _say(self, **changes: Any) -> None:
        with self._lock:
            self._report = structs.replace(self._report, **changes)


def _is_batch(progress: StreamingQueryProgress) -> bool:
    """Whether a batch was run, with or without messages."""
    return "addBatch" in progress.durationMs


def _finite(rate: float) -> float:
    """Spark divides by the time since the last batch, which may be none."""
    return rate if rate < float("inf") else 0.0


def judged(error: Exception, order: Order) -> tuple[bool, str]:
    """Whether only a person can mend it, and what is wrong, in a sentence or two."""
    from pyspark.errors import AnalysisException

    if isinstance(error, PenstockError):
        return isinstance(error, TransformBroken), str(error)
    text = said(error)
    if OF_CHECKPOINT.search(text) or f"/{order.transform.name}/{order.generation}/" in text:
        return True, f"Spark cannot go on from its checkpoint: {text}. {remedy(order)}"
    return isinstance(error, AnalysisException), f"{text}."
