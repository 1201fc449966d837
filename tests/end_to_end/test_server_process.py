"""The server as a process, seen through the helper that all other tests start it with."""

from __future__ import annotations

from pathlib import Path

import pytest

from server_process import ServerProcess


def test_a_second_server_on_the_same_data_is_refused_with_the_reason(
    server: ServerProcess, tmp_path: Path
) -> None:
    second = ServerProcess(tmp_path / "second")
    second.log_path.parent.mkdir()
    second.data_dir = server.data_dir
    with pytest.raises(AssertionError, match=r"did not start \(status 1\):\n.* is in use"):
        second.start()
    assert not second.running


def test_a_restarted_server_listens_on_the_port_it_had(server: ServerProcess) -> None:
    port = server.port
    server.kill()
    server.restart()
    assert server.port == port
    server.stop()
    assert server.log.count("Penstock listens on") == 2


def test_the_variables_of_the_person_who_runs_the_tests_do_not_reach_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAM_MANAGER_SERVER_PORT", "not a port")
    with ServerProcess(tmp_path) as server:
        assert server.port > 0
