"""Which messages of a range are malformed, and why."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING

from penstock.pipeline.transform_frame import (
    ddl_of,
    is_malformed,
    parsed,
    schema_of,
    with_payload_read,
)
from penstock.transforms.declaration import SEQUENCE_COLUMN, Transform
from penstock.transforms.reports import Malformed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row
    from pyspark.sql.types import StructType

VALUE_SHOWN_MAX = 60


def malformed_of(messages: DataFrame, transform: Transform) -> list[Malformed]:
    """The malformed ones of these messages, in their order, each with the reason."""
    from pyspark.sql import functions

    schema = schema_of(transform)
    text = functions.col("text")
    rows = (
        with_payload_read(messages, transform)
        .where("malformed")
        .select(SEQUENCE_COLUMN, "text", _wrong_fields(text, transform, schema).alias("wrong"))
        .orderBy(SEQUENCE_COLUMN)
        .collect()
    )
    return [Malformed(row[SEQUENCE_COLUMN], _reason(row, transform, schema)) for row in rows]


def _wrong_fields(text: Column, transform: Transform, schema: StructType) -> Column:
    """Names of the fields that are malformed if all others are not looked at."""
    from pyspark.sql import functions
    from pyspark.sql.types import StringType, StructField, StructType

    checks = []
    for at, field in enumerate(schema.fields):
        if transform.format == "csv":
            # Found by their place: the others must be there, and text can be anything.
            others = [StructField(each.name, StringType()) for each in schema.fields]
            alone = StructType([*others[:at], field, *others[at + 1 :]])
        else:
            alone = StructType([field])
        wrong = is_malformed(parsed(text, transform, alone))
        checks.append(functions.when(wrong, functions.lit(field.name)))
    return functions.filter(functions.array(*checks), lambda name: name.isNotNull())


def _reason(row: Row, transform: Transform, schema: StructType) -> str:
    if transform.format == "csv":
        return _csv_reason(row, transform, schema)
    return _json_reason(row, schema)


def _json_reason(row: Row, schema: StructType) -> str:
    try:
        value = json.loads(row.text)
    except ValueError as error:
        return f"not JSON: {error}"
    if not isinstance(value, dict):
        return f"JSON, but not an object: {_shown(value)}"
    wrong = [
        f"{name} is {_shown(value.get(name))}, not {_type_name(schema, name)}" for name in row.wrong
    ]
    return f"does not fit the schema: {'; '.join(wrong) or ddl_of(schema)}"


def _csv_reason(row: Row, transform: Transform, schema: StructType) -> str:
    options = {key.lower(): value for key, value in transform.options.items()}
    separator = options.get("sep", options.get("delimiter", ","))
    lines = row.text.splitlines() if len(separator) == 1 else []
    values = next(csv.reader(lines, delimiter=separator), []) if lines else []
    if values and len(values) != len(schema):
        return f"does not fit the schema: {len(values)} values, {len(schema)} columns"
    by_name = dict(zip(schema.fieldNames(), values, strict=False))
    wrong = [
        f"{name} is {_shown(by_name.get(name))}, not {_type_name(schema, name)}"
        for name in row.wrong
    ]
    return f"does not fit the schema: {'; '.join(wrong) or ddl_of(schema)}"


def _type_name(schema: StructType, name: str) -> str:
    return str(schema[name].dataType.simpleString()).upper()


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= VALUE_SHOWN_MAX else f"{text[:VALUE_SHOWN_MAX]}..."
