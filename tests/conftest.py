"""What every test can ask for: a real server, and its log when something fails.

And their order, for when two processes share them file by file: those with Spark come first,
because they take longest.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from failure_logs import add_logs, show_on_failure
from server_process import ServerProcess


@pytest.fixture
def server(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    """A server on a free port, with an empty data folder; stopped at the end, if still there."""
    process = ServerProcess(tmp_path)
    show_on_failure(request, process.log_path)
    with process:
        yield process


# A process can have one Spark session at a time, and that of the folder spark stays: so it is last.
LONG_FOLDERS = (
    "transforms",
    "pipeline",
    "cluster",
    "bench",
    "fleet",
    "notebook",
    "docs",
    "spark",
    "faults",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = {folder: place for place, folder in enumerate(LONG_FOLDERS)}
    items.sort(key=lambda item: order.get(folder_of(item), len(order)))


def folder_of(item: pytest.Item) -> str:
    return item.path.relative_to(Path(__file__).parent).parts[0]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        add_logs(item, report)
    return report
