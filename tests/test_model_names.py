"""The names, the order of arguments and the defaults that users of AWS's Python SDK rely on."""

from __future__ import annotations

import inspect
from enum import Enum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import model
from penstock.errors import ResponseStatusCode
from penstock.model import (
    AssetPropertyValue,
    ExportDefinition,
    ExportFormat,
    HTTPConfig,
    IoTAnalyticsConfig,
    IoTSiteWiseConfig,
    KinesisConfig,
    Message,
    MessageStreamDefinition,
    MessageStreamInfo,
    Model,
    Persistence,
    PutAssetPropertyValueEntry,
    Quality,
    ReadMessagesOptions,
    S3ExportTaskDefinition,
    S3ExportTaskExecutorConfig,
    Status,
    StatusConfig,
    StatusContext,
    StatusLevel,
    StatusMessage,
    StorageStatus,
    StrategyOnFull,
    TimeInNanos,
    Variant,
    fields_of,
    from_wire,
    to_wire,
)

no_deadline = settings(deadline=None)

# Attribute names in the order of positional arguments; where the wire name is not the same in
# camel case, it stands behind an equals sign.
ARGUMENTS = {
    "AssetPropertyValue": "value timestamp quality",
    "ExportDefinition": "http iot_analytics kinesis iot_sitewise=IotSitewise s3_task_executor",
    "ExportStatus": "export_config_identifier last_exported_sequence_number last_export_time "
    "error_message exported_bytes_from_stream exported_messages_count",
    "HTTPConfig": "identifier uri batch_size batch_interval_millis priority "
    "start_sequence_number disabled export_format",
    "IoTAnalyticsConfig": "identifier iot_channel iot_msg_id_prefix batch_size "
    "batch_interval_millis priority start_sequence_number disabled",
    "IoTSiteWiseConfig": "identifier batch_size batch_interval_millis priority "
    "start_sequence_number disabled",
    "KinesisConfig": "identifier kinesis_stream_name batch_size batch_interval_millis priority "
    "start_sequence_number disabled",
    "Message": "stream_name sequence_number ingest_time payload",
    "MessageStreamDefinition": "name max_size stream_segment_size time_to_live_millis "
    "strategy_on_full persistence flush_on_write export_definition",
    "MessageStreamInfo": "definition storage_status export_statuses",
    "PutAssetPropertyValueEntry": "entry_id asset_id property_id property_alias property_values",
    "ReadMessagesOptions": "desired_start_sequence_number min_message_count max_message_count "
    "read_timeout_millis",
    "S3ExportTaskDefinition": "input_url bucket key user_metadata",
    "S3ExportTaskExecutorConfig": "identifier size_threshold_for_multipart_upload_bytes priority "
    "disabled status_config",
    "StatusConfig": "status_level status_stream_name",
    "StatusContext": "s3_export_task_definition export_identifier stream_name sequence_number",
    "StatusMessage": "event_type status_level status status_context message timestamp_epoch_ms",
    "StorageStatus": "oldest_sequence_number newest_sequence_number total_bytes",
    "TimeInNanos": "time_in_seconds offset_in_nanos",
    "Variant": "string_value integer_value double_value boolean_value",
}

ENUMS: dict[str, dict[str, Any]] = {
    "StrategyOnFull": {"RejectNewData": 0, "OverwriteOldestData": 1},
    "Persistence": {"File": 0, "Memory": 1},
    "ExportFormat": {"RAW_NOT_BATCHED": 0, "JSON_BATCHED": 1},
    "StatusLevel": {"ERROR": 0, "WARN": 1, "INFO": 2, "DEBUG": 3, "TRACE": 4},
    "EventType": {"S3Task": 0},
    "Status": {"Success": 0, "Failure": 1, "InProgress": 2, "Warning": 3, "Canceled": 4},
    "Quality": {"GOOD": "GOOD", "BAD": "BAD", "UNCERTAIN": "UNCERTAIN"},
}


def camel_case(attribute: str) -> str:
    first, *others = attribute.split("_")
    return first + "".join(word.capitalize() for word in others)


def declared(base: type) -> dict[str, type]:
    """The types of model.py; those that it imports do not count."""
    return {
        name: found
        for name, found in inspect.getmembers(model, inspect.isclass)
        if issubclass(found, base) and found.__module__ == model.__name__ and found is not Model
    }


def test_every_type_is_in_the_table() -> None:
    assert declared(Model).keys() == ARGUMENTS.keys()
    assert declared(Enum).keys() == ENUMS.keys()


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_have_aws_names_and_order(name: str) -> None:
    expected = [entry.partition("=") for entry in ARGUMENTS[name].split()]

    assert [(found.name, found.wire_name) for found in fields_of(getattr(model, name))] == [
        (attribute, wire_name or camel_case(attribute)) for attribute, _, wire_name in expected
    ]


