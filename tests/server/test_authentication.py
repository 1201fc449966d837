"""Who may connect: tokens, the two variables of AWS, and addresses that others can reach."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from raw_client import RawClient, hello

from penstock.protocol.operations import Operation
from server_process import ServerProcess, clean_environment

TOKENS = "first-token,zweites-Tökên"
AUTHENTICATE = "STREAM_MANAGER_AUTHENTICATE_CLIENT"


@contextmanager
def server_with(folder: Path, env: Mapping[str, str]) -> Iterator[ServerProcess]:
    with ServerProcess(folder, env=env) as server:
        yield server
    assert "Traceback" not in server.log


@pytest.fixture(scope="module")
def guarded_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with two tokens."""
    with server_with(tmp_path_factory.mktemp("guarded"), {"PENSTOCK_TOKENS": TOKENS}) as server:
        yield server


def refusal(port: int, token: object) -> str:
    with RawClient(port, handshake=False) as client:
        client.send(hello(authToken=token))
        answer = client.next_answer()
        assert (answer.operation, answer.status) == (Operation.ConnectResponse, 2)
        assert answer.request_id == "connect"
        assert client.at_end()
        return answer.text


def is_served(port: int, token: str | None) -> bool:
    with RawClient(port, authToken=token) as client:
        return client.connected.status == 0 and client.is_served()


@pytest.mark.parametrize("token", [None, "", "anything", "töken"])
def test_without_tokens_everybody_on_this_machine_may_connect(
    shared_server: ServerProcess, token: str | None
) -> None:
    assert is_served(shared_server.port, token)


@pytest.mark.parametrize("token", ["first-token", "zweites-Tökên"])
def test_each_configured_token_opens_the_door(guarded_server: ServerProcess, token: str) -> None:
    assert is_served(guarded_server.port, token)


@pytest.mark.parametrize(
    "token",
    ["wrong", "first-toke", "first-token ", "FIRST-TOKEN", "zweites-Token", TOKENS, "ü", "\x00"],
)
def test_a_wrong_token_is_refused_with_the_remedy(
    guarded_server: ServerProcess, token: str
) -> None:
    text = refusal(guarded_server.port, token)
    assert "the token is wrong" in text
    assert "AWS_CONTAINER_AUTHORIZATION_TOKEN" in text


@pytest.mark.parametrize("token", [None, ""])
def test_no_token_is_refused_where_one_is_needed(
    guarded_server: ServerProcess, token: str | None
) -> None:
    text = refusal(guarded_server.port, token)
    assert "a token is needed" in text
    assert "AWS_CONTAINER_AUTHORIZATION_TOKEN" in text


def test_tokens_are_in_no_log(guarded_server: ServerProcess) -> None:
    refusal(guarded_server.port, "a-secret-that-is-wrong")
    assert is_served(guarded_server.port, "first-token")
    assert "a token is needed" in guarded_server.log or "the token is wrong" in guarded_server.log
    assert "secret" not in guarded_server.log
    assert "first-token" not in guarded_server.log


def test_a_wrong_version_is_said_before_a_wrong_token(guarded_server: ServerProcess) -> None:
    with RawClient(guarded_server.port, protocolVersion="7.0.0", authToken="wrong") as client:
        assert client.connected.status == 10


def test_authentication_without_any_token_refuses_everybody_and_says_so(tmp_path: Path) -> None:
    with server_with(tmp_path, {AUTHENTICATE: "true"}) as server:
        for token in (None, "", "anything"):
            assert "token" in refusal(server.port, token)
        assert "every client will be refused. Set tokens (PENSTOCK_TOKENS)" in server.log


def test_authentication_switched_off_ignores_the_tokens_and_says_so(tmp_path: Path) -> None:
    env = {AUTHENTICATE: "false", "PENSTOCK_TOKENS": TOKENS}
    with server_with(tmp_path, env) as server:
        for token in (None, "", "wrong", "first-token"):
            assert is_served(server.port, token)
        assert "the configured tokens are not asked for" in server.log


@pytest.mark.parametrize(
    ("env", "remedy"),
    [
        ({}, "Set tokens (PENSTOCK_TOKENS), or listen on 127.0.0.1."),
        ({AUTHENTICATE: "true"}, "Set tokens (PENSTOCK_TOKENS), or listen on 127.0.0.1."),
        (
            {AUTHENTICATE: "false", "PENSTOCK_TOKENS": "t"},
            "Remove authenticate_client, or listen on 127.0.0.1.",
        ),
    ],
)
def test_a_server_that_other_machines_could_use_without_a_token_does_not_start(
    tmp_path: Path, env: dict[str, str], remedy: str
) -> None:
    command = [sys.executable, "-m", "penstock", "serve", "--host", "0.0.0.0", "--port", "0"]
    ended = subprocess.run(
        [*command, "--data-dir", str(tmp_path / "data")],
        env=clean_environment() | env,
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert ended.returncode == 2
    assert remedy in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    assert not (tmp_path / "data").exists()


def test_with_a_token_other_machines_may_be_served(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--host", "0.0.0.0", env={"PENSTOCK_TOKENS": "t"}) as server:
        assert is_served(server.port, "t")
        assert "a token is needed" in refusal(server.port, None)
