"""Streams as Spark sinks: what is written, what is refused, and what comes twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from failure_logs import show_on_failure
from penstock import (
    NotEnoughMessagesException,
    ReadMessagesOptions,
    StrategyOnFull,
    StreamManagerClient,
)
from server_process import ServerProcess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MakeStream = Callable[..., str]
DRIVER_TIMEOUT_S = 120
TASK_FAILED = "An exception was thrown from the Python worker:"


def payloads_of(client: StreamManagerClient, stream: str) -> list[bytes]:
    if not client.describe_message_stream(stream).storage_status.total_bytes:
        return []
    options = ReadMessagesOptions(0, 1, 100_000)
    return [message.payload for message in client.read_messages(stream, options)]


def write(rows: DataFrame, server: ServerProcess, stream: str, **options: str) -> None:
    written = rows.write.format("penstock").mode("append")
    written.options(servers=f"127.0.0.1:{server.port}", stream=stream, **options).save()


def refusal(action: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """The first line that a user sees, after Spark's own heading if a task has failed."""
    with pytest.raises(Exception) as caught:  # noqa: PT011  Spark has many kinds
        action(*args, **kwargs)
    heading, _, rest = str(caught.value).partition("\n")
    return rest.strip().split("\n")[0] if heading == TASK_FAILED else heading


# --- batches -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["string", "binary"])
def test_a_payload_column_is_written(
    spark: SparkSession,
    server: ServerProcess,
    client: StreamManagerClient,
    make_stream: MakeStream,
    kind: str,
) -> None:
    stream = make_stream([b"before"])
    rows = spark.range(1000).selectExpr(f"cast(concat('message ', id) as {kind}) as payload")

    write(rows, server, stream)

    first, *written = payloads_of(client, stream)
    assert first == b"before"
    assert sorted(written) == sorted(b"message %d" % number for number in range(1000))


def test_rows_without_a_payload_column_are_written_as_json(
    spark: SparkSession, server: ServerProcess, client: StreamManagerClient, make_stream: MakeStream
) -> None:
    stream = make_stream()
    rows = spark.sql(
        "SELECT 7 AS id, 'pump' AS name, CAST(NULL AS int) AS nothing, struct(1.5D AS x) AS at, "
        "map('k', 1) AS tags, timestamp'2026-01-31 12:00:00Z' AS time, decimal(2.50) AS price"
    )

    write(rows, server, stream)
    write(rows.selectExpr("to_json(struct(*)) AS payload"), server, stream)
    write(rows.selectExpr("'x' AS payload"), server, stream, payload="json")

    ours, of_spark, wrapped = map(json.loads, payloads_of(client, stream))
    assert ours == {**of_spark, "time": "2026-01-31T12:00:00Z"}
    assert wrapped == {"payload": "x"}


def test_a_missing_stream_is_created_and_one_that_is_there_is_left_alone(
    spark: SparkSession, server: ServerProcess, client: StreamManagerClient
) -> None:
    rows = spark.sql("SELECT 'x' AS payload")
    for size in ("65536", "131072"):
        write(rows, server, "made by Spark", createStream="true", maxSize=size)

    made = client.describe_message_stream("made by Spark").definition
    assert made.max_size == 65_536
    assert made.strategy_on_full == StrategyOnFull.RejectNewData
    assert payloads_of(client, "made by Spark") == [b"x", b"x"]


def test_a_job_that_is_run_again_under_its_transaction_is_stored_once(
    spark: SparkSession, server: ServerProcess, client: StreamManagerClient, make_stream: MakeStream
) -> None:
    stream = make_stream()
    rows = spark.range(10).selectExpr("cast(id as string) AS payload")
    for _ in range(2):
        write(rows, server, stream, transactionId="import of Monday")
    assert len(payloads_of(client, stream)) == 10

    write(rows, server, stream, transactionId="import of Tuesday")
    assert len(payloads_of(client, stream)) == 20


# --- streaming queries -------------------------------------------------------------------------


def test_a_batch_that_spark_writes_again_is_stored_once(
    spark: SparkSession,
    server: ServerProcess,
    client: StreamManagerClient,
    make_stream: MakeStream,
    tmp_path: Path,
) -> None:
    source, target = make_stream([b"one", b"two"]), make_stream()

    def run() -> None:
        read = spark.readStream.format("penstock").option("stream", source)
        rows = read.option("servers", f"a=127.0.0.1:{server.port}").load().select("payload")
        written = rows.writeStream.format("penstock").option("stream", target)
        written = written.option("servers", f"127.0.0.1:{server.port}")
        query = written.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
        query.start().awaitTermination()

    run()
    client.append_messages(source, [b"three"])
    run()
    for name in ("1", ".1.crc"):  # as if the driver had died before the commit
        (tmp_path / "commits" / name).unlink()
    run()

    assert payloads_of(client, target) == [b"one", b"two", b"three"]


