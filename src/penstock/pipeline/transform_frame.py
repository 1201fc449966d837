"""A declared transform as Spark frames: messages, their parsed payloads, and what the SQL says."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError
from penstock.transforms.declaration import (
    MALFORMED_COLUMN,
    PAYLOAD_COLUMN,
    SEQUENCE_COLUMN,
    SOURCE_VIEW,
    TIME_COLUMN,
    Transform,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

# Names of what is counted while a batch runs.
COUNTED_IN, COUNTED_OUT = "penstock_in", "penstock_out"
# Nodes of a plan that keep something from one batch to the next.
STATEFUL_NODES = (
    "Aggregate",
    "Deduplicate",
    "DeduplicateWithinWatermark",
    "Distinct",
    "Join",
    "GlobalLimit",
)
WINDOW = re.compile(r"\b(?:session_)?window\s*\([^()]*\)", re.IGNORECASE)
# All transforms of a session call their messages by the same name.
_view_lock = threading.Lock()


class TransformBroken(PenstockError):
    """A person must change the declaration, or begin again; the text says which and how."""


def schema_of(transform: Transform) -> StructType:
    """The columns of the payload."""
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    try:
        schema = StructType.fromDDL(transform.schema)
    except PySparkException as error:
        raise TransformBroken(
            f'key "schema" is not a list of columns and types: {said(error)}. Write it as in '
            '"ts TIMESTAMP, rpm DOUBLE".'
        ) from error
    for name in (SEQUENCE_COLUMN, TIME_COLUMN, MALFORMED_COLUMN):
        if name.lower() in (field.lower() for field in schema.fieldNames()):
            raise TransformBroken(
                f'key "schema" has a column {name}, which is a name of the message\'s own. Give '
                'format = "raw" and take the field out of payload in the SQL, or rename it.'
            )
    return schema


def with_payload_read(messages: DataFrame, transform: Transform) -> DataFrame:
    """Number, time, and for each message the parsed payload `fields`, its `text`, `malformed`."""
    from pyspark.sql import functions

    text = functions.col(PAYLOAD_COLUMN).cast("string")
    fields = parsed(text, transform, schema_of(transform))
    read = messages.select(SEQUENCE_COLUMN, TIME_COLUMN, text.alias("text"), fields.alias("fields"))
    return read.withColumn("malformed", is_malformed(functions.col("fields")))


def parsed(text: Column, transform: Transform, schema: StructType) -> Column:
    """The payload as a struct; its column for malformed text says whether it is."""
    from pyspark.sql import functions
    from pyspark.sql.types import StringType, StructField, StructType

    whole = StructType([*schema.fields, StructField(MALFORMED_COLUMN, StringType())])
    options = {
        **transform.options,
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": MALFORMED_COLUMN,
    }
    if transform.format == "csv":
        return functions.from_csv(text, ddl_of(whole), options)
    return functions.from_json(text, whole, options)


def is_malformed(fields: Column) -> Column:
    """Blank text gives no struct at all."""
    return fields.isNull() | fields[MALFORMED_COLUMN].isNotNull()


def source_frame(messages: DataFrame, transform: Transform) -> DataFrame:
    """What the SQL sees as `source`."""
    from pyspark.sql import functions

    if transform.format == "raw":
        frame = messages.select(SEQUENCE_COLUMN, TIME_COLUMN, PAYLOAD_COLUMN)
        frame = frame.observe(COUNTED_IN, functions.count(functions.lit(1)).alias("rows"))
    else:
        names = [f"fields.`{name}`" for name in schema_of(transform).fieldNames()]
        malformed = functions.col("malformed")
        frame = with_payload_read(messages, transform).observe(
            COUNTED_IN,
            functions.count(functions.lit(1)).alias("rows"),
            functions.count_if(malformed).alias("malformed"),
        )
        if transform.keeps_letters:
            frame = frame.where(~malformed).select(SEQUENCE_COLUMN, TIME_COLUMN, *names)
        else:
            shown = functions.when(malformed, functions.col("text")).alias(MALFORMED_COLUMN)
            frame = frame.select(SEQUENCE_COLUMN, TIME_COLUMN, *names, shown)
    return _with_watermark(frame, transform)


def result_frame(session: SparkSession, messages: DataFrame, transform: Transform) -> DataFrame:
    """What the SQL gives."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions

    frame = source_frame(messages, transform)
    with _view_lock:
        frame.createOrReplaceTempView(SOURCE_VIEW)
        try:
            result = session.sql(transform.sql)
        except PySparkException as error:
            known = ", ".join(frame.columns)
            raise TransformBroken(
                f'key "sql" is refused by Spark: {said(error)}. The columns of {SOURCE_VIEW} are '
                f"{known}."
            ) from error
    if messages.isStreaming and not result.isStreaming:
        raise TransformBroken(f'key "sql" does not read from {SOURCE_VIEW}. Select from it.')
    return result.observe(COUNTED_OUT, functions.count(functions.lit(1)).alias("rows"))


