"""A cluster reads streams over TCP with a token, and finds what a local session finds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cluster_rig import CLIENT_TOKEN
from exports_rig import numbered
from spark_cluster import EXECUTOR_CONF, SparkCluster
from spark_driver import running_spark

from failure_logs import show_on_failure
from penstock.client.sync import StreamManagerClient
from penstock.model import MessageStreamDefinition, ReadMessagesOptions, StrategyOnFull
from server_process import ServerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MESSAGE_COUNT = 10_000


@pytest.fixture(scope="module")
def guarded_server(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[ServerProcess]:
    """A server that nobody reads without its token, with one stream."""
    server = ServerProcess(
        tmp_path_factory.mktemp("guarded"), env={"PENSTOCK_TOKENS": CLIENT_TOKEN}
    )
    show_on_failure(request, server.log_path)
    with server, StreamManagerClient(port=server.port, auth_token=CLIENT_TOKEN) as client:
        client.create_message_stream(
            MessageStreamDefinition("stream", strategy_on_full=StrategyOnFull.OverwriteOldestData)
        )
        for start in range(0, MESSAGE_COUNT, 5000):
            client.append_messages("stream", numbered(5000, start))
        yield server


def test_a_cluster_reads_what_a_local_session_reads(
    cluster: SparkCluster,
    guarded_server: ServerProcess,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    show_on_failure(request, tmp_path / "cluster.log", tmp_path / "local.log")
    with running_spark(tmp_path / "cluster.log", master=cluster.url, conf=EXECUTOR_CONF) as spark:
        cluster.wait_for_executors(2)
        on_cluster = everything(spark, guarded_server, tmp_path / "on-cluster")
        assert copied(spark, guarded_server) == numbered(MESSAGE_COUNT)
    with running_spark(tmp_path / "local.log") as spark:
        local = everything(spark, guarded_server, tmp_path / "local")
    assert on_cluster == local
    batch, stream = on_cluster
    assert [payload for _, payload, _ in batch] == numbered(MESSAGE_COUNT)
    assert batch == stream


Rows = list[tuple[int, bytes, Any]]


def everything(spark: SparkSession, server: ServerProcess, folder: Path) -> tuple[Rows, Rows]:
    """The stream as a batch in several tasks, and as a query of several micro-batches."""
    options = {
        "servers": f"127.0.0.1:{server.port}",
        "stream": "stream",
        "token": CLIENT_TOKEN,
        "maxMessagesPerPartition": "4000",
    }
    batch = spark.read.format("penstock").options(**options).load()
    assert batch.rdd.getNumPartitions() > 2
    query = (
        spark.readStream.format("penstock")
        .options(**options, maxMessagesPerTrigger=str(MESSAGE_COUNT // 2))
        .load()
        .writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "table"))
    )
    query.awaitTermination()
    assert len([each for each in query.recentProgress if each["numInputRows"]]) == 2
    return rows(batch), rows(spark.read.parquet(str(folder / "table")))


def copied(spark: SparkSession, server: ServerProcess) -> list[bytes]:
    """The messages of a stream that the cluster's executors wrote, in the order of the payloads."""
    address = {"servers": f"127.0.0.1:{server.port}", "token": CLIENT_TOKEN}
    original = spark.read.format("penstock").options(**address, stream="stream").load()
    sink = original.select("payload").write.format("penstock").mode("append")
    sink.options(**address, stream="copy", createStream="true").save()
    with StreamManagerClient(port=server.port, auth_token=CLIENT_TOKEN) as client:
        options = ReadMessagesOptions(0, MESSAGE_COUNT, MESSAGE_COUNT)
        found = [message.payload for message in client.read_messages("copy", options)]
    return sorted(found, key=int)


def rows(frame: Any) -> Rows:
    columns = frame.select("sequence_number", "payload", "ingest_time")
    return sorted((row[0], bytes(row[1]), row[2]) for row in columns.collect())
