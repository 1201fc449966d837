"""The destination that docs/adding-a-destination.md shows, in the hands of the real engine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from fenced import blocks_of

from failure_logs import show_on_failure
from penstock import (
    ExportDefinition,
    HTTPConfig,
    MessageStreamDefinition,
    StrategyOnFull,
)
from penstock.client.worker import WorkerClient
from penstock.destinations import DESTINATIONS
from penstock.pipeline.export import Destinations, ExportRun
from server_process import ServerProcess

TOKEN = "the token of a pipeline that is started elsewhere"
WAIT_MS = 10_000


@pytest.fixture
def worker(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[WorkerClient]:
    """Of a server that leaves its exports to others."""
    env = {"PENSTOCK_PIPELINE": "external", "PENSTOCK_PIPELINE_TOKEN": TOKEN}
    server = ServerProcess(tmp_path, env=env)
    show_on_failure(request, server.log_path)
    with server, WorkerClient("127.0.0.1", server.port, auth_token=TOKEN) as client:
        yield client


@pytest.fixture
def _lines_for_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The class of the page in place of that for HTTP, whose configuration it borrows."""
    shown = blocks_of("docs/adding-a-destination.md")[0]
    (tmp_path / "shown_destination.py").write_text(shown.text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(DESTINATIONS, "HTTPConfig", "shown_destination:LinesDestination")


def export_lines(worker: WorkerClient, path: str, payloads: list[bytes]) -> None:
    """Append, and do what a task of the pipeline does with the lease."""
    exports = ExportDefinition(http=[HTTPConfig("lines", f"file://{path}")])
    worker.create_message_stream(
        MessageStreamDefinition(
            name="Turbine7",
            strategy_on_full=StrategyOnFull.RejectNewData,
            export_definition=exports,
        )
    )
    worker.append_messages("Turbine7", payloads)
    work = worker.watch_exports(10, WAIT_MS)
    (lease,) = work.leases
    ExportRun(lease, work.settings, worker, Destinations()).run()


@pytest.mark.usefixtures("_lines_for_http")
def test_lines_are_written_and_what_is_no_line_is_a_dead_letter(
    worker: WorkerClient, tmp_path: Path
) -> None:
    path = tmp_path / "lines.txt"

    export_lines(worker, str(path), [b"one", b"two\nlines", b"three"])

    assert path.read_bytes() == b"one\nthree\n"
    (letter,) = worker.find_dead_letters("Turbine7")
    assert (letter.sequence_number, letter.reason) == (1, "has a line feed in it")
    (view,) = worker.describe_exports().exports
    assert (view.state, view.delivered_messages, view.refused_messages) == ("idle", 2, 1)


@pytest.mark.usefixtures("_lines_for_http")
def test_a_missing_folder_blocks_it_with_the_remedy(worker: WorkerClient, tmp_path: Path) -> None:
    path = os.path.join(tmp_path, "missing", "lines.txt")

    export_lines(worker, path, [b"one"])

    (view,) = worker.describe_exports().exports
    assert view.state == "blocked"
    assert view.last_error == f"{path}: the folder does not exist; create it"
