"""The door for Spark: `format("penstock")`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

from penstock.spark.options import SourceOptions, parse_options
from penstock.spark.trouble import SourceError, said_plainly

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

COLUMNS = "stream STRING, sequence_number BIGINT, ingest_time TIMESTAMP, payload BINARY"
BATCH_ONLY = ("endingSequence", "endingTime", "filterPushdown")
TRIGGERS = ("maxMessagesPerTrigger", "minMessagesPerTrigger")


class PenstockDataSource(DataSource):  # type: ignore[misc]  # pyspark's types are not looked at
    """Streams of servers and of store folders."""

    @classmethod
    def name(cls) -> str:
        return "penstock"

    @said_plainly
    def schema(self) -> str:
        """Asked first of all, so wrong options are refused before anything is opened."""
        return columns_for(parse_options(self.options))

    @said_plainly
    def reader(self, schema: StructType) -> DataSourceReader:
        from penstock.spark.reader import PenstockPushdownReader, PenstockReader

        options = parse_options(self.options)
        options.refuse(TRIGGERS, "is for spark.readStream only")
        check_columns(schema, options)
        return (PenstockPushdownReader if options.filter_pushdown else PenstockReader)(options)

    @said_plainly
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from penstock.spark.stream_reader import PenstockStreamReader

        options = parse_options(self.options)
        try:
            options.refuse(BATCH_ONLY, "is for spark.read only")
            check_columns(schema, options)
        except SourceError as error:
            return PenstockStreamReader(options, error)
        return PenstockStreamReader(options)

    @said_plainly
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from penstock.spark.sink import PenstockBatchWriter

        return PenstockBatchWriter(self.options, schema, overwrite)

    @said_plainly
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from penstock.spark.sink import PenstockStreamWriter

        return PenstockStreamWriter(self.options, schema, overwrite)


def columns_for(options: SourceOptions) -> str:
    return f"server STRING, {COLUMNS}" if options.has_server_column else COLUMNS


def check_columns(schema: StructType, options: SourceOptions) -> None:
    """A schema that the user gave must be the one there is."""
    expected = [part.split()[0] for part in columns_for(options).split(", ")]
    if schema.fieldNames() != expected:
        raise SourceError(
            f"a read in format penstock has the columns {', '.join(expected)}; leave out "
            f".schema(), and take the payload apart with from_json and its like"
        )
