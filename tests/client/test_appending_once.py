"""append_once: each client names its origin, and tells what the server made of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from client_kinds import Connect
from scripted_peer import ScriptedPeer, Talk

from penstock import (
    AppendedOnce,
    MessageStreamDefinition,
    StrategyOnFull,
    UnknownOperationException,
    ValidationException,
)
from penstock.client.calls import PackedPayloads
from penstock.protocol.operations import Operation
from server_process import ServerProcess

REJECT = StrategyOnFull.RejectNewData


def test_a_batch_that_is_sent_twice_is_stored_once(connect: Connect, tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        client = connect(port=server.port)
        client.create_message_stream(MessageStreamDefinition("s", strategy_on_full=REJECT))
        origin = {"writer": "job 7/part 3", "batch": 5}

        assert client.append_once("s", iter([b"a", b"bc"]), **origin) == (0, 1, 2)
        assert client.append_once("s", [b"a", b"bc"], **origin) == (0, 1, 0)
        packed = PackedPayloads(sizes=bytes([1, 0, 0, 0, 3, 0, 0, 0]), data=b"defg")
        assert client.append_once("s", packed, **origin, chunk=1) == AppendedOnce(2, 3, 2)
        assert client.append_once("s", [b"a", b"bc"], **origin) == (None, None, 0)
        assert client.describe_message_stream("s").storage_status.newest_sequence_number == 3


def test_a_server_that_cannot_recognise_batches_is_not_asked(connect: Connect) -> None:
    """Plain appends in its place would be stored twice."""
    operations: list[int] = []

    def script(talk: Talk) -> None:
        talk.shake_hands(extensions=("append-messages",))
        for request in talk.requests():
            operations.append(request[0])
            talk.answer(request, streams=[])

    with ScriptedPeer(script) as peer:
        client = connect(port=peer.port)
        with pytest.raises(UnknownOperationException, match="append-once"):
            client.append_once("s", [b"a"], writer="w", batch=0)
        assert client.list_streams() == []
    assert operations == [Operation.ListStreams]


@pytest.mark.parametrize(
    ("payloads", "origin", "text"),
    [
        ([], {"writer": "w", "batch": 0}, "at least one payload"),
        ([b""], {"writer": "w", "batch": 0}, r"payloads\[0\]: must have at least one byte"),
        ([b"a"], {"writer": "", "batch": 0}, "writer"),
        ([b"a"], {"writer": "w", "batch": -1}, "batch"),
        ([b"a"], {"writer": "w", "batch": 0, "chunk": -1}, "chunk"),
        ([b"a"], {"writer": "w", "batch": "7"}, "batch"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_sent(
    connect: Connect, payloads: list[bytes], origin: dict[str, object], text: str
) -> None:
    def script(talk: Talk) -> None:
        talk.shake_hands(extensions=("append-once",))
        assert list(talk.requests()) == []

    with ScriptedPeer(script) as peer:
        client = connect(port=peer.port)
        with pytest.raises(ValidationException, match=text):
            client.append_once("s", payloads, **origin)
        client.close()
