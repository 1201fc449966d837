"""Our Spark source beside Spark's own readers and Kafka's, on the same messages, in turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
from pyspark.sql import SparkSession
from tests.environments import InstallationFailed

from bench import kafka
from bench.figures import Figure, ratios
from bench.spark_data import Messages, Reader, from_server, from_topic, make_messages
from bench.spark_session import CORES, spark_session
from penstock.spark import settings

if TYPE_CHECKING:
    from bench.cases import Effort

MESSAGE_COUNT = 1_000_000
PAYLOAD_SIZES = {256: "256 B", 1024: "1 KiB"}
# The JIT needs a few rounds until all of them run evenly.
WARM_UP_ROUNDS = 6
# Spark as it comes, but for how it talks to Python's workers: no other reader here has any.
SETTINGS = {
    key: settings()[key] for key in ("spark.python.unix.domain.socket.enabled", "spark.buffer.size")
}

Measure = Callable[[SparkSession, Reader, int], float]
Rates = dict[str, list[float]]


@dataclass(frozen=True)
class Demand:
    """How many times as fast as another our source shall be."""

    parquet: float
    kafka: float


def batch(folder: Path, effort: Effort) -> list[Figure]:
    """`spark.read` of all messages into a sink that drops them."""
    return _compared(folder, effort, "batch", Demand(parquet=0.9, kafka=3), batch_rate)


def stream(folder: Path, effort: Effort) -> list[Figure]:
    """`spark.readStream` of all messages, availableNow, into a sink that drops them."""
    return _compared(folder, effort, "availableNow", Demand(parquet=0.6, kafka=2), stream_rate)


def tcp(folder: Path, effort: Effort) -> list[Figure]:
    """`spark.read` from a server's files and from the server itself, which shares the cores."""
    figures = []
    with spark_session(folder, SETTINGS) as spark:
        for payload_bytes, size in PAYLOAD_SIZES.items():
            messages = _made(spark, folder, effort, payload_bytes)
            with messages.server() as server:
                served, local = from_server(server.port), messages.local()
                rates = in_turns(spark, messages, [served, local], effort, batch_rate)
            title = f"batch, messages of {size}, over TCP : local files"
            pairs = ratios(rates[served.name], rates[local.name])
            figures += [Figure(title, "times", pairs, at_least=0.4), *_shown(rates)]
    return figures


def batch_rate(spark: SparkSession, reader: Reader, count: int) -> float:
    started = time.perf_counter()
    reader.batch(spark).write.format("noop").mode("overwrite").save()
    return count / (time.perf_counter() - started)


def stream_rate(spark: SparkSession, reader: Reader, count: int) -> float:
    """By the query's own record: all of its micro-batches, and nothing before the first one."""
    query = reader.stream(spark).writeStream.format("noop").trigger(availableNow=True).start()
    query.awaitTermination()
    batches = [progress for progress in query.recentProgress if progress["numInputRows"]]
    assert sum(progress["numInputRows"] for progress in batches) == count
    return count * 1000 / sum(progress["durationMs"]["triggerExecution"] for progress in batches)


def _compared(
    folder: Path, effort: Effort, how: str, demand: Demand, measure: Measure
) -> list[Figure]:
    figures = []
    with ExitStack() as stack:
        jars = _kafka_jars()
        class_path = jars.connector if jars else ""
        spark = stack.enter_context(spark_session(folder, SETTINGS, class_path=class_path))
        address = stack.enter_context(kafka.broker(jars, folder / "kafka")) if jars else None
        for payload_bytes, size in PAYLOAD_SIZES.items():
            messages = _made(spark, folder, effort, payload_bytes)
            ours, parquet = messages.local(), messages.parquet()
            bounds = {parquet: demand.parquet}
            if address is not None:
                bounds[_from_kafka(spark, messages, address)] = demand.kafka
            rates = in_turns(spark, messages, [ours, *bounds, messages.text()], effort, measure)
            for other, at_least in bounds.items():
                title = f"{how}, messages of {size}, {ours.name} : {other.name}"
                pairs = ratios(rates[ours.name], rates[other.name])
                figures.append(Figure(title, "times", pairs, at_least))
            figures += _shown(rates)
    return figures


def _kafka_jars() -> kafka.KafkaJars | None:
    try:
        return kafka.installed()
    except InstallationFailed as error:
        click.echo(f"Kafka cannot be had and is left out: {error}", err=True)
        return None


def _from_kafka(spark: SparkSession, messages: Messages, address: str) -> Reader:
    """With a partition for each core, which was the best of 1, 2 and 4 for two cores."""
    values = messages.parquet().batch(spark).selectExpr("payload AS value")
    return from_topic(kafka.filled_topic(spark, address, values, CORES))


def _made(spark: SparkSession, folder: Path, effort: Effort, payload_bytes: int) -> Messages:
    count = round(MESSAGE_COUNT * effort.share)
    return make_messages(spark, folder / f"messages-{payload_bytes}", count, payload_bytes)


def in_turns(
    spark: SparkSession,
    messages: Messages,
    readers: list[Reader],
    effort: Effort,
    measure: Measure,
) -> Rates:
    """The rates of each reader, by its name."""
    for reader in readers:
        _check_rows(spark, messages, reader)
    rates: Rates = {reader.name: [] for reader in readers}
    for round_number in range(WARM_UP_ROUNDS + effort.repeats):
        for reader in readers:
            rate = measure(spark, reader, messages.count)
            if round_number >= WARM_UP_ROUNDS:
                rates[reader.name].append(rate)
    return rates


def _check_rows(spark: SparkSession, messages: Messages, reader: Reader) -> None:
    """A fast reader that leaves something out is not fast."""
    sums = ("count(*)", f"sum(length({reader.payload}))", f"sum(crc32({reader.payload}))")
    found = reader.batch(spark).selectExpr(*sums).first()
    assert found is not None
    wanted = (messages.count, messages.count * messages.payload_bytes, messages.checksum_sum)
    assert tuple(found) == wanted, f"{reader.name} gives {tuple(found)} instead of {wanted}"


def _shown(rates: Rates) -> Iterator[Figure]:
    for name, values in rates.items():
        yield Figure(f"... {name}", "rows/s", values)
