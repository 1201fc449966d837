"""The table: number, request type, response type. Every message is declared here, once."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, field

from penstock.errors import ResponseStatusCode
from penstock.export_model import DeadLetter, ExportReport, ExportView, Lease, PipelineView
from penstock.model import (
    MILLIS_MAX,
    Message,
    MessageStreamDefinition,
    MessageStreamInfo,
    Model,
    Name,
    ReadMessagesOptions,
    Sequence,
    required,
)
from penstock.survey_model import StoreSurvey
from penstock.transforms.reports import Order, TransformReport, TransformView

RequestId = Annotated[str, Meta(min_length=1, pattern=r"^[A-Za-z0-9_ ,.\-]*\Z")]


class Operation(IntEnum):
    """Operation numbers; those from 64 up are Penstock's extensions."""

    Unknown = 0
    Connect = 1
    CreateMessageStream = 2
    DeleteMessageStream = 3
    AppendMessage = 4
    ReadMessages = 5
    ConnectResponse = 6
    CreateMessageStreamResponse = 7
    DeleteMessageStreamResponse = 8
    AppendMessageResponse = 9
    ReadMessagesResponse = 10
    ListStreams = 11
    ListStreamsResponse = 12
    DescribeMessageStream = 13
    DescribeMessageStreamResponse = 14
    UpdateMessageStream = 15
    UpdateMessageStreamResponse = 16
    UnknownOperationError = 17
    AppendMessages = 64
    AppendMessagesResponse = 65
    ReadBlocks = 66
    ReadBlocksResponse = 67
    WatchExports = 68
    WatchExportsResponse = 69
    ReportExport = 70
    ReportExportResponse = 71
    RenewLeases = 72
    RenewLeasesResponse = 73
    DescribeExports = 74
    DescribeExportsResponse = 75
    FindDeadLetters = 76
    FindDeadLettersResponse = 77
    ReplayDeadLetters = 78
    ReplayDeadLettersResponse = 79
    PurgeDeadLetters = 80
    PurgeDeadLettersResponse = 81
    AppendOnce = 82
    AppendOnceResponse = 83
    ReportTransforms = 84
    ReportTransformsResponse = 85
    DescribeTransforms = 86
    DescribeTransformsResponse = 87
    ResetTransform = 88
    ResetTransformResponse = 89
    SurveyStreams = 90
    SurveyStreamsResponse = 91
    ObserveServer = 92
    ObserveServerResponse = 93


class Extension:
    """Names a client may ask for in ConnectRequest.penstock, and what each one unlocks."""

    APPEND_MESSAGES = "append-messages"
    READ_BLOCKS = "read-blocks"
    APPEND_ONCE = "append-once"
    SURVEY = "survey"
    OBSERVE = "observe"
    EXPORT_STATUS = "export-status"
    EXPORT_WORK = "export-work"  # only for who shows the pipeline's token
    CLIENTS = (APPEND_MESSAGES, READ_BLOCKS, APPEND_ONCE, SURVEY, OBSERVE, EXPORT_STATUS)
    ALL = (*CLIENTS, EXPORT_WORK)


class Request(Model):
    request_id: RequestId = required()


class Response(Model):
    request_id: str | None = None
    status: ResponseStatusCode | None = None
    error_message: str | None = None


class ConnectRequest(Request):
    protocol_version: str = required()
    other_supported_protocol_versions: list[str] = []
    sdk_version: str | None = None
    auth_token: str | None = None
    penstock: list[str] | None = None


class ConnectResponse(Response):
    protocol_version: str | None = None
    supported_protocol_versions: list[str] | None = None
    server_version: str | None = None
    client_identifier: str | None = None
    penstock: list[str] | None = None


class CreateMessageStreamRequest(Request):
    definition: MessageStreamDefinition = required()


class CreateMessageStreamResponse(Response):
    pass


class UpdateMessageStreamRequest(Request):
    definition: MessageStreamDefinition = required()


class UpdateMessageStreamResponse(Response):
    pass


class DeleteMessageStreamRequest(Request):
    name: Name = required()


class DeleteMessageStreamResponse(Response):
    pass


class DescribeMessageStreamRequest(Request):
    name: Name = required()


class DescribeMessageStreamResponse(Response):
    message_stream_info: MessageStreamInfo | None = None


class AppendMessageRequest(Request):
    name: Name = required()
    payload: Annotated[bytes, Meta(min_length=1)] = required()


class AppendMessageResponse(Response):
    sequence_number: int | None = None


class ReadMessagesRequest(Request):
    stream_name: Name = required()
    read_messages_options: ReadMessagesOptions = field(default_factory=ReadMessagesOptions)


class ReadMessagesResponse(Model):
    # The reference puts the messages before the status; readers of its logs are used to it.
    request_id: str | None = None
    messages: list[Message] | None = None
    status: ResponseStatusCode | None = None
    error_message: str | None = None


class ListStreamsRequest(Request):
    pass


class ListStreamsResponse(Response):
    streams: list[str] | None = None


