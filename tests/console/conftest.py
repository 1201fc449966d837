"""One server with its console for all tests of this folder that leave it alive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest
from browser_stand_in import Caller

from penstock import StreamManagerClient
from penstock.client.worker import WorkerClient
from penstock.export_model import ExportReport, Refusal
from penstock.testing.server import PenstockServer

PIPELINE_TOKEN = "the pipeline's"
SETTINGS = f"""
pipeline = "external"
pipeline_token = "{PIPELINE_TOKEN}"

[transforms.hot]
source = "plant"
schema = "value DOUBLE"
sql = "SELECT value FROM source WHERE value > 1"

[transforms.hot.target]
stream = "alarms"
"""


@pytest.fixture(scope="session")
def console_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PenstockServer]:
    """Its pipeline is whoever has the token: here, the tests."""
    folder = tmp_path_factory.mktemp("console")
    (folder / "penstock.toml").write_text(SETTINGS)
    with PenstockServer(folder, console=True) as server:
        yield server


@pytest.fixture(scope="session")
def client(console_server: PenstockServer) -> Iterator[StreamManagerClient]:
    with console_server.client() as client:
        yield client


@pytest.fixture
def call(console_server: PenstockServer) -> Caller:
    return Caller(console_server.console_url)


_numbers = count()


@pytest.fixture
def name() -> str:
    """A stream that no other test has."""
    return f"stream-{next(_numbers)}"


@pytest.fixture
def refuse_all(console_server: PenstockServer) -> Callable[[str], None]:
    """Be the pipeline, and have every message of a stream's exports refused."""

    def refuse(stream: str) -> None:
        with WorkerClient(port=console_server.port, auth_token=PIPELINE_TOKEN) as worker:
            work = worker.watch_exports(1000, wait_ms=10_000)
            mine = [lease for lease in work.leases if lease.stream_name == stream]
            assert mine, "no export of this stream is due"
            for lease in mine:
                refused = [Refusal(n, "it is bad") for n in range(lease.start, lease.stop)]
                report = ExportReport(lease.lease_id, lease.stop, refused=refused, done=True)
                assert worker.report_export(report) == (True, False)

    return refuse
