"""The built packages, and environments that hold them with what they declare and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from clean_environment import CleanEnvironment, build

PROJECT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source archive."""
    folder = tmp_path_factory.mktemp("dist")
    build(PROJECT, folder)
    return folder


@pytest.fixture(scope="session")
def wheel(packages: Path) -> Path:
    (found,) = packages.glob("*.whl")
    return found


@pytest.fixture(scope="session")
def clean(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> CleanEnvironment:
    """`pip install penstock` and no extra."""
    return CleanEnvironment(tmp_path_factory.mktemp("clean"), wheel)
