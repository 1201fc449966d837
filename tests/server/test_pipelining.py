"""Many requests on one connection: each is answered once, and appends keep their order."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from itertools import chain

from raw_client import RawClient, append_frame, request

from penstock.protocol.operations import Operation

Connect = Callable[..., RawClient]


def test_appends_are_numbered_in_the_order_of_their_arrival(client: RawClient, stream: str) -> None:
    payloads = [b"%d" % number for number in range(1000)]
    assert client.append_many(stream, payloads) == list(range(1000))
    assert client.read(stream, 0, 1000).payloads == payloads


def test_appends_and_reads_may_be_mixed_and_a_read_sees_what_was_sent_before_it(
    client: RawClient, stream: str
) -> None:
    frames = []
    for number in range(500):
        frames.append(append_frame(stream, b"%d" % number, f"append {number}"))
        options = {"desiredStartSequenceNumber": number}
        frames.append(
            request(
                Operation.ReadMessages,
                f"read {number}",
                streamName=stream,
                readMessagesOptions=options,
            )
        )
    client.send(*frames)
    answers = {answer.request_id: answer for answer in client.answers(1000)}
    assert len(answers) == 1000
    for number in range(500):
        assert answers[f"append {number}"].sequence == number
        assert answers[f"read {number}"].payloads == [b"%d" % number]


def test_several_connections_share_a_stream_without_losing_their_own_order(
    connect: Connect, client: RawClient, stream: str
) -> None:
    writers = [connect() for _ in range(8)]
    for number, writer in enumerate(writers):
        writer.send(*(append_frame(stream, b"%d %d" % (number, turn)) for turn in range(200)))
    numbers = [[answer.sequence for answer in writer.answers(200)] for writer in writers]
    assert sorted(chain.from_iterable(numbers)) == list(range(1600))
    assert all(mine == sorted(mine) for mine in numbers)
    payloads = client.read(stream, 0, 1600).payloads
    for number, mine in enumerate(numbers):
        assert [payloads[at] for at in mine] == [b"%d %d" % (number, turn) for turn in range(200)]


def test_equal_request_ids_are_answered_one_by_one(client: RawClient, stream: str) -> None:
    """Node's SDK sends one space as the id of every request."""
    frames = [append_frame(stream, b"x", " ") for _ in range(50)]
    frames += [request(Operation.ListStreams, " ") for _ in range(50)]
    client.send(*frames)
    answers = client.answers(100)
    assert {answer.values["requestId"] for answer in answers} == {" "}
    kinds = Counter(answer.operation for answer in answers)
    assert kinds == {
        Operation.AppendMessageResponse: 50,
        Operation.ListStreamsResponse: 50,
    }
    assert client.hears_nothing_for(0.05)


def test_every_request_of_a_long_conversation_is_answered_exactly_once(
    connect: Connect, client: RawClient, stream: str, name: str
) -> None:
    chance = random.Random(5)
    other = connect()
    asked: Counter[str] = Counter()
    heard: Counter[str] = Counter()
    for turn in range(60):
        frames = []
        for number in range(chance.randint(1, 40)):
            request_id = f"{turn}.{number}"
            frames.append(any_request(chance, request_id, stream))
            asked[request_id] += 1
        client.send(*frames)
        other.append(stream, b"meanwhile")
        while sum(heard.values()) < sum(asked.values()) - 30:
            heard[client.next_answer().request_id] += 1
    while heard != asked:
        heard[client.next_answer().request_id] += 1
    assert set(heard.values()) == {1}
    assert client.hears_nothing_for(0.2), "a second answer would be fatal"


def any_request(chance: random.Random, request_id: str, name: str) -> bytes:
    kind = chance.randrange(7)
    if kind < 3:
        return append_frame(name, chance.randbytes(chance.randint(1, 3000)), request_id)
    if kind == 3:
        options = {"maxMessageCount": chance.randint(1, 300)}
        fields = {"streamName": name, "readMessagesOptions": options}
        return request(Operation.ReadMessages, request_id, **fields)
    if kind == 4:
        options = {"desiredStartSequenceNumber": 10_000, "readTimeoutMillis": chance.randint(0, 99)}
        fields = {"streamName": name, "readMessagesOptions": options}
        return request(Operation.ReadMessages, request_id, **fields)
    if kind == 5:
        return request(Operation.DescribeMessageStream, request_id, name=name)
    return request(chance.choice([4, 99]), request_id, name="", payload=b"")
