"""What a client makes of answers and of wrong arguments, asked of each client."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from client_kinds import Connect
from scripted_peer import (
    Request,
    ScriptedPeer,
    Talk,
    answer_to,
)

from penstock import (
    ClientException,
    InvalidRequestException,
    MessageStreamDefinition,
    NotEnoughMessagesException,
    ReadMessagesOptions,
    ResourceNotFoundException,
    StrategyOnFull,
    StreamManagerException,
    UnknownOperationException,
    ValidationException,
)
from penstock.protocol.operations import Operation

# --- answers ------------------------------------------------------------------------------------


def test_answers_in_reversed_order_find_their_callers(connect: Connect) -> None:
    def script(talk: Talk) -> None:
        talk.shake_hands()
        requests = [talk.request() for _ in range(20)]
        for request in reversed(requests):
            talk.answer(request, sequenceNumber=int(request[1]["payload"]))
        talk.wait_for_hang_up()

    with ScriptedPeer(script) as peer, ThreadPoolExecutor(20) as threads:
        client = connect(port=peer.port)
        payloads = [str(n).encode() for n in range(20)]
        answers = threads.map(lambda payload: client.append_message("s", payload), payloads)
        assert list(answers) == list(range(20))
        client.close()


def test_answers_that_come_byte_by_byte_are_put_together(connect: Connect) -> None:
    def script(talk: Talk) -> None:
        talk.shake_hands()
        for sequence in range(3):
            for byte in answer_to(talk.request(), sequenceNumber=sequence):
                talk.socket.send(bytes((byte,)))

    with ScriptedPeer(script) as peer:
        client = connect(port=peer.port)
        assert [client.append_message("s", b"x") for _ in range(3)] == [0, 1, 2]


def test_a_handshake_that_comes_byte_by_byte_is_put_together(connect: Connect) -> None:
    def script(talk: Talk) -> None:
        talk.take_hello()
        for byte in talk._connection.reply:
            talk.socket.send(bytes((byte,)))
        for request in talk.requests():
            talk.answer(request, sequenceNumber=7)

    with ScriptedPeer(script) as peer:
        assert connect(port=peer.port).append_message("s", b"x") == 7


def test_an_answer_that_nobody_asked_for_is_ignored_with_a_log_line(
    connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    def script(talk: Talk) -> None:
        talk.shake_hands()
        request = talk.request()
        stray: Request = (Operation.AppendMessage, {"requestId": "stray"})
        talk.socket.sendall(answer_to(stray) + answer_to(request, sequenceNumber=5))

    with caplog.at_level(logging.WARNING), ScriptedPeer(script) as peer:
        assert connect(port=peer.port).append_message("s", b"x") == 5
    assert "nobody waits for: stray" in caplog.text


def test_the_first_of_two_answers_counts(
    connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    def script(talk: Talk) -> None:
        talk.shake_hands()
        request = talk.request()
        talk.socket.sendall(
            answer_to(request, sequenceNumber=1) + answer_to(request, sequenceNumber=2)
        )
        talk.answer(talk.request(), sequenceNumber=3)

    with caplog.at_level(logging.WARNING), ScriptedPeer(script) as peer:
        client = connect(port=peer.port)
        assert client.append_message("s", b"x") == 1
        assert client.append_message("s", b"x") == 3
    assert "nobody waits for" in caplog.text


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (3, InvalidRequestException),
        (5, ResourceNotFoundException),
        (13, NotEnoughMessagesException),
        (99, StreamManagerException),
        (None, StreamManagerException),
    ],
)
def test_a_refusal_is_raised_with_its_text_and_the_connection_goes_on(
    connect: Connect, status: int | None, expected: type[StreamManagerException]
) -> None:
    def script(talk: Talk) -> None:
        talk.shake_hands()
        talk.answer(talk.request(), status=status, errorMessage="because")  # type: ignore[arg-type]
        talk.answer(talk.request(), sequenceNumber=1)

    with ScriptedPeer(script) as peer:
        client = connect(port=peer.port)
        with pytest.raises(expected, match="because"):
            client.append_message("s", b"x")
        assert client.append_message("s", b"x") == 1
        assert peer.connection_count == 1


def test_a_server_that_does_not_know_an_operation_is_understood(connect: Connect) -> None:
    def script(talk: Talk) -> None:
        talk.shake_hands()
        _, values = talk.request()
        stand_in: Request = (Operation.AppendMessage, values)
        answer = bytearray(answer_to(stand_in, status=18, errorMessage="what?"))
        answer[4] = Operation.UnknownOperationError
        talk.socket.sendall(answer)

    with ScriptedPeer(script) as peer, pytest.raises(UnknownOperationException, match="what"):
        connect(port=peer.port).list_streams()


def test_the_answer_to_another_operation_is_refused_and_the_connection_goes_on(
    connect: Connect,
) -> None:
    def script(talk: Talk) -> None:
        talk.shake_hands()
        _, values = talk.request()
        talk.answer((Operation.ListStreams, values), streams=[])
        talk.answer(talk.request(), sequenceNumber=1)

    with ScriptedPeer(script) as peer:
        client = connect(port=peer.port)
        with pytest.raises(ClientException, match="operation 12 instead of 9"):
            client.append_message("s", b"x")
        assert client.append_message("s", b"x") == 1


@pytest.mark.parametrize(
    ("method", "arguments", "missing"),
    [
        ("append_message", ("s", b"x"), "sequenceNumber"),
        ("append_messages", ("s", [b"x"]), "firstSequenceNumber"),
        ("list_streams", (), "streams"),
        ("describe_message_stream", ("s",), "messageStreamInfo"),
        ("read_messages", ("s",), "blocks"),
        ("read_blocks", ("s",), "blocks"),
    ],
)
def test_a_success_without_its_content_breaks_the_protocol(
    connect: Connect, method: str, arguments: tuple[Any, ...], missing: str
) -> None:
    def script(talk: Talk) -> None:
        talk.shake_hands()
        talk.answer(talk.request())

    with (
        ScriptedPeer(script) as peer,
        pytest.raises(ClientException, match=f"breaks the protocol: {missing}"),
    ):
        getattr(connect(port=peer.port), method)(*arguments)


# --- wrong arguments ----------------------------------------------------------------------------


def definition(**fields: Any) -> MessageStreamDefinition:
    return MessageStreamDefinition(
        **{"name": "s", "strategy_on_full": StrategyOnFull.RejectNewData} | fields
    )


def options(**fields: Any) -> ReadMessagesOptions:
    return ReadMessagesOptions(**fields)


@pytest.mark.parametrize(
    ("method", "arguments", "named"),
    [
        ("create_message_stream", (MessageStreamDefinition(name="s"),), "strategyOnFull"),
        ("create_message_stream", (definition(max_size=1),), "maxSize"),
        ("create_message_stream", (definition(max_size="big"),), "maxSize"),
        ("create_message_stream", (None,), "definition"),
        ("update_message_stream", (definition(name="a/b"),), "name"),
        ("delete_message_stream", ("",), "name"),
        ("describe_message_stream", ("x" * 256,), "name"),
        ("append_message", ("température", b"x"), "stream_name"),
        ("append_message", (["s"], b"x"), "stream_name"),
        ("append_message", ("s", b""), "data"),
        ("append_message", ("s", "text"), "data"),
        ("append_message", ("s", 5), "data"),
        ("append_messages", ("s", []), "payloads"),
        ("append_messages", ("s", b"bytes"), "payloads"),
        ("append_messages", ("s", [b"x", b""]), r"payloads\[1\]"),
        ("append_messages", ("", [b"x"]), "name"),
        ("read_messages", ("a/b",), "streamName"),
        ("read_messages", ("s", options(min_message_count=0)), "minMessageCount"),
        ("read_messages", ("s", options(min_message_count=2, max_message_count=1)), "greater"),
        ("read_messages", ("s", options(read_timeout_millis=2001)), "readTimeoutMillis"),
        ("read_blocks", ("s", options(read_timeout_millis=2001)), "readTimeoutMillis"),
        ("follow", ("s", -1), "start"),
        ("follow", ("s", "latest"), "start"),
        ("follow", ("s", 0, 0), "maxMessageCount"),
        ("follow", ("a/b",), "streamName"),
    ],
)
def test_a_wrong_argument_is_named_and_nothing_is_sent(
    connect: Connect, method: str, arguments: tuple[Any, ...], named: str
) -> None:
    seen: list[Operation] = []

    def script(talk: Talk) -> None:
        talk.shake_hands()
        for request in talk.requests():
            seen.append(request[0])
            talk.answer(request, streams=[])

    with ScriptedPeer(script) as peer:
        client = connect(port=peer.port, request_timeout=2)
        with pytest.raises(ValidationException, match=named):
            getattr(client, method)(*arguments)
        client.list_streams()
    assert seen == [Operation.ListStreams]


@pytest.mark.parametrize("data", [bytearray(b"abc"), memoryview(b"xabc")[1:]])
def test_any_kind_of_bytes_can_be_appended(connect: Connect, data: Any) -> None:
    payloads: list[bytes] = []

    def script(talk: Talk) -> None:
        talk.shake_hands()
        for request in talk.requests():
            payloads.append(request[1]["payload"])
            talk.answer(request, sequenceNumber=0)

    with ScriptedPeer(script) as peer:
        connect(port=peer.port).append_message("s", data)
    assert payloads == [b"abc"]
