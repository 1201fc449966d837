"""Reaching a server and shaking hands, asked of each client."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from time import monotonic
from typing import Any

import pytest
from client_kinds import Belongings, Connect
from scripted_peer import (
    ScriptedPeer,
    Talk,
    free_port,
)

from penstock import (
    ConnectFailedException,
    ServerUnreachableException,
    UnauthorizedException,
    ValidationException,
)
from penstock.protocol.framing import frame
from penstock.protocol.operations import Operation


def test_the_constructor_shows_the_token(connect: Connect) -> None:
    tokens: list[str | None] = []

    def script(talk: Talk) -> None:
        talk.shake_hands()
        tokens.append(talk.token)

    with ScriptedPeer(script) as peer:
        connect(port=peer.port, auth_token="secret")
        peer.wait_for_end()
    assert tokens == ["secret"]


def test_variables_say_where_to_connect_and_with_which_token(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens: list[str | None] = []

    def script(talk: Talk) -> None:
        talk.shake_hands()
        tokens.append(talk.token)

    with ScriptedPeer(script) as peer:
        monkeypatch.setenv("STREAM_MANAGER_SERVER_HOST", "localhost")
        monkeypatch.setenv("STREAM_MANAGER_SERVER_PORT", str(peer.port))
        monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "from the variable")
        connect()
        peer.wait_for_end()
    assert tokens == ["from the variable"]


def test_nobody_listening_is_a_server_that_cannot_be_reached(
    connect: Connect, belongings: Belongings
) -> None:
    port = free_port()
    before = belongings()
    with pytest.raises(ServerUnreachableException, match=f"127.0.0.1:{port}") as caught:
        connect(port=port)
    assert isinstance(caught.value, ConnectionError)
    assert belongings() == before


def test_a_server_that_accepts_nobody_is_given_up_after_the_connect_timeout(
    connect: Connect, belongings: Belongings
) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener, ExitStack() as stack:
        for _ in range(4):  # fill the queue of the listener, who never accepts
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        before = belongings()
        started = monotonic()
        with pytest.raises(ServerUnreachableException, match=r"timed out|took too long"):
            connect(port=listener.getsockname()[1], connect_timeout=0.3)
        assert 0.29 < monotonic() - started < 3
        assert belongings() == before


def refuse_token(talk: Talk) -> None:
    talk._connection.authenticate = lambda token: False
    talk.take_hello()
    talk.socket.sendall(talk._connection.reply)


def refuse_at_once(talk: Talk) -> None:
    talk._connection.refuse_at_once("too many clients")
    talk.socket.sendall(talk._connection.reply)
    talk.wait_for_hang_up()


def hang_up(talk: Talk) -> None:
    talk.take_hello()


def hang_up_in_the_reply(talk: Talk) -> None:
    talk.take_hello()
    talk.socket.sendall(talk._connection.reply[:20])


def reset(talk: Talk) -> None:
    talk.take_hello()
    talk.reset()


def speak_http(talk: Talk) -> None:
    talk.take_hello()
    talk.socket.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    talk.wait_for_hang_up()


def answer_garbage(talk: Talk) -> None:
    talk.take_hello()
    talk.socket.sendall(b"\x01" + frame(Operation.ConnectResponse, b"\xff\xff"))
    talk.wait_for_hang_up()


def answer_with_another_operation(talk: Talk) -> None:
    talk.take_hello()
    talk.socket.sendall(b"\x01" + frame(Operation.ListStreamsResponse, b"\xa0"))
    talk.wait_for_hang_up()


def say_nothing(talk: Talk) -> None:
    talk.take_hello()
    talk.wait_for_hang_up()


@pytest.mark.parametrize(
    ("script", "expected", "text"),
    [
        (refuse_token, UnauthorizedException, "a token is needed"),
        (refuse_at_once, ConnectFailedException, "too many clients"),
        (hang_up, ServerUnreachableException, "closed the connection"),
        (hang_up_in_the_reply, ServerUnreachableException, "closed the connection"),
        (reset, ServerUnreachableException, "reset"),
        (speak_http, ConnectFailedException, "not a stream manager"),
        (answer_garbage, ConnectFailedException, "unreadable"),
        (answer_with_another_operation, ConnectFailedException, "operation 12"),
        (say_nothing, ServerUnreachableException, "did not answer the handshake"),
    ],
)
def test_a_failed_handshake_says_why_and_leaves_nothing_behind(
    connect: Connect, belongings: Belongings, script: Any, expected: type, text: str
) -> None:
    with ScriptedPeer(script) as peer:
        before = belongings()
        with pytest.raises(expected, match=text) as caught:
            connect(port=peer.port, request_timeout=0.5)
        assert isinstance(caught.value, ConnectFailedException)
        peer.wait_for_end()
        assert belongings() == before


@pytest.mark.parametrize(
    "arguments",
    [
        {"port": 0},
        {"port": 65536},
        {"port": "8088"},
        {"port": True},
        {"connect_timeout": 0},
        {"request_timeout": -1},
        {"request_timeout": float("nan")},
        {"request_timeout": "60"},
    ],
)
def test_an_impossible_argument_is_named(connect: Connect, arguments: dict[str, Any]) -> None:
    (name,) = arguments
    with pytest.raises(ValidationException, match=name):
        connect(**arguments)
