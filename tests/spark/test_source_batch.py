"""`spark.read.format("penstock")` in a real session."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from stores import (
    TIME_MS,
    append,
    flip_bit,
    make_store,
    make_stream,
    numbered,
    open_store,
    stream_folder,
)

from penstock import StreamManagerClient
from server_process import ServerProcess


def read(spark: SparkSession, **options: str) -> DataFrame:
    return spark.read.format("penstock").options(**options).load()


def numbers(frame: DataFrame) -> list[int]:
    return sorted(row.sequence_number for row in frame.select("sequence_number").collect())


def scanned_count(frame: DataFrame) -> int:
    """How many rows the source gave to Spark for this frame, before Spark's own filters."""
    frame._jdf.queryExecution().toRdd().count()
    plan = frame._jdf.queryExecution().executedPlan()
    while plan.children().size():
        plan = plan.children().head()
    return int(plan.metrics().apply("numOutputRows").value())


def test_a_server_and_its_folder_give_the_same_rows(
    spark: SparkSession, server: ServerProcess, client: StreamManagerClient, make_stream: Any
) -> None:
    name = make_stream(numbered(20_000))
    message = client.read_messages(name)[0]

    over_tcp = read(spark, servers=f"127.0.0.1:{server.port}", stream=name)
    from_files = read(spark, path=str(server.data_dir), stream=name)

    assert over_tcp.schema.simpleString() == (
        "struct<stream:string,sequence_number:bigint,ingest_time:timestamp,payload:binary>"
    )
    rows = over_tcp.orderBy("sequence_number").collect()
    assert [bytes(row.payload) for row in rows] == numbered(20_000)
    assert from_files.orderBy("sequence_number").collect() == rows
    assert rows[0].stream == name
    assert message.ingest_time is not None
    moment = over_tcp.select(f.unix_millis("ingest_time")).head()
    assert moment is not None
    assert moment[0] == message.ingest_time


def test_load_takes_the_folder_as_its_path(spark: SparkSession, tmp_path: Path) -> None:
    make_store(tmp_path, S=numbered(3))

    assert spark.read.format("penstock").option("stream", "S").load(str(tmp_path)).count() == 3


def test_several_places_have_a_column_that_tells_them_apart(
    spark: SparkSession, tmp_path: Path
) -> None:
    for name, count in (("a", 2), ("b", 3)):
        make_store(tmp_path / name, S=numbered(count), T=numbered(count))

    frame = read(spark, path=f"{tmp_path}/*", stream="S", filterPushdown="true")

    assert frame.columns[0] == "server"
    counts = {row.server: row["count"] for row in frame.groupBy("server").count().collect()}
    assert counts == {f"{tmp_path}/a": 2, f"{tmp_path}/b": 3}
    assert scanned_count(frame.filter(f.col("server").endswith("/b"))) == 3


def test_starts_and_ends_choose_what_is_read(spark: SparkSession, tmp_path: Path) -> None:
    with open_store(tmp_path) as manager:
        for name in ("S", "T"):
            stream = make_stream(manager, name)
            for number in range(20):
                append(stream, [b"x"], TIME_MS + 1000 * number)
    path = {"path": str(tmp_path), "stream": "S"}
    five = datetime.fromtimestamp(TIME_MS / 1000 + 5, UTC).isoformat()

    assert numbers(read(spark, **path, startingSequence="15")) == [15, 16, 17, 18, 19]
    assert numbers(read(spark, **path, endingSequence="3")) == [0, 1, 2]
    assert numbers(read(spark, **path, startingSequence="latest")) == []
    times = {"startingTime": five, "endingTime": str(TIME_MS + 7000)}
    assert numbers(read(spark, **path, **times)) == [5, 6]
    both = read(
        spark,
        path=str(tmp_path),
        stream="S,T",
        startingSequence='{"S": 18, "T": 19}',
        endingSequence='{"T": "latest"}',
    )
    assert sorted((row.stream, row.sequence_number) for row in both.collect()) == [
        ("S", 18),
        ("S", 19),
        ("T", 19),
    ]


