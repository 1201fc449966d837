"""Make the class-data archive that halves the JVM's start: `python -m penstock.pipeline.archive`.

Runs once, after the first start, at low priority. A JVM that does a little of everything lists the
classes it loads; a second one writes these to a file, which later JVMs map into memory instead of
reading and checking 400 jars. One JVM could do both, but only as a layer above the archive that
most Javas come with, and that of `penstock[java]` does not.
"""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

from penstock.log.disk import locked_file
from penstock.pipeline.context import connect, session_of
from penstock.pipeline.jvm import (
    Gateway,
    Java,
    archive_path,
    find_java,
    java_command,
    spark_home,
    start_gateway,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def make_in_background() -> subprocess.Popen[bytes] | None:
    """Start making the archive unless it is there or cannot be had."""
    if os.path.exists(archive_path(find_java(), spark_home())):
        return None
    return subprocess.Popen(
        [sys.executable, "-m", "penstock.pipeline.archive"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def make() -> str:
    """Make the archive, unless it is there or somebody else is making it; where it is."""
    java, home = find_java(), spark_home()
    path = archive_path(java, home)
    if not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with contextlib.suppress(BlockingIOError), locked_file(f"{path}.lock", write=True):
            _make(java, home, path)
    return path


def _make(java: Java, home: str, path: str) -> None:
    for left_behind in glob.glob(f"{glob.escape(path)}-*"):
        shutil.rmtree(left_behind)
    prefix = f"{os.path.basename(path)}-"
    with tempfile.TemporaryDirectory(prefix=prefix, dir=os.path.dirname(path)) as folder:
        classes = os.path.join(folder, "classes")
        archive = os.path.join(folder, "archive")
        _do_everything(start_gateway(java, home, [f"-XX:DumpLoadedClassList={classes}"]), folder)
        flags = [
            *("-Xshare:dump", "-Xlog:disable"),
            *(f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={archive}"),
        ]
        subprocess.run(java_command(java, home, flags), check=True, stdout=subprocess.DEVNULL)
        os.rename(archive, path)


def _do_everything(gateway: Gateway, folder: str) -> None:
    """A little of all that a pipeline does: exports, tables, transforms."""
    try:
        context = connect(gateway, "local[1]")
        context.parallelize([1], 1).mapPartitions(list).collect()
        _write_table(session_of(context), f"{folder}/table")
        _run_query(session_of(context), f"{folder}/table", f"{folder}/query")
        context.stop()
    finally:
        gateway.stop()


def _write_table(spark: SparkSession, table: str) -> None:
    rows = spark.range(10).selectExpr(
        "timestamp_seconds(id) AS time", "to_json(struct(id)) AS text"
    )
    rows.write.parquet(table)


def _run_query(spark: SparkSession, table: str, folder: str) -> None:
    spark.readStream.schema("time TIMESTAMP, text STRING").parquet(table).createTempView("source")
    frame = spark.sql("SELECT time, from_json(text, 'id BIGINT').id AS id FROM source")
    frame.withWatermark("time", "1 second").createTempView("ids")
    counts = spark.sql("SELECT window(time, '1 second') AS w, avg(id) FROM ids GROUP BY w")
    query = counts.writeStream.trigger(availableNow=True)
    query.option("checkpointLocation", f"{folder}/state").start(f"{folder}/rows").awaitTermination()


if __name__ == "__main__":
    with contextlib.suppress(OSError):
        os.nice(10)
    print(make())
