"""One Spark cluster for the folder, and a server whose exports it does."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# What runs embedded and locally is what a cluster is compared with.
sys.path += [str(Path(__file__).parents[1] / name) for name in ("pipeline", "spark")]

from spark_cluster import SparkCluster


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running
