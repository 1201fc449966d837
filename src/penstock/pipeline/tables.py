"""Exports that go to Parquet tables: a Spark job for each lease, in threads of their own.

A message cannot be refused here, so there are no dead letters but for stored data that is damaged.
"""

from __future__ import annotations

import errno
import glob
import json
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.client.worker import WorkerClient
from penstock.destinations.base import Blocked, DestinationError, LeaseLost, Transient
from penstock.errors import MessageStoreReadErrorException, StoreError, StreamManagerException
from penstock.export_model import DeadLetter, ExportReport, Lease, Refusal
from penstock.log.disk import Disk
from penstock.model import ReadMessagesOptions
from penstock.pipeline.context import session_of
from penstock.pipeline.export import trouble_report
from penstock.pipeline.leases import HeldLeases
from penstock.pipeline.tables_commit import Origin, Range, Share, opened_share
from penstock.pipeline.task import Address

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

# Each takes a slot of its own in Spark, and about 100 MB of Java's heap.
TABLES_AT_ONCE = 2
COLUMNS = ("stream", "sequence_number", "ingest_time", "payload")
SCHEMA = "stream string, sequence_number bigint, ingest_time timestamp, payload binary"
DAY_MS = 24 * 60 * 60 * 1000
ERROR_TEXT_LENGTH_MAX = 500
# Until somebody gives permission, makes room, or moves what is in the way.
FOR_A_PERSON = frozenset(
    (
        *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST, errno.EISDIR),
        *(errno.ENOSPC, errno.EDQUOT, errno.ENAMETOOLONG, errno.ELOOP),
    )
)
TEXT_OF_THE_END = "SparkContext was shut down"
# Java says it in the system's words.
TEXTS_FOR_A_PERSON = ("No space left on device", "Disk quota exceeded", "Permission denied")


def table_of(lease: Lease, settings: dict[str, Any]) -> str | None:
    """The folder of the table that a lease is for, if it is for one."""
    tables: dict[str, str] = settings.get("tables_by_channel", {})
    return tables.get(lease.config.get("iotChannel", ""))


class TableExports:
    """Works on the leases of all tables."""

    def __init__(self, context: SparkContext, address: Address) -> None:
        self._rows = Rows(context, address)
        self._address = address
        self._threads = ThreadPoolExecutor(TABLES_AT_ONCE, "penstock-tables")

    @cached_property
    def _client(self) -> WorkerClient:
        """Made when it is needed: few pipelines have tables."""
        return WorkerClient(self._address.host, self._address.port, auth_token=self._address.token)

    @cached_property
    def _leases(self) -> HeldLeases:
        return HeldLeases(self._client)

    def start(self, lease: Lease, table: str) -> None:
        """Begin as soon as a thread is free; the lease is kept until then."""
        run = TableRun(lease, table, self._client, self._rows)
        self._leases.add(run)
        self._threads.submit(self._work, run)

    def _work(self, run: TableRun) -> None:
        try:
            run.run()
        except StreamManagerException as error:
            log.warning("Export of stream %s stopped: %s", run.lease.stream_name, error)
        finally:
            self._leases.remove(run)


