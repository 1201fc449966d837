"""The pipeline process: start, watch, stop."""

from __future__ import annotations

import logging
import os
import select
import signal
import sys
import threading
from collections.abc import Mapping

from penstock.client.worker import WorkerClient
from penstock.errors import StreamManagerException, UnknownOperationException
from penstock.pipeline.archive import make_in_background
from penstock.pipeline.context import is_local, start_context, wait_for_executor
from penstock.pipeline.jvm import Gateway, SparkUnavailable
from penstock.pipeline.scheduler import Scheduler, submitter
from penstock.pipeline.tables import TABLES_AT_ONCE, TableExports
from penstock.pipeline.task import Address
from penstock.pipeline.transforms import Transforms

log = logging.getLogger(__name__)

# Exit statuses that the server's supervisor understands, from sysexits.h.
EXIT_UNAVAILABLE = 69  # something must be installed
EXIT_JAVA_GONE = 70  # killed, or out of memory; a new one may fare better
EXIT_SERVER_GONE = 75  # try again later
EXIT_NO_PERMISSION = 77  # the token is wrong
READY_TEXT = "The pipeline is ready"


def run(
    address: Address,
    master: str,
    *,
    slots: int,
    ui: bool = False,
    jvm_args: str = "",
    conf: Mapping[str, str] | None = None,
    follow_parent: bool = False,
) -> int:
    """Export until the server, Java or the parent goes, or a signal comes."""
    try:
        client = WorkerClient(address.host, address.port, auth_token=address.token)
        # A wrong token shows here, before Spark is started.
        transform_count = len(client.report_transforms([]).orders)
        context, gateway = start_context(
            master or f"local[{slots + TABLES_AT_ONCE + transform_count}]",
            ui=ui,
            jvm_args=jvm_args,
            conf=conf,
        )
    except SparkUnavailable as error:
        log.error("%s", error)
        return EXIT_UNAVAILABLE
    except UnknownOperationException:
        log.error("The server does not know the token that this pipeline shows.")
        return EXIT_NO_PERMISSION
    except StreamManagerException as error:
        log.error("The server cannot be reached: %s", error)
        return EXIT_SERVER_GONE
    tables = TableExports(context, address)
    # Waiting is done in threads: more processes at once than processors only get in each other's
    # way. A cluster has processors of its own, and the operator says how many tasks it shall run.
    local = is_local(context.master)
    scheduler = Scheduler(
        client,
        address,
        submitter(context),
        tables.start,
        slots,
        tasks_per_job_max=min(slots, os.cpu_count() or 1) if local else slots,
        idle_tasks=1 if local else slots,
    )
    _stop_on_signals(scheduler, client)
    java_gone = threading.Event()
    threading.Thread(
        target=_end_with_java, args=(gateway, scheduler, client, java_gone), daemon=True
    ).start()
    if follow_parent:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        wait_for_executor(context, lambda: scheduler.stopped)
    except SparkUnavailable as error:
        log.error("%s", error)
        gateway.stop()
        return EXIT_UNAVAILABLE
    log.info("%s: %s%s", READY_TEXT, context.master, f", {context.uiWebUrl}" if ui else "")
    make_in_background()
    transforms = Transforms(context, address)
    if transform_count:
        transforms.start()
    status = 0
    try:
        scheduler.run()
    except StreamManagerException as error:
        if not scheduler.stopped:
            log.error("The server is gone: %s", error)
            status = EXIT_SERVER_GONE
    if scheduler.spark_gone:
        log.error("Spark has stopped: the cluster has ended this application.")
        status = EXIT_JAVA_GONE
    if java_gone.is_set():
        log.error("Java is gone: it ended with status %d.", gateway.process.returncode)
        status = EXIT_JAVA_GONE
    client.close()
    transforms.stop()
    logging.disable()  # jobs that lose Java now would only tell that we stop
    gateway.stop()
    return status


def _stop_on_signals(scheduler: Scheduler, client: WorkerClient) -> None:
    def stop(number: int, frame: object) -> None:
        scheduler.stop()
        client.close()  # ends the watch that waits

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)


def _end_with_java(
    gateway: Gateway, scheduler: Scheduler, client: WorkerClient, gone: threading.Event
) -> None:
    """Without Java every job would fail, and every lease be held for nothing."""
    gateway.process.wait()
    if scheduler.stopped:
        return  # it was told to end
    gone.set()
    scheduler.stop()
    client.close()  # ends the watch that waits


def _end_with_parent() -> None:
    """Standard input is a pipe from the server: when it ends, so do we, and the JVM with us."""
    select.select([sys.stdin], [], [])
    os.kill(os.getpid(), signal.SIGTERM)
