"""One server, one pipeline and one cloud for all tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from exports_rig import Rig, running_rig

from failure_logs import show_on_failure


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Rig]:
    folder = tmp_path_factory.mktemp("rig")
    show_on_failure(request, folder / "server.log")
    with running_rig(folder) as running:
        yield running


@pytest.fixture(autouse=True)
def _release_knobs(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a test broke is whole again for the next."""
    yield
    if "rig" in request.fixturenames:
        request.getfixturevalue("rig").cloud.release()
