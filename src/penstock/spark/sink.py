"""A stream as a Spark sink: each message is stored once, however often Spark writes it.

Every chunk that a task sends names its origin: the query or job and the partition, the batch, and
its place in it. The server recognises what it has stored already; see streams/origins.py.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from penstock.block import ENTRY_BYTES
from penstock.client.calls import ExtensionMissing, PackedPayloads
from penstock.client.sync import StreamManagerClient
from penstock.errors import (
    ConnectionLostException,
    InvalidRequestException,
    RequestTimeoutException,
    ResourceNotFoundException,
    ServerTimeoutException,
    ServerUnreachableException,
    StreamManagerException,
    UnauthorizedException,
)
from penstock.spark.garbage import spare_what_is_loaded
from penstock.spark.packing import Limits, chunks, packer
from penstock.spark.places import RESTART_S, Unreachable, patiently
from penstock.spark.sink_options import SinkError, SinkOptions, parse_sink_options
from penstock.spark.trouble import said_plainly

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

log = logging.getLogger(__name__)

# Large enough that requests cost nothing; a sixteenth of what a server accepts in one.
CHUNK_BYTES_MAX = 4 * 1024 * 1024
CHUNK_MESSAGES_MAX = 20_000
# A stream holds at least this many chunks, so that none of them throws away all the others.
CHUNKS_PER_STREAM_MIN = 4
QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"


@dataclass
class Written(WriterCommitMessage):  # type: ignore[misc]  # pyspark's types are not looked at
    """What a task did."""

    message_count: int
    stored_count: int


class Writing:
    """What both writers share; made while Spark plans, used in its tasks."""

    @said_plainly
    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise SinkError(
                "a stream only grows: use mode append (or outputMode append) instead of overwrite, "
                "complete or truncate"
            )
        self.options = parse_sink_options(options)
        columns = {field.name: field.dataType.simpleString() for field in schema.fields}
        self._pack = packer(columns, self.options.as_json)
        with connected(self.options) as client:
            self._limits = limits_of(client, self.options)

    def store(self, batches: Iterator[pa.RecordBatch], writer: str, batch: int) -> Written:
        """Send all rows of a task."""
        message_count = stored_count = 0
        with connected(self.options) as client:
            cut = chunks(map(self._pack, batches), self._limits)
            for number, payloads in enumerate(cut):
                stored_count += append(client, self.options, payloads, writer, batch, number)
                message_count += len(payloads.sizes) // 4
        return Written(message_count, stored_count)


class PenstockBatchWriter(Writing, DataSourceArrowWriter):  # type: ignore[misc]
    """`df.write.format("penstock")`."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        super().__init__(options, schema, overwrite)
        # Made once, before there are tasks, so that a task that is tried again has it too.
        self._transaction_id = self.options.transaction_id or str(uuid4())

    @said_plainly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        spare_what_is_loaded()
        partition = TaskContext.get().partitionId()
        return self.store(iterator, f"{self._transaction_id}/{partition}", 0)

    def commit(self, messages: list[Written | None]) -> None:
        tell(messages, self.options, "")

    def abort(self, messages: list[Written | None]) -> None:
        """What is stored stays: readers may have seen it."""


class PenstockStreamWriter(Writing, DataSourceStreamArrowWriter):  # type: ignore[misc]
    """`df.writeStream.format("penstock")`."""

    @said_plainly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        spare_what_is_loaded()
        context = TaskContext.get()
        # Both stand in the checkpoint, so they are the same when the query is started again.
        name = self.options.transaction_id or context.getLocalProperty(QUERY_ID)
        batch = int(context.getLocalProperty(BATCH_ID))
        return self.store(iterator, f"{name}/{context.partitionId()}", batch)

    def commit(self, messages: list[Written | None], batchId: int) -> None:
        tell(messages, self.options, f" of batch {batchId}")

    def abort(self, messages: list[Written | None], batchId: int) -> None:
        """What is stored stays, and is recognised when the batch comes again."""


def limits_of(client: StreamManagerClient, options: SinkOptions) -> Limits:
    """What the stream takes; it is created if it is missing and that is wanted."""
    with translated(options):
        if options.definition is not None and options.stream not in client.list_streams():
            try:
                client.create_message_stream(options.definition)
            except InvalidRequestException:
                # Somebody may have been faster; refused for another reason, it is still missing.
                if options.stream not in client.list_streams():
                    raise
        max_size = client.describe_message_stream(options.stream).definition.max_size
    return Limits(
        chunk_messages_max=CHUNK_MESSAGES_MAX,
        chunk_bytes_max=min(CHUNK_BYTES_MAX, max_size // CHUNKS_PER_STREAM_MIN),
        payload_bytes_max=max_size - ENTRY_BYTES,
    )


def append(
    client: StreamManagerClient,
    options: SinkOptions,
    payloads: PackedPayloads,
    writer: str,
    batch: int,
    chunk: int,
) -> int:
    """Have a chunk stored, through a restart of the server; how many messages were new."""

    def send() -> int:
        with translated(options):
            return client.append_once(
                options.stream, payloads, writer=writer, batch=batch, chunk=chunk
            ).stored_count

    return patiently(send, RESTART_S)


def tell(messages: list[Written | None], options: SinkOptions, what: str) -> None:
    """Say how much Spark wrote a second time."""
    written = [message for message in messages if message is not None]
    count = sum(message.message_count for message in written)
    known_count = count - sum(message.stored_count for message in written)
    if known_count:
        log.warning(
            "Stream %s: %d of %d messages%s were stored already and are not stored again.",
            options.stream,
            known_count,
            count,
            what,
        )


@contextmanager
def connected(options: SinkOptions) -> Iterator[StreamManagerClient]:
    def connect() -> StreamManagerClient:
        with translated(options):
            address = options.server
            return StreamManagerClient(address.host, address.port, auth_token=address.token)

    with patiently(connect, RESTART_S) as client:
        yield client


@contextmanager
def translated(options: SinkOptions) -> Iterator[None]:
    """Errors in the words of whoever wrote the options."""
    where = f"server {options.server.name}"
    try:
        yield
    except (
        ConnectionLostException,
        RequestTimeoutException,
        ServerTimeoutException,
        ServerUnreachableException,
    ) as error:
        raise Unreachable(
            f"{where} cannot be reached: {error}; start it or correct option servers"
        ) from error
    except UnauthorizedException as error:
        does = "correct" if options.server.token else "give one of its tokens with"
        raise SinkError(f"{where} refuses us: {error}; {does} option token") from error
    except ResourceNotFoundException as error:
        raise SinkError(
            f"{where}: stream {options.stream} does not exist; correct option stream, or set "
            f"option createStream to true"
        ) from error
    except ExtensionMissing as error:
        raise SinkError(
            f"{where} cannot recognise what it has stored already ({error}); update it"
        ) from error
    except StreamManagerException as error:
        raise SinkError(f"{where}: {error}") from error
