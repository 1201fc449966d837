"""`/_local-cloud/...`: knobs, targets and what was recorded, as JSON for other processes.

GET     /_local-cloud                          addresses, counts, knobs
GET     /_local-cloud/knobs                    the knobs that are set
POST    /_local-cloud/knobs                    set one: {"kind": "throttle", "service": "s3", ...}
DELETE  /_local-cloud/knobs[/NUMBER]           release one, or all
POST    /_local-cloud/targets                  make some: {"kinesis": ["telemetry"], "s3": [...]}
GET     /_local-cloud/requests                 the requests so far, in the order of their answers
GET     /_local-cloud/received/SERVICE[/TARGET]    what a target took, contents in base64
DELETE  /_local-cloud/received                 forget requests, counts and contents
"""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote

from penstock.testing.errors import LocalCloudError
from penstock.testing.http_server import Request, Response
from penstock.testing.knobs import ActiveKnob, knob_from_json, knob_to_json
from penstock.testing.recorder import Item

if TYPE_CHECKING:
    from penstock.testing.local_cloud import LocalCloud

PREFIX = "/_local-cloud"

Handler: TypeAlias = Callable[["LocalCloud", Sequence[str], Any], Any]


class ControlError(LocalCloudError):
    """A request to the control interface that cannot be done."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


def control(cloud: LocalCloud, request: Request) -> Response:
    """Do one request below `/_local-cloud`."""
    try:
        return _json(200, _done(cloud, request))
    except ControlError as error:
        return _json(error.status, {"error": str(error)})
    except LocalCloudError as error:
        return _json(400, {"error": str(error)})


def _done(cloud: LocalCloud, request: Request) -> Any:
    subject, *rest = [unquote(part) for part in request.path.split("/")[2:]] or [""]
    handler = HANDLERS.get((request.method, subject))
    if handler is None:
        choices = ", ".join(f"{method} {PREFIX}/{name}" for method, name in HANDLERS)
        raise ControlError(HTTPStatus.NOT_FOUND, f"There is no such thing here, but: {choices}")
    try:
        body = json.loads(request.body) if request.body else None
    except ValueError as error:
        raise LocalCloudError(f"The body is not JSON: {error}") from error
    return handler(cloud, rest, body)


def _show_cloud(cloud: LocalCloud, rest: Sequence[str], body: Any) -> Any:
    return {
        "endpoint": cloud.endpoint,
        "environment": cloud.environment(),
        "request_count": cloud.request_count(),
        "received": [
            {"service": service, "target": target, **dataclasses.asdict(totals)}
            for (service, target), totals in cloud.recorder.targets().items()
        ],
        "knobs": _show_knobs(cloud, (), None),
    }


def _show_knobs(cloud: LocalCloud, rest: Sequence[str], body: Any) -> Any:
    return [_shown(knob) for knob in cloud.knobs.active()]


def _set_knob(cloud: LocalCloud, rest: Sequence[str], body: Any) -> Any:
    if not isinstance(body, dict):
        raise LocalCloudError("A knob is a JSON object")
    return _shown(cloud.knobs.set(knob_from_json(body)))


def _release_knobs(cloud: LocalCloud, rest: Sequence[str], body: Any) -> Any:
    chosen = [knob for knob in cloud.knobs.active() if not rest or str(knob.number) == rest[0]]
    if rest and not chosen:
        raise ControlError(HTTPStatus.NOT_FOUND, f"There is no knob {rest[0]}")
    for knob in chosen:
        knob.release()
    return [_shown(knob) for knob in chosen]


def _create_targets(cloud: LocalCloud, rest: Sequence[str], body: Any) -> Any:
    makers = {
        cloud.kinesis.name: cloud.kinesis.create_stream,
        cloud.s3.name: cloud.s3.create_bucket,
        cloud.iot_analytics.name: cloud.iot_analytics.create_channel,
    }
    if not isinstance(body, dict) or not body.keys() <= makers.keys():
        raise LocalCloudError(f"Targets are lists of names by service: {', '.join(makers)}")
    for service, names in body.items():
        for name in names:
            makers[service](name)
    return body


def _show_requests(cloud: LocalCloud, rest: Sequence[str], body: Any) -> Any:
    return [dataclasses.asdict(entry) for entry in cloud.requests()]


def _show_received(cloud: LocalCloud, rest: Sequence[str], body: Any) -> Any:
    if not rest:
        raise LocalCloudError(f"Name a service: {PREFIX}/received/SERVICE/TARGET")
    service, target = rest[0], "/".join(rest[1:]) or None
    return [dataclasses.asdict(item) for item in cloud.recorder.items(service, target, Item)]


def _forget_received(cloud: LocalCloud, rest: Sequence[str], body: Any) -> Any:
    cloud.forget()
    return {}


HANDLERS: dict[tuple[str, str], Handler] = {
    ("GET", ""): _show_cloud,
    ("GET", "knobs"): _show_knobs,
    ("POST", "knobs"): _set_knob,
    ("DELETE", "knobs"): _release_knobs,
    ("POST", "targets"): _create_targets,
    ("GET", "requests"): _show_requests,
    ("GET", "received"): _show_received,
    ("DELETE", "received"): _forget_received,
}


def _shown(knob: ActiveKnob) -> dict[str, Any]:
    return {"number": knob.number, "used": knob.used, **knob_to_json(knob.knob)}


def _json(status: int, value: Any) -> Response:
    def encoded(content: object) -> str:
        assert isinstance(content, bytes), f"{type(content)} in an answer"
        return base64.b64encode(content).decode()

    body = json.dumps(value, default=encoded, indent=1).encode() + b"\n"
    return Response(status, body, {"content-type": "application/json"})
