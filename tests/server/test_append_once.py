"""AppendOnce: what comes a second time is answered as the first time and not stored again."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from in_process import ServerInThread
from raw_client import Answer, RawClient
from scripted_disk import ScriptedDisk

from penstock.protocol.operations import Extension, Operation
from server_process import ServerProcess

Serve = Callable[..., ServerInThread]
EXTENSIONS = (Extension.APPEND_ONCE,)


def fields(payloads: Sequence[bytes], chunk: int = 0, **more: Any) -> dict[str, Any]:
    sizes = struct.pack(f"<{len(payloads)}I", *map(len, payloads))
    origin = {"writer": "job/0", "batch": 7, "chunk": chunk}
    return {"name": "s", "sizes": sizes, "data": b"".join(payloads)} | origin | more


def once(client: RawClient, payloads: Sequence[bytes], chunk: int = 0, **more: Any) -> Answer:
    return client.call(Operation.AppendOnce, **fields(payloads, chunk, **more))


def outcome(answer: Answer) -> tuple[int | None, int | None, int]:
    assert answer.status == 0, answer.text
    values = answer.values
    first, last = values.get("firstSequenceNumber"), values.get("lastSequenceNumber")
    return first, last, values["storedCount"]


@pytest.fixture
def once_client(connect: Callable[..., RawClient]) -> RawClient:
    return connect(extensions=EXTENSIONS)


@pytest.mark.parametrize("flush_on_write", [False, True])
def test_the_second_time_nothing_is_stored(
    once_client: RawClient, name: str, flush_on_write: bool
) -> None:
    once_client.create(name, flushOnWrite=flush_on_write)

    assert outcome(once(once_client, [b"a", b"b"], name=name)) == (0, 1, 2)
    assert outcome(once(once_client, [b"a", b"b"], name=name)) == (0, 1, 0)
    assert outcome(once(once_client, [b"c"], 1, name=name)) == (2, 2, 1)
    assert outcome(once(once_client, [b"a", b"b"], name=name)) == (None, None, 0)
    assert once_client.read(name, 0, 3).payloads == [b"a", b"b", b"c"]


def test_a_client_that_did_not_ask_for_it_does_not_know_it(client: RawClient, name: str) -> None:
    client.create(name)
    assert once(client, [b"a"], name=name).status == 18


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"writer": ""}, "writer"),
        ({"writer": "w" * 256}, "writer"),
        ({"batch": -1}, "batch"),
        ({"chunk": -1}, "chunk"),
        ({"batch": 6}, "batch 6 of writer job/0 came after batch 7"),
        ({"data": b"abc"}, "their sum 2 is not the length of data, 3"),
    ],
)
def test_wrong_values_are_refused_by_name(
    once_client: RawClient, name: str, change: dict[str, Any], text: str
) -> None:
    once_client.create(name)
    once(once_client, [b"a", b"b"], name=name)

    refused = once_client.call(Operation.AppendOnce, **(fields([b"a", b"b"], name=name) | change))

    assert refused.status == 3
    assert text in refused.text
    assert once_client.read(name, 0, 2).payloads == [b"a", b"b"]


def test_a_batch_that_the_stream_can_never_hold_is_refused(
    once_client: RawClient, name: str
) -> None:
    once_client.create(name, maxSize=1024)
    assert once(once_client, [b"x" * 2000], name=name).status == 4
    assert once(once_client, [b"x" * 600] * 2, name=name).status == 4
    assert outcome(once(once_client, [b"x"], name=name)) == (0, 0, 1)


def test_what_was_stored_is_known_to_a_server_that_was_killed(server: ServerProcess) -> None:
    with RawClient(server.port, extensions=EXTENSIONS) as client:
        client.create("s")
        assert outcome(once(client, [b"a", b"b"])) == (0, 1, 2)
    server.kill()
    server.start()
    with RawClient(server.port, extensions=EXTENSIONS) as client:
        assert outcome(once(client, [b"a", b"b"])) == (0, 1, 0)
        assert client.read("s", 0, 2).payloads == [b"a", b"b"]


def test_the_second_one_waits_for_the_sync_of_the_first(serve: Serve) -> None:
    disk = ScriptedDisk()
    server = serve(disk=disk)
    with (
        RawClient(server.port, extensions=EXTENSIONS) as first,
        RawClient(server.port, extensions=EXTENSIONS) as second,
    ):
        first.create("s", flushOnWrite=True)
        with disk.held("sync", ".data") as gate:
            first.ask(Operation.AppendOnce, **fields([b"a"]))
            gate.somebody_waits()
            second.ask(Operation.AppendOnce, **fields([b"a"]))
            assert second.hears_nothing_for(0.05)
            gate.open()
            answers = [first.next_answer(), second.next_answer()]

        assert [outcome(answer) for answer in answers] == [(0, 0, 1), (0, 0, 0)]
        assert first.read("s", 0, 1).payloads == [b"a"]


def test_a_failed_sync_refuses_both_and_the_third_time_it_is_stored(serve: Serve) -> None:
    disk = ScriptedDisk()
    server = serve(disk=disk)
    with (
        RawClient(server.port, extensions=EXTENSIONS) as first,
        RawClient(server.port, extensions=EXTENSIONS) as second,
    ):
        first.create("s", flushOnWrite=True)
        with disk.held("sync", ".data") as gate:
            first.ask(Operation.AppendOnce, **fields([b"a"]))
            gate.somebody_waits()
            second.ask(Operation.AppendOnce, **fields([b"a"]))
            assert second.is_served()
            with disk.failing("sync"):
                gate.open()
                answers = [first.next_answer(), second.next_answer()]

        assert [answer.status for answer in answers] == [1, 1]
        assert first.append("s", b"other") == [0]
        assert outcome(once(first, [b"a"])) == (1, 1, 1)
        assert first.read("s", 0, 2).payloads == [b"other", b"a"]