class UnknownOperationError(Response):
    pass


class AppendMessagesRequest(Request):
    """Many messages at once, all of them or none.

    `sizes` holds one little-endian u32 per message, `data` the payloads one after another.
    """

    name: Name = required()
    sizes: Annotated[bytes, Meta(min_length=4)] = required()
    data: Annotated[bytes, Meta(min_length=1)] = required()


class AppendMessagesResponse(Response):
    first_sequence_number: int | None = None
    last_sequence_number: int | None = None


class AppendOnceRequest(AppendMessagesRequest):
    """AppendMessages that names its origin, so that it is recognised when it comes again."""

    writer: Annotated[str, Meta(min_length=1, max_length=255)] = required()
    batch: Sequence = required()
    chunk: Sequence = 0


class AppendOnceResponse(Response):
    # Absent if the messages do not stand together, or if a later chunk is stored already.
    first_sequence_number: int | None = None
    last_sequence_number: int | None = None
    stored_count: int | None = None  # how many were stored by this very request


class ReadBlocksRequest(Request):
    """ReadMessages, answered with stored bytes instead of one map per message."""

    stream_name: Name = required()
    read_messages_options: ReadMessagesOptions = field(default_factory=ReadMessagesOptions)


class WireBlock(Model):
    """Messages that stand together in one segment; see block.py for the bytes."""

    first_sequence_number: int
    previous_checksum: int
    index: bytes
    data: bytes


class ReadBlocksResponse(Response):
    blocks: list[WireBlock] | None = None


class WatchExportsRequest(Request):
    """Wait until exports are due, and get leases for them."""

    count_max: Annotated[int, Meta(ge=1, le=10_000)] = 100
    wait_millis: Annotated[int, Meta(ge=0, le=MILLIS_MAX)] = 0


class WatchExportsResponse(Response):
    leases: list[Lease] | None = None
    settings: dict[str, Any] | None = None  # those of the server that concern destinations


class ReportExportRequest(Request):
    report: ExportReport = required()


class ReportExportResponse(Response):
    lease_held: bool | None = None
    canceled: bool | None = None  # the export or its stream is gone


class RenewLeasesRequest(Request):
    lease_ids: list[int] = []
    unused_ids: list[int] = []  # to be given back, unless another connection has spoken of them


class RenewLeasesResponse(Response):
    lost_ids: list[int] | None = None
    canceled_ids: list[int] | None = None  # those of them whose export or stream is gone


class DescribeExportsRequest(Request):
    pass


class DescribeExportsResponse(Response):
    exports: list[ExportView] | None = None
    pipeline: PipelineView | None = None


class DeadLetterSelection(Request):
    """Which letters: all that fit everything given."""

    stream_name: Name | None = None
    export_identifier: Name | None = None
    ids: Annotated[list[int], Meta(max_length=10_000)] = []


class FindDeadLettersRequest(DeadLetterSelection):
    after_id: Sequence = 0
    count_max: Annotated[int, Meta(ge=1, le=1000)] = 100


class FindDeadLettersResponse(Response):
    dead_letters: list[DeadLetter] | None = None


class ReplayDeadLettersRequest(DeadLetterSelection):
    pass


class ReplayDeadLettersResponse(Response):
    count: int | None = None


class PurgeDeadLettersRequest(DeadLetterSelection):
    pass


class PurgeDeadLettersResponse(Response):
    count: int | None = None


class ReportTransformsRequest(Request):
    """What the transforms do; the answer says which ones are to run."""

    reports: list[TransformReport] = []


class ReportTransformsResponse(Response):
    orders: list[Order] | None = None
    folder: str | None = None  # for checkpoints


class DescribeTransformsRequest(Request):
    pass


class DescribeTransformsResponse(Response):
    transforms: list[TransformView] | None = None


class ResetTransformRequest(Request):
    name: str = required()
    start: str = required()


class ResetTransformResponse(Response):
    generation: int | None = None


class SurveyStreamsRequest(Request):
    pass


class SurveyStreamsResponse(Response):
    survey: StoreSurvey | None = None


class ObserveServerRequest(Request):
    pass


class ObserveServerResponse(Response):
    # An Observation as JSON. Asked for every second, with two thousand maps where there are a
    # thousand streams: as CBOR it would take ten times as long to write.
    observation: bytes | None = None


class Exchange(NamedTuple):
    """A request, its answer, and what a connection needs to use it."""

    request: type[Request]
    answer: Operation
    response: type[Response] | type[ReadMessagesResponse]
    protocol_version: str = "1.0.0"
    extension: str | None = None


