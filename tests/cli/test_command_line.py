"""The program as a whole: help, version, exit statuses, what it imports."""

from __future__ import annotations

import subprocess
import sys

import pytest
from command_line import TIMEOUT_S, CommandLine

from penstock.cli import COMMANDS
from penstock.version import __version__


def test_the_version_is_printed(penstock: CommandLine):
    assert penstock.succeeds("--version").text == f"penstock {__version__}\n"


def test_help_names_every_command_and_every_exit_status(penstock: CommandLine):
    text = penstock.succeeds("--help").text
    for name in COMMANDS:
        assert f"\n  {name} " in text
    for status in ("0 ", "1 ", "2 ", "3 ", "130 "):
        assert f"\n    {status}" in text
    assert "..." not in text.partition("Commands:")[2]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(penstock: CommandLine, name):
    assert penstock.succeeds(name, "--help").text.startswith(f"Usage: penstock {name}")


@pytest.mark.parametrize("arguments", [[], ["streams"]])
def test_without_a_command_the_help_is_shown_as_an_error(penstock: CommandLine, arguments):
    result = penstock(*arguments)
    assert (result.status, result.output) == (2, b"")
    assert result.errors.startswith("Usage: penstock")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["confg"], 'No such command "confg". Did you mean "config"? Try `penstock --help`.'),
        (["streams", "lst"], "Try `penstock streams --help`."),
        (["read"], "Missing argument 'STREAM'. Try `penstock read --help`."),
        (
            ["read", "s", "--cont", "1"],
            "--count",
        ),
        (["read", "s", "--count", "0"], "0 is not in the range x>=1."),
        (["streams", "create", "s", "--ttl", "5"], "not a duration such as 90s, 15m, 1h or 7d."),
        (["streams", "create", "s", "--max-size", "big"], "not a size such as 67108864, 64MiB"),
        (["append", "s", "m", "--file", "f"], "Give messages or --file, not both."),
        (["read", "s", "--port", "x"], 'port (flag --port) is "x", which cannot be used.'),
        (["read", "s", "--port", "0"], "Give the port that the server printed"),
        (["serve", "--port", "-1"], "Give a whole number from 0 to 65535."),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(penstock: CommandLine, arguments, expected):
    result = penstock(*arguments)
    assert (result.status, result.output) == (2, b"")
    assert result.errors.startswith("penstock: ")
    assert result.errors.count("\n") == 1
    assert expected in result.errors


@pytest.mark.parametrize(
    "arguments",
    [
        ["streams", "list"],
        ["streams", "delete", "s", "--yes"],
        ["append", "s", "message"],
        ["read", "s", "--follow"],
    ],
)
def test_a_server_that_is_not_there_is_one_line_and_status_3(
    penstock: CommandLine, unused_port: int, arguments
):
    result = penstock(*arguments, "--port", str(unused_port))
    assert (result.status, result.output) == (3, b"")
    assert result.errors.count("\n") == 1
    assert f"127.0.0.1:{unused_port}" in result.errors
    assert "Start a server with `penstock serve`, or name another" in result.errors


def test_the_address_comes_from_the_same_variables_as_the_server(
    penstock: CommandLine, unused_port: int
):
    for variable in ("STREAM_MANAGER_SERVER_PORT", "PENSTOCK_PORT"):
        result = penstock("streams", "list", env={variable: str(unused_port)})
        assert f"127.0.0.1:{unused_port}" in result.errors
    both = {"STREAM_MANAGER_SERVER_PORT": "1", "PENSTOCK_PORT": "2"}
    result = penstock("streams", "list", env=both)
    assert result.status == 2
    assert "Unset one of them" in result.errors


def test_a_mistake_of_ours_is_not_hidden():
    """Only expected errors become one line; anything else must show where it happened."""
    script = (
        "import penstock.cli, penstock.cli.config as config\n"
        "config.config.callback = lambda **_: 1 / 0\n"
        "penstock.cli.run(['config'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
    assert "Traceback" in done.stderr


@pytest.mark.parametrize("arguments", [["config"], ["--help"], ["serve", "--help"]])
def test_a_closed_pipe_ends_a_command_quietly(penstock: CommandLine, arguments):
    process = penstock.started(*arguments)
    assert process.stdout is not None
    process.stdout.close()
    _, errors = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, errors) == (0, b"")


def test_a_full_disk_behind_standard_output_is_an_error(penstock: CommandLine):
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "penstock", "config"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=TIMEOUT_S,
            env=penstock.environment,
        )
    assert done.returncode == 1
    assert done.stderr == "penstock: No space left on device.\n"


def test_tables_cost_nothing_where_nobody_looks(penstock: CommandLine):
    script = (
        "import sys, penstock.cli\n"
        "penstock.cli.run(['config'])\n"
        "print([name in sys.modules for name in ('penstock.cli.config', 'rich')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env=penstock.environment,
    )
    assert done.stdout.splitlines()[-1] == "[True, False]"


def test_output_that_was_closed_from_the_start_is_no_crash(penstock: CommandLine):
    done = subprocess.run(
        ["/bin/sh", "-c", '"$0" -m penstock config >&-', sys.executable],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env=penstock.environment,
    )
    assert (done.returncode, done.stderr) == (0, "")
