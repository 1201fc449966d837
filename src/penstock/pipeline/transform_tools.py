"""What `penstock transforms` does with a Spark of its own: validate, dry-run, infer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from penstock.errors import PenstockError
from penstock.pipeline.context import session_of, start_context
from penstock.pipeline.jvm import spark_home
from penstock.pipeline.transform_frame import (
    TransformBroken,
    check_plan,
    result_frame,
    said,
)
from penstock.pipeline.transform_letters import malformed_of
from penstock.transforms.declaration import Transform
from penstock.transforms.reports import Malformed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CORRUPT_COLUMN = "_corrupt_record"  # Spark's own name for it


class Verdict(NamedTuple):
    """What Spark says to a declaration: the columns it gives, or what is wrong."""

    name: str
    columns: str = ""
    problem: str = ""


class Rehearsal(NamedTuple):
    """What a transform would emit from some messages."""

    message_count: int
    malformed: list[Malformed]
    rows: list[str]  # JSON


class Inferred(NamedTuple):
    """A schema, and how many of the messages it was inferred from do not fit."""

    schema: str
    message_count: int
    malformed_count: int


def validate(transforms: Sequence[Transform]) -> list[Verdict]:
    """Have Spark read the SQL of transforms against their schemas. No stream is touched."""
    with _spark() as session:
        return [_verdict(session, transform) for transform in transforms]


def dry_run(transform: Transform, place: Mapping[str, str], last: int) -> Rehearsal:
    """What a transform would emit from the last messages of its stream. Nothing is written."""
    chosen = _LastMessages(transform.source, place, last)
    with _spark() as session:
        messages = chosen.frame(session)
        result = result_frame(session, messages, transform)
        malformed = malformed_of(messages, transform) if transform.format != "raw" else []
        try:
            rows = [row[0] for row in result.selectExpr("to_json(struct(*))").collect()]
        except Exception as error:
            raise TransformBroken(f"Spark could not run it: {said(error)}.") from error
        return Rehearsal(len(chosen), malformed, rows)


def infer(stream: str, payload_format: str, place: Mapping[str, str], last: int) -> Inferred:
    """The schema of a stream's last messages."""
    chosen = _LastMessages(stream, place, last)
    if not len(chosen):
        raise TransformBroken(f"stream {stream} has no messages to infer a schema from.")
    with _spark() as session:
        texts = chosen.frame(session).selectExpr("CAST(payload AS STRING)").rdd.map(_only_value)
        reader = session.read.option("inferTimestamp", "true").option("inferSchema", "true")
        if payload_format == "csv":
            found = reader.csv(texts)
            return Inferred(_ddl(found), len(chosen), 0)
        found = reader.json(texts).cache()  # Spark refuses to read the corrupt column alone
        if CORRUPT_COLUMN not in found.columns:
            return Inferred(_ddl(found), len(chosen), 0)
        malformed_count = found.where(found[CORRUPT_COLUMN].isNotNull()).count()
        schema = _ddl(found.drop(CORRUPT_COLUMN))
    if not schema:
        raise TransformBroken(
            f"none of the last {len(chosen)} messages of stream {stream} is a JSON object. Try "
            '--format csv, or declare the transform with format = "raw".'
        )
    return Inferred(schema, len(chosen), malformed_count)


@contextmanager
def _spark() -> Iterator[SparkSession]:
    context, gateway = start_context("local[2]")
    try:
        yield session_of(context)
    finally:
        context.stop()
        gateway.stop()


def _verdict(session: SparkSession, transform: Transform) -> Verdict:
    try:
        # A stream that never gets a message has the columns of one that does.
        messages = (
            session.readStream.format("rate")
            .load()
            .selectExpr(
                "'' AS stream",
                "value AS sequence_number",
                "timestamp AS ingest_time",
                "CAST(NULL AS BINARY) AS payload",
            )
        )
        result = result_frame(session, messages, transform)
        check_plan(session, result, transform)
    except PenstockError as error:
        return Verdict(transform.name, problem=str(error))
    return Verdict(transform.name, _ddl(result))


class _LastMessages:
    """The last messages of a stream, at a server or in a store folder."""

    def __init__(self, stream: str, place: Mapping[str, str], last: int) -> None:
        spark_home()  # without Spark nothing below can be imported, and this says what to do
        from penstock.spark.options import parse_options
        from penstock.spark.survey import Places
        from penstock.spark.trouble import SourceError

        self._options = {**place, "stream": json.dumps([stream])}
        places = Places(parse_options(self._options))
        survey = places.survey()
        places.close()
        for reason in survey.down.values():
            raise SourceError(reason)
        found = [streams[stream] for streams in survey.bounds.values() if stream in streams]
        if not found:
            raise SourceError(
                f"there is no stream {stream} at {', '.join(survey.bounds) or place['path']}."
            )
        bounds = found[0]
        self._stop = bounds.next_sequence
        self._first = max(bounds.first_sequence, self._stop - last)

    def __len__(self) -> int:
        return self._stop - self._first

    def frame(self, session: SparkSession) -> DataFrame:
        return (
            session.read.format("penstock")
            .options(**self._options)
            .option("startingSequence", str(self._first))
            .option("endingSequence", str(self._stop))
            .load()
        )


def _only_value(row: tuple[str]) -> str:
    return row[0]


def _ddl(frame: DataFrame) -> str:
    """Columns and types as one writes them in a declaration."""
    text = str(frame._jdf.schema().toDDL())
    # Quoted names may hold commas of their own.
    return text if "`" in text else re.sub(r",(?! )", ", ", text)
