"""Penstock's own operations: batch append and bulk read."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from raw_client import ALL_EXTENSIONS, Answer, RawClient, append_frame, request

from penstock.block import Block, message_count
from penstock.protocol.operations import Operation
from server_process import ServerProcess

KIB = 1024
ENTRY_BYTES = 32


def batch_of(payloads: Sequence[bytes]) -> dict[str, bytes]:
    sizes = struct.pack(f"<{len(payloads)}I", *map(len, payloads))
    return {"sizes": sizes, "data": b"".join(payloads)}


def append_batch(client: RawClient, name: str, payloads: Sequence[bytes]) -> Answer:
    return client.call(Operation.AppendMessages, name=name, **batch_of(payloads))


def numbers(answer: Answer) -> tuple[int, int]:
    assert answer.status == 0, answer.text
    return answer.values["firstSequenceNumber"], answer.values["lastSequenceNumber"]


def read_blocks(client: RawClient, name: str, start: int = 0, **options: Any) -> list[Block]:
    options = {"desiredStartSequenceNumber": start, **options}
    fields = {"streamName": name, "readMessagesOptions": options}
    blocks = client.done(Operation.ReadBlocks, **fields).blocks
    assert all(block.intact() for block in blocks)
    return blocks


def payloads_of(blocks: Sequence[Block]) -> list[bytes]:
    return [payload for block in blocks for payload in block.payloads()]


# --- batch append -------------------------------------------------------------------------------


@pytest.mark.parametrize("persistence", [0, 1])
@pytest.mark.parametrize("segment_bytes", [KIB, 16 * KIB * KIB])
def test_a_batch_is_stored_in_order_and_answered_with_its_first_and_last_number(
    extended: RawClient, name: str, persistence: int, segment_bytes: int
) -> None:
    extended.create(name, persistence=persistence, streamSegmentSize=segment_bytes)
    payloads = [b"%d" % number * (1 + number % 50) for number in range(1000)]
    assert numbers(append_batch(extended, name, payloads)) == (0, 999)
    assert numbers(append_batch(extended, name, [b"one"])) == (1000, 1000)
    assert extended.read(name, 0, 1001).payloads == [*payloads, b"one"]


def test_a_batch_keeps_its_place_among_single_appends(extended: RawClient, name: str) -> None:
    extended.create(name)
    extended.send(
        append_frame(name, b"0", "before"),
        request(Operation.AppendMessages, "batch", name=name, **batch_of([b"1", b"2"])),
        append_frame(name, b"3", "after"),
    )
    answers = {answer.request_id: answer for answer in extended.answers(3)}
    assert answers["before"].sequence == 0
    assert numbers(answers["batch"]) == (1, 2)
    assert answers["after"].sequence == 3
    assert extended.read(name, 0, 4).payloads == [b"0", b"1", b"2", b"3"]


def test_a_batch_that_does_not_fit_a_full_stream_is_refused_whole(
    extended: RawClient, name: str
) -> None:
    extended.create(name, maxSize=KIB)
    extended.append(name, bytes(600))
    answer = append_batch(extended, name, [bytes(100), bytes(100), bytes(100)])
    assert answer.operation == Operation.AppendMessagesResponse
    assert answer.status == 3
    assert f"stream {name} is full" in answer.text
    assert "firstSequenceNumber" not in answer.values
    assert extended.describe(name)["storageStatus"]["newestSequenceNumber"] == 0
    assert numbers(append_batch(extended, name, [bytes(100), bytes(100)])) == (1, 2)


@pytest.mark.parametrize("strategy", [0, 1])
def test_a_batch_larger_than_the_whole_stream_is_too_large(
    extended: RawClient, name: str, strategy: int
) -> None:
    extended.create(name, maxSize=KIB, strategyOnFull=strategy)
    answer = append_batch(extended, name, [bytes(300)] * 4)
    assert answer.status == 4
    assert f"exceed maxSize {KIB}" in answer.text
    answer = append_batch(extended, name, [b"fits", bytes(KIB)])
    assert answer.status == 4
    assert extended.describe(name)["storageStatus"]["totalBytes"] == 0


def test_a_batch_may_overwrite_the_oldest_data(extended: RawClient, name: str) -> None:
    extended.create(name, maxSize=8 * KIB, streamSegmentSize=KIB, strategyOnFull=1)
    for turn in range(10):
        assert numbers(append_batch(extended, name, [bytes(200)] * 10))[0] == turn * 10
    storage = extended.describe(name)["storageStatus"]
    assert storage["newestSequenceNumber"] == 99
    assert 0 < storage["totalBytes"] <= 8 * KIB
    assert storage["oldestSequenceNumber"] > 50


def test_a_batch_wakes_those_who_wait(extended: RawClient, client: RawClient, name: str) -> None:
    client.create(name)
    client.ask_to_read(name, 0, 5, readTimeoutMillis=20_000)
    append_batch(extended, name, [b"x"] * 5)
    assert client.next_answer().sequences == [0, 1, 2, 3, 4]


# --- bulk read ----------------------------------------------------------------------------------


@pytest.mark.parametrize("persistence", [0, 1])
def test_blocks_carry_the_stored_bytes_with_checksums_that_hold(
    extended: RawClient, name: str, persistence: int
) -> None:
    extended.create(name, persistence=persistence)
    payloads = [bytes([number]) * (number + 1) for number in range(200)]
    append_batch(extended, name, payloads)
    (block,) = read_blocks(extended, name, maxMessageCount=1000)
    assert (block.first_sequence, len(block)) == (0, 200)
    assert payloads_of([block]) == payloads
    (block,) = read_blocks(extended, name, 150, maxMessageCount=20)
    assert (block.first_sequence, len(block)) == (150, 20)
    assert payloads_of([block]) == payloads[150:170]


def test_a_bulk_read_crosses_segments(extended: RawClient, name: str) -> None:
    extended.create(name, streamSegmentSize=KIB)
    payloads = [b"%03d" % number + bytes(97) for number in range(100)]
    append_batch(extended, name, payloads)
    blocks = read_blocks(extended, name, 3, minMessageCount=90, maxMessageCount=90)
    assert len(blocks) > 5
    assert payloads_of(blocks) == payloads[3:93]
    assert all(first.next_sequence == then.first_sequence for first, then in pairwise(blocks))


def test_a_bulk_read_follows_the_rules_of_a_read(extended: RawClient, name: str) -> None:
    extended.create(name)
    extended.append(name, b"a", b"b", b"c")

    def status(**options: Any) -> int:
        fields = {"streamName": name, "readMessagesOptions": options}
        return extended.call(Operation.ReadBlocks, **fields).status

    assert payloads_of(read_blocks(extended, name)) == [b"a"]
    assert payloads_of(read_blocks(extended, name, minMessageCount=2)) == [b"a", b"b"]
    assert status(desiredStartSequenceNumber=3) == 13
    assert status(minMessageCount=4) == 13
    assert status(minMessageCount=2, maxMessageCount=1) == 3


def test_reads_cross_the_gap_that_a_power_cut_left(server: ServerProcess) -> None:
    with RawClient(server.port) as client:
        client.create("s")
        client.append("s", b"a", b"b", b"c")
    server.kill()
    lock = server.data_dir / "penstock.lock"
    lock.write_text(json.dumps(json.loads(lock.read_text()) | {"boot": "the one before"}))
    server.restart()
    with RawClient(server.port, extensions=ALL_EXTENSIONS) as client:
        (first,) = client.append("s", b"d")
        assert first > 3, "numbers that might have been given are not given again"
        client.append("s", b"e")
        sequences = [0, 1, 2, first, first + 1]
        answer = client.read("s", 0, 5)
        assert answer.sequences == sequences
        assert answer.payloads == [b"a", b"b", b"c", b"d", b"e"]
        blocks = read_blocks(client, "s", minMessageCount=5, maxMessageCount=9)
        assert [block.first_sequence for block in blocks] == [0, first]
        assert payloads_of(blocks) == [b"a", b"b", b"c", b"d", b"e"]
        assert message_count(blocks) == 5
        assert client.read("s", 100).sequences == [first], "a start inside the gap"
        answer = client.read("s", 0, 6)
        assert answer.status == 13
        assert "has 5 messages" in answer.text
        with RawClient(server.port) as reader:
            reader.ask_to_read("s", 0, 6, readTimeoutMillis=20_000)
            assert client.append("s", b"f") == [first + 2]
            assert reader.next_answer().sequences == [*sequences, first + 2]
