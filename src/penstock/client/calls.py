"""What both clients say and understand: requests are built and answers judged here, once."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from sys import byteorder
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

import cbor2
import msgspec

from penstock.block import Block
from penstock.client.fallback import blocks_of
from penstock.errors import (
    ClientException,
    InvalidDefinitionException,
    MessageStoreReadErrorException,
    RequestPayloadTooLargeException,
    ResponseStatusCode,
    UnknownOperationException,
    ValidationException,
    exception_for,
)
from penstock.export_model import DeadLetter, ExportView, PipelineView
from penstock.model import (
    Message,
    MessageStreamDefinition,
    MessageStreamInfo,
    Name,
    ReadMessagesOptions,
    RuleBroken,
    to_wire,
)
from penstock.observe_model import Observation
from penstock.protocol import cbor
from penstock.protocol.codec import decode_response
from penstock.protocol.framing import FRAME_LENGTH_MAX, frame
from penstock.protocol.operations import (
    OPERATIONS,
    AppendMessageResponse,
    AppendMessagesResponse,
    AppendOnceResponse,
    DescribeExportsResponse,
    DescribeMessageStreamResponse,
    DescribeTransformsResponse,
    FindDeadLettersResponse,
    ListStreamsResponse,
    ObserveServerResponse,
    Operation,
    PurgeDeadLettersResponse,
    ReadBlocksResponse,
    ReadMessagesResponse,
    ReplayDeadLettersResponse,
    ResetTransformResponse,
    SurveyStreamsResponse,
)
from penstock.survey_model import StoreSurvey
from penstock.transforms.reports import TransformView

# The frame limit minus what stands before the payload, at its longest.
PAYLOAD_BYTES_MAX = FRAME_LENGTH_MAX - 512
# Encoded names are kept for the next append. Who uses more streams than this pays a microsecond.
NAMES_KEPT_MAX = 4096

Values = dict[Any, Any]
Result = TypeVar("Result")
Value = TypeVar("Value")


class AppendedRange(NamedTuple):
    """The numbers of the first and the last message of a batch."""

    first_sequence_number: int
    last_sequence_number: int


class AppendedOnce(NamedTuple):
    """What became of a batch that may have been sent before.

    The numbers are None if its messages do not stand together, or if a later chunk is stored
    already. `stored_count` is how many this call has stored: none if all of them were there.
    """

    first_sequence_number: int | None
    last_sequence_number: int | None
    stored_count: int


@dataclass(frozen=True, slots=True)
class PackedPayloads:
    """Payloads in the form in which they travel: for who has them so already.

    `data` holds them one after another, `sizes` a little-endian u32 for each.
    """

    sizes: bytes
    data: bytes


class ExtensionMissing(UnknownOperationException):
    """The server has no such operation, and no other single one can stand in for it."""

    def __init__(self, extension: str) -> None:
        super().__init__(f"this server does not offer the extension {extension}")


class ExportsInfo(NamedTuple):
    """All exports, and the process that does them."""

    exports: list[ExportView]
    pipeline: PipelineView


@dataclass(frozen=True, slots=True)
class Call(Generic[Result]):
    """A checked request, what its answer means, and what to ask a server that does not know it."""

    operation: Operation
    request: dict[str, Any]
    result: Callable[[Any], Result]
    instead: Call[Result] | None = None

    def suited(self, extensions: Collection[str]) -> Call[Result]:
        """This call, or the one that the server understands."""
        extension = OPERATIONS[self.operation].extension
        if extension is None or extension in extensions:
            return self
        if self.instead is None:
            raise ExtensionMissing(extension)
        return self.instead

    def frame(self, request_id: str) -> bytes:
        try:
            # The key is there already, so it keeps its place: first, where servers look for it.
            payload = cbor2.dumps(self.request | {"requestId": request_id})
        except (cbor2.CBOREncodeError, ValueError) as error:  # half a character, for example
            raise ValidationException(f"the request cannot be encoded: {error}") from error
        if len(payload) >= FRAME_LENGTH_MAX:
            raise too_large(len(payload))
        return frame(self.operation, payload)

    def judge(self, operation: int, values: Values) -> Result:
        """The result, or the exception that the answer stands for."""
        answer = OPERATIONS[self.operation].answer
        if operation != answer or values.get("status") != ResponseStatusCode.Success:
            refuse(answer, operation, values)
        try:
            return self.result(decode_response(operation, values))
        except ValueError as error:
            raise ClientException(f"the server's answer breaks the protocol: {error}") from error


def create_message_stream(definition: MessageStreamDefinition) -> Call[None]:
    return checked_call(Operation.CreateMessageStream, _nothing, definition=definition)


def update_message_stream(definition: MessageStreamDefinition) -> Call[None]:
    return checked_call(Operation.UpdateMessageStream, _nothing, definition=definition)


def delete_message_stream(stream_name: str) -> Call[None]:
    return checked_call(Operation.DeleteMessageStream, _nothing, name=stream_name)


def describe_message_stream(stream_name: str) -> Call[MessageStreamInfo]:
    return checked_call(Operation.DescribeMessageStream, _stream_info, name=stream_name)


def list_streams() -> Call[list[str]]:
    return checked_call(Operation.ListStreams, _stream_names)


def append_messages(stream_name: str, payloads: Sequence[bytes]) -> Call[AppendedRange]:
    """All payloads in one request; `checked_payloads` has seen them."""
    packed = _packed(payloads)
    return checked_call(
        Operation.AppendMessages,
        _appended_range,
        name=stream_name,
        sizes=packed.sizes,
        data=packed.data,
    )


def append_once(
    stream_name: str,
    payloads: Iterable[bytes] | PackedPayloads,
    writer: str,
    batch: int,
    chunk: int,
) -> Call[AppendedOnce]:
    if not isinstance(payloads, PackedPayloads):
        payloads = _packed(checked_payloads(payloads))
    return checked_call(
        Operation.AppendOnce,
        _appended_once,
        name=stream_name,
        sizes=payloads.sizes,
        data=payloads.data,
        writer=writer,
        batch=batch,
        chunk=chunk,
    )


def read_messages(stream_name: str, options: ReadMessagesOptions | None) -> Call[list[Message]]:
    """A bulk read where the server has one: it is faster, and checked from end to end."""

    def messages(response: ReadBlocksResponse) -> list[Message]:
        return [message for block in _blocks(response) for message in block.messages(stream_name)]

    return _read(messages, _messages, stream_name, options)


def read_blocks(stream_name: str, options: ReadMessagesOptions | None) -> Call[list[Block]]:
    def blocks(response: ReadMessagesResponse) -> list[Block]:
        return blocks_of(_messages(response))

    return _read(_blocks, blocks, stream_name, options)


def describe_exports() -> Call[ExportsInfo]:
    return checked_call(Operation.DescribeExports, _exports_info)


def find_dead_letters(
    stream_name: str | None,
    export_identifier: str | None,
    ids: Sequence[int],
    after_id: int,
    count_max: int,
) -> Call[list[DeadLetter]]:
    return checked_call(
        Operation.FindDeadLetters,
        _dead_letters,
        stream_name=stream_name,
        export_identifier=export_identifier,
        ids=list(ids),
        after_id=after_id,
        count_max=count_max,
    )


def treat_dead_letters(
    operation: Operation,
    stream_name: str | None,
    export_identifier: str | None,
    ids: Sequence[int],
) -> Call[int]:
    """Replay or purge."""
    return checked_call(
        operation,
        _count,
        stream_name=stream_name,
        export_identifier=export_identifier,
        ids=list(ids),
    )


def describe_transforms() -> Call[list[TransformView]]:
    return checked_call(Operation.DescribeTransforms, _transform_views)


def reset_transform(name: str, start: str) -> Call[int]:
    return checked_call(Operation.ResetTransform, _generation, name=name, start=start)


def survey_streams() -> Call[StoreSurvey]:
    return checked_call(Operation.SurveyStreams, _survey)


def observe_server() -> Call[Observation]:
    return checked_call(Operation.ObserveServer, _observation)


def appended(operation: int, values: Values) -> int:
    """The sequence number in the answer to an append. Hot: the usual answer takes two look-ups."""
    if operation == Operation.AppendMessageResponse and values.get("status") == 0:
        sequence = values.get("sequenceNumber")
        if type(sequence) is int:
            return sequence
    return _APPEND.judge(operation, values)


# --- what the caller gives ----------------------------------------------------------------------


class Names:
    """Checked stream names, encoded once."""

    def __init__(self) -> None:
        self._encoded: dict[str, bytes] = {}

    def encoded(self, stream_name: str) -> bytes:
        try:
            return self._encoded[stream_name]
        except (KeyError, TypeError):  # new, or not even hashable
            return self._add(stream_name)

    def _add(self, stream_name: str) -> bytes:
        try:
            checked = msgspec.convert(stream_name, Name)
        except msgspec.ValidationError as error:
            raise ValidationException(f"stream_name: {error}") from error
        if len(self._encoded) >= NAMES_KEPT_MAX:
            self._encoded.clear()
        encoded = self._encoded[checked] = cbor.text(checked)
        return encoded


def checked_payload(data: Any, what: str = "data") -> bytes:
    """The payload as bytes: at least one, and no more than a frame holds."""
    if type(data) is bytes and 0 < len(data) <= PAYLOAD_BYTES_MAX:
        return data  # hot: nearly always so
    if not isinstance(data, bytes | bytearray | memoryview):
        raise ValidationException(f"{what}: must be bytes, not {type(data).__name__}")
    payload = bytes(data)
    if not payload:
        raise ValidationException(f"{what}: must have at least one byte")
    if len(payload) > PAYLOAD_BYTES_MAX:
        raise too_large(len(payload))
    return payload


def checked_payloads(payloads: Iterable[bytes]) -> list[bytes]:
    """A batch that is worth a request."""
    if isinstance(payloads, bytes | bytearray | memoryview | str):
        raise ValidationException(
            f"payloads: must be several payloads, not one {type(payloads).__name__}"
        )
    checked = [
        checked_payload(data, f"payloads[{position}]") for position, data in enumerate(payloads)
    ]
    if not checked:
        raise ValidationException("payloads: must have at least one payload")
    return checked


def _packed(payloads: Sequence[bytes]) -> PackedPayloads:
    sizes = array("I", map(len, payloads))
    if byteorder == "big":
        sizes.byteswap()
    return PackedPayloads(sizes.tobytes(), b"".join(payloads))


def check_read_timeout(options: ReadMessagesOptions | None, request_timeout_s: float) -> None:
    """A read must not wait longer than the client waits for its answer."""
    if options is not None and options.read_timeout_millis > request_timeout_s * 1000:
        raise ValidationException(
            f"readTimeoutMillis: {options.read_timeout_millis} is more than the client's request "
            f"timeout of {request_timeout_s * 1000:.0f} ms"
        )


def too_large(size_bytes: int) -> RequestPayloadTooLargeException:
    return RequestPayloadTooLargeException(
        f"{size_bytes} bytes do not fit a frame of at most {FRAME_LENGTH_MAX}; nothing was sent"
    )


def checked_call(
    operation: Operation, result: Callable[[Any], Result], **fields: Any
) -> Call[Result]:
    """A request that keeps every rule of the model, or ValidationException."""
    request = OPERATIONS[operation].request(request_id="-", **fields)
    try:
        return Call(operation, to_wire(request.validated()), result)
    except RuleBroken as error:
        is_definition = "definition" in fields
        raise (InvalidDefinitionException if is_definition else ValidationException)(
            str(error)
        ) from error
    except (ValueError, TypeError, RecursionError) as error:
        raise ValidationException(str(error)) from error


def _read(
    from_blocks: Callable[[ReadBlocksResponse], list[Value]],
    from_messages: Callable[[ReadMessagesResponse], list[Value]],
    stream_name: str,
    options: ReadMessagesOptions | None,
) -> Call[list[Value]]:
    """ReadBlocks, and ReadMessages instead of it: the two requests look the same."""
    call = checked_call(
        Operation.ReadBlocks,
        from_blocks,
        stream_name=stream_name,
        read_messages_options=ReadMessagesOptions() if options is None else options,
    )
    return replace(call, instead=Call(Operation.ReadMessages, call.request, from_messages))


# --- what the server answers --------------------------------------------------------------------


def refuse(expected: Operation, operation: int, values: Values) -> NoReturn:
    """Raise what an answer that is no success stands for."""
    request_id, text = str(values.get("requestId")), values.get("errorMessage")
    if operation not in (expected, Operation.UnknownOperationError):
        raise ClientException(
            f"the server answered with operation {operation} instead of {int(expected)}",
            None,
            request_id,
        )
    raise exception_for(values.get("status"), None if text is None else str(text), request_id)


def _nothing(response: object) -> None:
    """Success is all there is to say."""


def _stream_info(response: DescribeMessageStreamResponse) -> MessageStreamInfo:
    return _present(response.message_stream_info, "messageStreamInfo")


def _stream_names(response: ListStreamsResponse) -> list[str]:
    return _present(response.streams, "streams")


def _sequence_number(response: AppendMessageResponse) -> int:
    return _present(response.sequence_number, "sequenceNumber")


def _appended_range(response: AppendMessagesResponse) -> AppendedRange:
    return AppendedRange(
        _present(response.first_sequence_number, "firstSequenceNumber"),
        _present(response.last_sequence_number, "lastSequenceNumber"),
    )


def _appended_once(response: AppendOnceResponse) -> AppendedOnce:
    return AppendedOnce(
        response.first_sequence_number,
        response.last_sequence_number,
        _present(response.stored_count, "storedCount"),
    )


def _messages(response: ReadMessagesResponse) -> list[Message]:
    messages = _present(response.messages, "messages")
    for message in messages:
        _present(message.sequence_number, "sequenceNumber")
    return messages


def _blocks(response: ReadBlocksResponse) -> list[Block]:
    """The blocks, every byte checked: whatever went wrong on disk or on the way shows here."""
    blocks = [
        Block(found.first_sequence_number, found.previous_checksum, found.index, found.data)
        for found in _present(response.blocks, "blocks")
    ]
    for block in blocks:
        if not block.intact():
            raise MessageStoreReadErrorException(
                f"the messages from {block.first_sequence} on came with a wrong checksum: they "
                "were damaged after the server checked them; read again"
            )
    return blocks


def _exports_info(response: DescribeExportsResponse) -> ExportsInfo:
    return ExportsInfo(
        _present(response.exports, "exports"), _present(response.pipeline, "pipeline")
    )


def _dead_letters(response: FindDeadLettersResponse) -> list[DeadLetter]:
    return _present(response.dead_letters, "deadLetters")


def _transform_views(response: DescribeTransformsResponse) -> list[TransformView]:
    return _present(response.transforms, "transforms")


def _survey(response: SurveyStreamsResponse) -> StoreSurvey:
    return _present(response.survey, "survey")


def _observation(response: ObserveServerResponse) -> Observation:
    return _OBSERVATIONS.decode(_present(response.observation, "observation"))


def _generation(response: ResetTransformResponse) -> int:
    return _present(response.generation, "generation")


def _count(response: ReplayDeadLettersResponse | PurgeDeadLettersResponse) -> int:
    return _present(response.count, "count")


def _present(value: Value | None, wire_name: str) -> Value:
    if value is None:
        raise ValueError(f"{wire_name} is missing")
    return value


_APPEND = Call(Operation.AppendMessage, {}, _sequence_number)
_OBSERVATIONS = msgspec.json.Decoder(Observation)
