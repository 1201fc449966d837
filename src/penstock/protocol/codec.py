"""Messages <-> CBOR: one rule for all of them, and short cuts for the hottest four frames."""

from __future__ import annotations

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


def append_response(request_id: str, sequence: int) -> bytes:
    payload = b"".join(
        (
            b"\xa4\x69requestId",
            cbor.text(request_id),
            _OK,
            b"\x6esequenceNumber",
            cbor.head(cbor.UNSIGNED, sequence),
        )
    )
    return LENGTH.pack(len(payload) + 1) + b"\x09" + payload


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
