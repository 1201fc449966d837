"""A server that wants a token, a cloud, and a pipeline whose executors are a cluster's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from exports_rig import Rig, wait_until
from spark_cluster import EXECUTOR_CONF, START_S, SparkCluster, conf_options, executor_variables

from penstock.client.sync import StreamManagerClient
from penstock.testing import LocalCloud
from server_process import STOP_TIMEOUT_S, ServerProcess, clean_environment

CLIENT_TOKEN = "a-token-of-clients"
PIPELINE_TOKEN = "a-token-of-the-pipeline"
SERVER_VARIABLES = {
    "PENSTOCK_PIPELINE": "external",
    "PENSTOCK_PIPELINE_TOKEN": PIPELINE_TOKEN,
    "PENSTOCK_TOKENS": CLIENT_TOKEN,
}


class ClusterRig(Rig):
    """The same doors as the embedded pipeline's rig, and the process of the driver."""

    def __init__(
        self, cloud: LocalCloud, server: ServerProcess, driver: subprocess.Popen[bytes], log: Path
    ) -> None:
        self.cloud = cloud
        self.server = server
        self.driver = driver
        self.driver_log = log
        self.client = StreamManagerClient(port=server.port, auth_token=CLIENT_TOKEN)


@contextmanager
def running_on(
    cluster: SparkCluster, folder: Path, conf: Mapping[str, str] | None = None
) -> Iterator[ClusterRig]:
    """Everything there is, until the driver has ended in order."""
    log_path = folder / "driver.log"
    with LocalCloud() as cloud, ServerProcess(folder, env=SERVER_VARIABLES) as server:
        conf = EXECUTOR_CONF | executor_variables(cloud.environment()) | dict(conf or {})
        command = pipeline_command(server, cluster.url, conf)
        with open(log_path, "w") as log, started(command, folder, log) as driver:
            rig = ClusterRig(cloud, server, driver, log_path)
            try:
                yield rig
            finally:
                rig.client.close()
                cloud.release()


def pipeline_command(server: ServerProcess, master: str, conf: Mapping[str, str]) -> list[str]:
    command = [sys.executable, "-m", "penstock", "pipeline", "--threads", "2"]
    command += ["--server", f"127.0.0.1:{server.port}", "--master", master]
    return command + conf_options(conf)


@contextmanager
def started(command: list[str], folder: Path, log: object) -> Iterator[subprocess.Popen[bytes]]:
    """A driver in a folder of its own, with the token and nothing else of ours."""
    with subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stderr=log,  # type: ignore[call-overload]
        env=clean_environment() | {"PENSTOCK_PIPELINE_TOKEN": PIPELINE_TOKEN},
    ) as driver:
        try:
            yield driver
        finally:
            driver.terminate()
            try:
                driver.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                driver.kill()
                raise


def wait_for_error(rig: ClusterRig, name: str) -> str:
    """What the state of an export says, as soon as it says something."""
    wait_until(
        lambda: rig.export(name).last_error is not None,
        f"an error of the export of {name}",
        START_S,
        rig.driver_log.read_text,
    )
    error = rig.export(name).last_error
    assert error is not None
    return error
