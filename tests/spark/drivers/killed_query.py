"""A streaming query with two targets, one of which can be written twice without harm.

Arguments: store, folder to work in, id of the batch in whose middle to wait for the end (-1: none).
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

from pyspark.sql import DataFrame
from spark_driver import running_spark

store, folder, fatal_batch = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])


def write(frame: DataFrame, batch_id: int) -> None:
    numbers = [row.sequence_number for row in frame.select("sequence_number").collect()]
    half = len(numbers) // 2
    with open(folder / "appended.txt", "a") as appended:
        appended.writelines(f"{number}\n" for number in numbers[:half])
        appended.flush()
        (folder / f"batch-{batch_id}.json").write_text(json.dumps(numbers))
        if batch_id == fatal_batch:
            print("midway", flush=True)
            signal.pause()
        appended.writelines(f"{number}\n" for number in numbers[half:])


with running_spark(folder / "spark.log", cores=1) as spark:
    options = {"path": store, "stream": "S", "maxMessagesPerTrigger": "40"}
    stream = spark.readStream.format("penstock").options(**options).load()
    target = stream.writeStream.foreachBatch(write)
    target = target.option("checkpointLocation", str(folder / "checkpoint"))
    target.trigger(availableNow=True).start().awaitTermination()