class TableRun:
    """One lease being worked on."""

    def __init__(self, lease: Lease, table: str, client: WorkerClient, rows: Rows) -> None:
        self.lease = lease
        self.lost = threading.Event()
        self.canceled = False
        self._table = table
        self._client = client
        self._rows = rows

    def run(self) -> None:
        """Write what the lease is for; the server is told in any case."""
        if self.lost.is_set():
            return  # while it waited for a thread
        try:
            with opened_share(Disk(), self._table, self._origin()) as share:
                report = self._replay(share) if self.lease.dead_letter_ids else self._write(share)
            self._client.report_export(report)
        except LeaseLost:
            return
        except DestinationError as error:
            self._report(error)
        except (OSError, StoreError) as error:
            self._report(trouble_with_table(self._table, error))
        except StreamManagerException:
            raise  # the server is away: it takes the lease back by itself
        except Exception as error:  # noqa: BLE001  our own defect must be seen
            self._report(Transient(f"unexpected {type(error).__name__}: {error}"))

    def _origin(self) -> Origin:
        lease = self.lease
        return Origin(
            lease.stream_id,
            lease.stream_name,
            str(lease.config["identifier"]),
            str(lease.config["iotChannel"]),
        )

    # --- the range ----------------------------------------------------------------------------

    def _write(self, share: Share) -> ExportReport:
        """Write the first numbers of the lease that are not in the table yet."""
        lease = self.lease
        wanted = share.missing(Range(lease.start, lease.stop))
        known_count = (wanted.start if wanted else lease.stop) - lease.start
        if known_count:
            log.info(
                "Table %s has messages %d to %d of stream %s already.",
                *(self._table, lease.start, lease.start + known_count - 1, lease.stream_name),
            )
        if wanted is None:
            return self._done(lease.stop, Totals(known_count, 0))
        try:
            totals = self._write_range(share, wanted)
        except Damaged:
            stop = self._first_damaged(wanted)
            if stop == wanted.start:
                refusal = Refusal(stop, "its stored data is damaged")
                return self._done(stop + 1, Totals(known_count, 0), refusal)
            wanted = Range(wanted.start, stop)
            totals = self._write_range(share, wanted)
        return self._done(wanted.stop, Totals(known_count + totals.messages, totals.bytes))

    def _write_range(self, share: Share, wanted: Range) -> Totals:
        folder = share.new_folder()
        totals = self._rows.write(
            lambda: self._rows.of_range(self.lease.stream_name, wanted), folder, self._table
        )
        self._check_lease()
        share.commit(folder, [wanted])
        return totals

    def _first_damaged(self, wanted: Range) -> int:
        """The first number that cannot be read."""
        at = wanted.start
        while at < wanted.stop:
            options = ReadMessagesOptions(at, 1, wanted.stop - at, 0)
            try:
                blocks = self._client.read_blocks(self.lease.stream_name, options)
            except MessageStoreReadErrorException:
                return at
            at = blocks[-1].next_sequence
        return wanted.stop

    # --- dead letters -------------------------------------------------------------------------

    def _replay(self, share: Share) -> ExportReport:
        """Write letters of the time before the redirect; those in the table are done already."""
        ids = self.lease.dead_letter_ids
        letters = self._client.find_dead_letters(ids=ids, count_max=len(ids))
        ranges = [Range(each.sequence_number, each.sequence_number + 1) for each in letters]
        new = [each for each, its in zip(letters, ranges, strict=True) if share.missing(its)]
        totals = Totals(0, 0)
        if new:
            folder = share.new_folder()
            totals = self._rows.write(lambda: self._rows.of_letters(new), folder, self._table)
            self._check_lease()
            share.commit(folder, [its for its in ranges if share.missing(its)])
        return ExportReport(
            self.lease.lease_id,
            messages=totals.messages,
            sent_bytes=totals.bytes,
            replayed_ids=[each.id for each in letters],
            done=True,
        )

    # --- reporting ----------------------------------------------------------------------------

    def _report(self, trouble: DestinationError) -> None:
        self._client.report_export(trouble_report(self.lease, trouble))

    def _check_lease(self) -> None:
        """Ask, before rows count: a stream that was made anew meanwhile has other messages."""
        if self.lost.is_set() or self._client.renew_leases([self.lease.lease_id]).ids:
            raise LeaseLost("the export was changed meanwhile", canceled=False)

    def _done(self, position: int, totals: Totals, *refused: Refusal) -> ExportReport:
        return ExportReport(
            self.lease.lease_id,
            next_sequence_number=position,
            messages=totals.messages,
            sent_bytes=totals.bytes,
            refused=list(refused),
            done=True,
        )


class Totals(NamedTuple):
    """What was written."""

    messages: int
    bytes: int


class Damaged(Exception):
    """Spark came across data that is damaged."""


