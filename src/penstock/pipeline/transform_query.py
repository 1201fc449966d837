"""A transform's streaming query: its options, its checkpoint, and whether they fit each other."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.client.sync import StreamManagerClient
from penstock.pipeline.task import Address
from penstock.pipeline.transform_frame import (
    TransformBroken,
    check_plan,
    fingerprint_of,
    result_frame,
)
from penstock.transforms.declaration import Transform
from penstock.transforms.reports import Order

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

# Offsets are stored under this name, not under an address, which may change.
PLACE = "server"


class Begun(NamedTuple):
    """A query that runs, and what its state depends on."""

    query: StreamingQuery
    fingerprint: str


class Checkpoint:
    """The folder of one generation of a transform."""

    def __init__(self, folder: str, order: Order) -> None:
        self.path = os.path.join(folder, order.transform.name, str(order.generation))

    @property
    def has_begun(self) -> bool:
        """Whether a batch was planned: then Spark goes on with it."""
        return self.newest("offsets") is not None

    def newest(self, part: str) -> str | None:
        """The last file of a part."""
        try:
            names = os.listdir(os.path.join(self.path, part))
        except FileNotFoundError:
            return None
        numbers = [int(name) for name in names if name.isdecimal()]
        return os.path.join(self.path, part, str(max(numbers))) if numbers else None


def begin(
    session: SparkSession, order: Order, address: Address, checkpoint: Checkpoint, start: int
) -> Begun:
    """Start the query of a transform; TransformBroken if it cannot go on from where it was."""
    transform = order.transform
    check_checkpoint(order, checkpoint)
    messages = (
        session.readStream.format("penstock")
        .options(**source_options(transform, address))
        .option("startingSequence", str(start))
        .option("maxMessagesPerTrigger", transform.messages_per_batch_max)
        .option("failOnDataLoss", str(transform.fail_on_data_loss).lower())
        .load()
    )
    result = result_frame(session, messages, transform)
    fingerprint = fingerprint_of(result, transform)
    check_fingerprint(order, fingerprint)
    check_plan(session, result, transform)
    if not checkpoint.has_begun:
        check_table(session, transform)
    return Begun(_started(result, transform, address, checkpoint.path), fingerprint)


def source_options(transform: Transform, address: Address) -> dict[str, str]:
    return {
        # As JSON: names may have commas.
        "stream": json.dumps([transform.source]),
        "servers": f"{PLACE}={address.host}:{address.port}",
        "token": address.token,
    }


def range_of(
    session: SparkSession, transform: Transform, address: Address, first: int, stop: int
) -> DataFrame:
    """The messages from `first` to, not including, `stop` that are still there."""
    return (
        session.read.format("penstock")
        .options(**source_options(transform, address))
        .option("startingSequence", str(first))
        .option("endingSequence", str(stop))
        .option("failOnDataLoss", "false")
        .load()
    )


def first_number(client: StreamManagerClient, transform: Transform, start: str) -> int:
    """Where a query without a checkpoint begins, as a number."""
    status = client.describe_message_stream(transform.source).storage_status
    if start == "earliest":
        return status.oldest_sequence_number
    return status.newest_sequence_number + 1 if start == "latest" else int(start)


def offset_number(offsets: str | None, stream: str) -> int | None:
    """The number of a stream in an offset of the source."""
    found = json.loads(offsets) if offsets else None
    number = found.get(PLACE, {}).get(stream) if isinstance(found, dict) else None
    return number if isinstance(number, int) else None


def check_checkpoint(order: Order, checkpoint: Checkpoint) -> None:
    """A checkpoint must be there once the transform has run, and be whole."""
    if order.has_run and not checkpoint.has_begun:
        raise TransformBroken(
            f"it has run before, but its checkpoint {checkpoint.path} is gone. {remedy(order)}"
        )
    if checkpoint.has_begun:
        # The settings of the batch, and the offset of the source.
        _check_file(checkpoint.newest("offsets"), order, document_count=2)
        _check_file(checkpoint.newest("commits"), order)
        _check_file(os.path.join(checkpoint.path, "metadata"), order)


def check_fingerprint(order: Order, fingerprint: str) -> None:
    """What a checkpoint holds must be what this declaration would have put there."""
    if order.has_run and order.fingerprint != fingerprint:
        raise TransformBroken(
            f"it was changed in a way that does not fit what it remembers: its state is of "
            f'"{order.fingerprint}", and now it is "{fingerprint}". {remedy(order)}'
        )


def check_table(session: SparkSession, transform: Transform) -> None:
    """Spark numbers the batches of a table, and skips those whose number is there already."""
    table = transform.target.table
    if not table:
        return
    hadoop = session.sparkContext._jvm.org.apache.hadoop
    log = hadoop.fs.Path(f"{table}/_spark_metadata")
    files = log.getFileSystem(session.sparkContext._jsc.hadoopConfiguration())
    # The folder is made before the first batch.
    if files.exists(log) and len(files.listStatus(log)):
        raise TransformBroken(
            f'key "target.table": {table} was written by an earlier query, and Spark would skip '
            f"the first rows of this one. Name another folder, or move it away."
        )


def remedy(order: Order) -> str:
    """What to do about a checkpoint that cannot be gone on with."""
    name = order.transform.name
    return (
        f"To begin anew: `penstock transforms reset {name}` (--from earliest, latest or a number; "
        "the old checkpoint stays where it is), or declare it under another name."
    )


def _started(
    result: DataFrame, transform: Transform, address: Address, checkpoint: str
) -> StreamingQuery:
    target = transform.target
    writer = (
        result.writeStream.queryName(f"transform {transform.name}")
        .outputMode(transform.output_mode)
        .trigger(processingTime=transform.trigger)
        .option("checkpointLocation", f"file://{checkpoint}")
    )
    if target.stream:
        writer = writer.format("penstock").options(**_sink_options(transform, address))
        return writer.start()
    if target.table:
        writer = writer.format("parquet").options(**target.options)
        if target.partition_by:
            writer = writer.partitionBy(*target.partition_by)
        return writer.start(target.table)
    return writer.format(target.format).options(**target.options).start()


def _sink_options(transform: Transform, address: Address) -> dict[str, str]:
    target = transform.target
    # A stream that refuses new messages when it is full would stop the transform for good: sending
    # messages on does not make room.
    created = {"createStream": "true", "strategyOnFull": "OverwriteOldestData"}
    return {
        **(created if target.create else {}),
        **target.options,
        "servers": f"{address.host}:{address.port}",
        "stream": target.stream,
        "token": address.token,
    }


def _check_file(path: str | None, order: Order, document_count: int = 1) -> None:
    """Spark's small files: JSON in lines, in some after a line with the version."""
    if path is None:
        return  # the first batch was not finished
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line for line in file.read().splitlines() if not line.startswith("v")]
        documents: list[Any] = [json.loads(line) for line in lines]
        if len(documents) < document_count:
            raise ValueError("it ends too early")
    except (OSError, ValueError) as error:
        raise TransformBroken(
            f"its checkpoint is damaged: {path}: {error}. {remedy(order)}"
        ) from error
