"""Following a stream, asked of each client."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from client_kinds import Connect
from scripted_peer import (
    STEP_TIMEOUT_S,
    Request,
    ScriptedPeer,
    Talk,
    wire_block,
)

from penstock import (
    ResourceNotFoundException,
)

# Longer than a test may take: who waits for it has not been told at once.
LONG_S = 100


def test_following_goes_from_read_to_read_and_waits_in_slices(connect: Connect) -> None:
    asked: list[tuple[int, int]] = []
    answers = [[b"a", b"b"], [b"c"], None, [b"d"]]

    def script(talk: Talk) -> None:
        talk.shake_hands()
        for payloads, request in zip(answers, talk.requests(), strict=False):
            wanted = request[1]["readMessagesOptions"]
            start = wanted["desiredStartSequenceNumber"]
            asked.append((start, wanted["readTimeoutMillis"]))
            if payloads is None:
                talk.answer(request, status=13, errorMessage="nothing came")
            else:
                talk.answer(request, blocks=[wire_block(start, payloads)])

    with ScriptedPeer(script) as peer:
        client = connect(port=peer.port, request_timeout=10)
        messages = client.follow("s", 5)
        assert [next(messages).payload for _ in range(4)] == [b"a", b"b", b"c", b"d"]
    assert asked == [(5, 5000), (7, 5000), (8, 5000), (8, 5000)]


def test_following_from_the_newest_skips_what_is_there(connect: Connect) -> None:
    info = {
        "definition": {"name": "s", "strategyOnFull": 0},
        "storageStatus": {
            "oldestSequenceNumber": 2,
            "newestSequenceNumber": 41,
            "totalBytes": 1,
        },
    }

    def script(talk: Talk) -> None:
        talk.shake_hands()
        talk.answer(talk.request(), messageStreamInfo=info)
        request = talk.request()
        start = request[1]["readMessagesOptions"]["desiredStartSequenceNumber"]
        talk.answer(request, blocks=[wire_block(start, [b"new"])])
        talk.wait_for_hang_up()

    with ScriptedPeer(script) as peer:
        client = connect(port=peer.port)
        assert next(client.follow("s", "newest")).sequence_number == 42
        client.close()


def test_following_survives_a_lost_connection_without_loss_or_repetition(
    connect: Connect,
) -> None:
    def first_server(talk: Talk) -> None:
        talk.shake_hands()
        talk.answer(talk.request(), blocks=[wire_block(0, [b"a", b"b"])])
        talk.request()

    def second_server(talk: Talk) -> None:
        talk.shake_hands()
        request = talk.request()
        assert request[1]["readMessagesOptions"]["desiredStartSequenceNumber"] == 2
        talk.answer(request, blocks=[wire_block(2, [b"c"])])
        talk.wait_for_hang_up()

    with ScriptedPeer(first_server, Talk.take_hello, second_server) as peer:
        client = connect(port=peer.port)
        messages = client.follow("s")
        assert [next(messages).payload for _ in range(3)] == [b"a", b"b", b"c"]
        client.close()


def test_following_ends_when_the_client_is_closed(connect: Connect) -> None:
    waiting = threading.Event()

    def script(talk: Talk) -> None:
        talk.shake_hands()
        talk.answer(talk.request(), blocks=[wire_block(0, [b"a"])])
        talk.request()
        waiting.set()
        talk.wait_for_hang_up()

    with ScriptedPeer(script) as peer, ThreadPoolExecutor(1) as threads:
        client = connect(port=peer.port, request_timeout=LONG_S)
        followed = threads.submit(list, client.follow("s"))
        assert waiting.wait(STEP_TIMEOUT_S)
        client.close()
        assert [message.payload for message in followed.result(STEP_TIMEOUT_S)] == [b"a"]


def test_following_a_stream_that_is_deleted_raises(connect: Connect) -> None:
    def script(talk: Talk) -> None:
        talk.shake_hands()
        talk.answer(talk.request(), status=5, errorMessage="stream s was deleted")

    with (
        ScriptedPeer(script) as peer,
        pytest.raises(ResourceNotFoundException, match="deleted"),
    ):
        next(connect(port=peer.port).follow("s"))


def test_a_server_that_does_not_wait_is_not_asked_all_the_time(connect: Connect) -> None:
    requests: list[Request] = []

    def script(talk: Talk) -> None:
        talk.shake_hands()
        for request in talk.requests():
            requests.append(request)
            talk.answer(request, status=13, errorMessage="not now")

    with ScriptedPeer(script) as peer, ThreadPoolExecutor(1) as threads:
        client = connect(port=peer.port)
        followed = threads.submit(list, client.follow("s"))
        threading.Event().wait(0.5)
        client.close()
        assert followed.result(STEP_TIMEOUT_S) == []
    assert 2 <= len(requests) <= 11
