"""Losing the connection, waiting in vain, closing: asked of each client."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any

import pytest
from client_kinds import Belongings, Connect
from scripted_peer import (
    STEP_TIMEOUT_S,
    ScriptedPeer,
    Talk,
    answer_appends,
    answer_to,
)

from penstock import (
    ClientClosedException,
    ConnectionLostException,
    RequestTimeoutException,
    ServerUnreachableException,
)
from penstock.protocol.framing import frame
from penstock.protocol.operations import Operation

# Longer than a test may take: who waits for it has not been told at once.
LONG_S = 100


# --- losing the connection ----------------------------------------------------------------------


def hang_up_after(request_count: int) -> Any:
    def script(talk: Talk) -> None:
        talk.shake_hands()
        for _ in range(request_count):
            talk.request()

    return script


def reset_after_one(talk: Talk) -> None:
    talk.shake_hands()
    talk.request()
    talk.reset()


def hang_up_in_an_answer(talk: Talk) -> None:
    talk.shake_hands()
    talk.socket.sendall(answer_to(talk.request(), sequenceNumber=1)[:-3])


def answer_nonsense(talk: Talk) -> None:
    talk.shake_hands()
    talk.request()
    talk.socket.sendall(frame(Operation.AppendMessageResponse, b"\x61"))
    talk.wait_for_hang_up()


def answer_without_request_id(talk: Talk) -> None:
    talk.shake_hands()
    talk.request()
    talk.socket.sendall(frame(Operation.AppendMessageResponse, b"\xa0"))
    talk.wait_for_hang_up()


def answer_with_length_zero(talk: Talk) -> None:
    talk.shake_hands()
    talk.request()
    talk.socket.sendall(bytes(5))
    talk.wait_for_hang_up()


@pytest.mark.parametrize(
    "script",
    [
        hang_up_after(1),
        reset_after_one,
        hang_up_in_an_answer,
        answer_nonsense,
        answer_without_request_id,
        answer_with_length_zero,
    ],
)
def test_a_call_whose_connection_goes_is_told_at_once_and_the_next_one_reconnects(
    connect: Connect, script: Any
) -> None:
    with ScriptedPeer(script, answer_appends) as peer:
        client = connect(port=peer.port, request_timeout=LONG_S)
        started = monotonic()
        with pytest.raises(ConnectionLostException) as caught:
            client.append_message("s", b"x")
        assert monotonic() - started < LONG_S / 10
        assert isinstance(caught.value, ConnectionError)
        assert client.append_message("s", b"x") == 0
        assert peer.connection_count == 2


def test_all_pending_calls_fail_at_once_when_the_peer_closes(connect: Connect) -> None:
    with ScriptedPeer(hang_up_after(10)) as peer, ThreadPoolExecutor(10) as threads:
        client = connect(port=peer.port, request_timeout=LONG_S)
        started = monotonic()
        calls = [threads.submit(client.append_message, "s", b"x") for _ in range(10)]
        errors = [call.exception(STEP_TIMEOUT_S) for call in calls]
        assert {type(error) for error in errors} == {ConnectionLostException}
        assert len(set(map(id, errors))) == 10, "each caller has an error of its own"
        assert monotonic() - started < LONG_S / 10


def test_an_idle_connection_that_was_closed_meanwhile_is_replaced_unnoticed(
    connect: Connect,
) -> None:
    def one_append(talk: Talk) -> None:
        talk.shake_hands()
        talk.answer(talk.request(), sequenceNumber=100)

    with ScriptedPeer(one_append, answer_appends) as peer:
        client = connect(port=peer.port)
        assert client.append_message("s", b"x") == 100
        peer.wait_for_end()
        assert client.append_message("s", b"x") == 0


def test_a_server_that_was_restarted_on_its_port_is_found_again(connect: Connect) -> None:
    with ScriptedPeer(answer_appends) as peer:
        client = connect(port=peer.port)
        assert client.append_message("s", b"x") == 0
        assert client.append_message("s", b"x") == 1
    with pytest.raises(ServerUnreachableException):
        client.append_message("s", b"x")
    with ScriptedPeer(answer_appends, port=peer.port):
        assert client.append_message("s", b"x") == 0


def test_a_server_that_always_hangs_up_is_not_hammered(connect: Connect) -> None:
    def accept_and_hang_up(talk: Talk) -> None:
        talk.shake_hands()

    with ScriptedPeer(accept_and_hang_up) as peer:
        client = connect(port=peer.port, request_timeout=5)
        end = monotonic() + 1
        while monotonic() < end:
            with pytest.raises(ConnectionError):
                client.append_message("s", b"x")
        # Pauses of at least 25, 50, 100, 200, 400 ms fit into the second, and one more attempt.
        assert 3 <= peer.connection_count <= 7


def test_many_threads_share_one_attempt_to_reconnect(connect: Connect) -> None:
    with ScriptedPeer(answer_appends) as peer:
        client = connect(port=peer.port, request_timeout=5)
        client.append_message("s", b"x")
    failed = threading.Barrier(10)

    def call(_: int) -> type:
        failed.wait(STEP_TIMEOUT_S)
        try:
            client.append_message("s", b"x")
        except ServerUnreachableException as error:
            return type(error)
        raise AssertionError("there is no server")

    started = monotonic()
    with ThreadPoolExecutor(10) as threads:
        assert set(threads.map(call, range(10))) == {ServerUnreachableException}
    # One by one, with a pause each, they would take at least 3 s.
    assert monotonic() - started < 2


# --- timeouts -----------------------------------------------------------------------------------


def test_a_late_answer_is_ignored_and_the_next_call_works(
    connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    gave_up = threading.Event()

    def script(talk: Talk) -> None:
        talk.shake_hands()
        late = talk.request()
        assert gave_up.wait(STEP_TIMEOUT_S)
        talk.answer(late, sequenceNumber=1)
        talk.answer(talk.request(), sequenceNumber=2)
        talk.wait_for_hang_up()

    with caplog.at_level(logging.WARNING), ScriptedPeer(script) as peer:
        client = connect(port=peer.port, request_timeout=0.3)
        started = monotonic()
        with pytest.raises(RequestTimeoutException) as caught:
            client.append_message("s", b"x")
        assert 0.29 < monotonic() - started < 3
        assert isinstance(caught.value, TimeoutError)
        gave_up.set()
        assert client.append_message("s", b"x") == 2
        assert peer.connection_count == 1
        client.close()
    assert "nobody waits for: " in caplog.text


def test_a_server_that_talks_without_answering_does_not_prolong_the_timeout(
    connect: Connect,
) -> None:
    gave_up = threading.Event()

    def talkative(talk: Talk) -> None:
        talk.shake_hands()
        _, values = talk.request()
        stray = answer_to((Operation.AppendMessage, values | {"requestId": "stray"}))
        while not gave_up.wait(0.1):
            talk.socket.sendall(stray)
        talk.wait_for_hang_up()

    with ScriptedPeer(talkative) as peer:
        client = connect(port=peer.port, request_timeout=0.5)
        started = monotonic()
        with pytest.raises(RequestTimeoutException):
            client.append_message("s", b"x")
        assert 0.49 < monotonic() - started < 3
        gave_up.set()
        client.close()


def test_a_server_that_takes_nothing_any_more_is_left_for_a_new_connection(
    connect: Connect,
) -> None:
    gave_up = threading.Event()

    def deaf(talk: Talk) -> None:
        talk.shake_hands()
        assert gave_up.wait(STEP_TIMEOUT_S)
        talk.request()
        raise AssertionError("the client should have hung up in the middle of its request")

    with ScriptedPeer(deaf, answer_appends) as peer:
        client = connect(port=peer.port, request_timeout=0.5)
        with pytest.raises(RequestTimeoutException):
            client.append_message("s", bytes(64 * 1024 * 1024))
        gave_up.set()
        assert client.append_message("s", b"x") == 0


# --- closing ------------------------------------------------------------------------------------


def test_close_ends_calls_that_wait(connect: Connect, belongings: Belongings) -> None:
    waiting = threading.Event()

    def script(talk: Talk) -> None:
        talk.shake_hands()
        for _ in range(3):
            talk.request()
        waiting.set()
        talk.wait_for_hang_up()

    with ScriptedPeer(script) as peer, ThreadPoolExecutor(3) as threads:
        client = connect(port=peer.port, request_timeout=LONG_S)
        calls = [threads.submit(client.append_message, "s", b"x") for _ in range(3)]
        assert waiting.wait(STEP_TIMEOUT_S)
        client.close()
        errors = [call.exception(STEP_TIMEOUT_S) for call in calls]
        assert {type(error) for error in errors} == {ClientClosedException}


def test_a_closed_client_refuses_calls_and_can_be_closed_again(connect: Connect) -> None:
    with ScriptedPeer(answer_appends) as peer:
        client = connect(port=peer.port)
        client.close()
        client.close()
        for call in (
            lambda: client.append_message("s", b"x"),
            lambda: client.list_streams(),
            lambda: client.append_messages("s", [b"x"]),
            lambda: client.read_messages("s"),
            lambda: client.follow("s"),
        ):
            with pytest.raises(ClientClosedException):
                call()
        peer.wait_for_end()
        assert peer.connection_count == 1


def test_closing_leaves_nothing_behind(connect: Connect, belongings: Belongings) -> None:
    with ScriptedPeer(answer_appends) as peer:
        before = belongings()
        client = connect(port=peer.port)
        client.append_message("s", b"x")
        getattr(client, "stop", client.close)()
        peer.wait_for_end()
        assert belongings() == before


def test_close_ends_a_pause_between_attempts(connect: Connect) -> None:
    with ScriptedPeer(answer_appends) as peer:
        client = connect(port=peer.port, request_timeout=LONG_S)
        client.append_message("s", b"x")
    for _ in range(5):  # now the pause is at least 0.8 s
        with pytest.raises(ServerUnreachableException):
            client.append_message("s", b"x")
    with ThreadPoolExecutor(1) as threads:
        call = threads.submit(client.append_message, "s", b"x")
        client.close()
        error = call.exception(STEP_TIMEOUT_S)
        assert type(error) is ClientClosedException