# --- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stream", "options", "text"),
    [
        ("no such stream", {}, "stream no such stream does not exist; .* option createStream"),
        ("s", {"bogus": "1"}, "option bogus is not known to a write .* known are servers, stream"),
        ("s", {"createStream": "maybe"}, "option createStream cannot be 'maybe'"),
    ],
)
def test_wrong_options_are_told_in_the_first_line(
    spark: SparkSession, server: ServerProcess, stream: str, options: dict[str, str], text: str
) -> None:
    rows = spark.sql("SELECT 'x' AS payload")
    line = refusal(write, rows, server, stream, **options)
    with pytest.raises(AssertionError, match=text):
        raise AssertionError(line)


def test_a_wrong_token_is_told_in_the_first_line(spark: SparkSession, tmp_path: Path) -> None:
    with ServerProcess(tmp_path, env={"PENSTOCK_TOKENS": "right"}) as server:
        rows = spark.sql("SELECT 'x' AS payload")
        assert "give one of its tokens with option token" in refusal(write, rows, server, "s")
        assert "; correct option token" in refusal(write, rows, server, "s", token="wrong")
        write(rows, server, "s", token="right", createStream="true")


def test_to_overwrite_a_stream_is_refused(
    spark: SparkSession, server: ServerProcess, make_stream: MakeStream
) -> None:
    written = spark.sql("SELECT 'x' AS payload").write.format("penstock").mode("overwrite")
    save = written.options(servers=f"127.0.0.1:{server.port}", stream=make_stream()).save
    assert "a stream only grows: use mode append" in refusal(save)


@pytest.mark.parametrize(
    ("select", "text"),
    [
        ("repeat('x', 1000)", "is full: .* its strategy is RejectNewData"),
        ("repeat('x', 5000)", "a message of 5000 bytes is larger than the 4064"),
        ("''", "a payload is empty"),
        ("nullif('x', 'x')", "column payload is null in some rows"),
    ],
)
def test_rows_that_cannot_be_stored_are_told_plainly(
    spark: SparkSession, server: ServerProcess, make_stream: MakeStream, select: str, text: str
) -> None:
    stream = make_stream(max_size=4096, strategy_on_full=StrategyOnFull.RejectNewData)
    rows = spark.range(5).selectExpr(f"{select} AS payload")
    line = refusal(write, rows, server, stream)
    with pytest.raises(AssertionError, match=text):
        raise AssertionError(line)


def wait_for_messages(
    client: StreamManagerClient, stream: str, count: int, driver: subprocess.Popen[bytes]
) -> None:
    """For as long as the driver lives, and two minutes at most."""
    for _ in range(24):
        try:
            client.read_messages(stream, ReadMessagesOptions(0, count, count, 5000))
        except NotEnoughMessagesException:
            assert driver.poll() is None, "the driver has ended"
        else:
            return
    pytest.fail(f"there are still fewer than {count} messages")


# --- drivers that die --------------------------------------------------------------------------

FIRST = b"first"


@pytest.fixture(scope="module")
def survived(
    server: ServerProcess,
    client: StreamManagerClient,
    make_stream: MakeStream,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> tuple[str, str, str]:
    """Streams that were read, written by a query whose driver was killed, and by a flaky task."""
    folder = tmp_path_factory.mktemp("driver")
    show_on_failure(request, folder / "log")
    source = make_stream([(b"%d " % number).ljust(500, b".") for number in range(6800)])
    # A chunk is a quarter of a stream: 1971 messages, two chunks in each of the two partitions.
    # A read of an empty stream does not wait, so there is a message to begin with.
    target, retried = (make_stream([FIRST], max_size=1 << 22) for _ in range(2))
    script = Path(__file__).with_name("sink_driver.py")
    command = [sys.executable, str(script), str(server.port), source, target, retried, str(folder)]
    with open(folder / "log", "ab") as log:
        first = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        try:
            # One partition is done, the other one has sent a chunk and waits for the last message.
            wait_for_messages(client, target, 1 + 3400 + 1971, first)
        finally:
            os.killpg(first.pid, signal.SIGKILL)
            first.wait()
        (folder / "go").touch()
        subprocess.run(command, stdout=log, stderr=log, check=True, timeout=DRIVER_TIMEOUT_S)
    assert (folder / "failed").exists()
    return source, target, retried


@pytest.mark.slow
def test_a_batch_whose_driver_was_killed_is_stored_once(
    client: StreamManagerClient, survived: tuple[str, str, str]
) -> None:
    source, target, _ = survived
    assert sorted(payloads_of(client, target)) == sorted([FIRST, *payloads_of(client, source)])


@pytest.mark.slow
def test_a_task_that_failed_and_was_tried_again_is_stored_once(
    client: StreamManagerClient, survived: tuple[str, str, str]
) -> None:
    source, _, retried = survived
    assert sorted(payloads_of(client, retried)) == sorted([FIRST, *payloads_of(client, source)])