@pytest.mark.parametrize("name", ARGUMENTS)
def test_objects_are_built_empty_by_position_or_by_name_and_filled_later(name: str) -> None:
    kind = getattr(model, name)
    attributes = [entry.partition("=")[0] for entry in ARGUMENTS[name].split()]
    values = [object() for _ in attributes]

    by_position = kind(*values)
    by_name = kind(**dict(zip(attributes, values, strict=True)))
    filled_later = kind()
    for attribute, value in zip(attributes, values, strict=True):
        setattr(filled_later, attribute, value)

    assert by_position == by_name == filled_later
    assert [getattr(by_position, attribute) for attribute in attributes] == values
    assert by_position != kind()


@pytest.mark.parametrize("name", ENUMS)
def test_enums_have_aws_names_and_values(name: str) -> None:
    assert {member.name: member.value for member in getattr(model, name)} == ENUMS[name]


def test_statuses_have_aws_numbers() -> None:
    names = (
        "Success UnknownFailure Unauthorized InvalidRequest RequestPayloadTooLarge "
        "ResourceNotFound ServerTimeout ResponsePayloadTooLarge UnsupportedConnectVersion "
        "UnexpectedOperation UnsupportedProtocolVersion InvalidProtocolVersion FailedToConnect "
        "NotEnoughMessages MessageStoreReadError OutOfMemoryError UpdateFailed UpdateNotAllowed "
        "UnknownOperation"
    )

    assert [status.name for status in ResponseStatusCode] == names.split()
    assert [status.value for status in ResponseStatusCode] == list(range(19))


def test_the_inner_types_of_a_description_have_aws_names_too() -> None:
    assert MessageStreamInfo.storageStatus is StorageStatus
    assert MessageStreamInfo.exportStatuses is model.ExportStatus


# --- defaults -----------------------------------------------------------------------------------

EXPORT_DEFAULTS = {"startSequenceNumber": 0, "disabled": False}
NO_EXPORTS: dict[str, Any] = {
    "http": [],
    "iotAnalytics": [],
    "kinesis": [],
    "IotSitewise": [],
    "s3TaskExecutor": [],
}
DEFAULTS: list[tuple[Model, dict[str, Any]]] = [
    (
        MessageStreamDefinition(),
        {
            "maxSize": 268435456,
            "streamSegmentSize": 16777216,
            "persistence": 0,
            "flushOnWrite": False,
            "exportDefinition": NO_EXPORTS,
        },
    ),
    (ExportDefinition(), NO_EXPORTS),
    (HTTPConfig(), {**EXPORT_DEFAULTS, "exportFormat": 0}),
    (IoTAnalyticsConfig(), EXPORT_DEFAULTS),
    (KinesisConfig(), EXPORT_DEFAULTS),
    (IoTSiteWiseConfig(), EXPORT_DEFAULTS),
    (
        S3ExportTaskExecutorConfig(),
        {"sizeThresholdForMultipartUploadBytes": 5242880, "disabled": False},
    ),
    (StatusConfig(), {"statusLevel": 2}),
    (StatusMessage(), {"statusLevel": 2, "status": 0}),
    (
        ReadMessagesOptions(),
        {"desiredStartSequenceNumber": 0, "minMessageCount": 1, "readTimeoutMillis": 0},
    ),
    (
        StorageStatus(),
        {"oldestSequenceNumber": 0, "newestSequenceNumber": -1, "totalBytes": 0},
    ),
    (model.ExportStatus(), {"lastExportedSequenceNumber": -1}),
    (MessageStreamInfo(), {"exportStatuses": []}),
    (Message(), {}),
    (S3ExportTaskDefinition(), {}),
    (StatusContext(), {}),
    (PutAssetPropertyValueEntry(), {}),
    (AssetPropertyValue(), {}),
    (Variant(), {}),
    (TimeInNanos(), {}),
]


@pytest.mark.parametrize(
    ("empty", "defaults"), DEFAULTS, ids=[type(empty).__name__ for empty, _ in DEFAULTS]
)
def test_an_object_that_says_nothing_has_the_documented_defaults(
    empty: Model, defaults: dict[str, Any]
) -> None:
    assert to_wire(empty) == empty.as_dict() == defaults


def test_the_defaults_of_every_type_are_in_the_table() -> None:
    assert {type(empty) for empty, _ in DEFAULTS} == set(declared(Model).values())


def test_lists_are_not_shared_between_objects() -> None:
    first, second = ExportDefinition(), ExportDefinition()
    first.http.append(HTTPConfig("a", "u"))
    first.iot_sitewise.append(IoTSiteWiseConfig("b"))

    assert second == ExportDefinition()


