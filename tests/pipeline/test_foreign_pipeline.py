"""A pipeline that is started elsewhere does the exports, and may come and go as it likes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from exports_rig import PIPELINE_START_S, PIPELINE_TOKEN, definition, numbered

from failure_logs import show_on_failure
from penstock.client.sync import StreamManagerClient
from penstock.client.worker import WorkerClient
from penstock.export_model import ExportReport
from penstock.model import HTTPConfig
from penstock.testing import LocalCloud
from server_process import STOP_TIMEOUT_S, ServerProcess, clean_environment

WAIT_MS = 10_000


def test_a_pipeline_that_runs_alone_does_the_exports_until_it_is_stopped(
    lone_server: ServerProcess, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    log_path = tmp_path / "pipeline.log"
    show_on_failure(request, log_path)
    command = [sys.executable, "-m", "penstock", "pipeline"]
    command += ["--server", f"127.0.0.1:{lone_server.port}", "--master", "local[2]"]
    with (
        LocalCloud() as cloud,
        StreamManagerClient(port=lone_server.port) as client,
        open(log_path, "w") as log,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stderr=log,
            env=clean_environment() | {"PENSTOCK_PIPELINE_TOKEN": PIPELINE_TOKEN},
        ) as pipeline,
    ):
        sink = cloud.sink("alone")
        client.create_message_stream(definition("stream", http=[HTTPConfig("export", sink.url)]))
        client.append_messages("stream", numbered(10))
        try:
            sink.wait_for_messages(10, PIPELINE_START_S)
        finally:
            pipeline.terminate()
            status = pipeline.wait(STOP_TIMEOUT_S)
        assert status == 0
        assert sink.bodies() == numbered(10)
        # A worker that loses its JVM may be killed with the word "Traceback" on its lips.
        assert 'File "' not in log_path.read_text()


def test_a_lease_of_an_earlier_server_moves_no_position_of_this_one(
    lone_server: ServerProcess,
) -> None:
    with WorkerClient("127.0.0.1", lone_server.port, auth_token=PIPELINE_TOKEN) as worker:
        config = HTTPConfig("export", "http://127.0.0.1:9/")
        worker.create_message_stream(definition("stream", http=[config]))
        worker.append_messages("stream", numbered(10))
        (old,) = worker.watch_exports(10, WAIT_MS).leases

        lone_server.kill()
        lone_server.restart()
        (new,) = worker.watch_exports(10, WAIT_MS).leases

        assert (old.start, old.stop) == (new.start, new.stop) == (0, 10)
        late = ExportReport(old.lease_id, next_sequence_number=10, messages=10, done=True)
        assert worker.report_export(late) == (False, False)
        (view,) = worker.describe_exports().exports
        assert (view.last_exported_sequence_number, view.state) == (-1, "sending")


def test_leases_of_a_pipeline_that_goes_are_given_to_the_next_at_once(
    lone_server: ServerProcess,
) -> None:
    with WorkerClient("127.0.0.1", lone_server.port, auth_token=PIPELINE_TOKEN) as first:
        config = HTTPConfig("export", "http://127.0.0.1:9/")
        first.create_message_stream(definition("stream", http=[config]))
        first.append_messages("stream", numbered(10))
        (lease,) = first.watch_exports(10, WAIT_MS).leases
        first.report_export(ExportReport(lease.lease_id, next_sequence_number=4, messages=4))
    with WorkerClient("127.0.0.1", lone_server.port, auth_token=PIPELINE_TOKEN) as second:
        (lease,) = second.watch_exports(10, WAIT_MS).leases
        assert (lease.start, lease.stop) == (4, 10)
