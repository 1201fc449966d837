"""S3 tasks: each message names a file and the object that it becomes.

Success, Failure, Canceled   final: one of them for each execution of a task
Failure     the task itself cannot work: its file, key, bucket, or the right to it. It is refused
Canceled    the export is gone while the task runs, or before
Otherwise   the network, a throttle: raised. The next call takes the same upload up again
Uploads     in parts are aborted when their task fails or is canceled. When the process dies, the
            next one finds the upload, compares its parts, and sends only what is missing
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from io import FileIO

from penstock.destinations.aws import Denied, Missing, Service
from penstock.destinations.base import (
    Batch,
    BatchLimits,
    Context,
    Delivery,
    DestinationError,
    LeaseLost,
    Timeouts,
    Transient,
)
from penstock.destinations.parts import RequestRefused, one_by_one, send_in_parts
from penstock.destinations.s3_status import StatusReporter
from penstock.destinations.s3_task import (
    TaskInvalid,
    allowed_path,
    key_at,
    metadata_of,
    parsed_task,
    path_of,
)
from penstock.destinations.s3_upload import (
    REQUESTS_MAX,
    Multipart,
    ObjectUpload,
    Part,
    Source,
    parts_of,
    side_by_side,
)
from penstock.model import (
    GIB,
    S3ExportTaskDefinition,
    S3ExportTaskExecutorConfig,
    Status,
    StatusLevel,
)

LOG = logging.getLogger("penstock.destinations.s3")

# The service knows the upload, or parts of it, no more: by a rule of the bucket, or because it was
# completed and we never got the answer. It begins again.
START_OVER_CODES = frozenset(("NoSuchUpload", "InvalidPart"))


@dataclass
class Run:
    """A task between its start and its end. It outlives failures that pass."""

    number: int
    ingest_time_ms: int
    payload: bytes
    task: S3ExportTaskDefinition | None = None
    upload: ObjectUpload | None = None
    multipart: Multipart | None = None
    announced: bool = False
    # Success or Failure and the text for it, once there is no more to do than to say so.
    outcome: tuple[Status, str] | None = None


class S3Destination:
    """Executes tasks one after another."""

    limits = BatchLimits(1, GIB, GIB)

    def __init__(
        self,
        config: S3ExportTaskExecutorConfig,
        context: Context,
        *,
        timeouts: Timeouts | None = None,
    ) -> None:
        self._multipart_above_bytes = config.size_threshold_for_multipart_upload_bytes
        self._part_bytes_min: int = context.settings["s3_part_bytes_min"]
        self._folders: Sequence[str] = context.settings["read_only_dirs"]
        self._context = context
        self._statuses = StatusReporter(config.status_config, context)
        self._service = Service(
            "s3",
            f"S3 (export {config.identifier})",
            missing="the bucket doesn't exist",
            others_are_refused=True,
            connections=REQUESTS_MAX,
            timeouts=timeouts,
        )
        self._run: Run | None = None

    def send(self, batch: Batch) -> Delivery:
        return send_in_parts(
            batch,
            self._context,
            lambda part: self._execute(
                batch.sequence_numbers[part.start],
                batch.ingest_times_ms[part.start],
                batch.payloads[part.start],
            ),
            one_by_one(batch),
        )

    def cancel(self, batch: Batch, reason: str) -> None:
        """Say of tasks that they will never be executed: their export, or they, are gone.

        The payload of a task that could not be read any more is empty.
        """
        for number, time_ms, payload in zip(
            batch.sequence_numbers, batch.ingest_times_ms, batch.payloads, strict=True
        ):
            run = self._run_of(number, time_ms, payload)
            self._run = None
            self._cancel(run, reason)

    def check(self) -> None:
        """Look for credentials. Buckets are named by the tasks only."""
        self._service.check_credentials()

    def close(self) -> None:
        self._service.close()

    def _execute(self, number: int, ingest_time_ms: int, payload: bytes) -> Delivery:
        run = self._run = self._run_of(number, ingest_time_ms, payload)
        if run.outcome is None:
            run.outcome = self._outcome(run)
        status, text = run.outcome
        # If the server does not answer now, the next call repeats this, and not the upload.
        self._report(run, status, text)
        self._run = None
        return Delivery() if status == Status.Success else Delivery(refused={0: text})

    def _run_of(self, number: int, ingest_time_ms: int, payload: bytes) -> Run:
        """The run that was interrupted, if it is of this task; otherwise a new one."""
        run = self._run
        if run is not None and (run.number, run.payload) == (number, payload):
            return run
        if run is not None:
            self._abort(run)  # The export has moved on without it.
        return Run(number, ingest_time_ms, payload)

    def _outcome(self, run: Run) -> tuple[Status, str]:
        try:
            return Status.Success, self._uploaded(run)
        except RequestRefused as error:
            if error.code in START_OVER_CODES:
                run.multipart = None
                raise Transient(f"the upload begins again: {error}") from error
            return self._failure(run, error)
        except (TaskInvalid, Denied, Missing) as error:
            return self._failure(run, error)
        except LeaseLost as lost:
            if lost.canceled:
                self._run = None
                self._cancel(run, str(lost))
            raise

    def _failure(self, run: Run, error: Exception) -> tuple[Status, str]:
        self._abort(run)
        return Status.Failure, f"{run.upload.place}: {error}" if run.upload else str(error)

    def _uploaded(self, run: Run) -> str:
        """Do it, and tell about it."""
        upload = self._prepared(run)
        source = upload.source
        if not run.announced:
            text = f"The upload of {source.path} to {upload.place} starts."
            self._report(run, Status.InProgress, text)
            run.announced = True
        with source.open() as file:
            if source.size_bytes > self._multipart_above_bytes:
                self._upload_parts(run, upload, file)
            else:
                self._upload_whole(upload, file)
        if not source.unchanged():
            text = f"{source.path} has changed during its upload; {upload.place} may hold a mix."
            self._report(run, Status.Warning, text)
        return f"{source.path} ({source.size_bytes} bytes) is uploaded to {upload.place}."

    def _prepared(self, run: Run) -> ObjectUpload:
        """What is to be done, decided once: the key keeps the time of the first try."""
        if run.task is None:
            run.task = parsed_task(run.payload)
        source = Source.at(allowed_path(path_of(run.task.input_url), self._folders))
        if run.upload is not None and run.upload.source == source:
            return run.upload
        self._abort(run)  # Its parts are of another content.
        key = run.upload.key if run.upload else key_at(run.task.key, time.time_ns())
        run.upload = ObjectUpload(
            self._service,
            run.task.bucket,
            key,
            metadata_of(run.task),
            source,
            self._context.count_file_bytes,
        )
        return run.upload

    def _upload_whole(self, upload: ObjectUpload, file: FileIO) -> None:
        stop = threading.Event()
        jobs = [partial(upload.put, file, stop)]
        side_by_side(jobs, lambda _: None, stop, self._context.keep_alive)

    def _upload_parts(self, run: Run, upload: ObjectUpload, file: FileIO) -> None:
        if run.multipart is None:
            run.multipart = upload.unfinished(run.ingest_time_ms / 1000) or upload.begin()
        multipart = run.multipart
        parts = parts_of(upload.source.size_bytes, self._part_bytes_min)
        stop = threading.Event()

        def jobs() -> Iterator[Callable[[], str]]:
            for part in parts:
                if part.number not in multipart.done:
                    text = f"Part {part.number} of {len(parts)} starts."
                    self._report(run, Status.InProgress, text, StatusLevel.TRACE)
                    yield partial(send_part, part)

        def send_part(part: Part) -> str:
            sent = upload.put_part(multipart, part, file, stop)
            what = "is uploaded" if sent else "had been uploaded before"
            return f"Part {part.number} of {len(parts)} ({part.size_bytes} bytes) {what}."

        def finished(text: str) -> None:
            self._report(run, Status.InProgress, text, StatusLevel.DEBUG)

        side_by_side(jobs(), finished, stop, self._context.keep_alive)
        # The service may need minutes to put the parts together.
        completing = [partial(upload.complete, multipart)]
        side_by_side(completing, lambda _: None, stop, self._context.keep_alive)
        run.multipart = None

    def _cancel(self, run: Run, reason: str) -> None:
        """Clean up and say so. Nobody waits for it: what fails here is logged."""
        text = f"The task is canceled: {reason}"
        if run.task is None and run.payload:
            try:
                run.task = parsed_task(run.payload)
            except TaskInvalid as error:
                text += f" ({error})"
        try:
            self._abort(run)
            self._report(run, Status.Canceled, text)
        except DestinationError as error:
            LOG.warning("The status Canceled of task %d is lost: %s", run.number, error)

    def _abort(self, run: Run) -> None:
        """Take back an upload that will not be finished. To fail here costs storage, no more."""
        multipart, run.multipart = run.multipart, None
        if multipart is None or run.upload is None:
            return
        try:
            run.upload.abort(multipart)
        except DestinationError as error:
            if isinstance(error, RequestRefused) and error.code in START_OVER_CODES:
                return
            text = f"The unfinished upload to {run.upload.place} could not be aborted: {error}"
            LOG.warning("%s", text)
            self._report(run, Status.Warning, text)

    def _report(
        self, run: Run, status: Status, text: str, level: StatusLevel | None = None
    ) -> None:
        self._statuses.report(run.task, run.number, status, text, level)
