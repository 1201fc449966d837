"""How soon a single message is through a streaming query, with the settings that we ship."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pyarrow import RecordBatch
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType
from tests.server_process import ServerProcess

from bench.figures import Figure
from bench.spark_data import STREAM, Reader, from_folder, from_server
from bench.spark_session import spark_session
from penstock import StreamManagerClient
from penstock.model import MessageStreamDefinition, StrategyOnFull
from penstock.spark import settings

if TYPE_CHECKING:
    from bench.cases import Effort

PAUSE_S = 0.25
SAMPLES = 60
WARM_UP_SAMPLES = 100
TIMEOUT_S = 60.0
POLL_S = 0.001
NOTE = "From before the append to the task of a Python sink that gets the row, in the same clock."


def latency(folder: Path, effort: Effort) -> list[Figure]:
    """One message every quarter of a second, by way of the server's files and by the server."""
    sample_count = max(10, round(SAMPLES * effort.share))
    figures = []
    with (
        spark_session(folder, settings()) as spark,
        ServerProcess(folder) as server,
        StreamManagerClient(port=server.port) as client,
    ):
        spark.dataSource.register(ArrivalSink)
        client.create_message_stream(
            MessageStreamDefinition(STREAM, strategy_on_full=StrategyOnFull.OverwriteOldestData)
        )
        for reader in (from_folder(server.data_dir), from_server(server.port)):
            arrivals = folder / f"arrivals-{len(figures)}"
            with _running(spark, reader, arrivals) as query:
                _latencies_ms(client, arrivals, WARM_UP_SAMPLES)
                latencies_ms = _latencies_ms(client, arrivals, sample_count)
                batches_ms = _batches_ms(query)[-sample_count:]
            title = f"one message, from append to sink, {reader.name}"
            figures += [
                Figure(title, "ms", latencies_ms, at_most=80, note=NOTE),
                Figure("... its micro-batch, by the query's own record", "ms", batches_ms),
            ]
    return figures


class ArrivalSink(DataSource):
    """Notes for each row when it was there, and what it says."""

    @classmethod
    def name(cls) -> str:
        return "arrivals"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        return ArrivalWriter(self.options["file"])


class ArrivalWriter(DataSourceStreamArrowWriter):
    """A line for each row: nanoseconds by the clock that all processes share, and the payload."""

    def __init__(self, path: str) -> None:
        self._path = path

    def write(self, iterator: Iterator[RecordBatch]) -> WriterCommitMessage:
        with open(self._path, "a") as file:
            for rows in iterator:
                arrived_ns = time.monotonic_ns()
                for payload in rows.column("payload").to_pylist():
                    file.write(f"{arrived_ns} {payload.decode()}\n")
        return WriterCommitMessage()


@contextmanager
def _running(spark: SparkSession, reader: Reader, arrivals: Path) -> Iterator[StreamingQuery]:
    """A query on what is appended from now on."""
    arrivals.touch()
    frame = reader.stream(spark, startingSequence="latest")
    writer = frame.writeStream.format("arrivals").option("file", str(arrivals))
    query = writer.option("checkpointLocation", f"{arrivals}-checkpoint").start()
    try:
        query.processAllAvailable()  # it knows now where it starts
        yield query
    finally:
        query.stop()


def _latencies_ms(client: StreamManagerClient, arrivals: Path, count: int) -> list[float]:
    found = []
    for _ in range(count):
        size_before = os.path.getsize(arrivals)
        client.append_message(STREAM, str(time.monotonic_ns()).encode())
        deadline = time.monotonic() + TIMEOUT_S
        while os.path.getsize(arrivals) == size_before:
            if time.monotonic() > deadline:
                raise TimeoutError(f"no row within {TIMEOUT_S} s")
            time.sleep(POLL_S)
        arrived_ns, sent_ns = map(int, arrivals.read_text().splitlines()[-1].split())
        found.append((arrived_ns - sent_ns) / 1e6)
        time.sleep(PAUSE_S)
    return found


def _batches_ms(query: StreamingQuery) -> list[float]:
    """How long the micro-batches with rows took."""
    return [
        progress["durationMs"]["triggerExecution"]
        for progress in query.recentProgress
        if progress["numInputRows"]
    ]
