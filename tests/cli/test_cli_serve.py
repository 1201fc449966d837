"""`penstock serve`: from the flags to the line that says where it listens."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys

import pytest
from command_line import TIMEOUT_S, CommandLine

from server_process import ServerProcess


def serving(penstock: CommandLine, *arguments: str) -> tuple[subprocess.Popen[bytes], str]:
    """A server, and its first line."""
    process = penstock.started(
        "serve", "--port", "0", "--no-console", "--data-dir", "data", *arguments
    )
    assert process.stdout is not None
    return process, process.stdout.readline().decode()


def ended(process: subprocess.Popen[bytes], how: signal.Signals) -> tuple[int, str, str]:
    """Exit status, the rest of standard output, and everything on standard error."""
    process.send_signal(how)
    output, errors = process.communicate(timeout=TIMEOUT_S)
    return process.returncode, output.decode(), errors.decode()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_one_line_says_where_it_listens_and_the_log_has_awss_text(penstock: CommandLine, how):
    process, line = serving(penstock)
    status, rest, log = ended(process, how)

    data = penstock.folder / "data"
    assert re.fullmatch(rf"Penstock listens on 127\.0\.0\.1:[1-9]\d* \(data in {data}\)\n", line)
    assert (status, rest) == (0, "")
    ready = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO  penstock\.server  Stream Manager "
    assert re.search(ready + "reporting the state: RUNNING$", log, re.MULTILINE)


def test_the_port_of_the_line_is_open_when_the_line_is_there(penstock: CommandLine):
    process, line = serving(penstock)
    port = int(re.findall(r":(\d+) ", line)[0])
    socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S).close()
    assert ended(process, signal.SIGTERM)[0] == 0


def test_an_ipv6_address_is_printed_in_brackets(penstock: CommandLine):
    process, line = serving(penstock, "--host", "::1")
    assert line.startswith("Penstock listens on [::1]:")
    assert ended(process, signal.SIGTERM)[0] == 0


def test_flags_reach_the_server(penstock: CommandLine):
    process, _ = serving(penstock, "--log-level", "ERROR")
    assert ended(process, signal.SIGTERM) == (0, "", "")


def test_a_warning_is_logged(penstock: CommandLine):
    process, _ = serving(penstock, "--authenticate-client")
    log = ended(process, signal.SIGTERM)[2]
    assert "WARN  penstock.server  authenticate_client is true but no token" in log


def test_tokens_turn_authentication_on_and_the_command_line_can_show_one(
    penstock: CommandLine, tmp_path
):
    with ServerProcess(tmp_path, "--tokens", "s3cret", "--tokens", "0ther,third") as server:
        port = ("--port", str(server.port))
        refused = penstock("streams", "list", *port)
        assert refused.status == 1
        assert "Give a token with --token or AWS_CONTAINER_AUTHORIZATION_TOKEN." in refused.errors
        for token in ("s3cret", "0ther", "third"):
            penstock.succeeds("streams", "list", *port, "--token", token)
        variable = {"AWS_CONTAINER_AUTHORIZATION_TOKEN": "third"}
        assert penstock("streams", "list", *port, env=variable).status == 0
        assert "s3cret" not in server.log


def test_a_closed_standard_output_does_not_stop_the_server(penstock: CommandLine):
    """A supervisor may look at nothing but the log."""
    process = penstock.started("serve", "--port", "0", "--no-console", "--data-dir", "data")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    lines = [process.stderr.readline().decode() for _ in range(2)]
    assert "standard output is closed" in lines[0]
    assert "reporting the state: RUNNING" in lines[1]
    process.terminate()
    process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "status", "expected"),
    [
        (["--host", "0.0.0.0"], 2, "Set tokens (PENSTOCK_TOKENS), or listen on 127.0.0.1."),
        (["--config", "missing.toml"], 2, "there is no configuration file missing.toml."),
        (["--frame-bytes-max", "3"], 2, "Give a size from 4KiB to 1GiB."),
        (["--data-dir", "/proc/nowhere"], 1, "/proc/nowhere"),
    ],
)
def test_a_server_that_cannot_start_says_why_in_one_line(
    penstock: CommandLine, arguments, status, expected
):
    result = penstock("serve", "--port", "0", *arguments)
    assert (result.status, result.output) == (status, b"")
    assert result.errors.startswith("penstock: ")
    assert result.errors.count("\n") == 1
    assert expected in result.errors


def test_a_port_that_is_taken_is_refused_in_one_line(penstock: CommandLine):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = penstock("serve", "--port", str(port), "--data-dir", "data")
    assert (result.status, result.output) == (1, b"")
    assert re.fullmatch(rf"penstock: .*127\.0\.0\.1:{port}.*\n", result.errors)


def test_a_data_folder_in_use_is_refused_in_one_line(
    penstock: CommandLine, shared_server: ServerProcess
):
    result = penstock("serve", "--port", "0", "--data-dir", str(shared_server.data_dir))
    assert (result.status, result.output) == (1, b"")
    assert re.fullmatch(r"penstock: .* is in use by process \d+.*\n", result.errors)


def test_the_server_imports_neither_the_client_nor_tables(penstock: CommandLine):
    """They would cost a third of the memory of an idle server."""
    script = (
        "import signal, sys, threading\n"
        "import penstock.cli, penstock.cli.serve as serve\n"
        "def announce(*_):\n"
        "    serve.say(' '.join(sorted(sys.modules)))\n"
        "    signal.raise_signal(signal.SIGTERM)\n"
        "serve.announce = announce\n"
        "sys.exit(penstock.cli.run(['serve', '--port', '0', '--data-dir', 'data']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=penstock.folder,
        env=penstock.environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    modules = set(done.stdout.split())
    assert (done.returncode, "penstock.server.app" in modules) == (0, True)
    unwanted = {"rich", "penstock.client.sync", "importlib.metadata", "tomllib", "difflib"}
    assert modules & unwanted == set()
