"""Create, append, describe, list and delete, as the protocol fixes them, over the wire."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from raw_client import RawClient, append_frame

from penstock.protocol.operations import Operation

Connect = Callable[..., RawClient]

KIB = 1024
ENTRY_BYTES = 32  # what a message takes besides its payload
EXPORTS = {
    "s3TaskExecutor": [{"identifier": "s3", "statusConfig": {"statusStreamName": "statuses"}}],
    "IotSitewise": [{"identifier": "sitewise"}],
    "kinesis": [{"identifier": "kinesis", "kinesisStreamName": "k"}],
    "iotAnalytics": [{"identifier": "analytics", "iotChannel": "c"}],
    "http": [{"identifier": "http", "uri": "http://localhost/"}],
}


# --- create -------------------------------------------------------------------------------------


def test_a_new_stream_is_described_with_all_defaults(client: RawClient, stream: str) -> None:
    assert client.describe(stream) == {
        "definition": {
            "name": stream,
            "maxSize": 268435456,
            "streamSegmentSize": 16777216,
            "strategyOnFull": 0,
            "persistence": 0,
            "flushOnWrite": False,
            "exportDefinition": {
                "http": [],
                "iotAnalytics": [],
                "kinesis": [],
                "IotSitewise": [],
                "s3TaskExecutor": [],
            },
        },
        "storageStatus": {
            "oldestSequenceNumber": 0,
            "newestSequenceNumber": -1,
            "totalBytes": 0,
        },
        "exportStatuses": [],
    }


def test_a_name_that_is_taken_already_exists(client: RawClient, stream: str) -> None:
    client.append(stream, b"kept")
    definition = {"name": stream, "strategyOnFull": 1, "maxSize": 2048}
    answer = client.call(Operation.CreateMessageStream, definition=definition)
    assert answer.status == 3
    assert f"stream {stream} already exists" in answer.text
    assert client.describe(stream)["definition"]["maxSize"] == 268435456
    assert client.read(stream).payloads == [b"kept"]


@pytest.mark.parametrize("name", [".", "..", "a.log", " ", "-", "x" * 255, "a, b.c_d-e", "CON"])
def test_every_legal_name_makes_a_working_stream(client: RawClient, name: str) -> None:
    client.create(name)
    assert client.append(name, b"payload") == [0]
    assert client.read(name).payloads == [b"payload"]
    client.done(Operation.DeleteMessageStream, name=name)


@pytest.mark.parametrize("persistence", [0, 1])
def test_streams_of_both_kinds_number_from_zero_without_gaps(
    client: RawClient, name: str, persistence: int
) -> None:
    client.create(name, persistence=persistence)
    assert client.append(name, b"a", b"b", b"c") == [0, 1, 2]
    assert client.append_many(name, [b"d"] * 100) == list(range(3, 103))
    assert client.describe(name)["definition"]["persistence"] == persistence


def test_exports_are_kept_with_defaults_and_reported_in_the_order_of_the_lists(
    client: RawClient, name: str
) -> None:
    client.create(name, exportDefinition=EXPORTS)
    info = client.describe(name)
    assert [status["exportConfigIdentifier"] for status in info["exportStatuses"]] == [
        "http",
        "analytics",
        "kinesis",
        "sitewise",
        "s3",
    ]
    assert {status["lastExportedSequenceNumber"] for status in info["exportStatuses"]} == {-1}
    exports = info["definition"]["exportDefinition"]
    assert exports["s3TaskExecutor"][0]["statusConfig"] == {
        "statusLevel": 2,
        "statusStreamName": "statuses",
    }
    assert exports["http"][0]["exportFormat"] == 0
    assert exports["kinesis"][0]["startSequenceNumber"] == 0


def test_a_start_number_on_create_may_lie_ahead(client: RawClient, name: str) -> None:
    kinesis = {"identifier": "k", "kinesisStreamName": "k", "startSequenceNumber": 100}
    client.create(name, exportDefinition={"kinesis": [kinesis]})
    (status,) = client.describe(name)["exportStatuses"]
    assert status["lastExportedSequenceNumber"] == 99


def test_no_answer_holds_a_null(client: RawClient, name: str) -> None:
    client.create(name, exportDefinition=EXPORTS)
    client.append(name, b"x")
    answers = [
        client.call(Operation.DescribeMessageStream, name=name),
        client.call(Operation.ListStreams),
        client.read(name),
        client.read(name, 7),
    ]
    for answer in answers:
        assert not holds_null(answer.values)


def holds_null(value: object) -> bool:
    if isinstance(value, dict):
        return any(holds_null(item) for item in value.values())
    if isinstance(value, list):
        return any(holds_null(item) for item in value)
    return value is None


# --- append -------------------------------------------------------------------------------------


def test_a_message_keeps_its_bytes_and_gets_the_servers_time(
    client: RawClient, stream: str
) -> None:
    payload = bytes(range(256))
    before_ms = int(time.time() * 1000)
    client.append(stream, payload)
    (message,) = client.read(stream).values["messages"]
    after_ms = int(time.time() * 1000)
    assert before_ms <= message.pop("ingestTime") <= after_ms
    assert message == {"streamName": stream, "sequenceNumber": 0, "payload": payload}


def test_total_bytes_counts_each_message_with_32_bytes_of_its_own(
    client: RawClient, stream: str
) -> None:
    client.append(stream, b"1", b"22", b"333")
    assert client.describe(stream)["storageStatus"] == {
        "oldestSequenceNumber": 0,
        "newestSequenceNumber": 2,
        "totalBytes": 6 + 3 * ENTRY_BYTES,
    }


@pytest.mark.parametrize("persistence", [0, 1])
@pytest.mark.parametrize("strategy", [0, 1])
def test_a_message_larger_than_the_stream_is_too_large(
    client: RawClient, name: str, persistence: int, strategy: int
) -> None:
    client.create(name, maxSize=KIB, persistence=persistence, strategyOnFull=strategy)
    answer = client.call(Operation.AppendMessage, name=name, payload=bytes(KIB - ENTRY_BYTES + 1))
    assert answer.status == 4
    assert f"exceeds maxSize {KIB} of stream {name}" in answer.text
    assert client.append(name, bytes(KIB - ENTRY_BYTES)) == [0]


@pytest.mark.parametrize("persistence", [0, 1])
def test_a_full_stream_that_rejects_refuses_new_data_and_keeps_the_old(
    client: RawClient, name: str, persistence: int
) -> None:
    client.create(name, maxSize=KIB, persistence=persistence)
    client.append(name, bytes(400), bytes(400))
    answer = client.call(Operation.AppendMessage, name=name, payload=bytes(400))
    assert answer.status == 3
    assert f"stream {name} is full" in answer.text
    assert client.append(name, bytes(100)) == [2], "a smaller one still fits"
    assert client.read(name, 0, 3).sequences == [0, 1, 2]


def test_of_pipelined_appends_to_a_nearly_full_stream_those_that_fit_are_taken(
    client: RawClient, name: str
) -> None:
    client.create(name, maxSize=KIB)
    sizes = [400, 400, 400, 60, 400, 10]
    client.send(*(append_frame(name, bytes(size), f"{at}") for at, size in enumerate(sizes)))
    answers = {answer.request_id: answer for answer in client.answers(len(sizes))}
    assert {key: answer.status for key, answer in answers.items()} == {
        "0": 0,
        "1": 0,
        "2": 3,
        "3": 0,
        "4": 3,
        "5": 0,
    }
    taken = [answers[key].sequence for key in ("0", "1", "3", "5")]
    assert taken == [0, 1, 2, 3]
    assert [len(payload) for payload in client.read(name, 0, 4).payloads] == [400, 400, 60, 10]


@pytest.mark.parametrize("persistence", [0, 1])
def test_a_full_stream_that_overwrites_drops_its_oldest_segments(
    client: RawClient, name: str, persistence: int
) -> None:
    client.create(
        name,
        maxSize=8 * KIB,
        streamSegmentSize=2 * KIB,
        strategyOnFull=1,
        persistence=persistence,
    )
    for number in range(60):
        assert client.append(name, b"%03d" % number + bytes(497)) == [number]
    storage = client.describe(name)["storageStatus"]
    assert storage["newestSequenceNumber"] == 59
    assert 0 < storage["oldestSequenceNumber"] < 59
    assert storage["totalBytes"] <= 8 * KIB
    count = 60 - storage["oldestSequenceNumber"]
    assert storage["totalBytes"] == count * (500 + ENTRY_BYTES)
    answer = client.read(name, 0, count)
    assert answer.sequences == list(range(storage["oldestSequenceNumber"], 60))
    assert answer.payloads[-1][:3] == b"059"


def test_a_message_larger_than_a_segment_is_stored(client: RawClient, name: str) -> None:
    client.create(name, streamSegmentSize=KIB)
    payload = bytes(range(250)) * 40
    client.append(name, b"before", payload, b"after")
    assert client.read(name, 0, 3).payloads == [b"before", payload, b"after"]


# --- list and delete ----------------------------------------------------------------------------


def test_streams_are_listed_in_order(client: RawClient, name: str) -> None:
    made = [f"{name} {letter}" for letter in "cab"]
    for one in made:
        client.create(one)
    listed = client.done(Operation.ListStreams).values["streams"]
    assert listed == sorted(listed)
    assert [one for one in listed if one in made] == sorted(made)


def test_a_deleted_stream_is_gone_and_its_name_starts_again_at_zero(
    client: RawClient, stream: str
) -> None:
    client.append(stream, b"old", b"older")
    client.done(Operation.DeleteMessageStream, name=stream)
    assert stream not in client.done(Operation.ListStreams).values["streams"]
    for operation, field in (
        (Operation.DeleteMessageStream, "name"),
        (Operation.DescribeMessageStream, "name"),
        (Operation.ReadMessages, "streamName"),
    ):
        assert client.call(operation, **{field: stream}).status == 5
    client.create(stream)
    assert client.append(stream, b"new") == [0]
    assert client.read(stream).payloads == [b"new"]


# --- protocol 1.0.0 -----------------------------------------------------------------------------


@pytest.fixture
def old_client(connect: Connect) -> RawClient:
    return connect(protocolVersion="1.0.0")


def test_an_old_client_can_do_everything_it_knows(old_client: RawClient, name: str) -> None:
    old_client.create(name)
    assert old_client.append(name, b"old") == [0]
    assert old_client.read(name).payloads == [b"old"]
    assert name in old_client.done(Operation.ListStreams).values["streams"]
    assert old_client.describe(name)["storageStatus"]["newestSequenceNumber"] == 0
    old_client.done(Operation.DeleteMessageStream, name=name)


@pytest.mark.parametrize("operation", [Operation.UpdateMessageStream, 16, 17, 64, 99])
def test_an_old_client_gets_no_operation_that_it_does_not_know(
    old_client: RawClient, operation: int, client: RawClient
) -> None:
    """The connection ends instead: protocol 1.0.0 has no way to say it."""
    definition: dict[str, Any] = {"name": "any", "strategyOnFull": 0}
    old_client.ask(operation, definition=definition)
    assert old_client.at_end()
    assert client.is_served()
