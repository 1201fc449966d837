"""What the console answers: JSON, and errors as one sentence."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from penstock.console.poll import ServerAway
from penstock.errors import (
    ClientClosedException,
    ConnectFailedException,
    ConnectionLostException,
    InvalidRequestException,
    NotEnoughMessagesException,
    RequestPayloadTooLargeException,
    RequestTimeoutException,
    ResourceNotFoundException,
    StreamManagerException,
    UpdateNotAllowedException,
    ValidationException,
)

# The first that fits counts: children stand before their parents.
STATUSES: tuple[tuple[type[StreamManagerException], int], ...] = (
    (UpdateNotAllowedException, 409),
    (ResourceNotFoundException, 404),
    (NotEnoughMessagesException, 404),
    (ConnectFailedException, 502),
    (ConnectionLostException, 502),
    (RequestTimeoutException, 502),
    (ClientClosedException, 502),
    (ValidationException, 400),
    (InvalidRequestException, 400),
    (RequestPayloadTooLargeException, 400),
)


class Refused(Exception):
    """A request that cannot be done, with the status and the sentence that say so."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def answer(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def refusal(status: int, text: str) -> Response:
    return answer({"error": text}, status)


async def on_refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return refusal(error.status, str(error))


async def on_server_refused(request: Request, error: Exception) -> Response:
    """What the server said, or that it said nothing."""
    text = str(error)
    for kind, status in STATUSES:
        if isinstance(error, kind):
            return refusal(status, text)
    return refusal(500, text)


async def on_server_away(request: Request, error: Exception) -> Response:
    return refusal(502, f"The server cannot be reached: {error}")


async def on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    text = f"{request.method} {request.url.path}: {error.detail}."
    response = refusal(error.status_code, text)
    response.headers.update(error.headers or {})
    return response


ERROR_ANSWERS: dict[Any, Any] = {
    Refused: on_refused,
    ServerAway: on_server_away,
    StreamManagerException: on_server_refused,
    HTTPException: on_http_error,
}
