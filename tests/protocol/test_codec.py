"""Messages <-> CBOR: what is understood, what is refused, and the short cuts."""

from __future__ import annotations

import struct
from typing import Any

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.block import Block, make_entries
from penstock.errors import InvalidRequestException, ResponseStatusCode
from penstock.protocol import cbor
from penstock.protocol.codec import (
    NESTING_MAX,
    Unanswerable,
    append_request,
    append_response,
    decode_request,
    decode_response,
    encode,
    error_response,
    load_map,
    oversized_request_id,
    read_blocks_response,
    read_response,
    read_response_overhead,
    request_id_of,
)
from penstock.protocol.framing import FrameDecoder, Oversized, frame
from penstock.protocol.operations import (
    AppendMessageRequest,
    AppendMessageResponse,
    CreateMessageStreamRequest,
    ListStreamsResponse,
    Operation,
    ReadBlocksResponse,
    ReadMessagesResponse,
)

no_deadline = settings(deadline=None)

REQUEST_IDS = st.text(min_size=1, max_size=40)
NAMES = st.text(alphabet="abcXYZ012_ ,.-", min_size=1, max_size=255)
APPEND = {"requestId": "r", "name": "S", "payload": b"hello"}


def one_frame(raw: bytes) -> tuple[int, dict[str, Any]]:
    """The operation and the map of a single frame, read by cbor2 alone."""
    (length,) = struct.unpack_from(">i", raw)
    assert length == len(raw) - 4
    return raw[4], cbor2.loads(raw[5:])


def block_of(first_sequence: int, messages: list[tuple[int, bytes]], start: int = 0) -> Block:
    index, checksum = b"", 7
    for sequence, (time_ms, payload) in enumerate(messages, first_sequence):
        entry, checksum = make_entries(
            payload,
            [len(payload)],
            end=start,
            time_ms=time_ms,
            sequence=sequence,
            checksum=checksum,
        )
        start += len(payload)
        index += entry
    return Block(first_sequence, 7, index, b"".join(payload for _, payload in messages))


BLOCKS = st.lists(
    st.builds(
        block_of,
        st.integers(0, 2**40),
        st.lists(
            st.tuples(st.integers(-(2**40), 2**42), st.binary(min_size=1, max_size=300)),
            min_size=1,
            max_size=6,
        ),
        st.integers(0, 2**33),
    ),
    max_size=3,
)


# --- what is understood -------------------------------------------------------------------------

SPELLINGS = {
    "definite": cbor2.dumps(APPEND),
    "indefinite map": b"\xbf" + cbor2.dumps(APPEND)[1:] + b"\xff",
    "other order": cbor2.dumps(dict(reversed(APPEND.items()))),
    "text in chunks": b"\xa3irequestId\x7far\xffdname\x7faS\xffgpayload\x45hello",
    "bytes in chunks": b"\xa3irequestIdardnameaSgpayload\x5f\x42he\x43llo\xff",
    "wide lengths": b"\xb9\x00\x03irequestIdx\x01rdnamez\x00\x00\x00\x01Sgpayload\x58\x05hello",
    "unknown keys": cbor2.dumps({**APPEND, "new": {"deep": [1, None]}, "other": 5}),
    "a null that nobody asked for": cbor2.dumps({**APPEND, "new": None}),
    "bytes behind the map": cbor2.dumps(APPEND) + b"\x00\x01",
}


@pytest.mark.parametrize("payload", SPELLINGS.values(), ids=SPELLINGS.keys())
def test_every_spelling_of_a_request_is_understood(payload: bytes) -> None:
    request = decode_request(AppendMessageRequest, load_map(payload))

    assert request == AppendMessageRequest("r", "S", b"hello")


def test_java_sends_long_text_in_chunks_and_it_is_joined() -> None:
    """Jackson cuts text above 3996 characters, here in front of a two-byte character."""
    chunks = ["a" * 3996, "é" * 3996, "z"]
    uri = b"\x7f" + b"".join(cbor2.dumps(chunk) for chunk in chunks) + b"\xff"
    config = b"\xbfjidentifieraicuri" + uri + b"\xff"
    payload = (
        b"\xbfirequestIdarjdefinition\xbfdnameaSnstrategyOnFull\x00"
        b"pexportDefinition\xbfdhttp\x81" + config + b"\xff\xff\xff"
    )

    request = decode_request(CreateMessageStreamRequest, load_map(payload))

    (http,) = request.definition.export_definition.http
    assert http.uri == "".join(chunks)


