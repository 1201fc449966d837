"""AWS IoT Analytics: BatchPutMessage.

AWS ended the service on 15 December 2025 and took it out of botocore. Its one operation that we
need is described in botocore_models/, so that botocore still finds the endpoint and signs.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Sequence

import msgspec

from penstock.destinations.aws import Service
from penstock.destinations.base import (
    Batch,
    BatchLimits,
    Blocked,
    Context,
    Delivery,
    Timeouts,
    Transient,
)
from penstock.destinations.parts import RequestRefused, send_in_parts
from penstock.model import KIB, MIB, IoTAnalyticsConfig

CHANNEL_NAME = re.compile(r"(?!__)[a-zA-Z0-9_]{1,128}\Z")
RETRY_CODES = frozenset(
    (
        *("ThrottlingException", "InternalFailureException", "ServiceUnavailableException"),
        *("LimitExceededException", "InternalFailure"),
    )
)
CONTENT_CODES = frozenset(("InvalidRequestException", "SerializationException"))


class OutgoingMessage(msgspec.Struct, rename="camel"):
    """As the service spells it; bytes become base64."""

    message_id: str
    payload: bytes


class Request(msgspec.Struct, rename="camel"):
    channel_name: str
    messages: list[OutgoingMessage]


class ErrorEntry(msgspec.Struct, rename="camel"):
    message_id: str | None = None
    error_code: str | None = None
    error_message: str | None = None


class Answer(msgspec.Struct, rename="camel"):
    batch_put_message_error_entries: list[ErrorEntry] | None = None


ANSWERS = msgspec.json.Decoder(Answer)


class IoTAnalyticsDestination:
    """One channel. Message ids are the prefix, a part that no other exporter has, and the number.

    A message that is sent twice by the same exporter has the same id both times.
    """

    # The service names no limit for a whole request; 5 MiB is what its kin take.
    limits = BatchLimits(100, 5 * MIB, 128 * KIB)

    def __init__(
        self, config: IoTAnalyticsConfig, context: Context, *, timeouts: Timeouts | None = None
    ) -> None:
        self._channel = config.iot_channel
        self._target = f"IoT Analytics channel {self._channel}"
        self._context = context
        prefix = config.iot_msg_id_prefix or ""
        if not CHANNEL_NAME.match(self._channel):
            raise Blocked(
                f"{self._target}: a channel's name has 1 to 128 letters, digits and _, and does "
                "not begin with __; change iotChannel"
            )
        if not prefix.isascii():
            raise Blocked(f"{self._target}: iotMsgIdPrefix must be ASCII; it is {prefix!r}")
        self._id_prefix = f"{prefix}{uuid.uuid4().hex}-"
        self._service = Service(
            "iotanalytics",
            self._target,
            refused_codes=CONTENT_CODES,
            # AWS's own variable, which botocore reads, has one underscore less.
            endpoint_url=os.environ.get("AWS_ENDPOINT_URL_IOT_ANALYTICS") or None,
            timeouts=timeouts,
        )

    def send(self, batch: Batch) -> Delivery:
        return send_in_parts(
            batch,
            self._context,
            lambda part: self._put(
                batch.sequence_numbers[part.start : part.stop],
                batch.payloads[part.start : part.stop],
            ),
        )

    def check(self) -> None:
        """A request without messages: whoever refuses only that has let us in."""
        try:
            self._service.call("batch_put_message", channelName=self._channel, messages=[])
        except RequestRefused:
            return

    def close(self) -> None:
        self._service.close()

    def _put(self, sequence_numbers: Sequence[int], payloads: Sequence[bytes]) -> Delivery:
        ids = [f"{self._id_prefix}{number}" for number in sequence_numbers]
        messages = list(map(OutgoingMessage, ids, payloads))
        answer = self._service.exchange(
            "batch_put_message",
            msgspec.json.encode(Request(self._channel, messages)),
            channelName=self._channel,
            messages=[],
        )
        retry: dict[int, str] = {}
        refused: dict[int, str] = {}
        for entry in self._errors(answer):
            if entry.message_id not in ids:
                raise Transient(
                    f"{self._target}: an error names the unknown message {entry.message_id}"
                )
            fate = retry if entry.error_code in RETRY_CODES else refused
            fate[ids.index(entry.message_id)] = f"{entry.error_code}: {entry.error_message}"
        return Delivery(retry, refused)

    def _errors(self, answer: bytes) -> list[ErrorEntry]:
        try:
            found = ANSWERS.decode(answer)
        except msgspec.MsgspecError as error:
            raise Transient(f"{self._target}: the answer makes no sense: {error}") from error
        return found.batch_put_message_error_entries or []
