"""How large an answer gets: the soft limit, the minimum that is stronger, the frame that is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import cbor2
import pytest
from in_process import ServerInThread
from raw_client import ALL_EXTENSIONS, Answer, RawClient

from penstock.block import ENTRY_BYTES, message_count
from penstock.protocol.operations import Operation
from penstock.server import reads

Serve = Callable[..., ServerInThread]

KIB = 1024
LIMIT = 64 * KIB
# What an answer may have besides its messages.
HEAD_BYTES = 300


@pytest.fixture
def client(serve: Serve) -> Iterator[RawClient]:
    """A client of a server whose answers are small."""
    server = serve(response_bytes_max=LIMIT)
    with RawClient(server.port, extensions=ALL_EXTENSIONS) as client:
        yield client


def read(client: RawClient, kind: Operation, **options: Any) -> Answer:
    return client.call(kind, streamName="s", readMessagesOptions=options)


def sequences(answer: Answer) -> list[int]:
    if answer.operation == Operation.ReadMessagesResponse:
        return answer.sequences
    blocks = answer.blocks
    assert all(block.intact() for block in blocks)
    return [
        number for block in blocks for number in range(block.first_sequence, block.next_sequence)
    ]


def frame_bytes(answer: Answer) -> int:
    return len(cbor2.dumps(answer.values))


BOTH_KINDS = pytest.mark.parametrize("kind", [Operation.ReadMessages, Operation.ReadBlocks])


@BOTH_KINDS
@pytest.mark.parametrize("segment_bytes", [4 * KIB, 16 * KIB * KIB])
def test_an_answer_stops_at_the_limit_and_the_next_goes_on_there(
    client: RawClient, kind: Operation, segment_bytes: int
) -> None:
    client.create("s", streamSegmentSize=segment_bytes)
    client.append_many("s", [b"%05d" % number + bytes(1000) for number in range(300)])
    seen: list[int] = []
    while len(seen) < 300:
        answer = read(client, kind, desiredStartSequenceNumber=len(seen), maxMessageCount=1000)
        assert answer.status == 0
        assert frame_bytes(answer) <= LIMIT + HEAD_BYTES + 128 * len(
            answer.values.get("blocks", [])
        )
        assert len(seen) + len(sequences(answer)) == 300 or frame_bytes(answer) > LIMIT - 3 * KIB
        seen += sequences(answer)
    assert seen == list(range(300))


@BOTH_KINDS
def test_many_tiny_messages_do_not_make_a_huge_answer(client: RawClient, kind: Operation) -> None:
    """What a message takes besides its payload counts too: here it is nearly everything."""
    client.create("s")
    client.append_many("s", [b"x"] * 20_000)
    answer = read(client, kind, maxMessageCount=2**31 - 1)
    assert answer.status == 0
    assert frame_bytes(answer) <= LIMIT + HEAD_BYTES
    count = len(sequences(answer))
    assert sequences(answer) == list(range(count))
    assert count > (LIMIT // ENTRY_BYTES // 2 if kind == Operation.ReadBlocks else 500)


@BOTH_KINDS
@pytest.mark.parametrize("payload_bytes", [1, 5000])
def test_the_minimum_is_met_beyond_the_limit(
    client: RawClient, kind: Operation, payload_bytes: int
) -> None:
    client.create("s", streamSegmentSize=64 * KIB)
    client.append_many("s", [bytes(payload_bytes)] * 2500)
    answer = read(client, kind, minMessageCount=2200, maxMessageCount=2400)
    assert answer.status == 0
    assert sequences(answer) == list(range(2200)), "the minimum, and not one more"


@BOTH_KINDS
def test_one_message_larger_than_the_limit_is_returned_alone(
    client: RawClient, kind: Operation
) -> None:
    client.create("s")
    client.append("s", b"small", bytes(3 * LIMIT), b"small")
    answer = read(client, kind, desiredStartSequenceNumber=1, maxMessageCount=10)
    assert sequences(answer) == [1]
    assert sequences(read(client, kind, maxMessageCount=10)) == [0]


@BOTH_KINDS
def test_a_minimum_that_fits_no_frame_is_refused_with_the_limit(
    client: RawClient, kind: Operation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reads, "FRAME_LENGTH_MAX", 256 * KIB)
    client.create("s", streamSegmentSize=16 * KIB)
    client.append_many("s", [bytes(10_000)] * 40)
    answer = read(client, kind, minMessageCount=30, maxMessageCount=30)
    assert answer.status == 7
    assert "30 messages from 0 on of stream s do not fit a frame of 262144 bytes" in answer.text
    assert "ask for fewer" in answer.text
    assert sequences(read(client, kind, minMessageCount=24, maxMessageCount=30)) == list(range(24))


@BOTH_KINDS
def test_a_minimum_of_tiny_messages_that_fits_no_frame_is_refused_too(
    client: RawClient, kind: Operation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reads, "FRAME_LENGTH_MAX", 256 * KIB)
    client.create("s")
    client.append_many("s", [b"x"] * 10_000)
    answer = read(client, kind, minMessageCount=10_000, maxMessageCount=10_000)
    assert answer.status == 7
    assert read(client, kind, minMessageCount=1000, maxMessageCount=1000).status == 0


def test_a_minimum_within_the_soft_limit_that_fits_no_frame_is_refused_too(
    client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The payloads alone would fit."""
    monkeypatch.setattr(reads, "FRAME_LENGTH_MAX", 80 * KIB)
    client.create("s")
    client.append_many("s", [bytes(80)] * 700)
    options = {"minMessageCount": 700, "maxMessageCount": 700}
    assert read(client, Operation.ReadMessages, **options).status == 7
    assert read(client, Operation.ReadBlocks, **options).status == 0


def test_blocks_of_a_bulk_read_follow_each_other(client: RawClient) -> None:
    client.create("s", streamSegmentSize=4 * KIB)
    client.append_many("s", [bytes([number]) * 400 for number in range(100)])
    answer = read(client, Operation.ReadBlocks, minMessageCount=100, maxMessageCount=100)
    blocks = answer.blocks
    assert len(blocks) > 5
    assert all(first.next_sequence == then.first_sequence for first, then in pairwise(blocks))
    assert message_count(blocks) == 100
    stored = [payload for block in blocks for payload in block.payloads()]
    assert stored == [bytes([number]) * 400 for number in range(100)]