OPERATIONS: dict[Operation, Exchange] = {
    Operation.Connect: Exchange(ConnectRequest, Operation.ConnectResponse, ConnectResponse),
    Operation.CreateMessageStream: Exchange(
        CreateMessageStreamRequest,
        Operation.CreateMessageStreamResponse,
        CreateMessageStreamResponse,
    ),
    Operation.DeleteMessageStream: Exchange(
        DeleteMessageStreamRequest,
        Operation.DeleteMessageStreamResponse,
        DeleteMessageStreamResponse,
    ),
    Operation.AppendMessage: Exchange(
        AppendMessageRequest, Operation.AppendMessageResponse, AppendMessageResponse
    ),
    Operation.ReadMessages: Exchange(
        ReadMessagesRequest, Operation.ReadMessagesResponse, ReadMessagesResponse
    ),
    Operation.ListStreams: Exchange(
        ListStreamsRequest, Operation.ListStreamsResponse, ListStreamsResponse
    ),
    Operation.DescribeMessageStream: Exchange(
        DescribeMessageStreamRequest,
        Operation.DescribeMessageStreamResponse,
        DescribeMessageStreamResponse,
    ),
    Operation.UpdateMessageStream: Exchange(
        UpdateMessageStreamRequest,
        Operation.UpdateMessageStreamResponse,
        UpdateMessageStreamResponse,
        protocol_version="1.1.0",
    ),
    Operation.AppendMessages: Exchange(
        AppendMessagesRequest,
        Operation.AppendMessagesResponse,
        AppendMessagesResponse,
        extension=Extension.APPEND_MESSAGES,
    ),
    Operation.ReadBlocks: Exchange(
        ReadBlocksRequest,
        Operation.ReadBlocksResponse,
        ReadBlocksResponse,
        extension=Extension.READ_BLOCKS,
    ),
    Operation.WatchExports: Exchange(
        WatchExportsRequest,
        Operation.WatchExportsResponse,
        WatchExportsResponse,
        extension=Extension.EXPORT_WORK,
    ),
    Operation.ReportExport: Exchange(
        ReportExportRequest,
        Operation.ReportExportResponse,
        ReportExportResponse,
        extension=Extension.EXPORT_WORK,
    ),
    Operation.RenewLeases: Exchange(
        RenewLeasesRequest,
        Operation.RenewLeasesResponse,
        RenewLeasesResponse,
        extension=Extension.EXPORT_WORK,
    ),
    Operation.DescribeExports: Exchange(
        DescribeExportsRequest,
        Operation.DescribeExportsResponse,
        DescribeExportsResponse,
        extension=Extension.EXPORT_STATUS,
    ),
    Operation.FindDeadLetters: Exchange(
        FindDeadLettersRequest,
        Operation.FindDeadLettersResponse,
        FindDeadLettersResponse,
        extension=Extension.EXPORT_STATUS,
    ),
    Operation.ReplayDeadLetters: Exchange(
        ReplayDeadLettersRequest,
        Operation.ReplayDeadLettersResponse,
        ReplayDeadLettersResponse,
        extension=Extension.EXPORT_STATUS,
    ),
    Operation.PurgeDeadLetters: Exchange(
        PurgeDeadLettersRequest,
        Operation.PurgeDeadLettersResponse,
        PurgeDeadLettersResponse,
        extension=Extension.EXPORT_STATUS,
    ),
    Operation.AppendOnce: Exchange(
        AppendOnceRequest,
        Operation.AppendOnceResponse,
        AppendOnceResponse,
        extension=Extension.APPEND_ONCE,
    ),
    Operation.ReportTransforms: Exchange(
        ReportTransformsRequest,
        Operation.ReportTransformsResponse,
        ReportTransformsResponse,
        extension=Extension.EXPORT_WORK,
    ),
    Operation.DescribeTransforms: Exchange(
        DescribeTransformsRequest,
        Operation.DescribeTransformsResponse,
        DescribeTransformsResponse,
        extension=Extension.EXPORT_STATUS,
    ),
    Operation.ResetTransform: Exchange(
        ResetTransformRequest,
        Operation.ResetTransformResponse,
        ResetTransformResponse,
        extension=Extension.EXPORT_STATUS,
    ),
    Operation.SurveyStreams: Exchange(
        SurveyStreamsRequest,
        Operation.SurveyStreamsResponse,
        SurveyStreamsResponse,
        extension=Extension.SURVEY,
    ),
    Operation.ObserveServer: Exchange(
        ObserveServerRequest,
        Operation.ObserveServerResponse,
        ObserveServerResponse,
        extension=Extension.OBSERVE,
    ),
}

RESPONSES: dict[int, type[Response] | type[ReadMessagesResponse]] = {
    int(exchange.answer): exchange.response for exchange in OPERATIONS.values()
} | {int(Operation.UnknownOperationError): UnknownOperationError}

# A 1.0.0 client ends its reader on a status above 14.
STATUS_FOR_1_0_0: dict[ResponseStatusCode, ResponseStatusCode] = {
    ResponseStatusCode.OutOfMemoryError: ResponseStatusCode.UnknownFailure,
    ResponseStatusCode.UpdateFailed: ResponseStatusCode.InvalidRequest,
    ResponseStatusCode.UpdateNotAllowed: ResponseStatusCode.InvalidRequest,
    ResponseStatusCode.UnknownOperation: ResponseStatusCode.InvalidRequest,
}