def test_integers_of_any_width_and_integral_floats_are_integers() -> None:
    integers = [b"\x19\x04\x00", b"\x1a\x00\x00\x04\x00", b"\x1b" + (1024).to_bytes(8)]
    floats = [b"\xf9\x64\x00", b"\xfa\x44\x80\x00\x00", b"\xfb\x40\x90" + bytes(6)]
    for spelling in integers + floats:
        payload = b"\xa2irequestIdarjdefinition\xa3dnameaSnstrategyOnFull\x00gmaxSize" + spelling
        request = decode_request(CreateMessageStreamRequest, load_map(payload))
        assert request.definition.max_size == 1024
        assert type(request.definition.max_size) is int


def test_the_request_id_is_echoed_as_it_came() -> None:
    for request_id in [" ", "  ", "8fbbe050-df93-485b-9afe-57ba75e801d5", "", "é"]:
        assert request_id_of({"requestId": request_id}) == request_id


# --- what is refused ----------------------------------------------------------------------------

UNREADABLE = {
    "nothing": b"",
    "half a map": cbor2.dumps(APPEND)[:-1],
    "a list": cbor2.dumps([APPEND]),
    "a number": b"\x05",
    "a break": b"\xff",
    "text that is not UTF-8": b"\xa1irequestIdb\xff\xfe",
    "a length beyond everything": b"\xa1aa\x5b" + b"\xff" * 8,
    "an array beyond everything": b"\xa1aa\x9b" + b"\xff" * 8,
    "a key that is a number": b"\xa1\x01\x02",
    "a key that is a list": b"\xa1\x81\x01\x02",
    "too deep": b"\xa1aa" + b"\x81" * NESTING_MAX + b"\x00",
}


@pytest.mark.parametrize("payload", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_what_is_no_map_cannot_be_answered(payload: bytes) -> None:
    with pytest.raises(Unanswerable):
        load_map(payload)


# Those that cbor2 would decode by itself, and one that it does not know.
TAGS = [0, 1, 2, 3, 4, 5, 25, 28, 29, 30, 35, 36, 37, 100, 256, 258, 260, 261, 1004, 43000, 55799]


@pytest.mark.parametrize("tag", [*TAGS, 2**40])
def test_no_tag_is_decoded(tag: int) -> None:
    payload = b"\xa1aa" + cbor.head(0xC0, tag) + b"\x61x"

    with pytest.raises(Unanswerable, match=f"tag {tag}") as raised:
        load_map(payload)
    assert raised.value.__cause__ is not None
    assert str(raised.value.__cause__.__cause__) == "tags are not allowed"
    with pytest.raises(Unanswerable):
        load_map(cbor.head(0xC0, tag) + cbor2.dumps(APPEND))


def test_a_small_frame_cannot_unfold_into_a_huge_tree() -> None:
    """Shared references: eight lists, each of forty times the one before."""
    lists = b"\xd8\x1c\x81\x00" + b"".join(
        b"\xd8\x1c\x98\x28" + (b"\xd8\x1d" + bytes((level,))) * 40 for level in range(8)
    )

    with pytest.raises(Unanswerable, match="tag 28"):
        load_map(b"\xa2irequestIdaraa\x89" + lists)


@no_deadline
@given(st.binary(max_size=200))
def test_random_bytes_give_a_map_or_are_unanswerable(payload: bytes) -> None:
    try:
        found = load_map(payload)
    except Unanswerable:
        return
    assert isinstance(found, dict)


@no_deadline
@given(st.data())
def test_a_damaged_request_is_understood_refused_or_unanswerable(data: st.DataObject) -> None:
    payload = bytearray(data.draw(st.sampled_from(list(SPELLINGS.values()))))
    for _ in range(data.draw(st.integers(1, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    try:
        values = load_map(bytes(payload))
        request_id = request_id_of(values)
        request = decode_request(AppendMessageRequest, values)
    except (Unanswerable, InvalidRequestException):
        return
    assert request.request_id == request_id


@pytest.mark.parametrize("request_id", [None, 5, b"r", ["r"]])
def test_a_request_without_an_id_of_text_cannot_be_answered(request_id: object) -> None:
    with pytest.raises(Unanswerable, match="requestId"):
        request_id_of({"requestId": request_id})
    with pytest.raises(Unanswerable, match="requestId"):
        request_id_of({})


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"payload": "aGVsbG8="}, "payload: Expected `bytes`, got `str`"),
        ({"payload": b""}, "payload: Expected `bytes` of length >= 1"),
        ({"payload": None}, "payload: is required"),
        ({"payload": [104, 105]}, "payload: Expected `bytes`, got `array`"),
        ({"name": b"S"}, "name: Expected `str`, got `bytes`"),
        ({"name": ""}, "name: Expected `str` of length >= 1"),
        ({"name": "x" * 256}, "name: Expected `str` of length <= 255"),
        ({"name": "température"}, "name: Expected `str` matching regex"),
        ({"name": "S\n"}, "name: Expected `str` matching regex"),
        ({"requestId": ""}, "requestId: Expected `str` of length >= 1"),
        ({"requestId": "ü"}, "requestId: Expected `str` matching regex"),
        ({b"name": "S"}, "a key: Expected `str`"),
    ],
)
def test_a_request_that_breaks_a_rule_is_invalid_and_the_text_names_the_field(
    changes: dict[Any, Any], text: str
) -> None:
    with pytest.raises(InvalidRequestException) as raised:
        decode_request(AppendMessageRequest, APPEND | changes)

    assert text in str(raised.value)
    assert raised.value.status == ResponseStatusCode.InvalidRequest


