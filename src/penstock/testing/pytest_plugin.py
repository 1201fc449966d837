"""Fixtures for the tests of programs that use Penstock; pytest finds them by itself.

local_cloud         a LocalCloud of the test's own
penstock_server     a ready server process that exports to `local_cloud`, with an empty store
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from penstock.testing.local_cloud import LocalCloud
    from penstock.testing.server import PenstockServer

# pytest loads this file in every run of an environment that has Penstock: the fixtures import what
# they need when a test asks for them.


@pytest.fixture
def local_cloud() -> Iterator[LocalCloud]:
    """A cloud on this machine, empty at the start of each test."""
    from penstock.testing.local_cloud import LocalCloud

    with LocalCloud() as cloud:
        yield cloud


@pytest.fixture
def penstock_server(local_cloud: LocalCloud, tmp_path: Path) -> Iterator[PenstockServer]:
    """A server process whose exports go to the test's local cloud."""
    from penstock.testing.server import PenstockServer

    with PenstockServer(tmp_path / "penstock", environment=local_cloud.environment()) as server:
        yield server