def test_filters_keep_the_source_from_reading_what_they_refuse(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Everything outside is damaged: to read any of it would be an error."""
    with open_store(tmp_path) as manager:
        stream = make_stream(manager, stream_segment_size=1024)
        for number in range(200):
            append(stream, [b"x" * 100], TIME_MS + 1000 * (number // 2))
    for index in sorted(stream_folder(tmp_path).glob("*.data")):
        if not 40 <= int(index.stem) < 100:
            flip_bit(index, 150)
    options = {"path": str(tmp_path), "stream": "S"}
    frame = read(spark, **options, filterPushdown="true")
    at = f.timestamp_millis(f.lit(TIME_MS + 30_000))

    by_number = frame.filter("sequence_number > 60 and sequence_number <= 63")
    by_numbers = frame.filter("sequence_number in (70, 72)")
    by_time = frame.filter((f.col("ingest_time") >= at) & (f.col("ingest_time") <= at))
    other_stream = frame.filter("stream = 'T'")

    assert numbers(by_number) == [61, 62, 63]
    assert scanned_count(by_number) <= 4
    assert numbers(by_numbers) == [70, 72]
    assert scanned_count(by_numbers) == 3
    assert numbers(by_time) == [60, 61]
    assert scanned_count(by_time) == 2
    assert numbers(other_stream) == []
    with pytest.raises(PySparkException, match="are damaged"):
        numbers(read(spark, **options))


def test_one_frame_can_be_used_with_many_filters_in_one_query_and_in_many(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Not with filterPushdown: Spark would read for all of them what one of them needs."""
    frame = read(spark, path=str(make_store(tmp_path, S=numbered(100))), stream="S")

    assert frame.filter("sequence_number < 5").count() == 5
    assert frame.count() == 100
    both = frame.filter("sequence_number < 5").union(frame.filter("sequence_number >= 98"))
    assert numbers(both) == [0, 1, 2, 3, 4, 98, 99]


def test_a_filter_on_time_over_tcp_leaves_nothing_out_though_the_clock_stepped_back(
    spark: SparkSession, tmp_path: Path
) -> None:
    times = [5, 1, 9, 2, 8, 3]
    with open_store(tmp_path / "data") as manager:
        stream = make_stream(manager)
        for time_ms in times:
            append(stream, [b"x"], TIME_MS + time_ms)
    with ServerProcess(tmp_path) as server:
        address = f"127.0.0.1:{server.port}"
        frame = read(spark, servers=address, stream="S", filterPushdown="true")
        late = f.col("ingest_time") >= f.timestamp_millis(f.lit(TIME_MS + 5))
        none = f.col("ingest_time") >= f.timestamp_millis(f.lit(TIME_MS + 10))

        assert numbers(frame.filter(late)) == [0, 2, 4]
        assert scanned_count(frame.filter(none)) == 0


def test_a_store_is_read_while_its_server_writes_to_it(
    spark: SparkSession, server: ServerProcess, client: StreamManagerClient, make_stream: Any
) -> None:
    name = make_stream(numbered(1))
    stop = threading.Event()

    def write() -> None:
        with StreamManagerClient(port=server.port) as own:
            written = 1
            while not stop.is_set():
                own.append_messages(name, numbered(10, written))
                written += 10

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(3):
            rows = read(spark, path=str(server.data_dir), stream=name).collect()
            payloads = [bytes(row.payload) for row in sorted(rows, key=lambda r: r[1])]
            assert payloads == numbered(len(rows))
    finally:
        stop.set()
        writer.join()
    assert len(rows) > 1


def test_partitions_are_as_large_as_the_option_says(spark: SparkSession, tmp_path: Path) -> None:
    make_store(tmp_path, S=numbered(1000))
    path = {"path": str(tmp_path), "stream": "S"}

    assert read(spark, **path).rdd.getNumPartitions() == 1
    frame = read(spark, **path, maxMessagesPerPartition="250")
    assert frame.rdd.getNumPartitions() == 4
    assert frame.groupBy(f.spark_partition_id()).count().select("count").distinct().collect() == [
        (250,)
    ]


def test_a_stream_without_messages_has_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    assert read(spark, path=str(make_store(tmp_path, S=[])), stream="S").collect() == []


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"path": "/nowhere", "stream": "S"}, "option path: /nowhere is not a folder"),
        ({"servers": "127.0.0.1:1", "stream": "S"}, "server 127.0.0.1:1 cannot be reached"),
        ({"servers": "h:1", "stream": "S", "topic": "T"}, "option topic is not known"),
        ({"servers": "h:1", "stream": "S", "maxMessagesPerTrigger": "1"}, "spark.readStream only"),
        ({"path": "STORE", "stream": "T"}, "there is no stream T at .*; there are S"),
        ({"path": "STORE", "stream": "T*"}, "there is no stream T"),
        ({"path": "STORE/*", "stream": "S"}, "matches no Penstock data directory"),
        ({"path": "STORE", "stream": "S", "startingSequence": "9"}, "startingSequence cannot be 9"),
    ],
)
def test_what_is_wrong_is_said_before_any_stack_trace(
    spark: SparkSession, tmp_path: Path, options: dict[str, str], text: str
) -> None:
    make_store(tmp_path, S=[b"x"])
    options = {key: value.replace("STORE", str(tmp_path)) for key, value in options.items()}

    with pytest.raises(AnalysisException) as caught:
        read(spark, **options).collect()

    first_line = str(caught.value).splitlines()[0]
    assert text.split(".*")[0] in first_line
    assert "Traceback" not in str(caught.value)


def test_damage_met_by_a_task_is_said_with_file_and_byte_before_any_stack_trace(
    spark: SparkSession, tmp_path: Path
) -> None:
    make_store(tmp_path, S=[b"0123456789"] * 50)
    (data,) = stream_folder(tmp_path).glob("*.data")
    flip_bit(data, 205)

    with pytest.raises(PySparkException) as caught:
        read(spark, path=str(tmp_path), stream="S").collect()

    text = str(caught.value)
    assert f"messages 20 to 20 are damaged ({data} from byte 200" in text
    assert "Traceback" not in text.partition("messages 20 to 20")[0]


def test_a_schema_of_the_users_own_is_refused_with_what_to_do(spark: SparkSession) -> None:
    options = {"servers": "h:1", "stream": "S"}

    with pytest.raises(AnalysisException, match=r"leave out .schema\(\).*from_json"):
        spark.read.format("penstock").schema("temperature double").options(**options).load().count()
