"""A Spark of our own for a case, in a JVM that ends with it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

import penstock.spark

CORES = 2
# What a laptop spares. Parquet, text and Kafka live on this heap too.
HEAP = "2g"


@contextmanager
def spark_session(
    folder: Path, settings: Mapping[str, str], *, class_path: str = ""
) -> Iterator[SparkSession]:
    """Spark as `pip install pyspark` gives it, with these settings and our format."""
    # Workers must be the interpreter that has Penstock.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{CORES}]").appName("Penstock bench")
    for key, value in {
        "spark.driver.memory": HEAP,
        "spark.driver.extraClassPath": class_path,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(folder / "spark"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        **settings,
    }.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        penstock.spark.register(spark)
        yield spark
    finally:
        spark.stop()
        _end_jvm()


def _end_jvm() -> None:
    """pyspark keeps the JVM for the next session of this process, whose heap and classes differ."""
    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()  # what the JVM waits for
    gateway.proc.wait()
    SparkContext._gateway = SparkContext._jvm = None