def test_what_a_user_set_to_none_falls_back_to_its_default() -> None:
    definition = MessageStreamDefinition(
        name="S",
        max_size=None,  # type: ignore[arg-type]
        strategy_on_full=StrategyOnFull.RejectNewData,
        persistence=None,  # type: ignore[arg-type]
        export_definition=ExportDefinition(http=None),  # type: ignore[arg-type]
    )

    checked = definition.validated()

    assert checked == MessageStreamDefinition("S", strategy_on_full=StrategyOnFull.RejectNewData)
    assert definition.max_size is None


def test_tuples_and_other_kinds_of_bytes_are_taken() -> None:
    exports = ExportDefinition(http=(HTTPConfig("a", "u", priority=None),))  # type: ignore[arg-type]
    assert exports.validated() == ExportDefinition(http=[HTTPConfig("a", "u")])

    for payload in (b"x", bytearray(b"x"), memoryview(b"x")):
        assert Message("S", 0, 0, payload).as_dict()["payload"] == b"x"  # type: ignore[arg-type]


# --- there and back -----------------------------------------------------------------------------

NAMES = st.text("abcXYZ019_ ,.-", min_size=1, max_size=255)
TEXTS = st.text(min_size=1, max_size=50)
FLAGS = st.booleans()


def between(low: int, high: int) -> st.SearchStrategy[int]:
    return st.integers(low, high) | st.sampled_from([low, high])


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


MILLIS = between(60_000, 9223372036854)
SEQUENCES = between(0, 2**63 - 1)


def batching(batch_size_max: int) -> dict[str, st.SearchStrategy[Any]]:
    return {
        "identifier": NAMES,
        "batch_size": maybe(between(1, batch_size_max)),
        "batch_interval_millis": maybe(MILLIS),
        "priority": maybe(between(1, 10)),
        "start_sequence_number": SEQUENCES,
        "disabled": FLAGS,
    }


HTTP = st.builds(
    HTTPConfig, uri=TEXTS, export_format=st.sampled_from(ExportFormat), **batching(500)
)
IOT_ANALYTICS = st.builds(
    IoTAnalyticsConfig,
    iot_channel=TEXTS,
    iot_msg_id_prefix=maybe(st.text(max_size=32)),
    **batching(100),
)
KINESIS = st.builds(KinesisConfig, kinesis_stream_name=TEXTS, **batching(500))
SITEWISE = st.builds(IoTSiteWiseConfig, **batching(10))
S3 = st.builds(
    S3ExportTaskExecutorConfig,
    identifier=NAMES,
    size_threshold_for_multipart_upload_bytes=between(5242880, 2**63 - 1),
    priority=maybe(between(1, 10)),
    disabled=FLAGS,
    # NAMES has no letter of it, so it is never the stream itself.
    status_config=maybe(
        st.builds(StatusConfig, st.sampled_from(StatusLevel), maybe(st.just("eruptions")))
    ),
)


@st.composite
def definitions(draw: st.DrawFn) -> MessageStreamDefinition:
    exports = ExportDefinition(
        *(draw(st.lists(kind, max_size=2)) for kind in (HTTP, IOT_ANALYTICS, KINESIS, SITEWISE, S3))
    )
    for position, config in enumerate(exports.configs()):
        config.identifier = f"{position}{config.identifier}"[:255]
    return MessageStreamDefinition(
        name=draw(NAMES),
        max_size=draw(between(1024, 2**63 - 1)),
        stream_segment_size=draw(between(1024, 2**31 - 1)),
        time_to_live_millis=draw(maybe(MILLIS)),
        strategy_on_full=draw(st.sampled_from(StrategyOnFull)),
        persistence=draw(st.sampled_from(Persistence)),
        flush_on_write=draw(FLAGS),
        export_definition=exports,
    )


@no_deadline
@given(definitions())
def test_a_definition_survives_the_way_to_the_wire_and_back(
    definition: MessageStreamDefinition,
) -> None:
    wire = to_wire(definition)

    assert from_wire(wire, MessageStreamDefinition) == definition
    assert MessageStreamDefinition.from_dict(definition.as_dict()) == definition
    assert definition.validated() == definition
    assert definition.validated() is not definition
    assert not contains_null(wire)
    assert wire["exportDefinition"].keys() == NO_EXPORTS.keys()


def contains_null(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(contains_null, value.values()))
    if isinstance(value, list):
        return any(map(contains_null, value))
    return value is None


def test_enums_come_back_as_members() -> None:
    message = StatusMessage.from_dict({"eventType": 0, "status": 4, "statusLevel": 3})
    value = AssetPropertyValue.from_dict(
        {"value": {"integerValue": 1}, "timestamp": {"timeInSeconds": 1}, "quality": "BAD"}
    )

    assert message.event_type is model.EventType.S3Task
    assert message.status is Status.Canceled
    assert message.status_level is StatusLevel.DEBUG
    assert value.quality is Quality.BAD
    assert value.as_dict()["quality"] == "BAD"
