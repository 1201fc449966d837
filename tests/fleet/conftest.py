"""A hundred small servers of which twenty are down, and one Spark session."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

# A session as the tests of the source have it, and the command line as its own tests have it.
sys.path += [str(Path(__file__).parents[1] / name) for name in ("spark", "cli")]

from many_servers import ManyServers, many_servers, payloads_of
from spark_driver import running_spark

from failure_logs import show_on_failure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SERVER_COUNT = 100
DOWN = range(80, SERVER_COUNT)


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManyServers]:
    """Each server has five messages. The last twenty are stopped."""
    with many_servers(tmp_path_factory.mktemp("fleet"), SERVER_COUNT) as servers:
        for number in range(SERVER_COUNT):
            servers.fill(number, payloads_of(number))
        servers.stop(*DOWN)
        yield servers


@pytest.fixture(scope="module")
def spark(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[SparkSession]:
    log = tmp_path_factory.mktemp("spark") / "spark.log"
    show_on_failure(request, log)
    with running_spark(log) as session:
        yield session
