"""HTTP sinks: whatever is sent below `/sink/<name>` is taken, kept in order, and answered with 200.

A body is one message (RAW_NOT_BATCHED), or a JSON list of messages with base64 payloads
(JSON_BATCHED); the sink tells them apart by their form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

import msgspec

from penstock.testing.http_server import Request, Response
from penstock.testing.knobs import Call, EndingKnob, FailRecords, KnobPanel, Knobs, Throttle
from penstock.testing.recorder import Item, Recorder, Totals
from penstock.testing.service import Fault, Faults, Outcome, Service

PREFIX = "/sink/"
ANSWER = b'{"status": "received"}\n'
STORING_METHODS = ("POST", "PUT", "PATCH")


class HttpMessage(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """One message of a JSON batch, as a stream's HTTP export sends it."""

    stream_name: str
    sequence_number: int
    ingest_time: int
    payload: bytes


@dataclass(frozen=True)
class SinkRequest(Item):
    """A request that a sink took."""

    sink: str
    method: str
    path: str
    content_type: str
    body: bytes
    message_count: int

    @property
    def batch(self) -> list[HttpMessage] | None:
        """The messages of a JSON batch; None for a raw body."""
        return parsed_batch(self.body)


class Sinks(Service):
    """Every sink of a cloud; a sink exists from its first request on."""

    name = "sink"
    faults = Faults(
        throttle=Fault(429, "TooManyRequests", "Requests come too fast"),
        fail=Fault(500, "InternalServerError", "The sink failed"),
        expire=Fault(401, "Unauthorized", "The credentials have expired"),
        deny=Fault(403, "Forbidden", "The caller may not write to this sink"),
        missing=Fault(404, "NotFound", "There is no such sink"),
        refuse=Fault(400, "BadRequest", "The sink refuses this message"),
        # Sinks need no signature.
        unsigned=Fault(401, "Unauthorized", "The request is not signed"),
        malformed_signature=Fault(401, "Unauthorized", "The signature is not complete"),
        wrong_signature=Fault(401, "Unauthorized", "The signature is wrong"),
        wrong_digest=Fault(401, "Unauthorized", "The body does not match its digest"),
    )

    def __init__(self, knobs: Knobs, recorder: Recorder) -> None:
        super().__init__(knobs, recorder)
        self._message_counts: dict[str, int] = {}

    def read(self, request: Request, access_key: str) -> Call:
        name = unquote(request.path[len(PREFIX) :].partition("/")[0])

        def contents() -> Sequence[bytes]:
            return payloads(request.body)

        return Call(self.name, request.method, name, access_key or None, contents, request)

    def answer(self, call: Call, failing: Mapping[int, FailRecords]) -> Outcome:
        name, request = call.target, call.request
        assert name is not None
        if not name:
            return Outcome(self.error(Fault(404, "NotFound", "A sink's path is /sink/<name>")))
        if failing:
            # A sink has one answer for a whole request: one message that fails, fails it.
            return Outcome(self.error(self.faults.fail), 0, len(failing))
        if request.method not in STORING_METHODS:
            return Outcome(Response(204))
        batch = parsed_batch(request.body)
        count = 1 if batch is None else len(batch)

        def make(order: int) -> SinkRequest:
            self._message_counts[name] = self._message_counts.get(name, 0) + count
            return SinkRequest(
                order,
                len(request.body),
                name,
                request.method,
                request.path,
                request.headers.get("content-type", ""),
                request.body,
                count,
            )

        self._recorder.take(self.name, name, [make])
        return Outcome(Response(200, ANSWER, {"content-type": "application/json"}), count)

    def error(self, fault: Fault) -> Response:
        body = msgspec.json.encode({"code": fault.code, "message": fault.message})
        return Response(fault.status, body, {"content-type": "application/json"})

    def knob_error(self, knob: EndingKnob) -> Response:
        response = self.error(self.faults.of(knob))
        if isinstance(knob, Throttle) and knob.retry_after_s is not None:
            response.headers["retry-after"] = str(knob.retry_after_s)
        return response

    def message_count(self, name: str) -> int:
        return self._message_counts.get(name, 0)

    def forget(self) -> None:
        self._message_counts.clear()


class Sink(KnobPanel):
    """One sink: its address, what it took, and its knobs."""

    def __init__(
        self, knobs: Knobs, recorder: Recorder, sinks: Sinks, name: str, endpoint: str
    ) -> None:
        super().__init__(knobs, Sinks.name, name)
        self._recorder = recorder
        self._sinks = sinks
        self.name = name
        self.url = f"{endpoint}{PREFIX}{name}"

    @property
    def totals(self) -> Totals:
        """Requests and their bytes since the start."""
        return self._recorder.totals(Sinks.name, self.name)

    @property
    def message_count(self) -> int:
        """Messages since the start: one for each raw body, those of the list for each batch."""
        return self._sinks.message_count(self.name)

    def requests(self) -> list[SinkRequest]:
        return self._recorder.items(Sinks.name, self.name, SinkRequest)

    def bodies(self) -> list[bytes]:
        return [request.body for request in self.requests()]

    def messages(self) -> list[bytes]:
        """The payloads of all messages, in order, however they were batched."""
        return [payload for body in self.bodies() for payload in payloads(body)]

    def wait_for_messages(self, count: int, timeout_s: float = 30.0) -> None:
        self._recorder.wait_until(
            lambda: self.message_count >= count, timeout_s, f"{count} messages in {self.name}"
        )


def payloads(body: bytes) -> list[bytes]:
    """The contents of a body's messages."""
    batch = parsed_batch(body)
    return [body] if batch is None else [message.payload for message in batch]


def parsed_batch(body: bytes) -> list[HttpMessage] | None:
    """The messages of a JSON batch; None when the body is anything else."""
    if not body.startswith((b"[{", b"[ {", b"[\n")):
        return None
    try:
        return _BATCH.decode(body)
    except msgspec.DecodeError:  # also what a wrong type or field raises
        return None


_BATCH = msgspec.json.Decoder(list[HttpMessage])