# --- frames that are too large ------------------------------------------------------------------


@pytest.mark.parametrize(
    "before",
    [
        b"\xa3",
        b"\xbf",
        b"\xb8\x03",
        b"\xb9\x00\x03",
        b"\xba\x00\x00\x00\x03",
        b"\xbb" + (3).to_bytes(8),
        b"\xa3dnameaS",
        # The key's own bytes, as part of another value.
        b"\xa3dnamekirequestIdx",
    ],
    ids=bytes.hex,
)
def test_a_frame_that_is_too_large_still_tells_its_request_id(before: bytes) -> None:
    payload = before + b"irequestIdb #gpayload\x5a\x00\x10\x00\x00" + bytes(2**20)

    ((_, oversized),) = FrameDecoder(1000).feed(frame(4, payload))

    assert isinstance(oversized, Oversized)
    assert oversized_request_id(oversized) == " #"


@pytest.mark.parametrize(
    "head",
    [
        b"\x82irequestIdar",
        b"\xa3gpayload\x5a\x00\x10\x00\x00" + bytes(1000),
        b"\xa3irequestId\x05",
        b"\xa3irequestId\x78\xffabc",
        b"\xa3irequestId\xc2ar",
        b"\xa3\xd8\x1ca",
        b"\xbf\xff",
        b"\xa1",
    ],
    ids=bytes.hex,
)
def test_a_frame_that_is_too_large_and_hides_its_request_id_cannot_be_answered(
    head: bytes,
) -> None:
    with pytest.raises(Unanswerable):
        oversized_request_id(Oversized(2**20, head))


@no_deadline
@given(st.binary(min_size=1, max_size=100))
def test_the_head_of_a_frame_that_is_too_large_may_be_anything(head: bytes) -> None:
    try:
        request_id = oversized_request_id(Oversized(2**20, head))
    except Unanswerable:
        return
    assert b"requestId" in head
    assert isinstance(request_id, str)


# --- answers ------------------------------------------------------------------------------------


def test_an_answer_never_carries_null() -> None:
    raw = encode(Operation.ListStreamsResponse, ListStreamsResponse("r", streams=[]))

    assert one_frame(raw) == (12, {"requestId": "r", "streams": []})


def test_a_refusal_names_request_status_and_reason() -> None:
    raw = error_response(
        Operation.AppendMessageResponse, "r", ResponseStatusCode.ResourceNotFound, "no stream S"
    )

    assert one_frame(raw) == (9, {"requestId": "r", "status": 5, "errorMessage": "no stream S"})


def test_a_refusal_without_a_request_id_leaves_it_out() -> None:
    raw = error_response(
        Operation.ConnectResponse, None, ResponseStatusCode.FailedToConnect, "too many connections"
    )

    assert one_frame(raw) == (6, {"status": 12, "errorMessage": "too many connections"})


def test_an_operation_that_is_no_answer_is_refused_by_a_client() -> None:
    with pytest.raises(ValueError, match="operation 4 is not a response"):
        decode_response(Operation.AppendMessage, APPEND)


