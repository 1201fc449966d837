"""Due exports in, Spark jobs out."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from penstock.client.worker import WorkerClient
from penstock.export_model import Lease
from penstock.pipeline.task import WORK_PROPERTY, Address, Assignment, packed_work, run_task

if TYPE_CHECKING:
    from pyspark import SparkContext

log = logging.getLogger(__name__)

WATCH_MS = 20_000
# So many leases fit one job; with more due, the next job takes the rest at once.
LEASES_PER_TASK = 50
# Waiting is done in threads: more processes at once than processors only get in each other's way.
TASKS_PER_JOB_MAX = os.cpu_count() or 1


def packed(leases: Sequence[Lease], task_count_max: int) -> list[list[Lease]]:
    """Leases for tasks: spread evenly, most urgent first, troubled ones in a task of their own.

    An export that failed last time may hang this time. Together in one task such exports cannot
    take every slot, one after the other.
    """
    if task_count_max == 1:
        return [list(leases)]
    troubled = [lease for lease in leases if lease.tries]
    healthy = [lease for lease in leases if not lease.tries]
    tasks = [troubled] if troubled else []
    room = max(1, task_count_max - len(tasks))
    tasks += [part for at in range(room) if (part := healthy[at::room])]
    return tasks


class Scheduler:
    """Asks the server for work and hands it to Spark."""

    def __init__(
        self,
        client: WorkerClient,
        address: Address,
        submit: Callable[[list[Assignment]], None],
        slots: int,
    ) -> None:
        self._client = client
        self._address = address
        self._submit = submit
        self._slots = slots
        self._free = slots
        self._changed = threading.Condition()
        self._stopped = False
        # A thread that calls the JVM has its twin there: keep them, a new pair takes 7 ms.
        self._threads = ThreadPoolExecutor(slots, "penstock-jobs")

    def run(self) -> None:
        """Until stop() is called or the server stays away."""
        while (free := self._wait_for_slot()) > 0:
            work = self._client.watch_exports(free * LEASES_PER_TASK, WATCH_MS)
            # Without work a task that does nothing: Spark ends all workers when none of them had a
            # task for a minute, and with them the uploads that go on there alone.
            tasks = packed(work.leases, min(free, TASKS_PER_JOB_MAX))
            self._start_job(tasks or [[]], work.settings)

    @property
    def stopped(self) -> bool:
        return self._stopped

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _wait_for_slot(self) -> int:
        """How many slots are free; 0 when the work is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._free > 0 or self._stopped)
            return 0 if self._stopped else self._free

    def _start_job(self, tasks: list[list[Lease]], settings: dict[str, Any]) -> None:
        assignments = [Assignment(self._address, settings, leases) for leases in tasks]
        with self._changed:
            self._free -= len(assignments)
        self._threads.submit(self._run_job, assignments)

    def _run_job(self, assignments: list[Assignment]) -> None:
        try:
            self._submit(assignments)
        except Exception as error:  # noqa: BLE001  Spark raises many kinds; leases come back by themselves
            if not self._stopped:
                log.error("A Spark job failed: %s", str(error).partition("\n")[0])
        finally:
            with self._changed:
                self._free += len(assignments)
                self._changed.notify_all()


def submitter(context: SparkContext) -> Callable[[list[Assignment]], None]:
    """Runs assignments as one Spark job, a task each.

    Jobs are made once, one for each number of tasks, and what is to be done travels as a property.
    Measured for a task that does nothing: 18 ms, and 24 ms for a job that brings its own data.
    """
    jobs: dict[int, Any] = {}
    lock = threading.Lock()

    def job_of(task_count: int) -> Any:
        with lock:
            if task_count not in jobs:
                data = context.parallelize(range(task_count), task_count)
                jobs[task_count] = data.mapPartitionsWithIndex(run_task)._jrdd
            return jobs[task_count]

    def submit(assignments: list[Assignment]) -> None:
        names = [lease.stream_name for each in assignments for lease in each.leases]
        shown = ", ".join(names[:5]) + (" ..." if len(names) > 5 else "")
        context.setLocalProperty("spark.job.description", f"{len(names)} exports: {shown}")
        context.setLocalProperty(WORK_PROPERTY, packed_work(assignments))
        job_of(len(assignments)).count()

    return submit
