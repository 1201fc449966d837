"""One query reads a hundred servers, names those that are down, and takes them when they come."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from many_servers import STREAM, ManyServers, payloads_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

UP = range(80)
DOWN = range(80, 100)
WAIT_S = 90.0
POLL_S = 0.1


@pytest.fixture(scope="module")
def query(
    fleet: ManyServers, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StreamingQuery]:
    running = (
        spark.readStream.format("penstock")
        .option("servers", ",".join(fleet.names()))
        .option("stream", STREAM)
        .option("failOnUnreachable", "false")
        .load()
        .writeStream.format("memory")
        .queryName("fleet")
        .option("checkpointLocation", str(tmp_path_factory.mktemp("checkpoint")))
        .start()
    )
    try:
        yield running
    finally:
        running.stop()


def test_a_query_delivers_what_the_living_have_and_names_the_dead(
    fleet: ManyServers, spark: SparkSession, query: StreamingQuery
) -> None:
    wait_until(lambda: len(rows(spark)) >= 5 * len(UP), query)
    assert rows(spark) == sorted(
        (fleet.name(number), place, payload)
        for number in UP
        for place, payload in enumerate(payloads_of(number))
    )
    wait_until(lambda: bool(lag_by_server(query)), query)
    lag = lag_by_server(query)
    assert {name for name, value in lag.items() if isinstance(value, str)} == {
        fleet.name(number) for number in DOWN
    }
    assert all("cannot be reached" in value for value in lag.values() if isinstance(value, str))
    assert {lag[fleet.name(number)] for number in UP} == {0}


def test_a_server_that_comes_back_is_read_from_its_beginning(
    fleet: ManyServers, spark: SparkSession, query: StreamingQuery
) -> None:
    wait_until(lambda: len(rows(spark)) >= 5 * len(UP), query)
    back = DOWN[0]
    fleet.start(back)
    wait_until(lambda: fleet.name(back) in {row[0] for row in rows(spark)}, query)
    assert [row[2] for row in rows(spark) if row[0] == fleet.name(back)] == payloads_of(back)
    wait_until(lambda: lag_by_server(query).get(fleet.name(back)) == 0, query)


def test_a_server_that_goes_stops_nobody_and_goes_on_where_it_was(
    fleet: ManyServers, spark: SparkSession, query: StreamingQuery
) -> None:
    wait_until(lambda: len(rows(spark)) >= 5 * len(UP), query)
    gone, other = UP[0], UP[1]
    fleet.stop(gone)
    wait_until(lambda: isinstance(lag_by_server(query).get(fleet.name(gone)), str), query)
    fleet.fill(other, [b"while it was away"])
    wait_until(lambda: b"while it was away" in {row[2] for row in rows(spark)}, query)
    fleet.start(gone)
    fleet.fill(gone, [b"back again"])
    wait_until(lambda: b"back again" in {row[2] for row in rows(spark)}, query)
    assert [row[1] for row in rows(spark) if row[0] == fleet.name(gone)] == list(range(6))


def test_copied_stores_are_read_together_each_from_its_own_offset(
    fleet: ManyServers, spark: SparkSession, tmp_path: Path
) -> None:
    for number in DOWN[10:]:
        shutil.copytree(fleet.path(number), tmp_path / "copies" / f"{number}")

    def read() -> list[tuple[str, int, bytes]]:
        stream = (
            spark.readStream.format("penstock")
            .option("stream", STREAM)
            .load(str(tmp_path / "copies" / "*"))
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "table"))
        )
        stream.awaitTermination()
        found = spark.read.parquet(str(tmp_path / "table")).collect()
        return sorted((row.server, row.sequence_number, bytes(row.payload)) for row in found)

    first = read()
    assert first == sorted(
        (str(tmp_path / "copies" / f"{number}"), place, payload)
        for number in DOWN[10:]
        for place, payload in enumerate(payloads_of(number))
    )
    # A newer copy of one of them: only what is new in it is read.
    newer = DOWN[10]
    fleet.start(newer)
    fleet.fill(newer, [b"new"])
    fleet.stop(newer)
    shutil.rmtree(tmp_path / "copies" / f"{newer}")
    shutil.copytree(fleet.path(newer), tmp_path / "copies" / f"{newer}")
    assert read() == sorted([*first, (str(tmp_path / "copies" / f"{newer}"), 5, b"new")])


def rows(spark: SparkSession) -> list[tuple[str, int, bytes]]:
    return sorted(
        (row.server, row.sequence_number, bytes(row.payload))
        for row in spark.table("fleet").collect()
    )


def lag_by_server(query: StreamingQuery) -> dict[str, Any]:
    """Messages behind, or the trouble of a server that is down; as docs/fleet.md shows it."""
    if not query.lastProgress or query.lastProgress["sources"][0]["latestOffset"] is None:
        return {}
    source = query.lastProgress["sources"][0]
    latest, end = as_map(source["latestOffset"]), as_map(source["endOffset"])
    return {
        server: streams
        if isinstance(streams, str)
        else sum(
            number - end.get(server, {}).get(stream, number) for stream, number in streams.items()
        )
        for server, streams in latest.items()
    }


def as_map(offset: Any) -> dict[str, Any]:
    return json.loads(offset) if isinstance(offset, str) else offset


def wait_until(condition: Callable[[], bool], query: StreamingQuery) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert query.isActive, query.exception()
        assert time.monotonic() < deadline, query.lastProgress
        time.sleep(POLL_S)
