"""The same messages in several forms: a store, Parquet files, text files, a Kafka topic."""

from __future__ import annotations

import base64
import random
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from tests.server_process import ServerProcess

from bench.kafka import Topic
from bench.spark_session import CORES
from penstock import StreamManagerClient
from penstock.model import MessageStreamDefinition, StrategyOnFull

STREAM = "bench"
STORE_BYTES_MAX = 1 << 34
CHUNK_COUNT = 10_000
APPEND_COUNT = 1000
FIRST_TIME = datetime(2026, 1, 1, tzinfo=UTC)
COLUMNS = "stream STRING, sequence_number BIGINT, ingest_time TIMESTAMP, payload BINARY"
ARROW_SCHEMA = pa.schema(
    {
        "stream": pa.string(),
        "sequence_number": pa.int64(),
        "ingest_time": pa.timestamp("us", tz="UTC"),
        "payload": pa.binary(),
    }
)


@dataclass(frozen=True)
class Reader:
    """One way for Spark to get at the messages."""

    name: str
    format: str
    options: Mapping[str, str] = field(hash=False)
    payload: str = "payload"  # the column
    schema: str = ""  # only where a stream cannot find out by itself

    def batch(self, spark: SparkSession) -> DataFrame:
        return spark.read.format(self.format).options(**self.options).load()

    def stream(self, spark: SparkSession, **options: str) -> DataFrame:
        reader = spark.readStream.format(self.format).options(**self.options, **options)
        return (reader.schema(self.schema) if self.schema else reader).load()


@dataclass(frozen=True)
class Messages:
    """The folder in which the same messages are a store, Parquet files and text files."""

    folder: Path
    count: int
    payload_bytes: int
    checksum_sum: int  # of the CRC-32 of each payload

    def server(self) -> ServerProcess:
        """A server on the store, to be started."""
        return ServerProcess(self.folder)

    def local(self) -> Reader:
        return from_folder(self.server().data_dir)

    def parquet(self) -> Reader:
        options = {"path": str(self.folder / "parquet")}
        return Reader("Parquet", "parquet", options, schema=COLUMNS)

    def text(self) -> Reader:
        return Reader("text", "text", {"path": str(self.folder / "text")}, payload="value")


def from_folder(data_dir: Path) -> Reader:
    return Reader("our source, local files", "penstock", {"path": str(data_dir), "stream": STREAM})


def from_server(port: int) -> Reader:
    options = {"servers": f"127.0.0.1:{port}", "stream": STREAM}
    return Reader("our source, over TCP", "penstock", options)


def from_topic(topic: Topic) -> Reader:
    count = topic.partition_count
    name = f"Kafka, {count} partition" + "s" * (count > 1)
    return Reader(name, "kafka", topic.options, payload="value")


def make_messages(spark: SparkSession, folder: Path, count: int, payload_bytes: int) -> Messages:
    """All forms at once; Parquet and text in the files that Spark itself writes."""
    folder.mkdir()
    checksum_sum = 0
    origin = folder / "origin.parquet"
    with (
        ServerProcess(folder) as server,
        StreamManagerClient(port=server.port) as client,
        pq.ParquetWriter(origin, ARROW_SCHEMA) as writer,
    ):
        definition = MessageStreamDefinition(
            STREAM, max_size=STORE_BYTES_MAX, strategy_on_full=StrategyOnFull.RejectNewData
        )
        client.create_message_stream(definition)
        for first in range(0, count, CHUNK_COUNT):
            payloads = _payloads(first, min(CHUNK_COUNT, count - first), payload_bytes)
            for start in range(0, len(payloads), APPEND_COUNT):
                client.append_messages(STREAM, payloads[start : start + APPEND_COUNT])
            writer.write_table(_table(first, payloads))
            checksum_sum += sum(map(zlib.crc32, payloads))
    frame = spark.read.parquet(str(origin))
    frame.repartition(CORES).write.parquet(str(folder / "parquet"))
    frame.selectExpr("CAST(payload AS STRING)").write.text(str(folder / "text"))
    origin.unlink()
    return Messages(folder, count, payload_bytes, checksum_sum)


def _payloads(seed: int, count: int, payload_bytes: int) -> list[bytes]:
    """Text in one line, for the text reader's sake, that no compression makes much smaller."""
    text = base64.b64encode(random.Random(seed).randbytes(count * payload_bytes))
    return [text[i * payload_bytes : (i + 1) * payload_bytes] for i in range(count)]


def _table(first: int, payloads: list[bytes]) -> pa.Table:
    numbers = range(first, first + len(payloads))
    times = [FIRST_TIME + timedelta(milliseconds=number) for number in numbers]
    columns = [[STREAM] * len(payloads), list(numbers), times, payloads]
    return pa.table(columns, schema=ARROW_SCHEMA)
