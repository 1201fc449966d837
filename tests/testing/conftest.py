"""A local cloud for each test, and AWS's own clients for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cloud_clients import Clients

from penstock.testing import LocalCloud


@pytest.fixture
def cloud() -> Iterator[LocalCloud]:
    with LocalCloud(seed=1) as running:
        yield running


@pytest.fixture
def clients(cloud: LocalCloud) -> Iterator[Clients]:
    with Clients(cloud) as made:
        yield made
