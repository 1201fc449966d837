"""The same flows with each client, against a real server."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from client_kinds import Connect

from penstock import (
    AppendedRange,
    InvalidRequestException,
    KinesisConfig,
    Message,
    MessageStreamDefinition,
    NotEnoughMessagesException,
    Persistence,
    ReadMessagesOptions,
    ResourceNotFoundException,
    StrategyOnFull,
    UnauthorizedException,
    UpdateNotAllowedException,
)
from server_process import ServerProcess

STEP_TIMEOUT_S = 30


def definition(**fields: Any) -> MessageStreamDefinition:
    return MessageStreamDefinition(
        **{"name": "s", "strategy_on_full": StrategyOnFull.OverwriteOldestData} | fields
    )


def test_all_seven_operations(server: ServerProcess, connect: Connect) -> None:
    client = connect(port=server.port)
    assert client.list_streams() == []
    client.create_message_stream(definition())
    client.create_message_stream(definition(name="t"))
    assert client.list_streams() == ["s", "t"]

    assert [client.append_message("s", b"message %d" % n) for n in range(3)] == [0, 1, 2]
    (first,) = client.read_messages("s")
    assert first == Message("s", 0, first.ingest_time, b"message 0")
    wanted = ReadMessagesOptions(desired_start_sequence_number=1, max_message_count=10)
    assert [message.sequence_number for message in client.read_messages("s", wanted)] == [1, 2]

    info = client.describe_message_stream("s")
    assert info.definition.name == "s"
    assert info.storage_status.newest_sequence_number == 2
    info.definition.export_definition.kinesis = [
        KinesisConfig(identifier="k", kinesis_stream_name="cloud", disabled=True)
    ]
    client.update_message_stream(info.definition)
    updated = client.describe_message_stream("s")
    assert updated.definition == info.definition
    assert [status.export_config_identifier for status in updated.export_statuses] == ["k"]

    client.delete_message_stream("t")
    assert client.list_streams() == ["s"]


def test_what_the_server_refuses_is_raised_as_what_it_is(
    server: ServerProcess, connect: Connect
) -> None:
    client = connect(port=server.port)
    client.create_message_stream(definition())
    with pytest.raises(InvalidRequestException, match="already exists"):
        client.create_message_stream(definition())
    with pytest.raises(UpdateNotAllowedException, match="persistence"):
        client.update_message_stream(definition(persistence=Persistence.Memory))
    with pytest.raises(NotEnoughMessagesException, match="greater than the last sequence number"):
        client.read_messages("s")
    for call in (
        lambda: client.append_message("nowhere", b"x"),
        lambda: client.append_messages("nowhere", [b"x"]),
        lambda: client.read_messages("nowhere"),
        lambda: client.read_blocks("nowhere"),
        lambda: client.describe_message_stream("nowhere"),
        lambda: client.update_message_stream(definition(name="nowhere")),
        lambda: client.delete_message_stream("nowhere"),
        lambda: next(client.follow("nowhere")),
        lambda: next(client.follow("nowhere", "newest")),
    ):
        with pytest.raises(ResourceNotFoundException, match="nowhere"):
            call()
    assert client.append_message("s", b"still there") == 0


def test_a_batch_comes_back_message_by_message_and_in_blocks(
    server: ServerProcess, connect: Connect
) -> None:
    client = connect(port=server.port)
    client.create_message_stream(definition(stream_segment_size=64 * 1024))
    payloads = [b"%d." % n * (1 + n % 50) for n in range(3000)]
    assert client.append_message("s", b"before") == 0
    assert client.append_messages("s", payloads) == AppendedRange(1, 3000)
    assert client.append_message("s", b"after") == 3001

    wanted = ReadMessagesOptions(
        desired_start_sequence_number=1, min_message_count=3000, max_message_count=3000
    )
    messages = client.read_messages("s", wanted)
    assert [message.payload for message in messages] == payloads
    assert [message.sequence_number for message in messages] == list(range(1, 3001))
    blocks = client.read_blocks("s", wanted)
    assert len(blocks) > 1, "the batch is larger than a segment"
    assert [message for block in blocks for message in block.messages("s")] == messages


def test_a_read_that_waits_does_not_delay_an_append_and_gets_it(
    server: ServerProcess, connect: Connect
) -> None:
    client = connect(port=server.port)
    client.create_message_stream(definition())
    with ThreadPoolExecutor(1) as threads:
        wait = ReadMessagesOptions(min_message_count=100, read_timeout_millis=30_000)
        read = threads.submit(client.read_messages, "s", wait)
        assert [client.append_message("s", b"x") for _ in range(100)] == list(range(100))
        assert len(read.result(STEP_TIMEOUT_S)) == 100


def test_twenty_threads_on_one_connection(server: ServerProcess, connect: Connect) -> None:
    client = connect(port=server.port)
    client.create_message_stream(definition())
    with ThreadPoolExecutor(20) as threads:
        payloads = [b"%d" % n for n in range(1000)]
        sequences = list(threads.map(lambda payload: client.append_message("s", payload), payloads))
    assert sorted(sequences) == list(range(1000))
    wanted = ReadMessagesOptions(min_message_count=1000)
    stored = {
        message.sequence_number: message.payload for message in client.read_messages("s", wanted)
    }
    assert stored == dict(zip(sequences, payloads, strict=True))


@contextmanager
def followed(client: Any, *arguments: Any) -> Iterator[queue.SimpleQueue[Message]]:
    """The messages of a follower in a thread of its own, which ends with the client."""
    messages: queue.SimpleQueue[Message] = queue.SimpleQueue()
    errors: list[BaseException] = []

    def follow() -> None:
        try:
            for message in client.follow("s", *arguments):
                messages.put(message)
        except BaseException as error:  # noqa: BLE001  raised again below
            errors.append(error)

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield messages
    finally:
        client.close()
        thread.join(STEP_TIMEOUT_S)
    assert not thread.is_alive()
    if errors:
        raise errors[0]


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_following_goes_on_after_the_server_was_restarted(
    server: ServerProcess, connect: Connect, end: str
) -> None:
    writer, reader = connect(port=server.port), connect(port=server.port)
    writer.create_message_stream(definition())
    writer.append_messages("s", [b"0", b"1"])
    with followed(reader, 1) as messages:
        assert messages.get(timeout=STEP_TIMEOUT_S).payload == b"1"
        writer.append_message("s", b"2")
        assert messages.get(timeout=STEP_TIMEOUT_S).payload == b"2"

        getattr(server, end)()
        server.restart()

        assert writer.append_message("s", b"3") == 3
        assert messages.get(timeout=STEP_TIMEOUT_S).payload == b"3"
        assert writer.append_messages("s", [b"4", b"5"]) == (4, 5)
        assert messages.get(timeout=STEP_TIMEOUT_S).sequence_number == 4
        assert messages.get(timeout=STEP_TIMEOUT_S).sequence_number == 5
    assert messages.empty()


def test_followers_from_the_oldest_and_from_the_newest(
    server: ServerProcess, connect: Connect
) -> None:
    client = connect(port=server.port)
    client.create_message_stream(definition())
    client.append_messages("s", [b"0", b"1"])
    assert [next(client.follow("s")).sequence_number for _ in range(2)] == [0, 0]
    newest = client.follow("s", "newest")
    with ThreadPoolExecutor(1) as threads:
        coming = threads.submit(next, newest)
        while not coming.done():  # it may begin to look after some of these are there
            client.append_message("s", b"new")
        assert coming.result().payload == b"new"


def test_a_token_opens_the_door(connect: Connect, tmp_path: Path) -> None:
    with ServerProcess(tmp_path, env={"PENSTOCK_TOKENS": "secret"}) as server:
        with pytest.raises(UnauthorizedException, match="token is needed"):
            connect(port=server.port)
        with pytest.raises(UnauthorizedException, match="token is wrong"):
            connect(port=server.port, auth_token="guess")
        assert connect(port=server.port, auth_token="secret").list_streams() == []
