"""HTTP: POST to a URI, one message or one JSON list at a time. Needs no library."""

from __future__ import annotations

import time

import msgspec

from penstock.destinations.base import (
    Batch,
    BatchLimits,
    Blocked,
    Context,
    Delivery,
    Timeouts,
    Transient,
)
from penstock.destinations.http_link import Link, Reply
from penstock.destinations.parts import RequestRefused, one_by_one, send_in_parts
from penstock.destinations.retry import parsed_retry_after
from penstock.model import GIB, MIB, ExportFormat, HTTPConfig, Message

# These speak of the address or of us, not of the message: no other message would fare better, and
# a flood of dead letters would help nobody. A person has to change the URI or the receiver.
BLOCKING_STATUSES = {
    401: "authentication is needed",
    403: "access is denied",
    404: "there is nothing at this address",
    405: "POST is not allowed at this address",
    407: "the proxy wants authentication",
    410: "there is nothing at this address any more",
}
# Too slow, too early, too many: the same request can pass later.
TRANSIENT_STATUSES = frozenset((408, 425, 429))


class HTTPDestination:
    """One URI.

    RAW_NOT_BATCHED   one POST per message, in order; the body is the payload
    JSON_BATCHED      one POST per batch; the body is a list of messages, payloads in base64

    2xx is delivered. Other 4xx than those of the tables refuse the message; a list that is refused
    is halved until the message is found that spoils it. Everything else is tried again.
    """

    # Nobody names a limit, so this is for the sake of memory: the body is a third larger still. A
    # message above it travels alone.
    limits = BatchLimits(500, 16 * MIB, GIB)

    def __init__(
        self, config: HTTPConfig, context: Context, *, timeouts: Timeouts | None = None
    ) -> None:
        self._format = config.export_format
        self._context = context
        self._link = Link(config.uri, timeouts or Timeouts())

    def send(self, batch: Batch) -> Delivery:
        if self._format == ExportFormat.JSON_BATCHED:
            return send_in_parts(
                batch,
                self._context,
                lambda part: self._post(
                    json_body(batch[part.start : part.stop]), "application/json"
                ),
            )
        return send_in_parts(
            batch,
            self._context,
            lambda part: self._post(batch.payloads[part.start], "application/octet-stream"),
            one_by_one(batch),
        )

    def check(self) -> None:
        """Connect, and say nothing."""
        self._link.connect()

    def close(self) -> None:
        self._link.close()

    def _post(self, body: bytes, content_type: str) -> Delivery:
        reply = self._link.post(body, content_type)
        if not 200 <= reply.status < 300:
            self._raise_for(reply)
        return Delivery()

    def _raise_for(self, reply: Reply) -> None:
        where = self._link.shown_uri
        said = f"HTTP {reply.status} {reply.reason}" + (f": {reply.text}" if reply.text else "")
        if reply.status in TRANSIENT_STATUSES or reply.status >= 500:
            pause_s = parsed_retry_after(reply.headers.get("Retry-After"), time.time())
            raise Transient(f"{where}: {said}", pause_s)
        if 300 <= reply.status < 400:
            place = reply.headers.get("Location")
            raise Blocked(f"{where}: {said}; it has moved to {place}: change the uri")
        if reason := BLOCKING_STATUSES.get(reply.status):
            raise Blocked(f"{where}: {reason} ({said})")
        raise RequestRefused(said)


def json_body(batch: Batch) -> bytes:
    """A JSON list of messages. Measured: three times as fast as pieces joined in Python."""
    name = batch.stream_name
    return msgspec.json.encode(
        [
            Message(name, number, time_ms, payload)
            for number, time_ms, payload in zip(
                batch.sequence_numbers, batch.ingest_times_ms, batch.payloads, strict=True
            )
        ]
    )
