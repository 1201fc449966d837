"""Due exports in, Spark jobs out."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from penstock.client.worker import Work, WorkerClient
from penstock.destinations.base import Blocked
from penstock.errors import StreamManagerException
from penstock.export_model import Lease
from penstock.pipeline.export import trouble_report
from penstock.pipeline.failure import context_stopped, shortened, unfit_executors
from penstock.pipeline.tables import table_of
from penstock.pipeline.task import WORK_PROPERTY, Address, Assignment, packed_work, run_task

if TYPE_CHECKING:
    from pyspark import SparkContext

log = logging.getLogger(__name__)

WATCH_MS = 20_000
# So many leases fit one job; with more due, the next job takes the rest at once.
LEASES_PER_TASK = 50
FAILURE_PAUSE_S = 1.0


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
        start_table: Callable[[Lease, str], None],
        slots: int,
        tasks_per_job_max: int,
        idle_tasks: int,
    ) -> None:
        self._client = client
        self._address = address
        self._submit = submit
        self._start_table = start_table
        self._slots = slots
        self._tasks_per_job_max = tasks_per_job_max
        self._idle_tasks = idle_tasks  # so many reach every executor
        self._free = slots
        self._changed = threading.Condition()
        self._stopped = False
        self.spark_gone = False  # the cluster has ended the application
        self._untold: str | None = None  # why no task can begin, if it took too long to learn it
        # A thread that calls the JVM has its twin there: keep them, a new pair takes 7 ms.
        self._threads = ThreadPoolExecutor(slots, "penstock-jobs")

    def run(self) -> None:
        """Until stop() is called or the server stays away."""
        while (free := self._wait_for_slot()) > 0:
            work = self._client.watch_exports(free * LEASES_PER_TASK, WATCH_MS)
            # Without work tasks that do nothing: Spark ends all workers of an executor when none
            # of them had a task for a minute, and with them the uploads that go on there alone.
            leases = self._without_tables(work)
            if leases and self._untold is not None:
                self._report_unfit(leases, self._untold)
                self._untold = None
                continue
            tasks = packed(leases, min(free, self._tasks_per_job_max))
            self._start_job(tasks or [[]] * min(free, self._idle_tasks), work.settings)

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

    def _without_tables(self, work: Work) -> list[Lease]:
        """Start what goes to tables, which are jobs of their own; the other leases."""
        others = []
        for lease in work.leases:
            table = table_of(lease, work.settings)
            if table is None:
                others.append(lease)
            else:
                self._start_table(lease, table)
        return others

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
                self._job_failed(str(error), assignments)
                self._pause()
        finally:
            with self._changed:
                self._free += len(assignments)
                self._changed.notify_all()

    def _pause(self) -> None:
        """Whatever it was, do not repeat it a hundred times a second."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopped, FAILURE_PAUSE_S)

    def _job_failed(self, text: str, assignments: list[Assignment]) -> None:
        """Say it where people look: in the log, and in the state of exports that cannot begin."""
        if context_stopped(text):
            self.spark_gone = True
            self.stop()
            self._client.close()  # ends the watch that waits
            return
        unfit = unfit_executors(text)
        log.error("A Spark job failed: %s", unfit or shortened(text))
        leases = [lease for each in assignments for lease in each.leases]
        try:
            if unfit is None:
                # Leases that workers have spoken of are taken back when their connections close.
                self._client.give_back_leases([lease.lease_id for lease in leases])
                return
            if not self._report_unfit(leases, unfit):
                self._untold = unfit
        except StreamManagerException as error:
            log.warning("The server does not hear of it: %s", error)

    def _report_unfit(self, leases: list[Lease], text: str) -> bool:
        """Whether the server took it for every lease: it may have taken some back meanwhile."""
        reports = [trouble_report(lease, Blocked(text)) for lease in leases]
        taken = [self._client.report_export(report)[0] for report in reports]
        return all(taken)


def submitter(context: SparkContext) -> Callable[[list[Assignment]], None]:
    """Runs assignments as one Spark job, a task each.

    Jobs are used again, and what is to be done travels as a property. Measured for a task that does
    nothing: 18 ms, and 24 ms for a job that brings its own data. None is used twice at a time:
    Spark ends every job that shares its data with one that failed.
    """
    free_jobs: dict[int, list[Any]] = {}  # by number of tasks

    def new_job(task_count: int) -> Any:
        data = context.parallelize(range(task_count), task_count)
        return data.mapPartitionsWithIndex(run_task)._jrdd

    def submit(assignments: list[Assignment]) -> None:
        names = [lease.stream_name for each in assignments for lease in each.leases]
        shown = ", ".join(names[:5]) + (" ..." if len(names) > 5 else "")
        context.setLocalProperty("spark.job.description", f"{len(names)} exports: {shown}")
        context.setLocalProperty(WORK_PROPERTY, packed_work(assignments))
        free = free_jobs.setdefault(len(assignments), [])
        try:
            job = free.pop()
        except IndexError:
            job = new_job(len(assignments))
        try:
            job.count()
        finally:
            free.append(job)

    return submit
