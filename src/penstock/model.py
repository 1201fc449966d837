"""The nouns, under the names that AWS's Python SDK gives them.

Each type is declared once: attribute, wire name, constraint, default. Objects can be built empty
and filled later, as SDK users do; `validated()` checks everything at once and names the field that
is wrong. A field whose default is None although its type is not optional is required.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from enum import Enum, IntEnum
from functools import cache
from typing import Annotated, Any, ClassVar, NamedTuple, Self, TypeVar, cast, get_args

import msgspec
from msgspec import Meta, Struct, field

from penstock.learned import learn

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

I64_MAX = 2**63 - 1
I32_MAX = 2**31 - 1
# The limit of every duration: as nanoseconds the value must still fit 64 bits.
MILLIS_MAX = 9_223_372_036_854

Name = Annotated[
    str,
    # ASCII on purpose: Java and Node read \w so. \Z because $ would allow a trailing newline.
    Meta(min_length=1, max_length=255, pattern=r"^[A-Za-z0-9_ ,.\-]*\Z"),
]
Sequence = Annotated[int, Meta(ge=0, le=I64_MAX)]
Priority = Annotated[int, Meta(ge=1, le=10)]
BatchInterval = Annotated[int, Meta(ge=60_000, le=MILLIS_MAX)]
NonEmptyText = Annotated[str, Meta(min_length=1)]
I64 = Annotated[int, Meta(ge=-(2**63), le=I64_MAX)]
TextWithoutControls = r"^[^\x00-\x1f\x7f]+\Z"

S3_BUCKET = (
    r"^(?=.{3,63}\Z)(?!(\d+\.)+\d+\Z)"
    r"(([a-z0-9]|[a-z0-9][a-z0-9\-]*[a-z0-9])\.)*([a-z0-9]|[a-z0-9][a-z0-9\-]*[a-z0-9])\Z"
)
S3_KEY = r"^([^\\{ }%`\[\]\"'><~#^?|]|!\{[a-zA-Z]+:[a-zA-Z/]+\})*\Z"


def required() -> Any:
    """A field that may be missing while an object is being built, but not when it is used."""
    return field(default=None)


class StrategyOnFull(IntEnum):
    """What an append does when the stream is full."""

    RejectNewData = 0
    OverwriteOldestData = 1


class Persistence(IntEnum):
    """Where a stream lives. Memory streams end with the server."""

    File = 0
    Memory = 1


class ExportFormat(IntEnum):
    """How messages travel to an HTTP destination."""

    RAW_NOT_BATCHED = 0
    JSON_BATCHED = 1


class StatusLevel(IntEnum):
    """How much an S3 export tells its status stream."""

    ERROR = 0
    WARN = 1
    INFO = 2
    DEBUG = 3
    TRACE = 4


class EventType(IntEnum):
    """What a status message is about."""

    S3Task = 0


class Status(IntEnum):
    """How far a task is."""

    Success = 0
    Failure = 1
    InProgress = 2
    Warning = 3
    Canceled = 4


class Quality(Enum):
    """How far a SiteWise value can be trusted."""

    GOOD = "GOOD"
    BAD = "BAD"
    UNCERTAIN = "UNCERTAIN"


class Model(Struct, rename="camel"):
    """What all types share: the way to and from wire values."""

    def validated(self) -> Self:
        """A checked copy, or ValueError naming field and rule."""
        return from_wire(to_wire(self), type(self))

    def as_dict(self) -> dict[str, Any]:
        """Wire names and plain values; None and nothing else is left out."""
        return to_wire(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        return from_wire(values, cls)


class Message(Model):
    """One message of a stream, as it is read."""

    stream_name: str = required()
    sequence_number: int | None = None
    ingest_time: int | None = None
    payload: bytes = required()


class ReadMessagesOptions(Model):
    """Where a read starts, how much it wants, how long it waits."""

    desired_start_sequence_number: Sequence = 0
    min_message_count: Annotated[int, Meta(ge=1, le=I32_MAX)] = 1
    max_message_count: Annotated[int, Meta(ge=1, le=I32_MAX)] | None = None
    read_timeout_millis: Annotated[int, Meta(ge=0, le=MILLIS_MAX)] = 0

    def message_count_max(self) -> int:
        """SDK samples read with a minimum of 2 and no maximum, and expect 2 messages."""
        return self.max_message_count or max(1, self.min_message_count)

    def broken_rule(self) -> str | None:
        if self.max_message_count is not None and self.min_message_count > self.max_message_count:
            return (
                f"minMessageCount {self.min_message_count} is greater than "
                f"maxMessageCount {self.max_message_count}"
            )
        return None


class HTTPConfig(Model):
    """Export to an HTTP address, for tests and local collectors."""

    identifier: Name = required()
    uri: NonEmptyText = required()
    batch_size: Annotated[int, Meta(ge=1, le=500)] | None = None
    batch_interval_millis: BatchInterval | None = None
    priority: Priority | None = None
    start_sequence_number: Sequence = 0
    disabled: bool = False
    export_format: ExportFormat = ExportFormat.RAW_NOT_BATCHED


class IoTAnalyticsConfig(Model):
    """Export to an AWS IoT Analytics channel."""

    identifier: Name = required()
    iot_channel: NonEmptyText = required()
    iot_msg_id_prefix: Annotated[str, Meta(max_length=32)] | None = None
    batch_size: Annotated[int, Meta(ge=1, le=100)] | None = None
    batch_interval_millis: BatchInterval | None = None
    priority: Priority | None = None
    start_sequence_number: Sequence = 0
    disabled: bool = False


class KinesisConfig(Model):
    """Export to an Amazon Kinesis data stream."""

    identifier: Name = required()
    kinesis_stream_name: NonEmptyText = required()
    batch_size: Annotated[int, Meta(ge=1, le=500)] | None = None
    batch_interval_millis: BatchInterval | None = None
    priority: Priority | None = None
    start_sequence_number: Sequence = 0
    disabled: bool = False


class IoTSiteWiseConfig(Model):
    """Export of PutAssetPropertyValueEntry messages to AWS IoT SiteWise."""

    identifier: Name = required()
    batch_size: Annotated[int, Meta(ge=1, le=10)] | None = None
    batch_interval_millis: BatchInterval | None = None
    priority: Priority | None = None
    start_sequence_number: Sequence = 0
    disabled: bool = False


class StatusConfig(Model):
    """Where the statuses of S3 tasks go, and how many of them."""

    status_level: StatusLevel = StatusLevel.INFO
    status_stream_name: Name | None = None


class S3ExportTaskExecutorConfig(Model):
    """Each message of the stream is an S3ExportTaskDefinition, executed in order."""

    identifier: Name = required()
    size_threshold_for_multipart_upload_bytes: Annotated[int, Meta(ge=5 * MIB, le=I64_MAX)] = (
        5 * MIB
    )
    priority: Priority | None = None
    disabled: bool = False
    status_config: StatusConfig | None = None


ExportConfig = (
    HTTPConfig | IoTAnalyticsConfig | KinesisConfig | IoTSiteWiseConfig | S3ExportTaskExecutorConfig
)


class ExportDefinition(Model):
    """The exports of a stream; identifiers are unique across the five lists."""

    http: list[HTTPConfig] = []
    iot_analytics: list[IoTAnalyticsConfig] = []
    kinesis: list[KinesisConfig] = []
    iot_sitewise: list[IoTSiteWiseConfig] = field(name="IotSitewise", default_factory=list)
    s3_task_executor: list[S3ExportTaskExecutorConfig] = []

    def configs(self) -> list[ExportConfig]:
        """All of them, in the order in which statuses are reported."""
        return [
            *self.http,
            *self.iot_analytics,
            *self.kinesis,
            *self.iot_sitewise,
            *self.s3_task_executor,
        ]

    def broken_rule(self) -> str | None:
        identifiers = [config.identifier for config in self.configs()]
        twice = sorted({name for name in identifiers if identifiers.count(name) > 1})
        if twice:
            return f"export identifiers must be unique in a stream; used twice: {', '.join(twice)}"
        return None


class MessageStreamDefinition(Model):
    """What a stream is: limits, retention, durability, exports."""

    name: Name = required()
    max_size: Annotated[int, Meta(ge=KIB, le=I64_MAX)] = 256 * MIB
    stream_segment_size: Annotated[int, Meta(ge=KIB, le=I32_MAX)] = 16 * MIB
    time_to_live_millis: Annotated[int, Meta(ge=60_000, le=MILLIS_MAX)] | None = None
    strategy_on_full: StrategyOnFull = required()
    persistence: Persistence = Persistence.File
    flush_on_write: bool = False
    export_definition: ExportDefinition = field(default_factory=ExportDefinition)

    def broken_rule(self) -> str | None:
        for config in self.export_definition.s3_task_executor:
            if config.status_config and config.status_config.status_stream_name == self.name:
                return (
                    f"export {config.identifier} would write its statuses into its own stream "
                    f"{self.name}, for ever; choose another statusStreamName"
                )
        return None


class StorageStatus(Model):
    """What a stream holds. Empty: oldest is newest + 1."""

    oldest_sequence_number: int = 0
    newest_sequence_number: int = -1
    total_bytes: int = 0


class ExportStatus(Model):
    """How far one export got."""

    export_config_identifier: str = required()
    last_exported_sequence_number: int = -1
    last_export_time: int | None = None
    error_message: str | None = None
    exported_bytes_from_stream: int | None = None
    exported_messages_count: int | None = None


class MessageStreamInfo(Model):
    """The answer to describe."""

    definition: MessageStreamDefinition = required()
    storage_status: StorageStatus = required()
    export_statuses: list[ExportStatus] = []

    # AWS's names for the two inner types.
    storageStatus: ClassVar[type[StorageStatus]] = StorageStatus
    exportStatuses: ClassVar[type[ExportStatus]] = ExportStatus


class S3ExportTaskDefinition(Model):
    """JSON payload: copy one local file to one S3 object."""

    input_url: NonEmptyText = required()
    bucket: Annotated[str, Meta(min_length=3, max_length=63, pattern=S3_BUCKET)] = required()
    key: Annotated[str, Meta(min_length=1, max_length=1024, pattern=S3_KEY)] = required()
    user_metadata: dict[str, str] | None = None


class StatusContext(Model):
    """Which task a status message speaks of."""

    s3_export_task_definition: S3ExportTaskDefinition | None = None
    export_identifier: str | None = None
    stream_name: str | None = None
    sequence_number: I64 | None = None


class StatusMessage(Model):
    """JSON payload in a status stream."""

    event_type: EventType = required()
    status_level: StatusLevel = StatusLevel.INFO
    status: Status = Status.Success
    status_context: StatusContext | None = None
    message: str | None = None
    timestamp_epoch_ms: I64 | None = None


class Variant(Model):
    """A SiteWise value: exactly one field is set."""

    string_value: (
        Annotated[str, Meta(min_length=1, max_length=1024, pattern=TextWithoutControls)] | None
    ) = None
    integer_value: Annotated[int, Meta(ge=0, le=I32_MAX)] | None = None
    double_value: float | None = None
    boolean_value: bool | None = None

    def broken_rule(self) -> str | None:
        values = (self.string_value, self.integer_value, self.double_value, self.boolean_value)
        if sum(value is not None for value in values) != 1:
            return "exactly one of stringValue, integerValue, doubleValue, booleanValue must be set"
        if self.double_value is not None and not math.isfinite(self.double_value):
            return f"doubleValue must be a finite number, not {self.double_value}"
        return None


class TimeInNanos(Model):
    """A SiteWise time."""

    time_in_seconds: Annotated[int, Meta(ge=1, le=31_556_889_864_403_199)] = required()
    offset_in_nanos: Annotated[int, Meta(ge=0, le=999_999_999)] | None = None


class AssetPropertyValue(Model):
    """A value, its time and its quality."""

    value: Variant = required()
    timestamp: TimeInNanos = required()
    quality: Quality | None = None


class PutAssetPropertyValueEntry(Model):
    """JSON payload of streams that are exported to SiteWise."""

    entry_id: Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[a-zA-Z0-9_-]+\Z")] = (
        required()
    )
    asset_id: str | None = None
    property_id: str | None = None
    property_alias: (
        Annotated[str, Meta(min_length=1, max_length=2048, pattern=TextWithoutControls)] | None
    ) = None
    property_values: Annotated[list[AssetPropertyValue], Meta(min_length=1, max_length=10)] = (
        required()
    )


StructType = TypeVar("StructType", bound=Struct)

# CBOR has byte strings of its own. Without this, text in their place would be taken for base64.
WIRE_TYPES = (bytes,)


class RuleBroken(ValueError):
    """Each field is fine by itself, but not together with the others."""


def to_wire(value: Struct) -> dict[str, Any]:
    """Wire names, plain values, no None anywhere."""
    return cast(dict[str, Any], plain(value))


def from_wire(values: Any, kind: type[StructType], at: str = "") -> StructType:
    """Check plain values and make an object of them. ValueError names the field and its rule."""
    try:
        found = converted(values, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise ValueError(readable(str(error), kind, at)) from error
    check_rules(found, at)
    return found


def plain(value: Any) -> Any:
    """Objects become maps, enums their values. What fits no field is kept for `from_wire`."""
    if isinstance(value, Struct):
        fields = ((entry.wire_name, getattr(value, entry.name)) for entry in fields_of(type(value)))
        return {wire_name: plain(item) for wire_name, item in fields if item is not None}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    return value


def converted(values: Any, kind: type[StructType]) -> StructType:
    """Most values fit as they are; those that do not get a second chance, normalised."""
    learn(kind)
    try:
        return msgspec.convert(values, kind, builtin_types=WIRE_TYPES)
    except msgspec.ValidationError:
        return msgspec.convert(normalised(values), kind, builtin_types=WIRE_TYPES)


def normalised(value: Any) -> Any:
    """Null becomes absent; integral floats become integers, because Node sends large ones so.

    2^63 as a float is what Node makes of 2^63-1.
    """
    if isinstance(value, dict):
        return {key: normalised(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [normalised(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) <= 2**63:
        return min(int(value), I64_MAX)
    return value


def dropped_keys(given: Any, kept: Any, at: str = "definition") -> Iterator[tuple[str, str]]:
    """(place, key) of what was given but is not part of the model.

    The wire ignores such keys; in a file that a person wrote they are slips of the pen.
    """
    if isinstance(given, dict):
        for key, value in given.items():
            if value is None:
                continue
            if key not in kept:
                yield at, key
            else:
                yield from dropped_keys(value, kept[key], f"{at}.{key}")
    elif isinstance(given, list):
        for position, (item, kept_item) in enumerate(zip(given, kept, strict=True)):
            yield from dropped_keys(item, kept_item, f"{at}[{position}]")


def readable(error: str, kind: type[Struct], at: str = "") -> str:
    """'Expected `int` >= 1024 - at `$.definition.maxSize`', with the field in front."""
    parts = re.fullmatch(r"(.*?) - at (`key` in )?`\$\.?(.*)`", error, re.DOTALL)
    text, of_key, path = parts.groups() if parts else (error, None, "")
    if of_key:
        text = f"a key: {text}"
    if text.startswith("Invalid enum value"):
        text += f"; allowed are {', '.join(allowed_values(kind, path))}"
    where = ".".join(part for part in (at, path) if part)
    return f"{where}: {text}" if where else text


def allowed_values(kind: Any, path: str) -> list[str]:
    """What the enum at a path of wire names can be: '0 (File)', '1 (Memory)'."""
    for wire_name in re.findall(r"[A-Za-z]\w*", path):
        (kind,) = (entry.inner_type for entry in fields_of(kind) if entry.wire_name == wire_name)
    return [f"{member.value} ({member.name})" for member in kind]


def check_rules(value: Any, at: str = "") -> None:
    """Required fields are there, and every type's own rule over several fields holds."""
    if isinstance(value, list):
        for position, item in enumerate(value):
            check_rules(item, f"{at}[{position}]")
    if not isinstance(value, Struct):
        return
    for entry in fields_of(type(value)):
        item = getattr(value, entry.name)
        if item is None and entry.is_required:
            raise ValueError(f"{at}.{entry.wire_name}: is required".lstrip("."))
        if entry.holds_structs:
            check_rules(item, f"{at}.{entry.wire_name}".lstrip("."))
    rule = getattr(value, "broken_rule", None)
    if rule is not None and (broken := cast(Callable[[], str | None], rule)()) is not None:
        raise RuleBroken(f"{at}: {broken}" if at else broken)


class Field(NamedTuple):
    """What a type's declaration says about one of its fields."""

    name: str
    wire_name: str
    is_required: bool
    inner_type: type  # of the value, or of what a list holds
    holds_structs: bool


@cache
def fields_of(kind: type[Struct]) -> list[Field]:
    """The fields of a type, in the order of the wire and of positional arguments."""
    table = []
    for found in msgspec.structs.fields(kind):
        inner_type = found.type
        while arguments := get_args(inner_type):
            inner_type = arguments[0]
        table.append(
            Field(
                found.name,
                found.encode_name,
                found.default is None and type(None) not in get_args(found.type),
                inner_type,
                issubclass(inner_type, Struct),
            )
        )
    return table
