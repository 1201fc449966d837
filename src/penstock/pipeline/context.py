"""A Spark context for exports: embedded, or on a cluster by one setting."""

from __future__ import annotations

import logging
import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from penstock.pipeline.jvm import (
    Gateway,
    SparkUnavailable,
    archive_path,
    find_java,
    spark_home,
    start_gateway,
)

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

MASTER_ANSWERS_S = 10.0
# A busy cluster may be slow, but an operator wants to know.
EXECUTOR_WAIT = "120s"
EXECUTOR_WAIT_CONF = "spark.scheduler.maxRegisteredResourcesWaitingTime"
EXECUTOR_POLL_S = 0.1

SESSION_OPTIONS = {
    # One machine at the edge: a second partition costs more than it brings.
    "spark.sql.shuffle.partitions": "1",
    # Times without a zone mean the same on every machine.
    "spark.sql.session.timeZone": "UTC",
}
_session_lock = threading.Lock()
_session: SparkSession | None = None

# What Spark's settings cannot change here, and why or how else.
FIXED_CONF = {
    "spark.master": "it is --master, or spark_master in the server's settings",
    "spark.driver.memory": "Java runs already when it is read; give -Xmx in jvm_args",
    "spark.driver.extraJavaOptions": "Java runs already when it is read; use jvm_args",
    # Spark writes the properties of jobs there as they are, and ours hold the pipeline's token.
    "spark.eventLog.enabled": "the event log would hold the pipeline's token",
    "spark.speculation": "a second copy of a task would take the exports away from the first",
}


def start_context(
    master: str, *, ui: bool = False, jvm_args: str = "", conf: Mapping[str, str] | None = None
) -> tuple[SparkContext, Gateway]:
    """Start Spark. SparkUnavailable says what is missing, or cannot be."""
    for key in FIXED_CONF.keys() & (conf or {}).keys():
        raise SparkUnavailable(f"{key} cannot be set: {FIXED_CONF[key]}")
    home = spark_home()
    java = find_java()
    archive = archive_path(java, home)
    flags = jvm_args.split()
    if os.path.exists(archive):
        flags.append(f"-XX:SharedArchiveFile={archive}")
    gateway = start_gateway(java, home, flags)
    try:
        return connect(gateway, master, ui=ui, conf=conf), gateway
    except BaseException:
        gateway.stop()
        raise


def is_local(master: str) -> bool:
    """Whether tasks run in the driver's own process, on this machine."""
    return master.startswith("local")


def connect(
    gateway: Gateway, master: str, *, ui: bool = False, conf: Mapping[str, str] | None = None
) -> SparkContext:
    """The Python side of a running JVM. What `conf` says is stronger than our own choice."""
    from pyspark import SparkConf, SparkContext, accumulators

    # The JVM ends before we do, and this server would print a traceback when its peer goes.
    for kind in (accumulators.AccumulatorTCPServer, accumulators.AccumulatorUnixServer):
        kind.handle_error = lambda *_: None

    given = dict(conf or {})
    # Workers must be an interpreter that has Penstock.
    os.environ["PYSPARK_PYTHON"] = given.get("spark.pyspark.python", sys.executable)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    own = {
        "spark.app.name": "Penstock exports",
        # Never used; the default is a folder where the server was started.
        "spark.sql.warehouse.dir": os.path.join(tempfile.gettempdir(), "penstock-warehouse"),
        "spark.ui.enabled": str(ui).lower(),
        # One-task jobs take 30 ms with it and 80 ms without.
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.worker.reuse": "true",
        # What died is tried again once, and then only gives its leases back: see task.py.
        "spark.task.maxFailures": "2",
        "spark.driver.host": driver_host(master),
        "spark.cleaner.periodicGC.interval": "10min",
        "spark.shuffle.service.enabled": "false",
        # Jobs come by the dozen in a second: the last ones are enough for the web page.
        "spark.ui.retainedJobs": "100",
        "spark.ui.retainedStages": "100",
        "spark.ui.retainedTasks": "1000",
    }
    fixed = {
        "spark.master": master,
        "spark.eventLog.enabled": "false",
        "spark.speculation": "false",
    }
    # pyspark keeps the gateway of an earlier context of this process, whose Java is gone.
    SparkContext._gateway = SparkContext._jvm = None
    os.environ["PYSPARK_GATEWAY_PORT"] = str(gateway.port)
    os.environ["PYSPARK_GATEWAY_SECRET"] = gateway.secret
    try:
        return SparkContext(conf=SparkConf().setAll((own | given | fixed).items()))
    finally:
        # This Java is ours: a process that we start must not take it for its own.
        del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]


def driver_host(master: str) -> str:
    """The address at which executors find this process: that from which it reaches the master."""
    if is_local(master):
        return "127.0.0.1"
    troubles = []
    for url in _master_urls(master):
        try:
            with socket.create_connection((url.hostname, url.port), MASTER_ANSWERS_S) as connection:
                return str(connection.getsockname()[0])
        except (OSError, ValueError) as error:
            troubles.append(f"{url.netloc}: {error}")
    if troubles:
        # Spark itself would try for a minute, and then go on with a context that is dead.
        raise SparkUnavailable(f"no Spark master answers at {master} ({'; '.join(troubles)})")
    return socket.getfqdn()  # yarn: its addresses stand in Hadoop's own files


def _master_urls(master: str) -> list[SplitResult]:
    """The addresses in spark://one:7077,two:7077 or k8s://https://host:6443; none in yarn."""
    if master.startswith("spark://"):
        places = master.removeprefix("spark://").split(",")
        return [urlsplit(f"//{place}") for place in places]
    return [urlsplit(master.removeprefix("k8s://"))] if master.startswith("k8s://") else []


def wait_for_executor(context: SparkContext, gone: Callable[[], bool]) -> None:
    """Until a cluster has given us one: a lease taken before would only be held for nothing."""
    if is_local(context.master):
        return
    java_context = context._jsc.sc()
    wait_s = java_context.conf().getTimeAsSeconds(EXECUTOR_WAIT_CONF, EXECUTOR_WAIT)
    deadline = time.monotonic() + wait_s
    # The driver itself counts as one.
    while java_context.getExecutorMemoryStatus().size() < 2 and not gone():
        if time.monotonic() > deadline:
            host = context.getConf().get("spark.driver.host")
            raise SparkUnavailable(
                f"no executor came from {context.master} within {wait_s} s: it may have no node "
                f"with spark.executor.memory and spark.executor.cores to spare, or its nodes "
                f"cannot reach this process at {host} (spark.driver.host)"
            )
        time.sleep(EXECUTOR_POLL_S)


def session_of(context: SparkContext) -> SparkSession:
    """The context's SQL session, made when first asked for; it knows the format "penstock"."""
    global _session
    from pyspark.sql import SparkSession

    from penstock import spark

    with _session_lock:  # transforms and tables ask for it in threads of their own
        if _session is None or _session.sparkContext is not context:
            given = context.getConf()
            options = {**spark.settings(), **SESSION_OPTIONS}
            options = {key: value for key, value in options.items() if not given.contains(key)}
            made = SparkSession.builder.config(map=options).getOrCreate()
            _quiet_query_errors()
            spark.register(made)
            _session = made
        # In the thread that asks: Spark looks for formats in the thread's own session only.
        java_class = SparkSession._get_j_spark_session_class(context._jvm)
        java_class.setActiveSession(_session._jsparkSession)
        return _session


def _quiet_query_errors() -> None:
    """pyspark prints each refused query with its stack, besides raising it."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
