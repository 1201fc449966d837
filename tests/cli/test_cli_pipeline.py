"""`penstock pipeline`: what it says before it starts anything."""

from __future__ import annotations

import pytest
from command_line import CommandLine

TOKEN = {"PENSTOCK_PIPELINE_TOKEN": "some token"}


def test_it_needs_a_server(penstock: CommandLine):
    result = penstock("pipeline", env=TOKEN)
    assert result.status == 2
    assert "Missing option '--server'" in result.errors


@pytest.mark.parametrize("server", ["host", ":8088", "host:", "host:x", "host:0", "host:65536"])
def test_a_server_is_a_host_and_a_port(penstock: CommandLine, server: str):
    result = penstock("pipeline", "--server", server, env=TOKEN)
    assert (result.status, result.text) == (2, "")
    assert result.errors == f"penstock: --server {server} is not HOST:PORT.\n"


def test_without_the_token_it_says_where_it_comes_from(penstock: CommandLine):
    result = penstock("pipeline", "--server", "127.0.0.1:8088")
    assert result.status == 2
    assert "PENSTOCK_PIPELINE_TOKEN is not set" in result.errors
    assert "pipeline_token" in result.errors


@pytest.mark.parametrize(
    ("option", "value"), [("--threads", "0"), ("--threads", "many"), ("--log-level", "LOUD")]
)
def test_a_wrong_option_is_named(penstock: CommandLine, option: str, value: str):
    result = penstock("pipeline", "--server", "127.0.0.1:8088", option, value, env=TOKEN)
    assert result.status == 2
    assert option in result.errors


def test_a_server_that_is_not_there_ends_it_with_a_status_that_says_try_again(
    penstock: CommandLine, unused_port: int
):
    result = penstock("pipeline", "--server", f"127.0.0.1:{unused_port}", env=TOKEN)
    assert result.status == 75
    assert "The server cannot be reached" in result.errors
    assert "Traceback" not in result.errors


def test_a_wrong_token_is_refused_before_spark_is_started(
    penstock: CommandLine, connected: CommandLine
):
    port = connected.environment["STREAM_MANAGER_SERVER_PORT"]
    result = penstock("pipeline", "--server", f"127.0.0.1:{port}", env=TOKEN)
    assert result.status == 77
    (line,) = result.errors.splitlines()
    assert line.endswith("The server does not know the token that this pipeline shows.")
