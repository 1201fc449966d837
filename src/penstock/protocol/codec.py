"""Messages <-> CBOR: one rule for all of them, and short cuts for the hottest four frames."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any, NoReturn, TypeVar

import cbor2

from penstock.block import ENTRY, Block
from penstock.errors import InvalidRequestException, ResponseStatusCode
from penstock.model import Model, from_wire, to_wire
from penstock.protocol import cbor
from penstock.protocol.framing import LENGTH, Oversized, frame
from penstock.protocol.operations import (
    RESPONSES,
    Operation,
    ReadMessagesResponse,
    Request,
    Response,
)

# Definitions nest five deep; anything deeper is an attack on the stack.
NESTING_MAX = 16
RequestType = TypeVar("RequestType", bound=Request)
_OK = b"\x66status\x00\x6cerrorMessage\x60"
# By first byte; all other maps, indefinite ones too, have a head of one byte.
_MAP_HEAD_BYTES = {0xB8: 2, 0xB9: 3, 0xBA: 5, 0xBB: 9}


_APPEND = b"\xa3\x69requestId"
_APPENDED = _OK + b"\x6esequenceNumber"
_APPENDED_START = b"\x09\xa4\x69requestId"
_APPENDED_BYTES = len(_APPENDED_START) + len(_APPENDED)
_NUMBER_BYTES = {0x18: 2, 0x19: 3, 0x1A: 5, 0x1B: 9}
_REQUEST_ID = re.compile(rb"[A-Za-z0-9_ ,.\-]+\Z")


class Unanswerable(ValueError):
    """A frame without a usable requestId: no answer can be correlated, so the connection ends."""


class _NoTags(dict[int, Any]):
    """No client sends tags, and theirs is the power to harm.

    A shared reference (28, 29) unfolds a small frame into a tree that no walk over it survives.
    """

    def __missing__(self, tag: int) -> Callable[[object, bool], NoReturn]:
        return _refuse_tag


def _refuse_tag(_value: object, _immutable: bool) -> NoReturn:
    raise ValueError("tags are not allowed")


_DECODER_OPTIONS: dict[str, Any] = {
    "max_depth": NESTING_MAX,
    "strict_hashable_types": True,
    "semantic_decoders": _NoTags(),
}


def load_map(payload: bytes) -> dict[Any, Any]:
    """The CBOR map of a frame."""
    try:
        found = cbor2.loads(payload, **_DECODER_OPTIONS)
    except cbor2.CBORDecodeError as error:
        raise Unanswerable(f"the frame is not CBOR: {error}") from error
    if not isinstance(found, dict):
        raise Unanswerable(f"the frame is not a CBOR map but {type(found).__name__}")
    return found


def load_large_map(payload: memoryview) -> dict[Any, Any]:
    """The same for a payload that should not be copied as a whole."""
    try:
        found, stop = cbor.load(payload)
    except (cbor.Unusual, IndexError, UnicodeDecodeError, TypeError, RecursionError):
        return load_map(bytes(payload))
    return found if isinstance(found, dict) and stop == len(payload) else load_map(bytes(payload))


def request_id_of(values: dict[Any, Any]) -> str:
    request_id = values.get("requestId")
    if not isinstance(request_id, str):
        raise Unanswerable("the request has no requestId of type text")
    return request_id


def oversized_request_id(oversized: Oversized) -> str:
    """The requestId from the first bytes of a frame that was too large to keep."""
    if oversized.head[0] >> 5 != cbor.MAP >> 5:
        raise Unanswerable("the oversized frame does not begin with a CBOR map")
    entries = oversized.head[_MAP_HEAD_BYTES.get(oversized.head[0], 1) :]
    decoder = cbor2.CBORDecoder(BytesIO(entries), **_DECODER_OPTIONS)
    try:
        while decoder.decode() != "requestId":
            decoder.decode()  # the value of another key
        return request_id_of({"requestId": decoder.decode()})
    except cbor2.CBORDecodeError as error:
        raise Unanswerable(
            f"the first {len(oversized.head)} bytes of the oversized frame hold no requestId"
        ) from error


def decode_request(kind: type[RequestType], values: dict[Any, Any]) -> RequestType:
    """Check a request's map against its declaration."""
    try:
        return from_wire(values, kind)
    except ValueError as error:
        raise InvalidRequestException(f"Invalid request: {error}") from error


def encode(operation: int, message: Model) -> bytes:
    """A whole frame."""
    return frame(operation, cbor2.dumps(to_wire(message)))


def decode_response(operation: int, values: dict[Any, Any]) -> Response | ReadMessagesResponse:
    """A response's object. ValueError if the server broke the protocol."""
    kind = RESPONSES.get(operation)
    if kind is None:
        raise ValueError(f"operation {operation} is not a response")
    return from_wire(values, kind)


def error_response(
    operation: Operation, request_id: str | None, status: ResponseStatusCode, text: str
) -> bytes:
    """The frame that refuses a request."""
    values: dict[str, Any] = {"status": int(status), "errorMessage": text}
    if request_id is not None:
        values = {"requestId": request_id, **values}
    return frame(operation, cbor2.dumps(values))


# --- hot frames ---------------------------------------------------------------------------------


def append_request(request_id: str, name: bytes, payload: bytes) -> bytes:
    """AppendMessage; `name` is the encoded text item."""
    head = b"".join(
        (
            b"\xa3\x69requestId",
            cbor.text(request_id),
            b"\x64name",
            name,
            b"\x67payload",
            cbor.head(cbor.BYTES, len(payload)),
        )
    )
    length = LENGTH.pack(1 + len(head) + len(payload))
    return b"".join((length, b"\x04", head, payload))


