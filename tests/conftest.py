"""What every test can ask for: a real server, and its log when something fails."""

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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        add_logs(item, report)
    return report
