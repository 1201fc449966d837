"""Starting and stopping: everything in flight is answered, then the connection ends, then all."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from in_process import ServerInThread
from raw_client import RawClient, append_frame, read_options, request

from penstock.protocol.operations import Operation
from penstock.server import app
from server_process import ServerProcess, clean_environment

Serve = Callable[..., ServerInThread]

LONG_MS = 60_000


def begin_stop(server: ServerProcess, how: signal.Signals = signal.SIGTERM) -> None:
    assert server.process is not None
    server.process.send_signal(how)


def until_stopping(server: ServerProcess) -> None:
    """Return when the server has said that it stops."""
    end = time.monotonic() + 10
    while "Stopping." not in server.log:
        assert time.monotonic() < end, "the server did not begin to stop"
        time.sleep(0.005)


def ended(server: ServerProcess) -> int:
    """The exit status, when the process is gone."""
    assert server.process is not None
    status = server.process.wait(15)
    server._forget()
    return status


def large_reads(client: RawClient, numbers: range) -> None:
    fields = {"streamName": "large", "readMessagesOptions": read_options(0, 1)}
    frames = [request(Operation.ReadMessages, f"large {number}", **fields) for number in numbers]
    client.send(*frames)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_answers_everything_in_flight_then_closes_and_loses_nothing(
    server: ServerProcess, how: signal.Signals
) -> None:
    with (
        RawClient(server.port) as waiting,
        RawClient(server.port) as flushing,
        RawClient(server.port) as slow,
    ):
        waiting.create("flushed", flushOnWrite=True)
        waiting.create("large")
        waiting.append("large", bytes(1_000_000))
        asked = {waiting.ask_to_read("flushed", 10**6, readTimeoutMillis=LONG_MS) for _ in range(5)}
        assert waiting.is_served()
        large_reads(slow, range(30))
        flushing.send(*(append_frame("flushed", b"%d" % number) for number in range(500)))
        assert slow.next_answer().status == 0
        begin_stop(server, how)

        refused = waiting.answers(5)
        assert {answer.request_id for answer in refused} == asked
        assert {answer.status for answer in refused} == {13}
        assert all("the server is stopping" in answer.text for answer in refused)
        assert waiting.at_end()

        told = []
        while not flushing.at_end():
            told.append(flushing.next_answer())
        assert [answer.sequence for answer in told] == list(range(len(told)))

        assert {len(answer.payloads[0]) for answer in slow.answers(29)} == {1_000_000}
        assert slow.at_end()
    assert ended(server) == 0

    server.start()
    with RawClient(server.port) as client:
        stored = client.describe("flushed")["storageStatus"]["newestSequenceNumber"] + 1
        assert stored >= len(told)
        if told:
            payloads = client.read("flushed", 0, len(told)).payloads
            assert payloads == [b"%d" % number for number in range(len(told))]
        assert client.append("flushed", b"next") == [stored]
    assert "Traceback" not in server.log


def test_a_client_that_goes_on_sending_still_gets_its_answers(server: ServerProcess) -> None:
    """Bytes that nobody reads would make the kernel throw away what is on its way."""
    with RawClient(server.port) as client:
        client.create("large")
        client.append("large", bytes(1_000_000))
        large_reads(client, range(10))
        assert client.next_answer().status == 0
        begin_stop(server)
        until_stopping(server)
        client.send(*(append_frame("large", b"too late") for _ in range(1000)))
        assert {len(answer.payloads[0]) for answer in client.answers(9)} == {1_000_000}
        assert client.at_end()
    assert ended(server) == 0
    server.start()
    with RawClient(server.port) as client:
        assert client.describe("large")["storageStatus"]["newestSequenceNumber"] == 0


def test_an_answer_that_the_kernel_still_holds_is_not_lost_by_what_the_client_sends(
    server: ServerProcess,
) -> None:
    with RawClient(server.port, receive_buffer_bytes=4096) as client:
        client.create("large")
        client.append("large", bytes(1_000_000))
        large_reads(client, range(1))
        assert client.read_some(1), "it is on its way"
        begin_stop(server)
        until_stopping(server)
        for _ in range(20):
            client.send(append_frame("large", b"too late"))
            time.sleep(0.005)  # some before, some after the server has hung up
        assert len(client.next_answer().payloads[0]) == 1_000_000
        assert client.at_end()
    assert ended(server) == 0


def test_a_second_signal_does_not_cut_the_stop_short(server: ServerProcess) -> None:
    with RawClient(server.port) as client:
        client.create("large")
        client.append("large", bytes(3_000_000))
        large_reads(client, range(10))
        assert client.next_answer().status == 0
        for _ in range(2):
            begin_stop(server)
            until_stopping(server)
        begin_stop(server, signal.SIGINT)
        assert {answer.status for answer in client.answers(9)} == {0}
        assert client.at_end()
    assert ended(server) == 0


def test_a_client_that_never_reads_is_cut_when_the_time_is_over(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "STOP_WITHIN_S", 0.5)
    server = serve()
    with RawClient(server.port, receive_buffer_bytes=4096) as stuck, RawClient(server.port) as good:
        good.create("large")
        good.append("large", bytes(20_000_000))
        large_reads(stuck, range(3))
        assert stuck.read_some(1), "its answers are on their way"
        begun = time.monotonic()
        server.begin_stop()
        assert good.at_end()
        assert server.join(10)
        assert 0.5 <= time.monotonic() - begun < 3
        assert server.status == 0


def test_idle_clients_do_not_delay_a_stop(serve: Serve) -> None:
    server = serve()
    with ExitStack() as stack:
        clients = [RawClient(server.port, handshake=number % 2 == 0) for number in range(40)]
        for client in clients:
            stack.enter_context(client)
        assert clients[0].is_served()
        begun = time.monotonic()
        server.begin_stop()
        for number, client in enumerate(clients):
            if number % 2:
                # A client may be about to connect: it is told.
                answer = client.next_answer()
                assert (answer.status, answer.text) == (12, "the server is stopping")
            assert client.at_end()
            client.close()
        assert server.join(10)
        assert time.monotonic() - begun < 0.9, "who hangs up is not waited for"


def test_nobody_new_is_served_during_a_stop(server: ServerProcess) -> None:
    with RawClient(server.port) as client:
        client.create("large")
        client.append("large", bytes(5_000_000))
        large_reads(client, range(5))
        assert client.next_answer().status == 0
        begin_stop(server)
        until_stopping(server)
        with pytest.raises(ConnectionRefusedError):
            RawClient(server.port)
        assert {answer.status for answer in client.answers(4)} == {0}
    assert ended(server) == 0


# --- starting -----------------------------------------------------------------------------------


def failed_start(*arguments: str) -> tuple[int, str]:
    """The exit status of a server that cannot start, and the one line it says."""
    process = subprocess.run(
        [sys.executable, "-m", "penstock", "serve", *arguments],
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert "Traceback" not in process.stderr
    (line,) = (line for line in process.stderr.splitlines() if line.startswith("penstock: "))
    return process.returncode, line


def test_a_second_server_on_the_same_data_is_refused(server: ServerProcess) -> None:
    assert server.process is not None
    status, text = failed_start("--port", "0", "--data-dir", str(server.data_dir))
    assert status == 1
    assert f"{server.data_dir} is in use by process {server.process.pid}" in text
    assert "stop that server or choose another directory" in text
    with RawClient(server.port) as client:
        assert client.is_served()


def test_a_port_in_use_is_named_with_the_remedy(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        status, text = failed_start("--port", str(port), "--data-dir", str(tmp_path))
    assert status == 1
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in text
    assert "choose another port or stop what uses it" in text


def test_an_address_that_this_machine_does_not_have_is_named(tmp_path: Path) -> None:
    arguments = ("--host", "192.0.2.1", "--tokens", "t", "--data-dir", str(tmp_path))
    status, text = failed_start("--port", "0", *arguments)
    assert status == 1
    assert "cannot listen on 192.0.2.1:0: Cannot assign requested address" in text
    assert "check host and port" in text


def test_port_0_picks_a_free_port_each_time(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with ServerProcess(tmp_path) as first, ServerProcess(tmp_path / "other") as second:
        assert first.port != second.port
        for server in (first, second):
            with RawClient(server.port) as client:
                assert client.is_served()