@pytest.mark.parametrize(
    ("operation", "values"),
    [
        (Operation.AppendMessageResponse, {"requestId": "r", "status": 99}),
        (Operation.AppendMessageResponse, {"requestId": "r", "status": 0, "sequenceNumber": "1"}),
        (Operation.ReadMessagesResponse, {"messages": [{"streamName": "S", "payload": "text"}]}),
        (Operation.ReadMessagesResponse, {"messages": [{"streamName": "S"}]}),
        (Operation.ReadBlocksResponse, {"blocks": [{"index": b"", "data": b""}]}),
    ],
)
def test_an_answer_that_breaks_the_protocol_is_a_value_error(
    operation: Operation, values: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=r"status|sequenceNumber|payload|firstSequenceNumber"):
        decode_response(operation, values)


def test_nulls_and_unknown_keys_in_an_answer_are_ignored_by_a_client() -> None:
    values = {"requestId": "r", "status": 0, "errorMessage": None, "sequenceNumber": 3, "new": []}

    response = decode_response(Operation.AppendMessageResponse, values)

    assert response == AppendMessageResponse("r", ResponseStatusCode.Success, None, 3)


# --- short cuts ---------------------------------------------------------------------------------


@no_deadline
@given(REQUEST_IDS, NAMES, st.binary(min_size=1, max_size=70_000))
def test_the_fast_append_request_is_what_cbor2_makes(
    request_id: str, name: str, payload: bytes
) -> None:
    values = {"requestId": request_id, "name": name, "payload": payload}

    assert append_request(request_id, cbor.text(name), payload) == frame(4, cbor2.dumps(values))


@no_deadline
@given(REQUEST_IDS, st.integers(0, 2**63 - 1))
def test_the_fast_append_response_is_what_cbor2_makes(request_id: str, sequence: int) -> None:
    values = {
        "requestId": request_id,
        "status": 0,
        "errorMessage": "",
        "sequenceNumber": sequence,
    }

    assert append_response(request_id, sequence) == frame(9, cbor2.dumps(values))


@no_deadline
@given(REQUEST_IDS, NAMES, BLOCKS)
def test_the_fast_read_response_is_what_cbor2_makes(
    request_id: str, name: str, blocks: list[Block]
) -> None:
    messages = [message.as_dict() for block in blocks for message in block.messages(name)]
    values = {"requestId": request_id, "messages": messages, "status": 0, "errorMessage": ""}

    raw = read_response(request_id, name, blocks)

    assert raw == frame(10, cbor2.dumps(values))
    assert len(raw) <= (
        len(read_response(request_id, name, []))
        + 8  # the count of the list grows, too
        + sum(len(message["payload"]) + read_response_overhead(name) for message in messages)
    )
    response = decode_response(10, load_map(raw[5:]))
    assert isinstance(response, ReadMessagesResponse)
    assert [message.as_dict() for message in response.messages or []] == messages


@no_deadline
@given(REQUEST_IDS, BLOCKS)
def test_the_pieces_of_a_bulk_read_are_what_cbor2_makes(
    request_id: str, blocks: list[Block]
) -> None:
    values = {
        "requestId": request_id,
        "status": 0,
        "errorMessage": "",
        "blocks": [
            {
                "firstSequenceNumber": block.first_sequence,
                "previousChecksum": block.previous_checksum,
                "index": block.index,
                "data": block.data,
            }
            for block in blocks
        ],
    }

    pieces = read_blocks_response(request_id, blocks)

    raw = b"".join(pieces)
    assert raw == frame(67, cbor2.dumps(values))
    assert all(any(piece is block.data for piece in pieces) for block in blocks)
    response = decode_response(67, load_map(raw[5:]))
    assert isinstance(response, ReadBlocksResponse)
    arrived = [
        Block(wire.first_sequence_number, wire.previous_checksum, wire.index, wire.data)
        for wire in response.blocks or []
    ]
    assert arrived == blocks
    assert all(block.intact() for block in arrived)


@pytest.mark.parametrize("payload_bytes", [1, 23, 24, 255, 256, 65535, 65536, 2**20])
def test_a_message_of_any_size_adds_no_more_than_its_bound_to_a_read(payload_bytes: int) -> None:
    name = "n" * 255
    block = block_of(2**62, [(2**62, bytes(payload_bytes))])

    added = len(read_response("r", name, [block])) - len(read_response("r", name, []))

    assert added <= payload_bytes + read_response_overhead(name)
