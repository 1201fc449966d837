"""One server with a pipeline, one cloud and one Spark session for all documents."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

# A session as the tests of the source have it.
sys.path.append(str(Path(__file__).parents[1] / "spark"))

from spark_driver import running_spark

from failure_logs import show_on_failure
from penstock import StreamManagerClient
from penstock.testing import LocalCloud, PenstockServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def cloud() -> Iterator[LocalCloud]:
    with LocalCloud() as running:
        yield running


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, cloud: LocalCloud, request: pytest.FixtureRequest
) -> Iterator[PenstockServer]:
    process = PenstockServer(tmp_path_factory.mktemp("server"), environment=cloud.environment())
    show_on_failure(request, process.log_path)
    with process:
        yield process


@pytest.fixture(scope="module")
def client(server: PenstockServer) -> Iterator[StreamManagerClient]:
    with server.client() as connected:
        yield connected


@pytest.fixture(scope="module")
def spark(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[SparkSession]:
    log = tmp_path_factory.mktemp("spark") / "spark.log"
    show_on_failure(request, log)
    with running_spark(log) as session:
        yield session
