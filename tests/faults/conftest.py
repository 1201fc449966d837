"""A folder for stores that are opened thousands of times."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

MEMORY_DISK = "/dev/shm"


@pytest.fixture(scope="session")
def quick_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """In memory where the system has such a place: there a sync costs nothing."""
    if not os.access(MEMORY_DISK, os.W_OK):
        yield tmp_path_factory.mktemp("quick")
        return
    folder = Path(tempfile.mkdtemp(prefix="penstock-", dir=MEMORY_DISK))
    yield folder
    shutil.rmtree(folder)
