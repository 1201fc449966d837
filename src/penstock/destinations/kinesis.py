"""Amazon Kinesis data streams: PutRecords."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

import msgspec

from penstock.destinations.aws import Denied, Service
from penstock.destinations.base import (
    Batch,
    BatchLimits,
    Blocked,
    Context,
    Delivery,
    Timeouts,
    Transient,
)
from penstock.destinations.parts import send_in_parts
from penstock.model import MIB, KinesisConfig

PARTITION_KEY_BYTES = 36
# The service takes 10 MiB in one request and, if the stream was set up for it, in one record. Of
# small records we send less at once: half of it is what every region has always taken, and a
# request that fails on a slow line costs less. A stream with the usual limit of 1 MiB a record
# refuses a request that holds a larger one; it is then found and refused alone.
RECORD_BYTES_MAX = 10 * MIB - PARTITION_KEY_BYTES
REQUEST_BYTES_MAX = 5 * MIB

STREAM_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,128}\Z")
THROTTLED = "ProvisionedThroughputExceededException"
RETRY_CODES = frozenset(
    (THROTTLED, "InternalFailure", "InternalFailureException", "KMSThrottlingException")
)
# Errors about what is in a request. A stream name that breaks the rules would be one too, which
# is why it is checked before.
CONTENT_CODES = frozenset(
    ("ValidationException", "InvalidArgumentException", "SerializationException")
)


class Record(msgspec.Struct):
    """As the service spells it; bytes become base64."""

    Data: bytes
    PartitionKey: str


class Request(msgspec.Struct):
    Records: list[Record]
    StreamName: str


class Result(msgspec.Struct):
    ErrorCode: str | None = None
    ErrorMessage: str | None = None


class Answer(msgspec.Struct):
    Records: list[Result]


ANSWERS = msgspec.json.Decoder(Answer)


class KinesisDestination:
    """One data stream.

    A record that was throttled is sent again at once. If it is throttled again, the pause that
    kinesis_inter_call_delay_ms sets lies between the calls, until one passes. Without throttling
    there is no pause: unlike a producer that knows nothing, we see when the shards are full.
    """

    limits = BatchLimits(500, REQUEST_BYTES_MAX, RECORD_BYTES_MAX, PARTITION_KEY_BYTES)

    def __init__(
        self, config: KinesisConfig, context: Context, *, timeouts: Timeouts | None = None
    ) -> None:
        self._stream_name = config.kinesis_stream_name
        self._target = f"Kinesis stream {self._stream_name}"
        self._context = context
        if not STREAM_NAME.match(self._stream_name):
            raise Blocked(
                f"{self._target}: a stream's name has 1 to 128 letters, digits, _, . and -; "
                "change kinesisStreamName"
            )
        self._throttled_before = False
        self._service = Service(
            "kinesis",
            self._target,
            missing=f"export stream {self._stream_name} doesn't exist",
            refused_codes=CONTENT_CODES,
            timeouts=timeouts,
        )

    def send(self, batch: Batch) -> Delivery:
        return send_in_parts(
            batch,
            self._context,
            lambda part: self._put(batch.payloads[part.start : part.stop]),
        )

    def check(self) -> None:
        """Ask for the stream. To have no right to ask says nothing about the right to write."""
        try:
            self._service.call("describe_stream_summary", StreamName=self._stream_name)
        except Denied:
            return

    def close(self) -> None:
        self._service.close()

    def _put(self, payloads: Sequence[bytes]) -> Delivery:
        body = request_body(self._stream_name, payloads)
        answer = self._service.exchange(
            "put_records", body, StreamName=self._stream_name, Records=[]
        )
        results = self._results(answer)
        if len(results) != len(payloads):
            raise Transient(
                f"{self._target}: the answer has {len(results)} results for {len(payloads)} records"
            )
        return self._judged(results)

    def _judged(self, results: list[Result]) -> Delivery:
        retry: dict[int, str] = {}
        refused: dict[int, str] = {}
        for position, result in enumerate(results):
            if result.ErrorCode:
                fate = retry if result.ErrorCode in RETRY_CODES else refused
                fate[position] = f"{result.ErrorCode}: {result.ErrorMessage}"
        throttled = any(result.ErrorCode == THROTTLED for result in results)
        again = throttled and self._throttled_before
        self._throttled_before = throttled
        if not again:
            return Delivery(retry, refused)
        delay_s = self._context.settings["kinesis_inter_call_delay_ms"] / 1000
        error = Transient(f"{self._target} is throttled", delay_s or None)
        return Delivery(retry, refused, error)

    def _results(self, answer: bytes) -> list[Result]:
        try:
            return ANSWERS.decode(answer).Records
        except msgspec.MsgspecError as error:
            raise Transient(f"{self._target}: the answer makes no sense: {error}") from error


def request_body(stream_name: str, payloads: Sequence[bytes]) -> bytes:
    """The JSON of a PutRecords request."""
    records = list(map(Record, payloads, partition_keys(len(payloads))))
    return msgspec.json.encode(Request(records, stream_name))


def partition_keys(count: int) -> list[str]:
    """Random UUIDs (version 4), for a fifth of the time that uuid.uuid4() takes."""
    digits = os.urandom(16 * count).hex()
    return [
        f"{digits[at : at + 8]}-{digits[at + 8 : at + 12]}-4{digits[at + 13 : at + 16]}"
        f"-a{digits[at + 17 : at + 20]}-{digits[at + 20 : at + 32]}"
        for at in range(0, 32 * count, 32)
    ]