def check_plan(session: SparkSession, result: DataFrame, transform: Transform) -> None:
    """Refuse what Spark cannot run as a stream, or cannot write."""
    from pyspark.errors import PySparkException

    missing = [name for name in transform.target.partition_by if name not in result.columns]
    if missing:
        raise TransformBroken(
            f'key "target.partition_by" names {missing[0]}, which the SQL does not give. It gives '
            f"{', '.join(result.columns)}."
        )
    jvm = session._jvm
    mode = getattr(jvm.org.apache.spark.sql.streaming.OutputMode, transform.output_mode.title())()
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    try:
        checker.checkForStreaming(result._jdf.queryExecution().analyzed(), mode)
    except PySparkException as error:
        raise TransformBroken(
            f'key "sql" cannot run as a stream: {said(error)}. An aggregate in output_mode '
            f'"append" needs key "watermark" on a column that it groups by, as in '
            f"window(ts, '1 minute')."
        ) from error


def fingerprint_of(result: DataFrame, transform: Transform) -> str:
    """What the state in a checkpoint depends on, as text: equal texts go on with each other."""
    nodes = _stateful_nodes(result._jdf.queryExecution().analyzed())
    # Their lengths are nowhere in those nodes.
    windows = [" ".join(text.lower().split()) for text in WINDOW.findall(transform.sql)]
    return "; ".join([f"stream {transform.source}", *nodes, *(windows if nodes else [])])


def ddl_of(schema: StructType) -> str:
    return ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in schema.fields)


def said(error: BaseException) -> str:
    """The sentence in Spark's error, without its codes and plans."""
    text = str(error).strip()
    for end in ("\n\nJVM stacktrace:", "\n== SQL", ";\n", "\n\tat ", "\n=== Streaming Query ==="):
        text = text.partition(end)[0]
    text = re.sub(r"^An error occurred while calling \S+\n: [\w.$]+: ", "", text)
    text = re.sub(r"^.*terminated with exception: ", "", text, flags=re.DOTALL)
    text = re.sub(r"^\[[A-Z0-9_.]+\] ", "", text)
    text = re.sub(r"\s*SQLSTATE: \w+\s*", " ", text)
    return " ".join(text.split()).replace(". ;", ";").rstrip(" .;")


def _with_watermark(frame: DataFrame, transform: Transform) -> DataFrame:
    if not transform.watermark:
        return frame
    from pyspark.sql.types import TimestampNTZType, TimestampType

    column, delay = transform.watermark_parts
    kinds = {field.name.lower(): field.dataType for field in frame.schema.fields}
    if not isinstance(kinds.get(column.lower()), TimestampType | TimestampNTZType):
        kind = kinds.get(column.lower())
        problem = "is not there" if kind is None else f"is {kind.simpleString().upper()}"
        raise TransformBroken(
            f'key "watermark" names the column {column}, which {problem}. Name one of type '
            f"TIMESTAMP; {TIME_COLUMN} is always there."
        )
    return frame.withWatermark(column, delay)


def _stateful_nodes(plan: Any) -> list[str]:
    """The texts of a plan's stateful nodes, without what differs from one analysis to the next."""
    found = []
    name = plan.nodeName()
    if plan.isStreaming() and name in STATEFUL_NODES:
        columns = ", ".join(_typed(column) for column in _each(plan.output()))
        found.append(_aggregate(plan) if name == "Aggregate" else f"{name} [{columns}]")
    for child in _each(plan.children()):
        found += _stateful_nodes(child)
    return found


def _aggregate(plan: Any) -> str:
    """Keys, and what is computed for each; that keys are selected as well makes no difference."""
    keys = list(_each(plan.groupingExpressions()))
    key_names = [_normal(key.toString()) for key in keys]
    computed = [_normal(each.toString()) for each in _each(plan.aggregateExpressions())]
    computed = [each for each in computed if each not in key_names]
    return f"Aggregate [{', '.join(map(_typed, keys))}], [{', '.join(computed)}]"


def _typed(expression: Any) -> str:
    return f"{_normal(expression.toString())} {expression.dataType().simpleString()}"


def _normal(text: str) -> str:
    """Without the names given to results, the numbers of expressions, and watermarks."""
    text = re.sub(r"\s+AS \S+?#\d+(L|-T\d+ms)*", "", text)
    return re.sub(r"#\d+L?|-T\d+ms", "", text)


def _each(sequence: Any) -> Iterator[Any]:
    """The elements of a sequence of Scala's."""
    return (sequence.apply(at) for at in range(sequence.size()))
