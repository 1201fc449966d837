"""The table of operations agrees with the protocol, and with itself."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import pytest

from penstock.block import Block, make_entries
from penstock.errors import ResponseStatusCode
from penstock.model import fields_of, from_wire, to_wire
from penstock.protocol import operations
from penstock.protocol.codec import decode_request, encode, load_map
from penstock.protocol.framing import FrameDecoder
from penstock.protocol.operations import (
    OPERATIONS,
    RESPONSES,
    STATUS_FOR_1_0_0,
    AppendMessagesRequest,
    AppendMessagesResponse,
    Extension,
    Operation,
    ReadBlocksRequest,
    ReadMessagesRequest,
    Request,
)

NUMBERS = {
    "Unknown": 0,
    "Connect": 1,
    "CreateMessageStream": 2,
    "DeleteMessageStream": 3,
    "AppendMessage": 4,
    "ReadMessages": 5,
    "ConnectResponse": 6,
    "CreateMessageStreamResponse": 7,
    "DeleteMessageStreamResponse": 8,
    "AppendMessageResponse": 9,
    "ReadMessagesResponse": 10,
    "ListStreams": 11,
    "ListStreamsResponse": 12,
    "DescribeMessageStream": 13,
    "DescribeMessageStreamResponse": 14,
    "UpdateMessageStream": 15,
    "UpdateMessageStreamResponse": 16,
    "UnknownOperationError": 17,
    "AppendMessages": 64,
    "AppendMessagesResponse": 65,
    "ReadBlocks": 66,
    "ReadBlocksResponse": 67,
    "WatchExports": 68,
    "WatchExportsResponse": 69,
    "ReportExport": 70,
    "ReportExportResponse": 71,
    "RenewLeases": 72,
    "RenewLeasesResponse": 73,
    "DescribeExports": 74,
    "DescribeExportsResponse": 75,
    "FindDeadLetters": 76,
    "FindDeadLettersResponse": 77,
    "ReplayDeadLetters": 78,
    "ReplayDeadLettersResponse": 79,
    "PurgeDeadLetters": 80,
    "PurgeDeadLettersResponse": 81,
    "AppendOnce": 82,
    "AppendOnceResponse": 83,
    "ReportTransforms": 84,
    "ReportTransformsResponse": 85,
    "DescribeTransforms": 86,
    "DescribeTransformsResponse": 87,
    "ResetTransform": 88,
    "ResetTransformResponse": 89,
    "SurveyStreams": 90,
    "SurveyStreamsResponse": 91,
    "ObserveServer": 92,
    "ObserveServerResponse": 93,
}

# Wire names in their order; what is required stands in front of the bar.
REQUEST_FIELDS = {
    1: "requestId protocolVersion | otherSupportedProtocolVersions sdkVersion authToken penstock",
    2: "requestId definition |",
    3: "requestId name |",
    4: "requestId name payload |",
    5: "requestId streamName | readMessagesOptions",
    11: "requestId |",
    13: "requestId name |",
    15: "requestId definition |",
    64: "requestId name sizes data |",
    66: "requestId streamName | readMessagesOptions",
    68: "requestId | countMax waitMillis",
    70: "requestId report |",
    72: "requestId | leaseIds unusedIds",
    74: "requestId |",
    76: "requestId | streamName exportIdentifier ids afterId countMax",
    78: "requestId | streamName exportIdentifier ids",
    80: "requestId | streamName exportIdentifier ids",
    82: "requestId name sizes data writer batch | chunk",
    84: "requestId | reports",
    86: "requestId |",
    88: "requestId name start |",
    90: "requestId |",
    92: "requestId |",
}

RESPONSE_FIELDS = {
    6: "requestId status errorMessage protocolVersion supportedProtocolVersions serverVersion "
    "clientIdentifier penstock",
    7: "requestId status errorMessage",
    8: "requestId status errorMessage",
    9: "requestId status errorMessage sequenceNumber",
    10: "requestId messages status errorMessage",
    12: "requestId status errorMessage streams",
    14: "requestId status errorMessage messageStreamInfo",
    16: "requestId status errorMessage",
    17: "requestId status errorMessage",
    65: "requestId status errorMessage firstSequenceNumber lastSequenceNumber",
    67: "requestId status errorMessage blocks",
    69: "requestId status errorMessage leases settings",
    71: "requestId status errorMessage leaseHeld canceled",
    73: "requestId status errorMessage lostIds canceledIds",
    75: "requestId status errorMessage exports pipeline",
    77: "requestId status errorMessage deadLetters",
    79: "requestId status errorMessage count",
    81: "requestId status errorMessage count",
    83: "requestId status errorMessage firstSequenceNumber lastSequenceNumber storedCount",
    85: "requestId status errorMessage orders folder",
    87: "requestId status errorMessage transforms",
    89: "requestId status errorMessage generation",
    91: "requestId status errorMessage survey",
    93: "requestId status errorMessage observation",
}

DEFINITION = {"name": "S", "strategyOnFull": 0}
SMALLEST_REQUESTS: dict[int, dict[str, Any]] = {
    1: {"protocolVersion": "1.1.0"},
    2: {"definition": DEFINITION},
    3: {"name": "S"},
    4: {"name": "S", "payload": b"x"},
    5: {"streamName": "S"},
    11: {},
    13: {"name": "S"},
    15: {"definition": DEFINITION},
    64: {"name": "S", "sizes": b"\x01\x00\x00\x00", "data": b"x"},
    66: {"streamName": "S"},
    68: {},
    70: {"report": {"leaseId": 1}},
    72: {},
    74: {},
    76: {},
    78: {},
    80: {},
    82: {"name": "S", "sizes": b"\x01\x00\x00\x00", "data": b"x", "writer": "w", "batch": 0},
    84: {},
    86: {},
    88: {"name": "t", "start": "earliest"},
    90: {},
    92: {},
}


def test_the_numbers_are_those_of_the_protocol() -> None:
    assert {operation.name: operation.value for operation in Operation} == NUMBERS


def test_every_request_is_answered_by_the_response_of_its_name() -> None:
    for operation, exchange in OPERATIONS.items():
        assert exchange.answer.name == f"{operation.name}Response"
        assert exchange.request.__name__ == f"{operation.name}Request"
        assert exchange.response.__name__ == f"{operation.name}Response"


def test_every_operation_is_a_request_or_an_answer() -> None:
    requests = {int(operation) for operation in OPERATIONS}

    assert requests | RESPONSES.keys() | {Operation.Unknown} == set(Operation)
    assert not requests & RESPONSES.keys()


def test_every_declared_message_is_in_the_table() -> None:
    declared = {
        found
        for name, found in vars(operations).items()
        if name.endswith(("Request", "Response")) and name not in ("Request", "Response")
    }

    in_table = {kind for found in OPERATIONS.values() for kind in (found.request, found.response)}
    assert declared == in_table


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_a_request_has_the_fields_of_the_protocol(operation: Operation) -> None:
    fields = fields_of(OPERATIONS[operation].request)
    required, optional = REQUEST_FIELDS[operation].split("|")

    assert [found.wire_name for found in fields if found.is_required] == required.split()
    assert [found.wire_name for found in fields if not found.is_required] == optional.split()


@pytest.mark.parametrize("operation", RESPONSES)
def test_an_answer_has_the_fields_of_the_protocol_and_needs_none_of_them(operation: int) -> None:
    fields = fields_of(RESPONSES[operation])

    assert [found.wire_name for found in fields] == RESPONSE_FIELDS[operation].split()
    assert to_wire(from_wire({}, RESPONSES[operation])) == {}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_the_smallest_request_of_every_kind_travels(operation: Operation) -> None:
    request = request_of(operation)

    ((arrived_as, payload),) = FrameDecoder().feed(encode(operation, request))

    assert arrived_as == operation
    assert isinstance(payload, bytes)
    assert decode_request(type(request), load_map(payload)) == request


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_no_required_field_of_a_request_can_be_left_out(operation: Operation) -> None:
    whole = {"requestId": "r", **SMALLEST_REQUESTS[operation]}
    for left_out in whole:
        for values in (
            {name: value for name, value in whole.items() if name != left_out},
            {**whole, left_out: None},
        ):
            with pytest.raises(ValueError, match=f"^{left_out}: is required$"):
                from_wire(values, OPERATIONS[operation].request)


def request_of(operation: Operation) -> Request:
    values = {"requestId": "r", **SMALLEST_REQUESTS[operation]}
    return from_wire(values, OPERATIONS[operation].request)


def test_options_of_a_read_that_are_left_out_are_the_defaults() -> None:
    for operation in (Operation.ReadMessages, Operation.ReadBlocks):
        request = request_of(operation)
        assert isinstance(request, ReadMessagesRequest | ReadBlocksRequest)
        options = request.read_messages_options
        assert options.desired_start_sequence_number == 0
        assert options.min_message_count == 1
        assert options.message_count_max() == 1
        assert options.read_timeout_millis == 0


def test_update_is_new_in_protocol_1_1_0() -> None:
    newer = {
        found for found, exchange in OPERATIONS.items() if exchange.protocol_version != "1.0.0"
    }

    assert newer == {Operation.UpdateMessageStream}
    assert OPERATIONS[Operation.UpdateMessageStream].protocol_version == "1.1.0"


def test_operations_from_64_up_are_extensions_and_no_others() -> None:
    extensions = {
        operation: exchange.extension
        for operation, exchange in OPERATIONS.items()
        if exchange.extension is not None
    }

    assert extensions == {
        Operation.AppendMessages: "append-messages",
        Operation.ReadBlocks: "read-blocks",
        Operation.WatchExports: "export-work",
        Operation.ReportExport: "export-work",
        Operation.RenewLeases: "export-work",
        Operation.DescribeExports: "export-status",
        Operation.FindDeadLetters: "export-status",
        Operation.ReplayDeadLetters: "export-status",
        Operation.PurgeDeadLetters: "export-status",
        Operation.AppendOnce: "append-once",
        Operation.ReportTransforms: "export-work",
        Operation.DescribeTransforms: "export-status",
        Operation.ResetTransform: "export-status",
        Operation.SurveyStreams: "survey",
        Operation.ObserveServer: "observe",
    }
    assert set(extensions.values()) == set(Extension.ALL)
    assert all((operation >= 64) == (operation in extensions) for operation in OPERATIONS)


def test_an_old_client_gets_no_status_that_it_does_not_know() -> None:
    told = {status: STATUS_FOR_1_0_0.get(status, status) for status in ResponseStatusCode}

    assert all(status <= 14 for status in told.values())
    assert {status: answer for status, answer in told.items() if status != answer} == {
        ResponseStatusCode.OutOfMemoryError: ResponseStatusCode.UnknownFailure,
        ResponseStatusCode.UpdateFailed: ResponseStatusCode.InvalidRequest,
        ResponseStatusCode.UpdateNotAllowed: ResponseStatusCode.InvalidRequest,
        ResponseStatusCode.UnknownOperation: ResponseStatusCode.InvalidRequest,
    }


# --- the page for implementers ------------------------------------------------------------------

PAGE = (Path(__file__).parents[2] / "docs" / "wire-protocol.md").read_text()


def rows_of(heading: str) -> list[list[str]]:
    """The cells of the first table under a heading, without its two lines of head."""
    section = PAGE.partition(f"\n## {heading}\n")[2]
    lines = section.partition("\n|")[2].partition("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_the_page_lists_every_operation_with_its_fields() -> None:
    expected = [
        (int(operation), operation.name, int(exchange.answer))
        for operation, exchange in OPERATIONS.items()
    ]
    rows = rows_of("Operations")

    assert [(int(row[0]), row[1].split()[0], int(row[3])) for row in rows] == expected
    for number, _, request_fields, answer, answer_fields in rows[1:]:
        wanted = REQUEST_FIELDS[int(number)].replace("|", "").split()[1:]
        given = set(RESPONSE_FIELDS[int(answer)].split()) - {"requestId", "status", "errorMessage"}
        assert re.findall(r"`(\w+)`", request_fields) == wanted
        assert set(re.findall(r"`(\w+)`", answer_fields)) == given


def test_the_page_lists_every_status() -> None:
    assert [(int(row[0]), row[1]) for row in rows_of("Statuses")] == [
        (int(status), status.name) for status in ResponseStatusCode
    ]


def test_the_page_lists_every_extension() -> None:
    assert [row[0] for row in rows_of("Extensions")] == [f"`{name}`" for name in Extension.ALL]


def test_the_examples_of_the_page_are_what_the_code_makes() -> None:
    blocks = re.findall(r"```hex\n(.*?)```", PAGE, re.DOTALL)
    request, answer, index = (
        bytes.fromhex(re.sub(r"#.*", "", block).replace("\n", " ")) for block in blocks
    )

    sizes = struct.pack("<II", 5, 2)
    assert request == encode(64, AppendMessagesRequest("7", "S", sizes, b"hellohi"))
    success = ResponseStatusCode.Success
    assert answer == encode(65, AppendMessagesResponse("7", success, "", 0, 1))
    assert (
        index
        == (
            make_entries(
                b"hellohi", [5, 2], end=0, time_ms=1_700_000_000_000, sequence=0, checksum=0
            )[0]
        )
    )
    assert Block(0, 0, index, b"hellohi").intact()
