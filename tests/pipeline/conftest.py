"""One server, one pipeline and one cloud for all tests of this folder that need nothing special.

Starting them takes longer than most tests. So names of streams, sinks and buckets are used once.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from exports_rig import PIPELINE_TOKEN, Rig, running_rig

from failure_logs import show_on_failure
from server_process import ServerProcess


@pytest.fixture(scope="session")
def rig(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Rig]:
    folder = tmp_path_factory.mktemp("rig")
    show_on_failure(request, folder / "server.log")
    with running_rig(folder) as running:
        yield running


@pytest.fixture
def lone_server(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    """A server that leaves its exports to others."""
    env = {"PENSTOCK_PIPELINE": "external", "PENSTOCK_PIPELINE_TOKEN": PIPELINE_TOKEN}
    server = ServerProcess(tmp_path, env=env)
    show_on_failure(request, server.log_path)
    with server:
        yield server


@pytest.fixture(autouse=True)
def _release_knobs(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a test broke is whole again for the next."""
    yield
    if "rig" in request.fixturenames:
        request.getfixturevalue("rig").cloud.release()
