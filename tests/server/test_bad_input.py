"""Requests that break a rule: each gets the protocol's status, with field and limit in the text."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import cbor2
import pytest
from in_process import ServerInThread
from raw_client import ALL_EXTENSIONS, RawClient, request

from penstock.protocol.framing import frame
from penstock.protocol.operations import OPERATIONS, Operation

Connect = Callable[..., RawClient]
Serve = Callable[..., ServerInThread]

LONG = "x" * 256
CHARACTERS = "matching regex '^[A-Za-z0-9_ ,."
KINESIS = {"identifier": "k", "kinesisStreamName": "s"}


def create(**changes: Any) -> tuple[int, dict[str, Any]]:
    definition = {"name": "never made", "strategyOnFull": 0, **changes}
    known = {key: value for key, value in definition.items() if value is not None}
    return Operation.CreateMessageStream, {"definition": known}


def update(**changes: Any) -> tuple[int, dict[str, Any]]:
    return Operation.UpdateMessageStream, create(**changes)[1]


def export(kind: str, **config: Any) -> tuple[int, dict[str, Any]]:
    return create(exportDefinition={kind: [{"identifier": "e", **config}]})


def append(**fields: Any) -> tuple[int, dict[str, Any]]:
    return Operation.AppendMessage, {"name": "known", "payload": b"p", **fields}


def read(**options: Any) -> tuple[int, dict[str, Any]]:
    return Operation.ReadMessages, {"streamName": "known", "readMessagesOptions": options}


def delete(name: Any) -> tuple[int, dict[str, Any]]:
    return Operation.DeleteMessageStream, {"name": name}


def describe(name: Any) -> tuple[int, dict[str, Any]]:
    return Operation.DescribeMessageStream, {"name": name}


def append_batch(**fields: Any) -> tuple[int, dict[str, Any]]:
    values = {"name": "known", "sizes": b"\x01\0\0\0", "data": b"p", **fields}
    return Operation.AppendMessages, values


def read_blocks(**fields: Any) -> tuple[int, dict[str, Any]]:
    return Operation.ReadBlocks, {"streamName": "known", **fields}


# Request, and what the text must say: the field, and the rule or the limit.
INVALID: list[tuple[tuple[int, dict[str, Any]], str, str]] = [
    ((Operation.CreateMessageStream, {}), "definition", "is required"),
    ((Operation.CreateMessageStream, {"definition": None}), "definition", "is required"),
    ((Operation.CreateMessageStream, {"definition": []}), "definition", "array"),
    ((Operation.CreateMessageStream, {"definition": {}}), "definition.name", "is required"),
    (create(name=None), "definition.name", "is required"),
    (create(name=""), "definition.name", ">= 1"),
    (create(name=LONG), "definition.name", "<= 255"),
    (create(name="température"), "definition.name", CHARACTERS),
    (create(name="a/b"), "definition.name", CHARACTERS),
    (create(name="line\n"), "definition.name", CHARACTERS),
    (create(name=5), "definition.name", "`str`, got `int`"),
    (create(name=b"bytes"), "definition.name", "`str`, got `bytes`"),
    (create(name=["list"]), "definition.name", "`str`, got `array`"),
    (create(strategyOnFull=None), "definition.strategyOnFull", "is required"),
    (create(strategyOnFull=2), "definition.strategyOnFull", "1 (OverwriteOldestData)"),
    (create(strategyOnFull="0"), "definition.strategyOnFull", "`int`, got `str`"),
    (create(maxSize=1023), "definition.maxSize", ">= 1024"),
    (create(maxSize=2**63), "definition.maxSize", "<= 9223372036854775807"),
    (create(maxSize=2**64 - 1), "definition.maxSize", "<= 9223372036854775807"),
    (create(maxSize=-1), "definition.maxSize", ">= 1024"),
    (create(maxSize=2048.5), "definition.maxSize", "`int`, got `float`"),
    (create(maxSize="1 GiB"), "definition.maxSize", "`int`, got `str`"),
    (create(streamSegmentSize=1023), "definition.streamSegmentSize", ">= 1024"),
    (create(streamSegmentSize=2**31), "definition.streamSegmentSize", "<= 2147483647"),
    (create(timeToLiveMillis=59_999), "definition.timeToLiveMillis", ">= 60000"),
    (create(timeToLiveMillis=0), "definition.timeToLiveMillis", ">= 60000"),
    (create(timeToLiveMillis=2**62), "definition.timeToLiveMillis", "<= 9223372036854"),
    (create(persistence=2), "definition.persistence", "0 (File), 1 (Memory)"),
    (create(flushOnWrite=1), "definition.flushOnWrite", "`bool`, got `int`"),
    (create(exportDefinition=[]), "definition.exportDefinition", "array"),
    (create(exportDefinition={"kinesis": {}}), "exportDefinition.kinesis", "`array`"),
    (export("kinesis"), "kinesis[0].kinesisStreamName", "is required"),
    (export("kinesis", kinesisStreamName=""), "kinesis[0].kinesisStreamName", ">= 1"),
    (export("kinesis", kinesisStreamName="s", batchSize=501), "kinesis[0].batchSize", "<= 500"),
    (export("kinesis", kinesisStreamName="s", batchSize=0), "kinesis[0].batchSize", ">= 1"),
    (export("kinesis", kinesisStreamName="s", priority=11), "kinesis[0].priority", "<= 10"),
    (export("kinesis", identifier="", kinesisStreamName="s"), "identifier", ">= 1"),
    (export("http", uri="u", exportFormat=7), "http[0].exportFormat", "1 (JSON_BATCHED)"),
    (export("http", uri="u", startSequenceNumber=-1), "http[0].startSequenceNumber", ">= 0"),
    (export("http", uri="u", batchIntervalMillis=1), "http[0].batchIntervalMillis", ">= 60000"),
    (export("iotAnalytics", iotChannel="c", batchSize=101), "iotAnalytics[0].batchSize", "<= 100"),
    (
        export("iotAnalytics", iotChannel="c", iotMsgIdPrefix="x" * 33),
        "iotAnalytics[0].iotMsgIdPrefix",
        "<= 32",
    ),
    (export("IotSitewise", batchSize=11), "IotSitewise[0].batchSize", "<= 10"),
    (
        export("s3TaskExecutor", sizeThresholdForMultipartUploadBytes=5242879),
        "s3TaskExecutor[0].sizeThresholdForMultipartUploadBytes",
        ">= 5242880",
    ),
    (
        export("s3TaskExecutor", statusConfig={"statusLevel": 5}),
        "s3TaskExecutor[0].statusConfig.statusLevel",
        "4 (TRACE)",
    ),
    (
        export("s3TaskExecutor", statusConfig={"statusStreamName": "never made"}),
        "definition",
        "choose another statusStreamName",
    ),
    (
        create(exportDefinition={"kinesis": [KINESIS], "http": [{"identifier": "k", "uri": "u"}]}),
        "definition.exportDefinition",
        "used twice: k",
    ),
    (update(maxSize=1), "definition.maxSize", ">= 1024"),
    (update(name=None), "definition.name", "is required"),
    (append(name=None), "name", "is required"),
    (append(name=""), "name", ">= 1"),
    (append(name=LONG), "name", "<= 255"),
    (append(name=7), "name", "`str`, got `int`"),
    (append(name=["known"]), "name", "`str`, got `array`"),
    (append(name={}), "name", "`str`, got `object`"),
    (append(name="ñ"), "name", CHARACTERS),
    (append(payload=None), "payload", "is required"),
    (append(payload=b""), "payload", ">= 1"),
    (append(payload="text"), "payload", "`bytes`, got `str`"),
    (append(payload=[1]), "payload", "`bytes`, got `array`"),
    (append(requestId=""), "requestId", ">= 1"),
    (append(requestId="a/b"), "requestId", CHARACTERS),
    (append(requestId="line\n"), "requestId", CHARACTERS),
    ((Operation.ReadMessages, {}), "streamName", "is required"),
    ((Operation.ReadMessages, {"name": "known"}), "streamName", "is required"),
    (read(desiredStartSequenceNumber=-1), "desiredStartSequenceNumber", ">= 0"),
    (read(desiredStartSequenceNumber=2**63), "desiredStartSequenceNumber", "<= 92233720368547"),
    (read(desiredStartSequenceNumber="0"), "desiredStartSequenceNumber", "`int`, got `str`"),
    (read(minMessageCount=0), "readMessagesOptions.minMessageCount", ">= 1"),
    (read(minMessageCount=2**31), "readMessagesOptions.minMessageCount", "<= 2147483647"),
    (read(maxMessageCount=0), "readMessagesOptions.maxMessageCount", ">= 1"),
    (read(minMessageCount=3, maxMessageCount=2), "minMessageCount 3", "maxMessageCount 2"),
    (read(readTimeoutMillis=-1), "readMessagesOptions.readTimeoutMillis", ">= 0"),
    (read(readTimeoutMillis=2**60), "readMessagesOptions.readTimeoutMillis", "<= 9223372036854"),
    (delete(None), "name", "is required"),
    (delete(LONG), "name", "<= 255"),
    (describe(None), "name", "is required"),
    (describe(3), "name", "`str`, got `int`"),
    ((Operation.ListStreams, {"requestId": "ü"}), "requestId", CHARACTERS),
    (append_batch(name=None), "name", "is required"),
    (append_batch(sizes=None), "sizes", "is required"),
    (append_batch(sizes=b""), "sizes", ">= 4"),
    (append_batch(sizes=b"\x01\0\0\0\x01"), "sizes", "5 bytes are not a whole number"),
    (append_batch(sizes=b"\x02\0\0\0"), "sizes", "sum 2 is not the length of data, 1"),
    (append_batch(sizes=b"\x01\0\0\0\0\0\0\0"), "sizes", "a message of 0 bytes"),
    (append_batch(sizes=[1]), "sizes", "`bytes`, got `array`"),
    (append_batch(data=b""), "data", ">= 1"),
    (append_batch(data="text"), "data", "`bytes`, got `str`"),
    (read_blocks(streamName=None), "streamName", "is required"),
    (read_blocks(readMessagesOptions={"minMessageCount": 0}), "minMessageCount", ">= 1"),
]


@pytest.fixture(scope="module")
def known(shared_server: Any) -> str:
    with RawClient(shared_server.port) as client:
        client.create("known")
    return "known"


@pytest.mark.parametrize(
    ("asked", "field", "rule"),
    INVALID,
    ids=[f"{Operation(op).name}-{field}-{rule}" for (op, _), field, rule in INVALID],
)
def test_a_broken_rule_is_named_with_its_field_and_limit(
    extended: RawClient, known: str, asked: tuple[int, dict[str, Any]], field: str, rule: str
) -> None:
    operation, fields = asked
    request_id = fields.get("requestId", "bad")
    extended.send(request(operation, **{"request_id": request_id} | without_id(fields)))
    answer = extended.next_answer()
    assert answer.operation == OPERATIONS[Operation(operation)].answer
    assert (answer.status, answer.request_id) == (3, request_id)
    assert field in answer.text
    assert rule in answer.text
    assert extended.is_served()


def without_id(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key != "requestId"}


def test_every_operation_is_in_the_table() -> None:
    tried = {operation for (operation, _), _, _ in INVALID}
    mine = {
        operation
        for operation, exchange in OPERATIONS.items()
        if exchange.extension in (None, *ALL_EXTENSIONS)
    }
    assert tried == mine - {Operation.Connect}


@pytest.mark.parametrize(
    "asked",
    [
        append(name="unknown"),
        (Operation.ReadMessages, {"streamName": "unknown"}),
        delete("unknown"),
        describe("unknown"),
        update(name="unknown"),
        append_batch(name="unknown"),
        read_blocks(streamName="unknown"),
    ],
    ids=lambda asked: Operation(asked[0]).name,
)
def test_an_unknown_stream_is_not_found(
    extended: RawClient, asked: tuple[int, dict[str, Any]]
) -> None:
    operation, fields = asked
    answer = extended.call(operation, **fields)
    assert answer.operation == OPERATIONS[Operation(operation)].answer
    assert answer.status == 5
    assert "stream unknown does not exist" in answer.text


@pytest.mark.parametrize("operation", [0, 6, 7, 10, 12, 14, 16, 17, 18, 63, 99, 127, 128, 255])
def test_an_unknown_operation_is_answered_as_such(client: RawClient, operation: int) -> None:
    answer = client.call(operation, name="any")
    assert (answer.operation, answer.status) == (Operation.UnknownOperationError, 18)
    assert f"operation {operation} is unknown" in answer.text
    assert client.is_served()


@pytest.mark.parametrize(
    ("asked", "extensions"),
    [
        (append_batch(), []),
        (read_blocks(), []),
        (append_batch(), ["read-blocks"]),
        (read_blocks(), ["append-messages", "no-such-extension"]),
    ],
)
def test_an_extension_is_unknown_to_those_who_did_not_ask_for_it(
    connect: Connect, known: str, asked: tuple[int, dict[str, Any]], extensions: list[str]
) -> None:
    client = connect(extensions=extensions)
    answer = client.call(asked[0], **asked[1])
    assert (answer.operation, answer.status) == (Operation.UnknownOperationError, 18)
    assert client.is_served()


def test_extensions_are_offered_only_to_those_who_ask(connect: Connect) -> None:
    assert "penstock" not in connect().connected.values
    offered = connect(extensions=["no-such", *ALL_EXTENSIONS]).connected.values["penstock"]
    assert sorted(offered) == sorted(ALL_EXTENSIONS)


@pytest.mark.parametrize(
    "payload",
    [
        b"\xff",  # a break that ends nothing
        b"\xa1\x69requestId",  # a key without a value
        b"\x80",  # a list
        b"\x63abc",
        b"\x00",
        b"\xf6",
        b"\xa0",  # no requestId
        cbor2.dumps({"requestId": 7, "name": "known", "payload": b"p"}),
        cbor2.dumps({"requestId": None}),
        cbor2.dumps({"requestid": "wrong case"}),
        cbor2.dumps({b"requestId": "bytes as a key"}),
        b"\x5b\xff\xff\xff\xff\xff\xff\xff\xff",  # 2^64-1 bytes
        b"\xa1\x69requestId\x7b\x00\x00\x00\xff\xff\xff\xff\xff",  # a terabyte of text
        b"\xbb\xff\xff\xff\xff\xff\xff\xff\xff",  # a map of 2^64-1 entries
        b"\x9b\x00\x00\x00\x10\x00\x00\x00\x00" * 9,
        b"\x81" * 60_000,  # nested
        b"\xa1\x61a" * 20_000,
        b"\xd8\x1c\x82\x00\xd8\x1d\x00",  # a list that holds itself
        b"\xd9\xd9\xf7\xa0",  # "this is CBOR"
        b"\xa1\x69requestId\x62\xc3\x28",  # text that is not UTF-8
        b"\xa2\x69requestId\x61a\xa0\x01",  # a map as a key
        b"\xa2\x69requestId\x61a\x81\x00\x01",  # a list as a key
        b"\xa2\x69requestId\x61a\x07\x01",  # a number as a key
        b"\xa2\x69requestId\x61a\xf6\x01",  # null as a key
        b"\xa1\x69requestId\xc2\x58\x20" + b"\xff" * 32,  # a tagged big number
        b"\x1c",  # a reserved head
        b"\xf8\x10",
    ],
    ids=lambda payload: payload[:12].hex(),
)
@pytest.mark.parametrize("operation", [Operation.AppendMessage, Operation.ListStreams])
def test_a_frame_that_cannot_be_answered_ends_its_own_connection_and_no_other(
    connect: Connect, client: RawClient, operation: int, payload: bytes
) -> None:
    broken = connect()
    broken.send(frame(operation, payload))
    assert broken.at_end()
    assert client.is_served()


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 1, 2**30 + 1, 2**31 - 1])
def test_a_length_that_cannot_be_ends_the_connection(
    connect: Connect, client: RawClient, length: int
) -> None:
    broken = connect()
    broken.send(struct.pack(">ib", length, Operation.ListStreams), bytes(100))
    assert broken.at_end()
    assert client.is_served()


@pytest.mark.parametrize(
    "payload",
    [
        # Indefinite map, text and bytes, as Jackson and others write them.
        b"\xbf\x69requestId\x61a\x64name\x65known\x67payload\x41p\xff",
        b"\xbf\x69requestId\x7f\x61a\xff\x64name\x7f\x62kn\x63own\xff\x67payload\x5f\x41p\xff\xff",
        # Any order, an unknown key, a null where nothing is needed, wide heads.
        b"\xa5\x67payload\x59\x00\x01p\x65extra\x82\x01\x02\x64name\x65known\x64none\xf6"
        b"\x69requestId\x61a",
        # The same key twice: the last one counts.
        b"\xa4\x69requestId\x61b\x64name\x65known\x67payload\x41p\x69requestId\x61a",
    ],
    ids=["indefinite", "chunks", "any order", "twice"],
)
def test_every_way_to_write_a_map_is_understood(
    client: RawClient, known: str, payload: bytes
) -> None:
    client.send(frame(Operation.AppendMessage, payload))
    answer = client.next_answer()
    assert (answer.request_id, answer.status) == ("a", 0), answer.text


def test_a_key_that_is_not_text_is_refused_and_the_connection_lives(
    client: RawClient, known: str
) -> None:
    values = {"requestId": "a", "name": known, "payload": b"p", b"key": 1}
    client.send(frame(Operation.AppendMessage, cbor2.dumps(values)))
    answer = client.next_answer()
    assert (answer.request_id, answer.status) == ("a", 3)
    assert "a key: Expected `str`" in answer.text
    assert client.is_served()


def test_numbers_may_come_as_floats(client: RawClient, name: str) -> None:
    client.create(name, maxSize=float(2**63), strategyOnFull=1.0, timeToLiveMillis=60_000.0)
    definition = client.describe(name)["definition"]
    assert definition["maxSize"] == 2**63 - 1
    assert definition["timeToLiveMillis"] == 60_000


def test_an_append_above_the_frame_limit_is_refused_and_the_connection_goes_on(
    serve: Serve,
) -> None:
    server = serve(frame_bytes_max=8192)
    with RawClient(server.port) as client:
        client.create("s")
        for payload in (bytes(9000), bytes(3_000_000)):
            answer = client.call(Operation.AppendMessage, name="s", payload=payload)
            assert (answer.operation, answer.status) == (Operation.AppendMessageResponse, 4)
            assert "exceeds the server's limit of 8192 (frame_bytes_max)" in answer.text
            assert client.append("s", b"small")
        assert client.read("s", 0, 2).payloads == [b"small", b"small"]


def test_an_oversized_frame_without_a_request_id_ends_the_connection(serve: Serve) -> None:
    server = serve(frame_bytes_max=8192)
    with RawClient(server.port) as client, RawClient(server.port) as other:
        client.send(frame(Operation.AppendMessage, b"\xa1\x67payload\x59\x40\x00" + bytes(0x4000)))
        assert client.at_end()
        assert other.is_served()
