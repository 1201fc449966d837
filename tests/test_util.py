"""AWS's helpers for JSON payloads."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock import (
    AssetPropertyValue,
    EventType,
    ExportDefinition,
    KinesisConfig,
    PutAssetPropertyValueEntry,
    Quality,
    S3ExportTaskDefinition,
    Status,
    StatusContext,
    StatusLevel,
    StatusMessage,
    TimeInNanos,
    Util,
    ValidationException,
    Variant,
)

TASK = S3ExportTaskDefinition(input_url="file:/x", bucket="bbb", key="k")
STATUS = StatusMessage(
    event_type=EventType.S3Task,
    status_level=StatusLevel.ERROR,
    status=Status.Failure,
    status_context=StatusContext(
        s3_export_task_definition=TASK, export_identifier="e", stream_name="S", sequence_number=3
    ),
    message="m",
    timestamp_epoch_ms=1,
)
ENTRY = PutAssetPropertyValueEntry(
    entry_id="1",
    property_alias="/site/temperature",
    property_values=[
        AssetPropertyValue(
            value=Variant(double_value=21.5),
            timestamp=TimeInNanos(time_in_seconds=1_700_000_000),
            quality=Quality.UNCERTAIN,
        )
    ],
)


def test_a_status_message_is_written_as_the_reference_writes_it() -> None:
    assert Util.validate_and_serialize_to_json_bytes(STATUS) == (
        b'{"eventType":0,"statusLevel":0,"status":1,"statusContext":{"s3ExportTaskDefinition":'
        b'{"inputUrl":"file:/x","bucket":"bbb","key":"k"},"exportIdentifier":"e","streamName":"S",'
        b'"sequenceNumber":3},"message":"m","timestampEpochMs":1}'
    )


def test_quality_is_text_and_absent_fields_are_left_out() -> None:
    assert json.loads(Util.validate_and_serialize_to_json_bytes(ENTRY)) == {
        "entryId": "1",
        "propertyAlias": "/site/temperature",
        "propertyValues": [
            {
                "value": {"doubleValue": 21.5},
                "timestamp": {"timeInSeconds": 1_700_000_000},
                "quality": "UNCERTAIN",
            }
        ],
    }


def test_empty_lists_are_left_out() -> None:
    exports = ExportDefinition(kinesis=[KinesisConfig(identifier="k", kinesis_stream_name="n")])
    written = json.loads(Util.validate_and_serialize_to_json_bytes(exports))
    assert list(written) == ["kinesis"]


@pytest.mark.parametrize("data", [TASK, STATUS, ENTRY], ids=lambda data: type(data).__name__)
def test_what_is_written_can_be_read_again(data: Any) -> None:
    written = Util.validate_and_serialize_to_json_bytes(data)
    assert Util.deserialize_json_bytes_to_obj(written, type(data)) == data


def test_text_of_any_language_survives() -> None:
    data = S3ExportTaskDefinition(
        input_url="file:///tmp/température", bucket="bbb", key="k", user_metadata={"名": "値"}
    )
    written = Util.validate_and_serialize_to_json_bytes(data)
    assert Util.deserialize_json_bytes_to_obj(written, S3ExportTaskDefinition) == data


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (S3ExportTaskDefinition(bucket="bbb", key="k"), "inputUrl"),
        (S3ExportTaskDefinition(input_url="file:/x", bucket="B", key="k"), "bucket"),
        (S3ExportTaskDefinition(input_url="file:/x", bucket="bbb", key="a b"), "key"),
        (S3ExportTaskDefinition(input_url="\ud800", bucket="bbb", key="k"), "surrogate"),
        (StatusMessage(), "eventType"),
        (Variant(integer_value=-1), "integerValue"),
        (Variant(), "exactly one"),
        (Variant(string_value="a", boolean_value=True), "exactly one"),
        (Variant(double_value=float("nan")), "doubleValue"),
        (PutAssetPropertyValueEntry(entry_id="1", property_values=[]), "propertyValues"),
        (
            PutAssetPropertyValueEntry(
                entry_id="1", property_values=[AssetPropertyValue(value=Variant(integer_value=1))]
            ),
            r"propertyValues\[0\].timestamp",
        ),
        ({"inputUrl": "file:/x"}, "one of Penstock's types"),
        (None, "one of Penstock's types"),
    ],
)
def test_a_wrong_value_is_named_and_nothing_is_written(data: Any, named: str) -> None:
    with pytest.raises(ValidationException, match=named):
        Util.validate_and_serialize_to_json_bytes(data)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (b"", "S3ExportTaskDefinition"),
        (b"{", "S3ExportTaskDefinition"),
        (b"[]", "S3ExportTaskDefinition"),
        (b"\xff", "S3ExportTaskDefinition"),
        (b"[" * 100_000, "S3ExportTaskDefinition"),
        (b'{"bucket":"bbb","key":"k"}', "inputUrl"),
        (b'{"inputUrl":7,"bucket":"bbb","key":"k"}', "inputUrl"),
        (b'{"inputUrl":"file:/x","bucket":"bbb","key":"k","userMetadata":{"a":1}}', "userMetadata"),
    ],
)
def test_json_that_is_no_task_is_refused(text: bytes, named: str) -> None:
    with pytest.raises(ValidationException, match=named):
        Util.deserialize_json_bytes_to_obj(text, S3ExportTaskDefinition)


def test_nulls_and_unknown_keys_are_ignored() -> None:
    text = b'{"inputUrl":"file:/x","bucket":"bbb","key":"k","userMetadata":null,"new":[1]}'
    assert Util.deserialize_json_bytes_to_obj(text, S3ExportTaskDefinition) == TASK
