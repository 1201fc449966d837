"""162 frames captured from AWS's own SDKs, in both directions.

Each vector: which SDK sent or received it, the operation's name, the direction, the bytes, the CBOR
map, and for frames to a client what that SDK made of it: `ok` or the name of its exception.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import cbor2
import pytest

from penstock import errors
from penstock.block import Block, make_entries
from penstock.errors import ResponseStatusCode, exception_for
from penstock.model import I64_MAX, Message, to_wire
from penstock.protocol import cbor
from penstock.protocol.codec import (
    append_request,
    append_response,
    decode_request,
    decode_response,
    encode,
    load_map,
    read_response,
)
from penstock.protocol.connection import ClientConnection, ServerConnection
from penstock.protocol.framing import Frame, FrameDecoder, frame
from penstock.protocol.operations import OPERATIONS, RESPONSES, Operation, Request


class Vector(NamedTuple):
    position: int
    sdk: str
    operation: Operation
    to_server: bool
    raw: bytes
    decoded: dict[str, Any]
    sdk_result: str | None
    note: str

    @property
    def is_handshake(self) -> bool:
        return self.operation in (Operation.Connect, Operation.ConnectResponse)

    @property
    def is_indefinite(self) -> bool:
        """Jackson's style: maps without a count. Java's SDK sends it; some answers were made so."""
        if self.to_server:
            return self.sdk.startswith("java")
        return self.note.startswith("Jackson-style")

    @property
    def frame(self) -> bytes:
        """Without the connect version that a handshake begins with."""
        return self.raw[1:] if self.is_handshake else self.raw

    def __str__(self) -> str:
        return f"{self.position}-{self.sdk}-{self.operation.name}"


def plain_bytes(found: dict[str, Any]) -> Any:
    return bytes.fromhex(found["$bytes"]) if "$bytes" in found else found


def load_vectors() -> list[Vector]:
    text = (Path(__file__).parent / "vectors.json").read_text()
    return [
        Vector(
            position,
            found["sdk"],
            Operation[found["operation"]],
            found["direction"] == "client->server",
            bytes.fromhex(found["hex"]),
            found["decoded"],
            found.get("sdk_result"),
            found.get("note", ""),
        )
        for position, found in enumerate(json.loads(text, object_hook=plain_bytes))
    ]


VECTORS = load_vectors()
SDKS = sorted({vector.sdk for vector in VECTORS})
TO_SERVER = [vector for vector in VECTORS if vector.to_server]
TO_CLIENT = [vector for vector in VECTORS if not vector.to_server]
CONNECTS = [vector for vector in TO_SERVER if vector.is_handshake]
REQUESTS = [vector for vector in TO_SERVER if not vector.is_handshake]
CONNECT_RESPONSES = [vector for vector in TO_CLIENT if vector.is_handshake]
RESPONSES_LATER = [vector for vector in TO_CLIENT if not vector.is_handshake]

# Node's SDK writes 2^63-1 as a float32, which is 2^63; a general encoder would take a float64.
SENT_AS_FLOAT32 = [vector for vector in VECTORS if "float32" in vector.note]

# The requests without defaults to fill in: the object has exactly the fields that were sent.
WITHOUT_DEFAULTS = {
    Operation.AppendMessage,
    Operation.ListStreams,
    Operation.DescribeMessageStream,
    Operation.DeleteMessageStream,
}


def each(vectors: list[Vector]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("vector", vectors, ids=str)


def one_frame(raw: bytes) -> tuple[int, bytes]:
    ((operation, payload),) = FrameDecoder().feed(raw)
    assert isinstance(payload, bytes)
    return operation, payload


def server_connection() -> ServerConnection:
    return ServerConnection(lambda token: True, "1.1.0", "3f0c5a52-6f0f-4f0e-9f3e-0d7f6a1c2b3d")


def decoded_request(operation: int, payload: bytes) -> Request:
    return decode_request(OPERATIONS[Operation(operation)].request, load_map(payload))


def kept(sent: Any, wire: Any) -> bool:
    """Whether everything that was sent is there; defaults may have been filled in beside it."""
    if isinstance(sent, dict):
        return all(key in wire and kept(item, wire[key]) for key, item in sent.items())
    if isinstance(sent, list):
        return len(sent) == len(wire) and all(map(kept, sent, wire))
    return bool(sent == wire and type(sent) is type(wire))


def with_integers(decoded: Any) -> Any:
    """What the one float of the vectors stands for."""
    if isinstance(decoded, dict):
        return {key: with_integers(item) for key, item in decoded.items()}
    return I64_MAX if decoded == float(2**63) else decoded


def test_all_frames_are_here() -> None:
    counts = Counter((vector.to_server, vector.is_indefinite) for vector in VECTORS)

    assert len(VECTORS) == 162
    assert counts == {(True, False): 50, (True, True): 22, (False, False): 72, (False, True): 18}
    assert len(SENT_AS_FLOAT32) == 1


# --- bytes <-> maps -----------------------------------------------------------------------------


@each(VECTORS)
def test_a_frame_is_cut_and_decoded_to_its_map(vector: Vector) -> None:
    operation, payload = one_frame(vector.frame)

    assert operation == vector.operation
    assert load_map(payload) == vector.decoded
    assert kept(vector.decoded, load_map(payload))


@each([vector for vector in VECTORS if not vector.is_indefinite and vector not in SENT_AS_FLOAT32])
def test_a_map_encoded_again_gives_the_captured_bytes(vector: Vector) -> None:
    assert frame(vector.operation, cbor2.dumps(vector.decoded)) == vector.frame


@each([vector for vector in VECTORS if vector.is_indefinite or vector in SENT_AS_FLOAT32])
def test_another_spelling_of_a_map_means_the_same(vector: Vector) -> None:
    definite = frame(vector.operation, cbor2.dumps(vector.decoded))

    assert definite != vector.frame
    operation, payload = one_frame(definite)
    twin = load_map(payload)
    assert operation == vector.operation
    assert twin == load_map(one_frame(vector.frame)[1])
    if vector.to_server:
        assert decoded_request(operation, payload) == decoded_request(*one_frame(vector.frame))
    else:
        captured = load_map(one_frame(vector.frame)[1])
        assert decode_response(operation, twin) == decode_response(operation, captured)


# --- the server's ear ---------------------------------------------------------------------------


@each(TO_SERVER)
def test_a_request_becomes_its_object(vector: Vector) -> None:
    request = decoded_request(*one_frame(vector.frame))

    assert type(request) is OPERATIONS[vector.operation].request
    assert kept(with_integers(vector.decoded), to_wire(request))


@each(TO_SERVER)
def test_our_own_frame_of_the_same_request_is_heard_as_the_same(vector: Vector) -> None:
    request = decoded_request(*one_frame(vector.frame))

    assert decoded_request(*one_frame(encode(vector.operation, request))) == request


@each([v for v in REQUESTS if v.operation in WITHOUT_DEFAULTS and not v.is_indefinite])
def test_our_own_frame_of_a_request_without_defaults_is_the_same_bytes(vector: Vector) -> None:
    request = decoded_request(*one_frame(vector.frame))

    assert encode(vector.operation, request) == vector.frame


@each(
    [v for v in REQUESTS if v.operation == Operation.AppendMessage and not v.sdk.startswith("java")]
)
def test_the_fast_append_request_is_the_same_bytes(vector: Vector) -> None:
    decoded = vector.decoded

    made = append_request(decoded["requestId"], cbor.text(decoded["name"]), decoded["payload"])

    assert made == vector.frame


@each(CONNECTS)
@pytest.mark.parametrize("chunk_bytes", [1, 2, 3, 7, 1000])
def test_the_handshake_of_every_sdk_is_accepted(vector: Vector, chunk_bytes: int) -> None:
    tokens: list[str] = []

    def accept_any(token: str) -> bool:
        tokens.append(token)
        return True

    connection = ServerConnection(accept_any, "1.1.0", "client-1")

    for at in range(0, len(vector.raw), chunk_bytes):
        assert connection.reply == b""
        assert connection.receive(vector.raw[at : at + chunk_bytes]) == []

    assert connection.refused is None
    assert tokens == [vector.decoded.get("authToken", "")]
    assert connection.protocol_version == vector.decoded["protocolVersion"]
    assert connection.sdk_version == vector.decoded["sdkVersion"]
    assert connection.extensions == ()
    assert connection.reply[:1] == b"\x01"
    operation, payload = one_frame(connection.reply[1:])
    assert operation == Operation.ConnectResponse
    assert load_map(payload) == {
        "requestId": vector.decoded["requestId"],
        "status": 0,
        "errorMessage": "",
        "protocolVersion": vector.decoded["protocolVersion"],
        "supportedProtocolVersions": ["1.1.0", "1.0.0"],
        "serverVersion": "1.1.0",
        "clientIdentifier": "client-1",
    }


@each([vector for vector in CONNECT_RESPONSES if vector.sdk_result == "ok"])
def test_the_answer_to_a_handshake_is_the_captured_one(vector: Vector) -> None:
    """The captured answers to 1.1.0 and 1.0.0 are what we say, byte for byte where definite."""
    decoded = vector.decoded
    hello = {
        "requestId": decoded["requestId"],
        "protocolVersion": decoded["protocolVersion"],
        "sdkVersion": "1.1.0",
    }
    connection = server_connection()

    connection.receive(b"\x01" + frame(Operation.Connect, cbor2.dumps(hello)))

    assert load_map(one_frame(connection.reply[1:])[1]) == decoded
    assert (connection.reply == vector.raw) is not vector.is_indefinite


@pytest.mark.parametrize("sdk", SDKS)
@pytest.mark.parametrize("chunk_bytes", [1, 5, 4096, 10**6])
def test_a_whole_conversation_is_heard_however_it_is_chopped(sdk: str, chunk_bytes: int) -> None:
    connect = next(vector for vector in CONNECTS if vector.sdk == sdk)
    requests = [vector for vector in REQUESTS if vector.sdk == sdk]
    raw = b"".join([connect.raw, *(vector.raw for vector in requests)])
    connection = server_connection()

    frames: list[Frame] = []
    for at in range(0, len(raw), chunk_bytes):
        frames += connection.receive(raw[at : at + chunk_bytes])

    assert [operation for operation, _ in frames] == [vector.operation for vector in requests]
    for (operation, payload), vector in zip(frames, requests, strict=True):
        assert isinstance(payload, bytes)
        assert load_map(payload) == vector.decoded
        assert connection.known(operation) == (vector.operation, OPERATIONS[vector.operation])


# --- the client's ear ---------------------------------------------------------------------------


@each(CONNECT_RESPONSES)
@pytest.mark.parametrize("chunk_bytes", [1, 1000])
def test_our_client_takes_the_answer_to_a_handshake_as_the_sdk_did(
    vector: Vector, chunk_bytes: int
) -> None:
    """A refused token is ConnectFailedException for Python and Node, UnauthorizedException for
    Java; ours is both, so every expectation holds."""
    connection = ClientConnection("0.1.0")

    def receive_all() -> None:
        for at in range(0, len(vector.raw), chunk_bytes):
            assert connection.receive(vector.raw[at : at + chunk_bytes]) == []

    if vector.sdk_result == "ok":
        receive_all()
        assert connection.connected is not None
        assert to_wire(connection.connected) == vector.decoded
        assert connection.extensions == frozenset()
    else:
        with pytest.raises(getattr(errors, str(vector.sdk_result))) as raised:
            receive_all()
        assert raised.value.message == vector.decoded["errorMessage"]
        assert raised.value.status == vector.decoded["status"]
        assert raised.value.request_id == vector.decoded["requestId"]
        assert connection.connected is None


@each(RESPONSES_LATER)
def test_our_client_takes_an_answer_as_the_sdk_did(vector: Vector) -> None:
    operation, payload = one_frame(vector.frame)

    response = decode_response(operation, load_map(payload))

    assert type(response) is RESPONSES[vector.operation]
    assert kept(vector.decoded, to_wire(response))
    if vector.sdk_result == "ok":
        assert response.status is ResponseStatusCode.Success
    else:
        error = exception_for(response.status, response.error_message, response.request_id)
        assert type(error).__name__ == vector.sdk_result
        assert error.message == vector.decoded["errorMessage"]
        assert error.status == vector.decoded["status"]
        assert error.request_id == vector.decoded["requestId"]


@pytest.mark.parametrize("sdk", SDKS)
@pytest.mark.parametrize("chunk_bytes", [1, 5, 4096, 10**6])
def test_all_answers_are_heard_however_they_are_chopped(sdk: str, chunk_bytes: int) -> None:
    connected = next(v for v in CONNECT_RESPONSES if v.sdk == sdk and v.sdk_result == "ok")
    answers = [vector for vector in RESPONSES_LATER if vector.sdk == sdk]
    raw = b"".join([connected.raw, *(vector.raw for vector in answers)])
    connection = ClientConnection("0.1.0")

    frames: list[Frame] = []
    for at in range(0, len(raw), chunk_bytes):
        frames += connection.receive(raw[at : at + chunk_bytes])

    assert frames == [(vector.operation, vector.frame[5:]) for vector in answers]


# --- the server's voice -------------------------------------------------------------------------


@each(
    [
        vector
        for vector in TO_CLIENT
        if not vector.is_indefinite
        # Here the captured server names the fields of the definition in another order.
        and vector.operation != Operation.DescribeMessageStreamResponse
    ]
)
def test_our_own_frame_of_an_answer_is_the_same_bytes(vector: Vector) -> None:
    response = decode_response(vector.operation, vector.decoded)

    assert encode(vector.operation, response) == vector.frame


@each([v for v in TO_CLIENT if v.operation == Operation.DescribeMessageStreamResponse])
def test_our_own_description_is_heard_as_the_same(vector: Vector) -> None:
    response = decode_response(vector.operation, vector.decoded)

    operation, payload = one_frame(encode(vector.operation, response))

    assert decode_response(operation, load_map(payload)) == response
    assert kept(vector.decoded, load_map(payload))


def is_success_of(vector: Vector, operation: Operation) -> bool:
    return vector.operation == operation and vector.sdk_result == "ok" and not vector.is_indefinite


@each([v for v in TO_CLIENT if is_success_of(v, Operation.AppendMessageResponse)])
def test_the_fast_answer_to_an_append_is_the_same_bytes(vector: Vector) -> None:
    made = append_response(vector.decoded["requestId"], vector.decoded["sequenceNumber"])

    assert made == vector.frame


@each([v for v in TO_CLIENT if is_success_of(v, Operation.ReadMessagesResponse)])
def test_the_fast_answer_to_a_read_is_the_same_bytes(vector: Vector) -> None:
    messages = [Message.from_dict(values) for values in vector.decoded["messages"]]

    made = read_response(vector.decoded["requestId"], "S", [block_of(m) for m in messages])

    assert made == vector.frame


def block_of(message: Message) -> Block:
    assert message.sequence_number is not None
    assert message.ingest_time is not None
    index, _ = make_entries(
        message.payload,
        [len(message.payload)],
        end=0,
        time_ms=message.ingest_time,
        sequence=message.sequence_number,
        checksum=0,
    )
    return Block(message.sequence_number, 0, index, message.payload)


def test_the_worked_example_of_the_protocol_is_made_byte_by_byte() -> None:
    expected = (
        "00000023 04 a3 69726571756573744964 6120 646e616d65 6153 677061796c6f6164 4568656c6c6f"
    )

    assert append_request(" ", cbor.text("S"), b"hello") == bytes.fromhex(expected)