class Rows:
    """Messages as rows, read and written by Spark."""

    def __init__(self, context: SparkContext, address: Address) -> None:
        self._context = context
        self._address = address

    def of_range(self, stream_name: str, wanted: Range) -> DataFrame:
        options = {
            "servers": f"{self._address.host}:{self._address.port}",
            "token": self._address.token,
            "stream": json.dumps([stream_name]),  # as a list: names may have commas
            "startingSequence": wanted.start,
            "endingSequence": wanted.stop,
        }
        return self._session().read.format("penstock").options(**options).load()

    def of_letters(self, letters: Sequence[DeadLetter]) -> DataFrame:
        rows = [
            (
                each.stream_name,
                each.sequence_number,
                datetime.fromtimestamp(each.ingest_time / 1000, UTC),
                bytearray(each.payload),
            )
            for each in letters
        ]
        return self._session().createDataFrame(rows, SCHEMA)

    def _session(self) -> SparkSession:
        session = session_of(self._context)
        # Spark's own default is a type that others read without the time zone, if at all.
        session.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        return session

    def write(self, frame_of: Callable[[], DataFrame], folder: str, table: str) -> Totals:
        """Write rows into a folder, a file for each day of their ingest times.

        Raises Damaged, Transient or Blocked.
        """
        from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException
        from pyspark.sql import Observation
        from pyspark.sql import functions as f

        observation = Observation()
        # From the number, not from the time zone of the session.
        day = f.date_from_unix_date((f.unix_millis("ingest_time") / DAY_MS).cast("int"))
        totals = (f.count(f.lit(1)).alias("messages"), f.sum(f.length("payload")).alias("bytes"))
        self._context.setLocalProperty("spark.job.description", f"rows for the table {table}")
        try:
            # One task, so that a file has all of a day, and only one slot is taken.
            frame = frame_of().select(*COLUMNS, day.cast("string").alias("day")).coalesce(1)
            ordered = frame.observe(observation, *totals).sortWithinPartitions(
                "day", "sequence_number"
            )
            ordered.write.partitionBy("day").parquet(folder)
            observed = observation.get
        except (Py4JJavaError, PySparkException) as error:
            raise trouble_with_job(table, error) from error
        except (Py4JError, ConnectionError) as error:
            raise LeaseLost("Java is gone, and the pipeline with it", canceled=False) from error
        written = Totals(observed["messages"], observed["bytes"] or 0)
        check_files(folder, written.messages, table)
        return written


def check_files(folder: str, row_count: int, table: str) -> None:
    """Rows that a task wrote on another machine are not here, and nobody else would notice."""
    from pyarrow import parquet

    found = sum(
        parquet.read_metadata(path).num_rows for path in glob.glob(f"{folder}/day=*/[!._]*.parquet")
    )
    if found != row_count:
        raise Blocked(
            f"table {table}: Spark has written {row_count} rows and {found} of them are in its "
            "folder on this machine; tables need a pipeline whose tasks run where the driver does: "
            "leave spark_master unset"
        )


def trouble_with_table(table: str, error: OSError | StoreError) -> DestinationError:
    """An error of the disk, and whether to wait for a person."""
    if isinstance(error, StoreError):
        return Blocked(f"table {table}: {error}")
    where = error.filename or table
    text = f"table {table} cannot be written: {error.strerror}: {where}"
    return Blocked(text) if error.errno in FOR_A_PERSON else Transient(text)


def trouble_with_job(table: str, error: Exception) -> Exception:
    """An error of a Spark job, from its deepest cause."""
    text = cause_of(error)[:ERROR_TEXT_LENGTH_MAX]
    if TEXT_OF_THE_END in text:
        return LeaseLost("the pipeline stops", canceled=False)
    if "damaged" in text:
        return Damaged(text)
    if any(known in text for known in TEXTS_FOR_A_PERSON):
        return Blocked(f"table {table} cannot be written: {text}")
    return Transient(f"table {table}: {text}")


def cause_of(error: Any) -> str:
    """What Java says about the first of all causes."""
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    if java is None:
        return str(error)
    while (deeper := java.getCause()) is not None:
        java = deeper
    return str(java.getMessage() or java.toString())
