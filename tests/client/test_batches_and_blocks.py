"""Batches and bulk reads, and what stands in for them, asked of each client."""

from __future__ import annotations

from typing import Any

import pytest
from client_kinds import Connect
from scripted_peer import (
    PlainServer,
    Request,
    ScriptedPeer,
    Talk,
    wire_block,
)

from penstock import (
    AppendedRange,
    InvalidRequestException,
    Message,
    MessageStoreReadErrorException,
    ReadMessagesOptions,
    ResponseStatusCode,
)
from penstock.protocol.operations import Operation


def test_a_batch_is_one_request(connect: Connect) -> None:
    seen: list[Request] = []

    def script(talk: Talk) -> None:
        talk.shake_hands()
        for request in talk.requests():
            seen.append(request)
            talk.answer(request, firstSequenceNumber=7, lastSequenceNumber=9)

    with ScriptedPeer(script) as peer:
        appended = connect(port=peer.port).append_messages("s", iter([b"a", b"bcd", b"ef"]))
    assert appended == (7, 9)
    assert appended.first_sequence_number == 7
    assert appended.last_sequence_number == 9
    ((operation, values),) = seen
    assert operation == Operation.AppendMessages
    assert values["name"] == "s"
    assert values["sizes"] == bytes([1, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0])
    assert values["data"] == b"abcdef"


def test_a_server_without_batches_gets_plain_appends_back_to_back(connect: Connect) -> None:
    payloads: list[bytes] = []

    def script(talk: Talk) -> None:
        talk.shake_hands(extensions=())
        requests = [talk.request() for _ in range(200)]  # all of them before the first answer
        for sequence, request in enumerate(requests):
            assert request[0] == Operation.AppendMessage
            payloads.append(request[1]["payload"])
            talk.answer(request, sequenceNumber=sequence)

    with ScriptedPeer(script) as peer:
        wanted = [b"%d" % n for n in range(200)]
        appended = connect(port=peer.port).append_messages("s", wanted)
    assert appended == AppendedRange(0, 199)
    assert payloads == wanted


def test_a_long_batch_reaches_a_server_without_batches_in_portions(connect: Connect) -> None:
    server = PlainServer()
    wanted = [b"%d" % n for n in range(1000)] + [bytes(300_000), b"end"]
    with ScriptedPeer(server) as peer:
        assert connect(port=peer.port).append_messages("s", wanted) == (0, 1001)
    assert server.payloads == wanted


def test_an_error_amid_plain_appends_says_how_many_were_stored(connect: Connect) -> None:
    def script(talk: Talk) -> None:
        talk.shake_hands(extensions=())
        for sequence, request in enumerate(talk.requests()):
            if sequence < 3:
                talk.answer(request, sequenceNumber=sequence)
            else:
                talk.answer(request, status=3, errorMessage="stream s is full")

    with (
        ScriptedPeer(script) as peer,
        pytest.raises(InvalidRequestException, match=r"full.* 3 of 5 were acknowledged"),
    ):
        connect(port=peer.port).append_messages("s", [b"x"] * 5)


def answer_with_blocks(*blocks: dict[str, Any]) -> Any:
    def script(talk: Talk) -> None:
        talk.shake_hands()
        for request in talk.requests():
            assert request[0] == Operation.ReadBlocks
            talk.answer(request, blocks=list(blocks))

    return script


def test_reads_use_blocks_where_the_server_has_them(connect: Connect) -> None:
    script = answer_with_blocks(wire_block(3, [b"a", b"bc"]), wire_block(9, [b"d"]))
    with ScriptedPeer(script) as peer:
        client = connect(port=peer.port)
        assert client.read_messages("s") == [
            Message("s", 3, 5, b"a"),
            Message("s", 4, 5, b"bc"),
            Message("s", 9, 5, b"d"),
        ]
        blocks = client.read_blocks("s", ReadMessagesOptions())
        assert [(block.first_sequence, len(block), block.data) for block in blocks] == [
            (3, 2, b"abc"),
            (9, 1, b"d"),
        ]


@pytest.mark.parametrize("method", ["read_messages", "read_blocks"])
@pytest.mark.parametrize("field", ["index", "data"])
def test_a_block_damaged_on_its_way_is_not_passed_on(
    connect: Connect, method: str, field: str
) -> None:
    damaged = wire_block(3, [b"a", b"bc"])
    damaged[field] = damaged[field][:-1] + bytes((damaged[field][-1] ^ 1,))
    with (
        ScriptedPeer(answer_with_blocks(damaged)) as peer,
        pytest.raises(MessageStoreReadErrorException, match="messages from 3 on") as caught,
    ):
        getattr(connect(port=peer.port), method)("s")
    assert caught.value.status == ResponseStatusCode.MessageStoreReadError


@pytest.mark.parametrize("index", [b"", b"short", bytes(33)])
def test_an_index_that_is_none_is_not_passed_on(connect: Connect, index: bytes) -> None:
    damaged = wire_block(3, [b"a"]) | {"index": index}
    with (
        ScriptedPeer(answer_with_blocks(damaged)) as peer,
        pytest.raises(MessageStoreReadErrorException),
    ):
        connect(port=peer.port).read_messages("s")


def test_a_server_without_blocks_is_read_message_by_message(connect: Connect) -> None:
    server = PlainServer()
    server.payloads = [b"a", b"bc", b"def"]
    with ScriptedPeer(server) as peer:
        client = connect(port=peer.port)
        wanted = ReadMessagesOptions(desired_start_sequence_number=1, max_message_count=10)
        messages = client.read_messages("s", wanted)
        (block,) = client.read_blocks("s", wanted)
    assert messages == [Message("s", 1, 1001, b"bc"), Message("s", 2, 1002, b"def")]
    assert block.intact()
    assert block.messages("s") == messages
