"""What runs in a Spark task, in a Python worker that lives on from task to task."""

from __future__ import annotations

import base64
import logging
import pickle
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from penstock.client.worker import WorkerClient
from penstock.errors import StreamManagerException
from penstock.export_model import ExportReport, Lease
from penstock.pipeline.export import Destinations, ExportRun
from penstock.pipeline.leases import HeldLeases
from penstock.spark.garbage import spare_what_is_loaded

log = logging.getLogger(__name__)

# A task starts this many threads at once; more would only fight for the interpreter.
THREADS_MAX = 16
# An export without progress for this long is waiting for its destination: the task ends without it,
# the thread goes on and keeps its lease, and neither slot nor neighbours wait.
DETACH_AFTER_S = 1.0
# A job's property, handed to each of its tasks. It holds the token, see context.py: eventLog.
WORK_PROPERTY = "penstock.work"


class Address(NamedTuple):
    """Where the server is, and the pipeline's token."""

    host: str
    port: int
    token: str


class Assignment(NamedTuple):
    """What one task gets."""

    address: Address
    settings: dict[str, Any]
    leases: list[Lease]


def packed_work(assignments: list[Assignment]) -> str:
    """Assignments as the text of a job's property."""
    return base64.b64encode(pickle.dumps(assignments)).decode()


def run_task(number: int, numbers: Iterator[int]) -> Iterator[int]:
    """Work on all leases of a task; how many were finished in its time."""
    from pyspark import TaskContext

    # The whole input is consumed first: Spark gives up a worker whose input was not.
    deque(numbers, 0)
    context = TaskContext.get()
    assert context is not None, "this is a task"
    packed = context.getLocalProperty(WORK_PROPERTY)
    assert packed is not None, "the job has work"
    assignment: Assignment = pickle.loads(base64.b64decode(packed))[number]
    worker = worker_for(assignment.address)
    # Spark gives the task of a dead executor to another. How far it got, the server knows.
    count = worker.give_back(assignment) if context.attemptNumber() else worker.work(assignment)
    spare_what_is_loaded()
    yield count


class Worker:
    """The part of this process that outlives a task."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._client = WorkerClient(
            address.host, address.port, auth_token=address.token, request_timeout=30
        )
        self._destinations = Destinations()
        self._leases = HeldLeases(self._client)

    def work(self, assignment: Assignment) -> int:
        """Run all leases side by side; come back when each is finished or waits for its target."""
        if not assignment.leases:
            return 0
        # Executors of a cluster may come late: a lease that somebody else has now is not touched.
        lost = self._client.renew_leases([lease.lease_id for lease in assignment.leases]).ids
        waiting = deque(lease for lease in assignment.leases if lease.lease_id not in lost)
        if not waiting:
            return 0
        runs = _Runs()
        for _ in range(min(THREADS_MAX, len(waiting))):
            self._start_thread(waiting, assignment.settings, runs)
        while not runs.idle.wait(DETACH_AFTER_S / 4):
            now = time.monotonic()
            for run in runs.detach(now - DETACH_AFTER_S):
                log.debug("Export of stream %s is slow; it goes on alone.", run.lease.stream_name)
                if waiting:
                    self._start_thread(waiting, assignment.settings, runs)
        return runs.finished

    def give_back(self, assignment: Assignment) -> int:
        """Let the server give the leases again, each from where its export is."""
        for lease in assignment.leases:
            self._client.report_export(ExportReport(lease.lease_id, done=True))
        return 0

    def _start_thread(self, waiting: deque[Lease], settings: dict[str, Any], runs: _Runs) -> None:
        runs.thread_started()
        threading.Thread(target=self._work_off, args=(waiting, settings, runs), daemon=True).start()

    def _work_off(self, waiting: deque[Lease], settings: dict[str, Any], runs: _Runs) -> None:
        """One thread: lease after lease, until none is left or one hung and was left behind."""
        while True:
            try:
                lease = waiting.popleft()
            except IndexError:
                runs.thread_ended()
                return
            run = ExportRun(lease, settings, self._client, self._destinations)
            self._leases.add(run)
            runs.begin(run)
            try:
                run.run()
            except StreamManagerException as error:
                log.warning("Export of stream %s stopped: %s", lease.stream_name, error)
            except Exception:  # a thread that ends without a word would keep its task waiting
                log.exception("Export of stream %s failed unexpectedly.", lease.stream_name)
            finally:
                self._leases.remove(run)
                detached = runs.end(run)
            if detached:
                return


class _Runs:
    """The runs of one task, and when to stop waiting for them."""

    def __init__(self) -> None:
        self.idle = threading.Event()
        self.finished = 0
        self._threads = 0
        self._running: set[ExportRun] = set()
        self._lock = threading.Lock()

    def thread_started(self) -> None:
        with self._lock:
            self._threads += 1

    def thread_ended(self) -> None:
        with self._lock:
            self._thread_ended()

    def begin(self, run: ExportRun) -> None:
        with self._lock:
            self._running.add(run)

    def end(self, run: ExportRun) -> bool:
        """A run has ended; whether the task had stopped waiting for it."""
        with self._lock:
            if run not in self._running:
                return True
            self._running.remove(run)
            self.finished += 1
            return False

    def detach(self, last_progress_before: float) -> list[ExportRun]:
        """Stop waiting for the runs that are stuck, and for their threads."""
        with self._lock:
            stuck = [run for run in self._running if run.last_progress < last_progress_before]
            for run in stuck:
                self._running.remove(run)
                self._thread_ended()
            return stuck

    def _thread_ended(self) -> None:
        self._threads -= 1
        if self._threads == 0:
            self.idle.set()


_worker: Worker | None = None
_worker_lock = threading.Lock()


def worker_for(address: Address) -> Worker:
    """The worker of this process. Tasks of one application all talk to the same server."""
    global _worker
    with _worker_lock:
        if _worker is None or _worker.address != address:
            _worker = Worker(address)
        return _worker
