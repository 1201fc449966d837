"""A cluster that cannot do the work says so where an operator looks, with what to do about it."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from cluster_rig import SERVER_VARIABLES, pipeline_command, running_on, started, wait_for_error
from exports_rig import numbered
from spark_cluster import EXECUTOR_CONF, START_S, SparkCluster

from failure_logs import show_on_failure
from penstock.model import HTTPConfig
from penstock.pipeline.app import EXIT_JAVA_GONE, EXIT_UNAVAILABLE
from penstock.pipeline.context import FIXED_CONF, start_context
from penstock.pipeline.jvm import SparkUnavailable
from server_process import ServerProcess


@pytest.mark.slow
def test_executors_without_penstock_are_told_in_the_state_of_the_export(
    cluster: SparkCluster, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    show_on_failure(request, tmp_path / "driver.log")
    bare_python = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
    with running_on(cluster, tmp_path, {"spark.pyspark.python": str(bare_python)}) as rig:
        rig.create("stream", http=[HTTPConfig("export", rig.cloud.sink("never").url)])
        rig.append("stream", numbered(1))

        error = wait_for_error(rig, "stream")

    assert error.startswith("the Python of the Spark executors has no module penstock: install ")
    assert "spark.pyspark.python" in error


@pytest.mark.slow
def test_executors_can_bring_their_python_in_an_archive(
    cluster: SparkCluster, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    show_on_failure(request, tmp_path / "driver.log")
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    program.chmod(0o755)
    with tarfile.open(tmp_path / "environment.tar.gz", "w:gz") as archive:
        archive.add(program, "bin/python")
    conf = {
        "spark.archives": f"{tmp_path}/environment.tar.gz#environment",
        "spark.pyspark.python": "./environment/bin/python",
    }
    with running_on(cluster, tmp_path, conf) as rig:
        sink = rig.cloud.sink("archive")
        rig.create("stream", http=[HTTPConfig("export", sink.url)])
        rig.append("stream", numbered(10))

        rig.wait_until_exported("stream", 10, timeout_s=START_S)

        assert sink.bodies() == numbered(10)


@pytest.mark.slow
def test_an_application_that_the_cluster_ends_says_so_and_ends(
    cluster: SparkCluster, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    show_on_failure(request, tmp_path / "driver.log")
    with running_on(cluster, tmp_path) as rig:
        rig.create("stream", http=[HTTPConfig("export", rig.cloud.sink("sink").url)])
        rig.append("stream", numbered(1))
        rig.wait_until_exported("stream", 1, timeout_s=START_S)
        cluster.end_applications()
        rig.append("stream", numbered(1))
        assert rig.driver.wait(START_S) == EXIT_JAVA_GONE
        assert "the cluster has ended this application" in rig.driver_log.read_text()


def test_a_cluster_that_has_no_room_is_named_with_what_was_asked_of_it(
    cluster: SparkCluster, tmp_path: Path
) -> None:
    conf = EXECUTOR_CONF | {
        "spark.executor.memory": "8g",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "2s",
    }
    status, log = ended(tmp_path, cluster.url, conf)
    assert status == EXIT_UNAVAILABLE
    assert f"no executor came from {cluster.url} within 2 s" in log
    assert "spark.executor.memory" in log


def test_a_master_that_is_not_there_is_named_at_once(tmp_path: Path) -> None:
    status, log = ended(tmp_path, "spark://127.0.0.1:9", {})
    assert status == EXIT_UNAVAILABLE
    assert "no Spark master answers at spark://127.0.0.1:9 (127.0.0.1:9: " in log


@pytest.mark.parametrize("key", FIXED_CONF)
def test_what_would_break_exports_cannot_be_set(key: str) -> None:
    with pytest.raises(SparkUnavailable, match=f"^{re.escape(key)} cannot be set: "):
        start_context("local[1]", conf={key: "true"})


def ended(folder: Path, master: str, conf: dict[str, str]) -> tuple[int, str]:
    """Exit status and log of a driver that gives up by itself."""
    with ServerProcess(folder, env=SERVER_VARIABLES) as server:
        command = pipeline_command(server, master, conf)
        with started(command, folder, subprocess.PIPE) as driver:
            _, log = driver.communicate(timeout=START_S)
    return driver.returncode, log.decode()
