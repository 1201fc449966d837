"""kill -9 of a Spark driver in the middle of a batch, and a restart on the same checkpoint."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from stores import append, make_store, numbered, open_store

from failure_logs import show_on_failure

HERE = Path(__file__).parent


def drive(store: Path, folder: Path, fatal_batch: int) -> subprocess.Popen[str]:
    command = [sys.executable, str(HERE / "drivers" / "killed_query.py")]
    command += [str(store), str(folder), str(fatal_batch)]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"PYTHONPATH": str(HERE)},
    )


def test_every_message_arrives_once_where_batches_may_be_written_twice_and_at_least_once_elsewhere(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    show_on_failure(request, tmp_path / "spark.log")
    store = tmp_path / "store"
    make_store(store, S=numbered(100))

    killed = drive(store, tmp_path, fatal_batch=1)
    assert killed.stdout is not None
    assert killed.stdout.readline() == "midway\n"
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    with open_store(store) as manager:
        append(manager.get("S"), numbered(20, 100))
    restarted = drive(store, tmp_path, fatal_batch=-1)
    restarted.communicate(timeout=240)
    assert restarted.returncode == 0

    batches = [
        json.loads((tmp_path / f"batch-{number}.json").read_text())
        for number in range(len(list(tmp_path.glob("batch-*.json"))))
    ]
    assert [number for batch in batches for number in batch] == list(range(120))
    # The batch that was interrupted has the messages it had, not those that came since.
    assert batches[1] == list(range(40, 80))
    appended = Counter(map(int, (tmp_path / "appended.txt").read_text().split()))
    assert appended == Counter(list(range(120)) + list(range(40, 60)))
