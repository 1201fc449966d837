"""The console as a process: started, killed, alone, in the way of others."""

from __future__ import annotations

import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from browser_stand_in import PATIENCE_S, Caller

from penstock import MessageStreamDefinition, StrategyOnFull
from penstock.testing.server import PenstockServer
from server_process import clean_environment

SETTINGS = {"PENSTOCK_PIPELINE": "off"}
READY = re.compile(r"Console on (http://\S+)\n")


def eventually(found: Callable[[], bool], what: str) -> None:
    """Processes end and files grow without telling us."""
    deadline = time.monotonic() + PATIENCE_S
    while not found():
        assert time.monotonic() < deadline, f"{what}: not within {PATIENCE_S} s"
        time.sleep(0.02)


def children_of(process_id: int) -> list[int]:
    with open(f"/proc/{process_id}/task/{process_id}/children") as file:
        return [int(each) for each in file.read().split()]


def is_alive(process_id: int) -> bool:
    try:
        with open(f"/proc/{process_id}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def console_urls(server: PenstockServer) -> list[str]:
    return READY.findall(server.log)


@contextmanager
def console_alone(
    port: int, *arguments: str, env: dict[str, str] | None = None
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`penstock console` for a server, and its address."""
    command = [sys.executable, "-m", "penstock", "console", "--server", f"127.0.0.1:{port}"]
    process = subprocess.Popen(
        [*command, "--console-port", "0", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env=clean_environment() | (env or {}),
    )
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    reader = threading.Thread(target=_pass_on, args=(process, lines))
    reader.start()
    try:
        found = READY.match(lines.get(timeout=PATIENCE_S))
        assert found
        yield process, found[1]
    finally:
        process.terminate()
        process.wait(PATIENCE_S)
        reader.join()


def _pass_on(process: subprocess.Popen[str], lines: queue.SimpleQueue[str]) -> None:
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            lines.put(line)
    lines.put("")


def test_a_killed_console_is_started_again_and_the_server_does_not_notice(tmp_path: Path) -> None:
    with PenstockServer(tmp_path, environment=SETTINGS, console=True) as server:
        (console,) = children_of(server.process_id)
        with server.client() as client:
            os.kill(console, signal.SIGKILL)
            client.create_message_stream(
                MessageStreamDefinition("S", strategy_on_full=StrategyOnFull.RejectNewData)
            )
            eventually(lambda: len(console_urls(server)) == 2, "another console")
        call = Caller(console_urls(server)[-1])
        assert call.get("/api/overview")["observation"]["streams"][0]["name"] == "S"
        assert "The console ended by SIGKILL; it is started again in 1 s." in server.log


def test_a_killed_server_leaves_no_console(tmp_path: Path) -> None:
    server = PenstockServer(tmp_path, environment=SETTINGS, console=True)
    server.start()
    (console,) = children_of(server.process_id)
    with Caller(server.console_url).events() as events:
        events.until("snapshot")
        server.kill()
        eventually(lambda: not is_alive(console), "the end of the console")


def test_an_orderly_stop_ends_the_console_with_browsers_connected(tmp_path: Path) -> None:
    server = PenstockServer(tmp_path, environment=SETTINGS, console=True)
    server.start()
    (console,) = children_of(server.process_id)
    with Caller(server.console_url).events() as events:
        events.until("snapshot")
        started = time.monotonic()
        server.stop()
        assert time.monotonic() - started < 10
    assert not is_alive(console)
    assert "ERROR" not in server.log
    assert "Traceback" not in server.log


def test_a_port_that_is_taken_does_not_keep_the_server_from_working(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        arguments = ("--console", "--console-port", str(port))
        with PenstockServer(tmp_path, arguments, SETTINGS) as server:
            eventually(lambda: "it is started again" in server.log, "a warning")
            with server.client() as client:
                assert client.list_streams() == []
            other.close()
            eventually(lambda: bool(console_urls(server)), "a console on the port, once free")
            assert console_urls(server) == [f"http://127.0.0.1:{port}"]
    assert f"the console cannot listen on 127.0.0.1:{port}: Address already in use" in server.log
    assert "set console_port to another port" in server.log


def test_a_server_without_a_console_starts_none(tmp_path: Path) -> None:
    with PenstockServer(tmp_path, environment=SETTINGS) as server:
        assert children_of(server.process_id) == []


# --- alone --------------------------------------------------------------------------------------


def test_a_browser_is_told_that_the_server_died_and_that_it_is_back(tmp_path: Path) -> None:
    with PenstockServer(tmp_path, environment=SETTINGS) as server:
        with server.client() as client:
            client.create_message_stream(
                MessageStreamDefinition("S", strategy_on_full=StrategyOnFull.RejectNewData)
            )
            client.append_message("S", b"x")
        with console_alone(server.port) as (_, url):
            call = Caller(url)
            with call.events() as events:
                before = events.until("snapshot")["observation"]["server"]
                server.kill()
                assert str(server.port) in events.until("trouble")["text"]
                for path in ("/healthz", "/readyz"):
                    probe = call("GET", path)
                    assert probe.status == 503
                    assert probe.content.startswith(b"the server does not answer: ")
                reply = call("GET", "/api/overview")
                assert (reply.status, "cannot be reached" in reply.error) == (502, True)
                reply = call("GET", "/api/stream", name="S")
                assert reply.status == 502

                server.start()
                back = events.until("snapshot")["observation"]
                assert back["server"]["processId"] != before["processId"]
                (row,) = back["streams"]
                assert (row["newestSequenceNumber"], row["messagesPerSecond"]) == (0, 0.0)
            assert call("GET", "/readyz").status == 200


def test_alone_a_console_asks_browsers_for_the_token_that_it_has_itself(tmp_path: Path) -> None:
    environment = {**SETTINGS, "PENSTOCK_TOKENS": "secret"}
    with (
        PenstockServer(tmp_path, environment=environment) as server,
        console_alone(server.port, env={"AWS_CONTAINER_AUTHORIZATION_TOKEN": "secret"}) as (
            process,
            url,
        ),
    ):
        call = Caller(url)
        assert call("GET", "/api/overview").status == 401
        assert call("POST", "/api/session", {"token": "secret"}).status == 204
        headers = {"Authorization": "Bearer secret"}
        assert call("GET", "/api/overview", headers=headers).status == 200
        process.terminate()
        assert process.wait(PATIENCE_S) == 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--server", "nowhere"], "--server nowhere is not HOST:PORT."),
        (["--console-host", "0.0.0.0"], "there is no token. Set AWS_CONTAINER_AUTHORIZATION_TOKEN"),
        (["--console-port", "70000"], "70000"),
        (["--console-host", "300.1.1.1"], "no token"),
    ],
)
def test_a_console_with_wrong_options_does_not_start(arguments: list[str], text: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "console", *arguments],
        capture_output=True,
        text=True,
        env=clean_environment(),
        timeout=PATIENCE_S,
    )

    assert done.returncode == 2
    assert text in done.stderr
    assert len(done.stderr.splitlines()) == 1
