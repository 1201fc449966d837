"""A Spark context for exports: embedded, or on a cluster by one setting."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from penstock.pipeline.jvm import Gateway, archive_path, find_java, spark_home, start_gateway

if TYPE_CHECKING:
    from pyspark import SparkContext


def start_context(
    master: str, *, ui: bool = False, jvm_args: str = ""
) -> tuple[SparkContext, Gateway]:
    """Start Spark. SparkUnavailable says what is missing."""
    home = spark_home()
    java = find_java()
    archive = archive_path(java, home)
    flags = jvm_args.split()
    if os.path.exists(archive):
        flags.append(f"-XX:SharedArchiveFile={archive}")
    gateway = start_gateway(java, home, flags)
    return connect(gateway, master, ui=ui), gateway


def connect(gateway: Gateway, master: str, *, ui: bool = False) -> SparkContext:
    """The Python side of a running JVM."""
    from pyspark import SparkConf, SparkContext, accumulators

    # The JVM ends before we do, and this server would print a traceback when its peer goes.
    for kind in (accumulators.AccumulatorTCPServer, accumulators.AccumulatorUnixServer):
        kind.handle_error = lambda *_: None

    os.environ["PYSPARK_GATEWAY_PORT"] = str(gateway.port)
    os.environ["PYSPARK_GATEWAY_SECRET"] = gateway.secret
    # Workers must be the interpreter that has Penstock.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    conf = SparkConf().setMaster(master).setAppName("Penstock exports")
    for key, value in {
        "spark.ui.enabled": str(ui).lower(),
        # One-task jobs take 30 ms with it and 80 ms without.
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.worker.reuse": "true",
        # Retrying is the scheduler's work: it knows what was delivered.
        "spark.task.maxFailures": "1",
        "spark.driver.bindAddress": "127.0.0.1" if master.startswith("local") else "0.0.0.0",
        "spark.cleaner.periodicGC.interval": "10min",
        "spark.shuffle.service.enabled": "false",
        # Jobs come by the dozen in a second: the last ones are enough for the web page.
        "spark.ui.retainedJobs": "100",
        "spark.ui.retainedStages": "100",
        "spark.ui.retainedTasks": "1000",
    }.items():
        conf = conf.setIfMissing(key, value)
    # Spark writes the properties of jobs there as they are, and ours hold the pipeline's token.
    conf = conf.set("spark.eventLog.enabled", "false")
    if master.startswith("local"):
        conf = conf.setIfMissing("spark.driver.host", "127.0.0.1")
    return SparkContext(conf=conf)
