"""Streams as Spark sources and sinks.

    import penstock.spark
    penstock.spark.register(spark)
    spark.read.format("penstock").option("servers", "127.0.0.1:8088").option("stream", "S").load()

Promise     a batch of a streaming query is a range of sequence numbers per stream; read again, it
            gives the same rows. Nothing is left out silently: lost, damaged and unreachable data
            is an error, or a logged one if an option says so.
Bytes       what a server sends or a store folder holds goes to Spark as it is: the index becomes
            Arrow's offsets, the payloads are not copied one by one.
Processes   planning, reading and writing run in different Python processes, none of them the
            user's. What travels between them is a small frozen dataclass.
Read in order   options, places, ranges, arrow, garbage, reader, offsets, stream_reader,
            sink_options, packing, sink, source.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register", "settings"]

# Spark refuses option filterPushdown while this is off, which is its default.
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
PYTHON = "PYSPARK_PYTHON"  # the variable that names the interpreter of Spark's workers


def register(spark: SparkSession) -> None:
    """Make `format("penstock")` known to a session."""
    from penstock.spark.source import PenstockDataSource

    spark.conf.set(PUSHDOWN, "true")
    with _this_python(spark):
        spark.dataSource.register(PenstockDataSource)


@contextmanager
def _this_python(spark: SparkSession) -> Iterator[None]:
    """Have a local session read with the interpreter that has Penstock: this one.

    Unless told otherwise, Spark takes whatever `python3` the path leads to.
    """
    context = getattr(spark, "_sc", None)  # Spark Connect has none
    if context is None or not context.master.startswith("local") or PYTHON in os.environ:
        yield
        return
    chosen = context.pythonExec
    context.pythonExec = sys.executable
    try:
        yield
    finally:
        context.pythonExec = chosen


def settings() -> dict[str, str]:
    """Settings for a session with small, frequent micro-batches, which cost less with them.

    To be given when the session is built. The checkpoint manager needs a file system with an atomic
    rename: a local disk or HDFS, not an object store. Queries that compute much per row want
    `spark.sql.codegen.wholeStage` back.
    """
    package = "org.apache.spark.sql.execution.streaming.checkpointing"
    return {
        PUSHDOWN: "true",
        # A one-task job takes 30 ms with unix sockets and 80 ms over TCP.
        "spark.python.unix.domain.socket.enabled": "true",
        # What passes between Java and Python's workers does so in larger pieces.
        "spark.buffer.size": "262144",
        # The offset and commit logs of a micro-batch take 30 ms with these two, 100 ms without.
        "spark.sql.streaming.checkpointFileManagerClass": (
            f"{package}.FileSystemBasedCheckpointFileManager"
        ),
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
        # To compile code for a few rows takes longer than to interpret it.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.adaptive.enabled": "false",
    }
