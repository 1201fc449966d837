"""What systemd hears of a server that it started."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.server.notify import READY, tell
from server_process import ServerProcess

TIMEOUT_S = 20


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[socket.socket]:
    """The socket that systemd listens on."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(TIMEOUT_S)
        yield listener


def test_systemd_hears_that_the_server_is_ready_alive_and_stopping(
    tmp_path: Path, systemd: socket.socket
):
    with ServerProcess(tmp_path, env={"NOTIFY_SOCKET": str(tmp_path / "notify")}) as server:
        assert systemd.recv(100) == b"READY=1"
        assert systemd.recv(100) == b"WATCHDOG=1"
        server.stop()
    heard = {systemd.recv(100)}
    while b"STOPPING=1" not in heard:
        heard.add(systemd.recv(100))
    assert heard <= {b"WATCHDOG=1", b"STOPPING=1"}


def test_a_name_without_a_file_is_reached_too(monkeypatch: pytest.MonkeyPatch):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind("\0penstock-test-of-systemd")
        listener.settimeout(TIMEOUT_S)
        monkeypatch.setenv("NOTIFY_SOCKET", "@penstock-test-of-systemd")
        tell(READY)
        assert listener.recv(100) == b"READY=1"


def test_a_systemd_that_is_gone_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    tell(READY)
    assert "systemd cannot be told READY=1: No such file or directory." in caplog.text
