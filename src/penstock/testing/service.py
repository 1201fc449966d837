"""What every service of the local cloud has: a name, its own way to say no, and knobs."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from penstock.testing.http_server import Request, Response
from penstock.testing.knobs import (
    Call,
    Deny,
    EndingKnob,
    Expire,
    Fail,
    FailRecords,
    KnobPanel,
    Knobs,
    Missing,
    Refuse,
    Throttle,
)
from penstock.testing.recorder import Recorder, Totals


@dataclass(frozen=True)
class Fault:
    """An error as a service says it."""

    status: int
    code: str
    message: str


@dataclass(frozen=True)
class Faults:
    """Every error that a knob or a bad signature can ask of a service."""

    throttle: Fault
    fail: Fault
    expire: Fault
    deny: Fault
    missing: Fault
    refuse: Fault
    unsigned: Fault
    malformed_signature: Fault
    wrong_signature: Fault
    wrong_digest: Fault

    def of(self, knob: EndingKnob) -> Fault:
        """The fault that this knob asks for."""
        fault: Fault = getattr(self, FAULT_BY_KNOB[type(knob)])
        status = getattr(knob, "status", None)
        return fault if status is None else replace(fault, status=status)


FAULT_BY_KNOB: dict[type[EndingKnob], str] = {
    Throttle: "throttle",
    Fail: "fail",
    Expire: "expire",
    Deny: "deny",
    Missing: "missing",
    Refuse: "refuse",
}


class Refusal(Exception):
    """The service refuses the request, as the real one would."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(f"{fault.status} {fault.code}: {fault.message}")
        self.fault = fault


@dataclass(frozen=True)
class Outcome:
    """An answer, and how many records of the request were taken and failed."""

    response: Response
    taken_count: int = 0
    failed_count: int = 0


class Service(KnobPanel):
    """One service: understands requests, answers them, and remembers what it took."""

    # The name in the credential scope of a signature.
    name: ClassVar[str]
    faults: ClassVar[Faults]

    def __init__(self, knobs: Knobs, recorder: Recorder) -> None:
        super().__init__(knobs, self.name)
        self._recorder = recorder

    def read(self, request: Request, access_key: str) -> Call:
        """Understand a request without acting on it. Raises Refusal for one that is nonsense."""
        raise NotImplementedError

    def answer(self, call: Call, failing: Mapping[int, FailRecords]) -> Outcome:
        """Do a request, but for the records at the failing positions."""
        raise NotImplementedError

    def error(self, fault: Fault) -> Response:
        """A fault in the service's own format."""
        raise NotImplementedError

    def knob_error(self, knob: EndingKnob) -> Response:
        """What the service says when this knob acts."""
        return self.error(self.faults.of(knob))

    def wait_for_count(self, target: str | None, count: int, timeout_s: float = 30.0) -> None:
        """Return when a target has taken so many records in all."""

        def enough() -> bool:
            return self._recorder.totals(self.name, target).count >= count

        self._recorder.wait_until(enough, timeout_s, f"{count} records in {self.name} {target}")

    def totals(self, target: str | None = None) -> Totals:
        """How much a target took since the start."""
        return self._recorder.totals(self.name, target)

    def forget(self) -> None:
        """Give up what the service holds besides the recorder's shelves."""


def json_error(fault: Fault) -> Response:
    """The JSON protocol's error: the code is in the body."""
    body = {"__type": fault.code, "message": fault.message}
    return _json(fault.status, body, "application/x-amz-json-1.1", {})


def rest_json_error(fault: Fault) -> Response:
    """The REST JSON protocol's error: the code is in a header."""
    code = {"x-amzn-errortype": fault.code}
    return _json(fault.status, {"message": fault.message}, "application/json", code)


def json_answer(body: Any, content_type: str = "application/json") -> Response:
    return _json(200, body, content_type, {})


def _json(status: int, body: Any, content_type: str, headers: dict[str, str]) -> Response:
    return Response(
        status,
        json.dumps(body).encode(),
        {"content-type": content_type, "x-amzn-requestid": str(uuid.uuid4()), **headers},
    )


def json_body(request: Request, refuse: Callable[[str], Refusal]) -> dict[str, Any]:
    """The JSON object that a request carries."""
    try:
        body = json.loads(request.body)
    except ValueError as error:
        raise refuse(f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise refuse("the body is not a JSON object")
    return body