def usual_append(payload: bytes) -> tuple[str, bytes, bytes] | None:
    """Request id, encoded name and payload of an AppendMessage in the layout that SDKs send.

    None for anything else, right or wrong: another order, other forms, other keys.
    A fifth of the time that cbor2 takes when the processor has been busy with something else.
    """
    try:
        if not payload.startswith(_APPEND):
            return None
        id_start, id_stop = _short_text(payload, len(_APPEND))
        name_at = id_stop + 5
        _, name_stop = _short_text(payload, name_at)
        size_at = name_stop + 8
        if payload[id_stop:name_at] != b"\x64name" or payload[name_stop:size_at] != b"\x67payload":
            return None
        start, size = _bytes_head(payload, size_at)
        request_id = payload[id_start:id_stop]
        if start + size != len(payload) or not size or not _REQUEST_ID.match(request_id):
            return None
        return request_id.decode(), payload[name_at:name_stop], payload[start:]
    except IndexError:
        return None


def _short_text(payload: bytes, at: int) -> tuple[int, int]:
    """Where a text of at most 255 bytes starts and stops; IndexError if there is none."""
    head = payload[at]
    if 0x60 <= head < 0x78:
        return at + 1, at + head - 0x5F
    if head == 0x78:
        return at + 2, at + 2 + payload[at + 1]
    raise IndexError


def _bytes_head(payload: bytes, at: int) -> tuple[int, int]:
    """Where a byte string starts and its size; IndexError if there is none of known length."""
    head = payload[at]
    if head == 0x59:
        return at + 3, payload[at + 1] << 8 | payload[at + 2]
    if head == 0x58:
        return at + 2, payload[at + 1]
    if 0x40 <= head < 0x58:
        return at + 1, head - 0x40
    if head == 0x5A:
        return at + 5, int.from_bytes(payload[at + 1 : at + 5], "big")
    raise IndexError


def append_response(request_id: str, sequence: int) -> bytes:
    number = cbor.head(cbor.UNSIGNED, sequence)
    text = cbor.text(request_id)
    length = LENGTH.pack(_APPENDED_BYTES + len(text) + len(number))
    return b"".join((length, _APPENDED_START, text, _APPENDED, number))


def load_appended(payload: bytes) -> dict[str, Any] | None:
    """The map of an AppendMessageResponse in append_response's layout; None for any other."""
    try:
        start, stop = _short_text(payload, 11)
        if not payload.startswith(b"\xa4\x69requestId") or not payload.startswith(_APPENDED, stop):
            return None
        at = stop + len(_APPENDED)
        number = payload[at]
        if number >= 24:
            if _NUMBER_BYTES.get(number) != len(payload) - at:
                return None
            number = int.from_bytes(payload[at + 1 :], "big")
        elif at + 1 != len(payload):
            return None
        request_id = payload[start:stop].decode()
    except (IndexError, UnicodeDecodeError):
        return None
    return {"requestId": request_id, "status": 0, "sequenceNumber": number}


def read_response(request_id: str, stream_name: str, blocks: Sequence[Block]) -> bytes:
    """ReadMessagesResponse: one map per message, straight from the stored bytes."""
    before = b"\xa4\x6astreamName" + cbor.text(stream_name) + b"\x6esequenceNumber"
    head, unsigned, octets = cbor.head, cbor.UNSIGNED, cbor.BYTES
    messages: list[bytes] = []
    last_time_ms = None  # neighbours often share their millisecond
    for block in blocks:
        data = block.data
        sequence = block.first_sequence
        at = 0
        for _, time_ms, size, _, _, _ in ENTRY.iter_unpack(block.index):
            stop = at + size
            if time_ms != last_time_ms:
                last_time_ms = time_ms
                middle = b"\x6aingestTime" + cbor.integer(time_ms) + b"\x67payload"
            messages += (
                before,
                head(unsigned, sequence),
                middle,
                head(octets, size),
                data[at:stop],
            )
            at = stop
            sequence += 1
    count = len(messages) // 5
    opening = b"".join(
        (b"\xa4\x69requestId", cbor.text(request_id), b"\x68messages", head(cbor.ARRAY, count))
    )
    length = len(opening) + sum(map(len, messages)) + len(_OK) + 1
    return b"".join((LENGTH.pack(length), b"\x0a", opening, *messages, _OK))


def read_blocks_response(request_id: str, blocks: Sequence[Block]) -> list[bytes]:
    """ReadBlocksResponse in pieces, so that the stored bytes are not copied."""
    pieces = [
        b"\xa4\x69requestId" + cbor.text(request_id) + _OK,
        b"\x66blocks" + cbor.head(cbor.ARRAY, len(blocks)),
    ]
    for block in blocks:
        pieces += (
            b"\xa4\x73firstSequenceNumber" + cbor.head(cbor.UNSIGNED, block.first_sequence),
            b"\x70previousChecksum" + cbor.head(cbor.UNSIGNED, block.previous_checksum),
            b"\x65index" + cbor.head(cbor.BYTES, len(block.index)),
            block.index,
            b"\x64data" + cbor.head(cbor.BYTES, len(block.data)),
            block.data,
        )
    length = sum(map(len, pieces)) + 1
    return [LENGTH.pack(length) + bytes((Operation.ReadBlocksResponse,)), *pieces]


def read_response_overhead(stream_name: str) -> int:
    """Upper bound of the bytes that a message adds to a read response besides its payload."""
    return 80 + len(stream_name.encode())
