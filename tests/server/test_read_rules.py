"""The rules of a read, one by one, for both kinds of streams and both kinds of reads."""

from __future__ import annotations

from typing import Any

import pytest
from raw_client import RawClient

from penstock.protocol.operations import Operation


@pytest.fixture(params=[0, 1], ids=["file", "memory"])
def filled(request: pytest.FixtureRequest, client: RawClient, name: str) -> str:
    """Ten messages, b"0" to b"9", in three segments or so."""
    client.create(name, persistence=request.param)
    client.append_many(name, [b"%d" % number for number in range(10)])
    return name


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [0]),
        ({"maxMessageCount": 3}, [0, 1, 2]),
        ({"minMessageCount": 2}, [0, 1]),
        ({"minMessageCount": 2, "maxMessageCount": 4}, [0, 1, 2, 3]),
        ({"maxMessageCount": 2**31 - 1}, list(range(10))),
        ({"minMessageCount": 10, "maxMessageCount": 100}, list(range(10))),
        ({"desiredStartSequenceNumber": 7, "maxMessageCount": 100}, [7, 8, 9]),
        ({"desiredStartSequenceNumber": 9}, [9]),
        # Enough for the minimum is enough: nobody waits for the maximum.
        ({"maxMessageCount": 100, "readTimeoutMillis": 60_000}, list(range(10))),
        # Numbers as floats, nulls as absent.
        ({"desiredStartSequenceNumber": 3.0, "maxMessageCount": None}, [3]),
    ],
)
def test_a_read_returns_what_is_there_from_the_minimum_up_to_the_maximum(
    client: RawClient, filled: str, options: dict[str, Any], expected: list[int]
) -> None:
    answer = client.done(Operation.ReadMessages, streamName=filled, readMessagesOptions=options)
    assert answer.operation == Operation.ReadMessagesResponse
    assert answer.sequences == expected
    assert answer.payloads == [b"%d" % number for number in expected]
    assert {message["streamName"] for message in answer.values["messages"]} == {filled}


def test_a_read_without_options_returns_the_first_message(client: RawClient, filled: str) -> None:
    assert client.done(Operation.ReadMessages, streamName=filled).sequences == [0]


def test_reading_removes_nothing(client: RawClient, filled: str) -> None:
    before = client.describe(filled)
    for _ in range(2):
        assert client.read(filled, 0, 10).sequences == list(range(10))
    assert client.describe(filled) == before


def test_too_few_messages_are_not_returned_in_part(client: RawClient, filled: str) -> None:
    answer = client.read(filled, 6, 5)
    assert answer.status == 13
    assert "has 4 messages from 6 on, fewer than minMessageCount 5" in answer.text
    assert "messages" not in answer.values


@pytest.mark.parametrize("start", [10, 11, 2**63 - 1])
def test_a_start_beyond_the_end_is_named(client: RawClient, filled: str, start: int) -> None:
    answer = client.read(filled, start)
    assert answer.status == 13
    assert f"{start} is greater than the last sequence number 9 of stream" in answer.text


def test_an_empty_stream_has_not_enough_messages(client: RawClient, stream: str) -> None:
    answer = client.read(stream)
    assert answer.status == 13
    assert "greater than the last sequence number -1" in answer.text


def test_a_start_before_the_oldest_message_means_the_oldest(client: RawClient, name: str) -> None:
    client.create(name, maxSize=4096, streamSegmentSize=1024, strategyOnFull=1)
    for _ in range(20):
        client.append(name, bytes(500))
    oldest = client.describe(name)["storageStatus"]["oldestSequenceNumber"]
    assert oldest > 0
    assert client.read(name, 0).sequences == [oldest]
    count = 20 - oldest
    assert client.read(name, 0, count).sequences == list(range(oldest, 20))
    answer = client.read(name, 0, count + 1)
    assert answer.status == 13
    assert f"has {count} messages" in answer.text


def test_a_stream_of_many_small_segments_is_read_as_one(client: RawClient, name: str) -> None:
    client.create(name, streamSegmentSize=1024)
    payloads = [b"%04d" % number + bytes(300) for number in range(300)]
    client.append_many(name, payloads)
    assert client.read(name, 0, 300).payloads == payloads
    assert client.read(name, 123, 50).payloads == payloads[123:173]


def test_a_large_read_goes_through_a_thread_and_comes_back_whole(
    client: RawClient, name: str
) -> None:
    client.create(name)
    payloads = [bytes([number]) * 100_000 for number in range(60)]
    client.append_many(name, payloads)
    assert client.read(name, 0, 60).payloads == payloads
