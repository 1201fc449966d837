"""`spark.readStream.format("penstock")` in a real session."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from stores import append, make_store, make_stream, numbered, open_store

from penstock import StreamManagerClient
from server_process import ServerProcess


class Batches:
    """A foreachBatch target that keeps the numbers of every batch, by its id."""

    def __init__(self) -> None:
        self.by_id: dict[int, list[int]] = {}
        self.arrived = threading.Condition()

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        numbers = sorted(row.sequence_number for row in frame.select("sequence_number").collect())
        with self.arrived:
            self.by_id[batch_id] = numbers
            self.arrived.notify_all()

    def everything(self) -> list[int]:
        return [number for batch_id in sorted(self.by_id) for number in self.by_id[batch_id]]

    def wait_for(self, count: int) -> None:
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.everything()) >= count, 60)


def start(
    spark: SparkSession, checkpoint: Path, target: Batches, *, now: bool = True, **options: str
) -> StreamingQuery:
    frame = spark.readStream.format("penstock").options(**options).load()
    writer = frame.writeStream.foreachBatch(target)
    writer = writer.option("checkpointLocation", str(checkpoint))
    writer = (
        writer.trigger(availableNow=True) if now else writer.trigger(processingTime="0 seconds")
    )
    return writer.start()


def run(spark: SparkSession, checkpoint: Path, **options: str) -> dict[int, list[int]]:
    """Everything that is there now, batch by batch."""
    target = Batches()
    start(spark, checkpoint, target, **options).awaitTermination()
    return target.by_id


def failure(spark: SparkSession, checkpoint: Path, **options: str) -> str:
    with pytest.raises(StreamingQueryException) as caught:
        run(spark, checkpoint, **options)
    return str(caught.value)


def test_available_now_reads_in_several_batches_and_a_restart_goes_on(
    spark: SparkSession, tmp_path: Path, server: ServerProcess, make_stream: Any, client: Any
) -> None:
    name = make_stream(numbered(10))
    options = {"servers": f"a=127.0.0.1:{server.port}", "stream": name}
    checkpoint = tmp_path / "checkpoint"

    first = run(spark, checkpoint, **options, maxMessagesPerTrigger="4")
    client.append_messages(name, numbered(3, 10))
    # Under the same name the server may have moved to another address.
    options["servers"] = f"a=localhost:{server.port}"
    second = run(spark, checkpoint, **options)

    assert first == {0: [0, 1, 2, 3], 1: [4, 5, 6, 7], 2: [8, 9]}
    assert second == {3: [10, 11, 12]}


def test_a_batch_without_a_commit_is_read_again_with_the_same_messages(
    spark: SparkSession, tmp_path: Path
) -> None:
    store, checkpoint = tmp_path / "store", tmp_path / "checkpoint"
    make_store(store, S=numbered(10))
    options = {"path": str(store), "stream": "S"}
    before = run(spark, checkpoint, **options, maxMessagesPerTrigger="6")
    for file in (checkpoint / "commits").glob("*1*"):
        file.unlink()
    with open_store(store) as manager:
        append(manager.get("S"), numbered(5, 10))

    again = run(spark, checkpoint, **options)

    assert before[1] == again[1] == [6, 7, 8, 9]
    assert again[2] == [10, 11, 12, 13, 14]


def test_a_query_that_runs_sees_new_messages_and_new_streams_and_tells_where_it_is(
    spark: SparkSession, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    with open_store(store) as manager:
        stream = make_stream(manager, "S-1")
        append(stream, numbered(2))
        target = Batches()
        options = {"path": str(store), "stream": "S-*"}
        query = start(spark, tmp_path / "checkpoint", target, now=False, **options)
        try:
            target.wait_for(2)
            append(stream, numbered(1, 2))
            target.wait_for(3)
            append(make_stream(manager, "S-2"), numbered(3))
            target.wait_for(6)
            query.processAllAvailable()
            progress = query.lastProgress
        finally:
            query.stop()

    assert target.everything() == [0, 1, 2, 0, 1, 2]
    assert progress is not None
    source = json.loads(progress.json)["sources"][0]
    assert source["endOffset"] == source["latestOffset"] == {str(store): {"S-1": 3, "S-2": 3}}


def test_overwritten_data_is_an_error_or_a_gap_as_the_option_says(
    spark: SparkSession, tmp_path: Path, spark_log: Path
) -> None:
    store, checkpoint = tmp_path / "store", tmp_path / "checkpoint"
    with open_store(store) as manager:
        stream = make_stream(manager, max_size=8192, stream_segment_size=2048)
        append(stream, numbered(20))
        options = {"path": str(store), "stream": "S"}
        run(spark, checkpoint, **options)
        while stream.log.first_sequence <= 50:
            append(stream, numbered(1, stream.log.next_sequence))
        oldest, following = stream.log.first_sequence, stream.log.next_sequence

    text = failure(spark, checkpoint, **options)
    rest = run(spark, checkpoint, **options, failOnDataLoss="false")

    gap = f"messages 20 to {oldest - 1} of stream S at {store} are lost"
    assert gap in text.splitlines()[0]
    assert "Set failOnDataLoss to false" in text.splitlines()[0]
    assert rest == {1: list(range(oldest, following))}
    assert f"{gap}: they were overwritten or expired" in spark_log.read_text()


def test_a_lost_checkpoint_does_not_go_unnoticed(
    spark: SparkSession, tmp_path: Path, spark_log: Path
) -> None:
    store, checkpoint = tmp_path / "store", tmp_path / "checkpoint"
    make_store(store, S=numbered(3))
    options = {"path": str(store), "stream": "S"}
    run(spark, checkpoint, **options)
    shutil.rmtree(checkpoint)
    told_before = spark_log.read_text().count(f"begins: S at {store} from 0")

    assert run(spark, checkpoint, **options) == {0: [0, 1, 2]}
    assert spark_log.read_text().count(f"begins: S at {store} from 0") == told_before + 1


def test_an_offset_of_another_source_is_said_before_any_stack_trace(
    spark: SparkSession, tmp_path: Path
) -> None:
    store, checkpoint = tmp_path / "store", tmp_path / "checkpoint"
    make_store(store, S=numbered(3))
    options = {"path": str(store), "stream": "S"}
    run(spark, checkpoint, **options)
    offsets = checkpoint / "offsets" / "0"
    lines = offsets.read_text().splitlines()
    offsets.write_text("\n".join([*lines[:-1], '{"topic": {"0": "end"}}']))
    for sum_file in (checkpoint / "offsets").glob(".*.crc"):
        sum_file.unlink()

    text = failure(spark, checkpoint, **options)

    assert "offset in the checkpoint is not one of format penstock" in text.splitlines()[0]
    assert "checkpoint location of its own" in text


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"endingSequence": "5"}, "option endingSequence is for spark.read only"),
        ({"stream": "T"}, "there is no stream T"),
        ({"minMessagesPerTrigger": "many"}, "option minMessagesPerTrigger cannot be 'many'"),
    ],
)
def test_what_is_wrong_with_a_query_is_said_before_any_stack_trace(
    spark: SparkSession, tmp_path: Path, options: dict[str, str], text: str
) -> None:
    store = make_store(tmp_path / "store", S=[b"x"])
    given = {"path": str(store), "stream": "S"} | options

    with pytest.raises(Exception, match=text) as caught:
        run(spark, tmp_path / "checkpoint", **given)

    assert text in str(caught.value).splitlines()[0]


def test_two_servers_are_read_by_one_query(
    spark: SparkSession, tmp_path: Path, server: ServerProcess, make_stream: Any
) -> None:
    name = make_stream(numbered(3))
    definition = StreamManagerClient(port=server.port)
    with definition, ServerProcess(tmp_path) as other:
        with StreamManagerClient(port=other.port) as client:
            client.create_message_stream(definition.describe_message_stream(name).definition)
            client.append_messages(name, numbered(2))
        servers = f"a=127.0.0.1:{server.port},b=127.0.0.1:{other.port}"
        target = tmp_path / "rows"
        frame = spark.readStream.format("penstock").options(servers=servers, stream=name).load()
        query = frame.writeStream.format("parquet").option("path", str(target))
        query = query.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query.trigger(availableNow=True).start().awaitTermination()

    rows = spark.read.parquet(str(target)).orderBy("server", "sequence_number").collect()
    assert [(row.server, row.sequence_number) for row in rows] == [
        ("a", 0),
        ("a", 1),
        ("a", 2),
        ("b", 0),
        ("b", 1),
    ]
