"""Every rule of the data model, its limits just inside and just outside."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import model
from penstock.model import (
    AssetPropertyValue,
    ExportDefinition,
    ExportStatus,
    HTTPConfig,
    IoTAnalyticsConfig,
    IoTSiteWiseConfig,
    KinesisConfig,
    Message,
    MessageStreamDefinition,
    MessageStreamInfo,
    Model,
    PutAssetPropertyValueEntry,
    ReadMessagesOptions,
    S3ExportTaskDefinition,
    S3ExportTaskExecutorConfig,
    StatusConfig,
    StatusContext,
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

I32_MAX = 2147483647
I64_MAX = 9223372036854775807
MILLIS_MAX = 9223372036854
MIB = 1048576

VALUE = {"value": {"doubleValue": 1.5}, "timestamp": {"timeInSeconds": 1}}

# What a type needs at least. Everything else is optional.
SMALLEST: dict[type[Model], dict[str, Any]] = {
    AssetPropertyValue: VALUE,
    ExportDefinition: {},
    ExportStatus: {"exportConfigIdentifier": "i"},
    HTTPConfig: {"identifier": "i", "uri": "http://localhost"},
    IoTAnalyticsConfig: {"identifier": "i", "iotChannel": "c"},
    IoTSiteWiseConfig: {"identifier": "i"},
    KinesisConfig: {"identifier": "i", "kinesisStreamName": "k"},
    Message: {"streamName": "S", "payload": b"x"},
    MessageStreamDefinition: {"name": "S", "strategyOnFull": 0},
    MessageStreamInfo: {"definition": {"name": "S", "strategyOnFull": 0}, "storageStatus": {}},
    PutAssetPropertyValueEntry: {"entryId": "e", "propertyValues": [VALUE]},
    ReadMessagesOptions: {},
    S3ExportTaskDefinition: {"inputUrl": "file:/x", "bucket": "bbb", "key": "k"},
    S3ExportTaskExecutorConfig: {"identifier": "i"},
    StatusConfig: {},
    StatusContext: {},
    StatusMessage: {"eventType": 0},
    StorageStatus: {},
    TimeInNanos: {"timeInSeconds": 1},
    Variant: {"doubleValue": 1.5},
}


# --- the constraints, as a table ----------------------------------------------------------------


class Rule(NamedTuple):
    """Values that a field takes, and values that it refuses with a part of the text."""

    good: list[Any]
    bad: list[tuple[Any, str]]


def integer(low: int, high: int) -> Rule:
    wrong_types = [("7", "got `str`"), (True, "got `bool`"), (7.5, "got `float`")]
    return Rule(
        [low, high, float(low)],
        [(low - 1, f"`int` >= {low}"), (high + 1, f"`int` <= {high}"), *wrong_types],
    )


def text(low: int, high: int | None = None, bad: tuple[str, ...] = ()) -> Rule:
    refused = [(5, "got `int`"), (b"x", "got `bytes`"), *((value, "regex") for value in bad)]
    if low:
        refused.append(("x" * (low - 1), f"`str` of length >= {low}"))
    if high is not None:
        refused.append(("x" * (high + 1), f"`str` of length <= {high}"))
    return Rule(["x" * max(low, 1), "x" * (high or 5000)], refused)


def choice(*names: str) -> Rule:
    count = len(names)
    allowed = ", ".join(f"{number} ({name})" for number, name in enumerate(names))
    return Rule(
        [*range(count), float(count - 1)],
        [(count, f"allowed are {allowed}"), (-1, f"allowed are {allowed}"), ("0", "got `str`")],
    )


FLAG = Rule([True, False], [(1, "Expected `bool`"), ("true", "Expected `bool`")])
NAME = text(1, 255, bad=("é", "a/b", "a\nb", "a\n", "ключ", "a:b", "\x00"))
SEQUENCE = integer(0, I64_MAX)


def export_rules(batch_size_max: int) -> dict[str, Rule]:
    return {
        "identifier": NAME,
        "batchSize": integer(1, batch_size_max),
        "batchIntervalMillis": integer(60_000, MILLIS_MAX),
        "priority": integer(1, 10),
        "startSequenceNumber": SEQUENCE,
        "disabled": FLAG,
    }


RULES: dict[type[Model], dict[str, Rule]] = {
    MessageStreamDefinition: {
        "name": NAME,
        "maxSize": integer(1024, I64_MAX),
        "streamSegmentSize": integer(1024, I32_MAX),
        "timeToLiveMillis": integer(60_000, MILLIS_MAX),
        "strategyOnFull": choice("RejectNewData", "OverwriteOldestData"),
        "persistence": choice("File", "Memory"),
        "flushOnWrite": FLAG,
    },
    HTTPConfig: {
        **export_rules(500),
        "uri": text(1),
        "exportFormat": choice("RAW_NOT_BATCHED", "JSON_BATCHED"),
    },
    IoTAnalyticsConfig: {**export_rules(100), "iotChannel": text(1), "iotMsgIdPrefix": text(0, 32)},
    KinesisConfig: {**export_rules(500), "kinesisStreamName": text(1)},
    IoTSiteWiseConfig: export_rules(10),
    S3ExportTaskExecutorConfig: {
        "identifier": NAME,
        "sizeThresholdForMultipartUploadBytes": integer(5 * MIB, I64_MAX),
        "priority": integer(1, 10),
        "disabled": FLAG,
    },
    StatusConfig: {
        "statusLevel": choice("ERROR", "WARN", "INFO", "DEBUG", "TRACE"),
        "statusStreamName": NAME,
    },
    S3ExportTaskDefinition: {
        "inputUrl": text(1),
        "bucket": Rule(
            ["abc", "a.b", "my-bucket.1", "x" * 63, "1.2.3.a"],
            [
                ("ab", "`str` of length >= 3"),
                ("x" * 64, "`str` of length <= 63"),
                *((bad, "regex") for bad in ("Abc", "a_b", "-ab", "ab-", "a..b", "1.2.3.4")),
                ("abc\n", "regex"),
            ],
        ),
        "key": Rule(
            ["k", "a/b!c", "x" * 1024, "!{timestamp:YYYY/MM/dd}/a.bin", "ü"],
            [
                ("", "`str` of length >= 1"),
                ("x" * 1025, "`str` of length <= 1024"),
                *((bad, "regex") for bad in "\\{} %`[]\"'><~#^?|"),
                ("!{timestamp:yyyy-MM}", "regex"),
                ("!{timestamp}", "regex"),
            ],
        ),
        "userMetadata": Rule([{}, {"a": "b"}], [({"a": 1}, "got `int`"), (["a"], "got `array`")]),
    },
    StatusMessage: {
        "eventType": choice("S3Task"),
        "statusLevel": choice("ERROR", "WARN", "INFO", "DEBUG", "TRACE"),
        "status": choice("Success", "Failure", "InProgress", "Warning", "Canceled"),
        "message": text(0),
        "timestampEpochMs": integer(-(2**63), I64_MAX),
    },
    StatusContext: {
        "exportIdentifier": text(0),
        "streamName": text(0),
        "sequenceNumber": integer(-(2**63), I64_MAX),
    },
    PutAssetPropertyValueEntry: {
        "entryId": text(1, 64, bad=("a b", "a.b", "é", "a\n")),
        "assetId": text(0),
        "propertyId": text(0),
        "propertyAlias": text(1, 2048, bad=("a\nb", "\x00", "\x1f", "\x7f")),
        "propertyValues": Rule(
            [[VALUE], [VALUE] * 10],
            [([], "`array` of length >= 1"), ([VALUE] * 11, "`array` of length <= 10")],
        ),
    },
    AssetPropertyValue: {
        "quality": Rule(
            ["GOOD", "BAD", "UNCERTAIN"],
            [("good", "allowed are GOOD (GOOD), BAD (BAD), UNCERTAIN (UNCERTAIN)"), (0, "`str")],
        )
    },
    TimeInNanos: {
        "timeInSeconds": integer(1, 31_556_889_864_403_199),
        "offsetInNanos": integer(0, 999_999_999),
    },
    ReadMessagesOptions: {
        "desiredStartSequenceNumber": SEQUENCE,
        "minMessageCount": integer(1, I32_MAX),
        "maxMessageCount": integer(1, I32_MAX),
        "readTimeoutMillis": integer(0, MILLIS_MAX),
    },
}

# Variant has a rule of its own below. Objects and lists of objects are checked in themselves, and
# the rest only ever comes from a server.
ELSEWHERE = {Variant, ExportDefinition, Message, MessageStreamInfo, StorageStatus, ExportStatus}
CASES = [(kind, wire_name) for kind, rules in RULES.items() for wire_name in rules]
each_rule = pytest.mark.parametrize(
    ("kind", "wire_name"), CASES, ids=[f"{kind.__name__}-{name}" for kind, name in CASES]
)


def all_kinds() -> set[type[Model]]:
    found = (item for _, item in inspect.getmembers(model, inspect.isclass))
    return {item for item in found if issubclass(item, Model) and item is not Model}


def with_room(kind: type[Model], wire_name: str, value: Any) -> dict[str, Any]:
    """The smallest object with this field set, and no other rule in its way."""
    values = {**SMALLEST[kind], wire_name: value}
    if wire_name == "minMessageCount":
        values["maxMessageCount"] = I32_MAX
    return values


def test_every_type_and_every_field_is_in_the_table() -> None:
    assert all_kinds() == SMALLEST.keys() == RULES.keys() | ELSEWHERE
    for kind, rules in RULES.items():
        simple = {found.wire_name for found in fields_of(kind) if not found.holds_structs}
        assert simple | (rules.keys() & {"propertyValues"}) == rules.keys()


@each_rule
def test_what_is_just_inside_is_taken(kind: type[Model], wire_name: str) -> None:
    for value in RULES[kind][wire_name].good:
        made = from_wire(with_room(kind, wire_name, value), kind)

        wire = to_wire(made)[wire_name]
        assert wire == value or wire_name == "propertyValues"
        assert type(wire) is not float
        assert made.validated() == made


@each_rule
def test_what_is_just_outside_is_refused_by_field_and_limit(
    kind: type[Model], wire_name: str
) -> None:
    for value, limit in RULES[kind][wire_name].bad:
        with pytest.raises(ValueError, match=f"^{wire_name}") as raised:
            from_wire(with_room(kind, wire_name, value), kind)

        assert limit in str(raised.value), value


@each_rule
def test_an_object_that_was_filled_with_a_wrong_value_is_refused_as_well(
    kind: type[Model], wire_name: str
) -> None:
    (attribute,) = (found.name for found in fields_of(kind) if found.wire_name == wire_name)
    for value, limit in RULES[kind][wire_name].bad:
        made = from_wire(with_room(kind, wire_name, RULES[kind][wire_name].good[0]), kind)
        setattr(made, attribute, value)

        with pytest.raises(ValueError, match=f"^{wire_name}") as raised:
            made.validated()

        assert limit in str(raised.value)


@pytest.mark.parametrize("kind", SMALLEST, ids=lambda kind: kind.__name__)
def test_null_is_the_same_as_absent(kind: type[Model]) -> None:
    smallest = from_wire(SMALLEST[kind], kind)
    for found in fields_of(kind):
        values = {**SMALLEST[kind], found.wire_name: None}
        if found.is_required:
            with pytest.raises(ValueError, match=f"^{found.wire_name}: is required$"):
                from_wire(values, kind)
        elif kind is not Variant:
            assert from_wire(values, kind) == smallest


@pytest.mark.parametrize("kind", SMALLEST, ids=lambda kind: kind.__name__)
def test_unknown_keys_are_ignored(kind: type[Model]) -> None:
    values = {**SMALLEST[kind], "fromTheFuture": {"a": [None, 1.0]}, "iotSitewise": 5}

    assert from_wire(values, kind) == from_wire(SMALLEST[kind], kind)


def test_names_may_hold_every_character_of_the_rule() -> None:
    for name in ("AZaz09_ ,.-", ".", "..", "a.log", " ", "-"):
        assert MessageStreamDefinition.from_dict({"name": name, "strategyOnFull": 0}).name == name


def test_the_field_of_a_nested_object_is_named_with_its_path() -> None:
    http = [{"identifier": "a", "uri": "u"}, {"identifier": "b", "uri": "u", "batchSize": 501}]
    values = {"name": "S", "strategyOnFull": 0, "exportDefinition": {"http": http}}
    expected = r"^definition\.exportDefinition\.http\[1\]\.batchSize: Expected `int` <= 500$"

    with pytest.raises(ValueError, match=expected):
        from_wire(values, MessageStreamDefinition, at="definition")
    http[1] = {"identifier": "b"}
    with pytest.raises(ValueError, match=r"^exportDefinition\.http\[1\]\.uri: is required$"):
        from_wire(values, MessageStreamDefinition)
    http[1] = {"identifier": "b", "uri": "u", "exportFormat": 9}
    with pytest.raises(ValueError, match=r"http\[1\]\.exportFormat: .*1 \(JSON_BATCHED\)$"):
        from_wire(values, MessageStreamDefinition)


@pytest.mark.parametrize("values", [None, 5, "text", b"bytes", [], True])
def test_what_is_no_map_is_no_object(values: object) -> None:
    with pytest.raises(ValueError, match=r"^definition: Expected `object`"):
        from_wire(values, MessageStreamDefinition, at="definition")


def test_a_key_of_a_wrong_type_is_named_as_such() -> None:
    task = S3ExportTaskDefinition("file:/x", "bbb", "k", {5: "a"})  # type: ignore[dict-item]

    with pytest.raises(ValueError, match=r"^userMetadata: a key: Expected `str`, got `int`$"):
        task.validated()


# --- numbers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "expected"),
    [(float(2**63), I64_MAX), (float(2**53), 2**53), (2048.0, 2048), (I64_MAX, I64_MAX)],
)
def test_node_sends_large_integers_as_floats(sent: float, expected: int) -> None:
    made = MessageStreamDefinition.from_dict({"name": "S", "strategyOnFull": 1.0, "maxSize": sent})

    assert made.max_size == expected
    assert type(made.max_size) is int
    assert made.strategy_on_full is StrategyOnFull.OverwriteOldestData


@pytest.mark.parametrize("sent", [2**63, 2**64, 1e19, -1e19, 1024.5, float("nan"), float("inf")])
def test_a_number_that_no_64_bits_can_hold_is_refused(sent: float) -> None:
    with pytest.raises(ValueError, match=r"^maxSize: Expected `int`"):
        MessageStreamDefinition.from_dict({"name": "S", "strategyOnFull": 0, "maxSize": sent})


@no_deadline
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_stays_what_it_is(number: float) -> None:
    assert Variant.from_dict({"doubleValue": number}).double_value == number
    assert type(Variant.from_dict({"doubleValue": number}).double_value) is float


# --- rules over several fields ------------------------------------------------------------------


def test_a_read_cannot_want_more_than_it_takes() -> None:
    assert ReadMessagesOptions(0, 5, 5).validated().message_count_max() == 5
    with pytest.raises(ValueError, match="minMessageCount 6 is greater than maxMessageCount 5"):
        ReadMessagesOptions(0, 6, 5).validated()


def test_a_read_without_a_maximum_takes_its_minimum() -> None:
    assert ReadMessagesOptions().message_count_max() == 1
    assert ReadMessagesOptions(min_message_count=2).message_count_max() == 2


def test_export_identifiers_are_unique_over_all_five_lists() -> None:
    exports = ExportDefinition(
        http=[HTTPConfig("a", "u")],
        iot_analytics=[IoTAnalyticsConfig("b", "c")],
        kinesis=[KinesisConfig("c", "k")],
        iot_sitewise=[IoTSiteWiseConfig("d")],
        s3_task_executor=[S3ExportTaskExecutorConfig("e")],
    )
    assert [config.identifier for config in exports.validated().configs()] == list("abcde")

    exports.kinesis.append(KinesisConfig("a", "k"))
    exports.s3_task_executor.append(S3ExportTaskExecutorConfig("d"))
    with pytest.raises(ValueError, match=r"used twice: a, d$"):
        exports.validated()


def test_a_stream_cannot_be_its_own_status_stream() -> None:
    def definition(status_stream_name: str | None) -> MessageStreamDefinition:
        executor = S3ExportTaskExecutorConfig("e")
        executor.status_config = StatusConfig(status_stream_name=status_stream_name)  # type: ignore[arg-type]
        return MessageStreamDefinition(
            "S",
            strategy_on_full=StrategyOnFull.RejectNewData,
            export_definition=ExportDefinition(s3_task_executor=[executor]),
        )

    assert definition("other").validated()
    assert definition(None).validated()
    with pytest.raises(ValueError, match="export e would write its statuses into its own stream S"):
        definition("S").validated()


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({}, "exactly one of"),
        ({"doubleValue": 1.0, "integerValue": 1}, "exactly one of"),
        ({"doubleValue": float("nan")}, "doubleValue must be a finite number"),
        ({"doubleValue": float("-inf")}, "doubleValue must be a finite number"),
        ({"integerValue": -1}, "integerValue: Expected `int` >= 0"),
        ({"integerValue": I32_MAX + 1}, f"integerValue: Expected `int` <= {I32_MAX}"),
        ({"stringValue": ""}, "stringValue: Expected `str` of length >= 1"),
        ({"stringValue": "x" * 1025}, "stringValue: Expected `str` of length <= 1024"),
        ({"stringValue": "a\tb"}, "stringValue: Expected `str` matching regex"),
        ({"booleanValue": 1}, "booleanValue: Expected `bool"),
    ],
)
def test_a_variant_holds_exactly_one_value_within_its_limits(
    values: dict[str, Any], text: str
) -> None:
    with pytest.raises(ValueError, match=text):
        Variant.from_dict(values)


@pytest.mark.parametrize(
    "values",
    [
        {"doubleValue": 0.0},
        {"integerValue": 0},
        {"integerValue": I32_MAX},
        {"stringValue": "x" * 1024},
        {"booleanValue": False},
    ],
)
def test_any_one_value_makes_a_variant(values: dict[str, Any]) -> None:
    assert to_wire(Variant.from_dict(values)) == values


# --- properties ---------------------------------------------------------------------------------

WIRE_NAMES = sorted({found.wire_name for kind in SMALLEST for found in fields_of(kind)})
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**64), 2**64),
    st.floats(),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.sampled_from(["S", 0, 1, 1024, 60_000, b"x"]),
)
JSON_LIKE = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(WIRE_NAMES) | st.text(max_size=3), inner, max_size=6)
    ),
    max_leaves=20,
)


@no_deadline
@given(st.sampled_from(list(SMALLEST)), JSON_LIKE)
def test_any_value_makes_an_object_or_a_value_error(kind: type[Model], values: Any) -> None:
    make_or_value_error(lambda: from_wire(values, kind))


@no_deadline
@given(st.sampled_from(list(SMALLEST)), st.data())
def test_any_change_to_a_good_object_makes_an_object_or_a_value_error(
    kind: type[Model], data: st.DataObject
) -> None:
    wire_names = [found.wire_name for found in fields_of(kind)]
    changes = data.draw(st.dictionaries(st.sampled_from(wire_names), JSON_LIKE))
    make_or_value_error(lambda: from_wire(SMALLEST[kind] | changes, kind))

    built = from_wire(SMALLEST[kind], kind)
    for found in fields_of(kind):
        setattr(built, found.name, data.draw(JSON_LIKE | st.just(object())))
    make_or_value_error(built.validated)


def make_or_value_error(make: Callable[[], Model]) -> None:
    try:
        made = make()
    except ValueError:
        return
    assert made.validated() == made
    assert from_wire(cbor2.loads(cbor2.dumps(to_wire(made))), type(made)) == made
