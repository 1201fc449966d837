"""One Spark session and one server for all tests of this folder; each test has its own streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from spark_driver import running_spark

from failure_logs import show_on_failure
from penstock import MessageStreamDefinition, StrategyOnFull, StreamManagerClient
from server_process import ServerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Answers "stream of this name, holding these payloads, with these fields of the definition".
MakeStream = Callable[..., str]


@pytest.fixture(scope="session")
def spark_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the JVM and Python's workers print: warnings of the source among it."""
    return tmp_path_factory.mktemp("spark") / "spark.log"


@pytest.fixture(scope="session")
def spark(spark_log: Path, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    show_on_failure(request, spark_log)
    with running_spark(spark_log) as session:
        yield session


@pytest.fixture(scope="session")
def server(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[ServerProcess]:
    process = ServerProcess(tmp_path_factory.mktemp("server"))
    show_on_failure(request, process.log_path)
    with process:
        yield process


@pytest.fixture(scope="session")
def client(server: ServerProcess) -> Iterator[StreamManagerClient]:
    with StreamManagerClient(port=server.port) as connected:
        yield connected


@pytest.fixture(scope="session")
def make_stream(client: StreamManagerClient) -> MakeStream:
    """Create a stream with a name that no other test has, and fill it."""
    numbers = count(1)

    def make(payloads: list[bytes] | None = None, **fields: object) -> str:
        name = f"stream-{next(numbers)}"
        fields.setdefault("strategy_on_full", StrategyOnFull.OverwriteOldestData)
        client.create_message_stream(MessageStreamDefinition(name, **fields))
        if payloads:
            client.append_messages(name, payloads)
        return name

    return make
