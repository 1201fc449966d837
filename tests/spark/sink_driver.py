"""A driver that is killed in the middle of a batch, and one that goes on in its place.

Arguments: port, stream to read, stream to write to, stream for a task that fails, folder.
While the folder has no file `go`, the last message is never finished.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
from pyspark.sql.types import BinaryType

import penstock.spark
from penstock.pipeline.context import start_context

LAST = b"6799 "


def main(port: str, source: str, target: str, retried: str, folder: str) -> None:
    go, checkpoint = f"{folder}/go", f"{folder}/checkpoint"
    is_second = os.path.exists(go)

    @udf(BinaryType())
    def held(payload: bytearray) -> bytes:
        while payload.startswith(LAST) and not os.path.exists(go):
            time.sleep(0.02)
        return bytes(payload)

    @udf(BinaryType())
    def failing_once(payload: bytearray) -> bytes:
        if payload.startswith(LAST) and not os.path.exists(f"{folder}/failed"):
            Path(f"{folder}/failed").touch()
            raise RuntimeError("the task fails, and is tried again")
        return bytes(payload)

    context, gateway = start_context("local[2,3]")
    spark = SparkSession(context)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    penstock.spark.register(spark)
    server = f"local=127.0.0.1:{port}"
    options = {"servers": server, "stream": source, "maxMessagesPerPartition": "3400"}
    if is_second:
        messages = spark.read.format("penstock").options(**options).load()
        rows = messages.select(failing_once("payload").alias("payload"))
        written = rows.write.format("penstock").mode("append")
        written.options(servers=server, stream=retried).save()
    messages = spark.readStream.format("penstock").options(**options).load()
    rows = messages.select(held("payload").alias("payload"))
    written = rows.writeStream.format("penstock").options(servers=server, stream=target)
    written.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    spark.streams.awaitAnyTermination()
    spark.stop()
    gateway.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
