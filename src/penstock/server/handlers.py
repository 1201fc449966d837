"""The table: request type -> function.

A handler returns the response, or None if it has taken care of the answer. It raises what refuses
the request.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from penstock.block import ENTRY_BYTES, Block
from penstock.errors import InvalidRequestException, ResponseStatusCode
from penstock.model import ReadMessagesOptions
from penstock.protocol import codec
from penstock.protocol.operations import (
    AppendMessageRequest,
    AppendMessagesRequest,
    AppendMessagesResponse,
    AppendOnceRequest,
    AppendOnceResponse,
    CreateMessageStreamRequest,
    CreateMessageStreamResponse,
    DeleteMessageStreamRequest,
    DeleteMessageStreamResponse,
    DescribeExportsRequest,
    DescribeExportsResponse,
    DescribeMessageStreamRequest,
    DescribeMessageStreamResponse,
    DescribeTransformsRequest,
    DescribeTransformsResponse,
    FindDeadLettersRequest,
    FindDeadLettersResponse,
    ListStreamsRequest,
    ListStreamsResponse,
    ObserveServerRequest,
    ObserveServerResponse,
    Operation,
    PurgeDeadLettersRequest,
    PurgeDeadLettersResponse,
    ReadBlocksRequest,
    ReadMessagesRequest,
    RenewLeasesRequest,
    RenewLeasesResponse,
    ReplayDeadLettersRequest,
    ReplayDeadLettersResponse,
    ReportExportRequest,
    ReportExportResponse,
    ReportTransformsRequest,
    ReportTransformsResponse,
    Request,
    ResetTransformRequest,
    ResetTransformResponse,
    Response,
    SurveyStreamsRequest,
    SurveyStreamsResponse,
    UpdateMessageStreamRequest,
    UpdateMessageStreamResponse,
    WatchExportsRequest,
)
from penstock.server.reads import Encoder, Read
from penstock.streams.origins import Origin, Record

if TYPE_CHECKING:
    from penstock.server.streams import LiveStreams
    from penstock.server.tcp import Session


ResponseType = TypeVar("ResponseType", bound=Response)


def create_stream(
    streams: LiveStreams, session: Session, request: CreateMessageStreamRequest
) -> Response:
    streams.create(request.definition)
    return _success(CreateMessageStreamResponse, request)


def update_stream(
    streams: LiveStreams, session: Session, request: UpdateMessageStreamRequest
) -> Response:
    streams.update(request.definition)
    return _success(UpdateMessageStreamResponse, request)


def delete_stream(
    streams: LiveStreams, session: Session, request: DeleteMessageStreamRequest
) -> Response:
    streams.delete(request.name)
    return _success(DeleteMessageStreamResponse, request)


def describe_stream(
    streams: LiveStreams, session: Session, request: DescribeMessageStreamRequest
) -> Response:
    response = _success(DescribeMessageStreamResponse, request)
    response.message_stream_info = streams.flushed(request.name).stream.info()
    return response


def list_streams(streams: LiveStreams, session: Session, request: ListStreamsRequest) -> Response:
    response = _success(ListStreamsResponse, request)
    response.streams = streams.names()
    return response


def append_message(streams: LiveStreams, session: Session, request: AppendMessageRequest) -> None:
    streams.get(request.name).append(session, request.request_id, request.payload)


def append_messages(streams: LiveStreams, session: Session, request: AppendMessagesRequest) -> None:
    sizes = _sizes(request)

    def answer(first: int) -> bytes:
        response = _success(AppendMessagesResponse, request)
        response.first_sequence_number = first
        response.last_sequence_number = first + len(sizes) - 1
        return codec.encode(Operation.AppendMessagesResponse, response)

    streams.get(request.name).append_batch(session, request.request_id, request.data, sizes, answer)


def append_once(streams: LiveStreams, session: Session, request: AppendOnceRequest) -> None:
    sizes = _sizes(request)
    origin = Origin(request.writer, request.batch, request.chunk)

    def answer(record: Record, stored_count: int) -> bytes:
        response = _success(AppendOnceResponse, request)
        if len(record.runs) == 1:
            ((first, count),) = record.runs
            response.first_sequence_number = first
            response.last_sequence_number = first + count - 1
        response.stored_count = stored_count
        return codec.encode(Operation.AppendOnceResponse, response)

    streams.get(request.name).append_once(
        session, request.request_id, origin, request.data, sizes, answer
    )


def read_messages(streams: LiveStreams, session: Session, request: ReadMessagesRequest) -> None:
    overhead_bytes = codec.read_response_overhead(request.stream_name)
    answer = Operation.ReadMessagesResponse
    _read(streams, session, request, answer, _encode_messages, overhead_bytes)


def read_blocks(streams: LiveStreams, session: Session, request: ReadBlocksRequest) -> None:
    answer = Operation.ReadBlocksResponse
    _read(streams, session, request, answer, _encode_blocks, ENTRY_BYTES)


def watch_exports(streams: LiveStreams, session: Session, request: WatchExportsRequest) -> None:
    streams.exports.watch(session, request)


def report_export(streams: LiveStreams, session: Session, request: ReportExportRequest) -> Response:
    response = _success(ReportExportResponse, request)
    response.lease_held = streams.exports.report(session, request.report)
    response.canceled = bool(streams.exports.canceled([request.report.lease_id]))
    return response


def renew_leases(streams: LiveStreams, session: Session, request: RenewLeasesRequest) -> Response:
    response = _success(RenewLeasesResponse, request)
    response.lost_ids = streams.exports.renew(session, request.lease_ids)
    streams.exports.give_back(session, request.unused_ids)
    response.canceled_ids = streams.exports.canceled(response.lost_ids)
    return response


def describe_exports(
    streams: LiveStreams, session: Session, request: DescribeExportsRequest
) -> Response:
    response = _success(DescribeExportsResponse, request)
    response.exports = streams.exports.views()
    response.pipeline = streams.exports.pipeline
    return response


def find_dead_letters(
    streams: LiveStreams, session: Session, request: FindDeadLettersRequest
) -> Response:
    response = _success(FindDeadLettersResponse, request)
    response.dead_letters = streams.exports.find_letters(request)
    return response


def replay_dead_letters(
    streams: LiveStreams, session: Session, request: ReplayDeadLettersRequest
) -> Response:
    response = _success(ReplayDeadLettersResponse, request)
    response.count = streams.exports.replay_letters(request)
    return response


def purge_dead_letters(
    streams: LiveStreams, session: Session, request: PurgeDeadLettersRequest
) -> Response:
    response = _success(PurgeDeadLettersResponse, request)
    response.count = streams.exports.purge_letters(request)
    return response


def report_transforms(
    streams: LiveStreams, session: Session, request: ReportTransformsRequest
) -> Response:
    response = _success(ReportTransformsResponse, request)
    transforms = streams.exports.transforms
    session.on_lost.add(transforms.pipeline_lost)
    response.orders = transforms.take_reports(request.reports)
    response.folder = transforms.folder
    return response


def describe_transforms(
    streams: LiveStreams, session: Session, request: DescribeTransformsRequest
) -> Response:
    response = _success(DescribeTransformsResponse, request)
    response.transforms = streams.exports.transforms.views()
    return response


def reset_transform(
    streams: LiveStreams, session: Session, request: ResetTransformRequest
) -> Response:
    response = _success(ResetTransformResponse, request)
    response.generation = streams.exports.transforms.reset(request.name, request.start)
    return response


def survey_streams(
    streams: LiveStreams, session: Session, request: SurveyStreamsRequest
) -> Response:
    response = _success(SurveyStreamsResponse, request)
    response.survey = streams.survey()
    return response


def observe_server(
    streams: LiveStreams, session: Session, request: ObserveServerRequest
) -> Response:
    response = _success(ObserveServerResponse, request)
    response.observation = msgspec.json.encode(streams.observe())
    return response


HANDLERS: dict[type[Request], Callable[[LiveStreams, Session, Any], Response | None]] = {
    CreateMessageStreamRequest: create_stream,
    UpdateMessageStreamRequest: update_stream,
    DeleteMessageStreamRequest: delete_stream,
    DescribeMessageStreamRequest: describe_stream,
    ListStreamsRequest: list_streams,
    AppendMessageRequest: append_message,
    AppendMessagesRequest: append_messages,
    AppendOnceRequest: append_once,
    ReadMessagesRequest: read_messages,
    ReadBlocksRequest: read_blocks,
    WatchExportsRequest: watch_exports,
    ReportExportRequest: report_export,
    RenewLeasesRequest: renew_leases,
    DescribeExportsRequest: describe_exports,
    FindDeadLettersRequest: find_dead_letters,
    ReplayDeadLettersRequest: replay_dead_letters,
    PurgeDeadLettersRequest: purge_dead_letters,
    ReportTransformsRequest: report_transforms,
    DescribeTransformsRequest: describe_transforms,
    ResetTransformRequest: reset_transform,
    SurveyStreamsRequest: survey_streams,
    ObserveServerRequest: observe_server,
}


def _success(kind: type[ResponseType], request: Request) -> ResponseType:
    return kind(request.request_id, ResponseStatusCode.Success, "")


def _sizes(request: AppendMessagesRequest) -> Sequence[int]:
    """The payload sizes of a batch, checked against its data."""
    sizes = array("I")
    try:
        sizes.frombytes(request.sizes)
    except ValueError as error:
        raise InvalidRequestException(
            f"sizes: {len(request.sizes)} bytes are not a whole number of 4-byte sizes"
        ) from error
    if sys.byteorder == "big":
        sizes.byteswap()
    if min(sizes) < 1:
        raise InvalidRequestException("sizes: a message of 0 bytes; each needs at least 1")
    if sum(sizes) != len(request.data):
        raise InvalidRequestException(
            f"sizes: their sum {sum(sizes)} is not the length of data, {len(request.data)}"
        )
    return sizes


def _read(
    streams: LiveStreams,
    session: Session,
    request: ReadMessagesRequest | ReadBlocksRequest,
    answer: Operation,
    encode: Encoder,
    overhead_bytes: int,
) -> None:
    options: ReadMessagesOptions = request.read_messages_options
    writer = streams.flushed(request.stream_name)
    writer.reads.begin(
        Read(
            session,
            answer,
            request.request_id,
            options.desired_start_sequence_number,
            options.min_message_count,
            options.message_count_max(),
            options.read_timeout_millis,
            encode,
            overhead_bytes,
        )
    )


def _encode_messages(request_id: str, name: str, blocks: Sequence[Block]) -> Sequence[bytes]:
    return (codec.read_response(request_id, name, blocks),)


def _encode_blocks(request_id: str, name: str, blocks: Sequence[Block]) -> Sequence[bytes]:
    return codec.read_blocks_response(request_id, blocks)
