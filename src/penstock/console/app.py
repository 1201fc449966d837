"""The application: pages, files, metrics and the API, behind one guard."""

from __future__ import annotations

import mimetypes
from dataclasses import dataclass, field
from pathlib import Path

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from penstock.client.aio import AsyncStreamManagerClient
from penstock.console.access import Guard, Sessions
from penstock.console.answers import ERROR_ANSWERS
from penstock.console.api import Api
from penstock.console.events import Hub
from penstock.console.health import reason_against_work
from penstock.console.metrics import CONTENT_TYPE, exposition
from penstock.console.poll import Poller, ServerAway

STATIC = Path(__file__).parent / "static"
# What a machine's own table says of these is not always what browsers accept.
MEDIA_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


@dataclass(frozen=True, kw_only=True)
class ConsoleSettings:
    """Where the console listens, which server it shows, and who may look."""

    host: str = "127.0.0.1"
    port: int = 8089
    server_host: str = "127.0.0.1"
    server_port: int = 8088
    server_token: str | None = field(default=None, repr=False)
    authentication: bool = False
    token_hashes: tuple[bytes, ...] = field(default=(), repr=False)
    otel_endpoint: str = ""

    @property
    def server(self) -> str:
        host = f"[{self.server_host}]" if ":" in self.server_host else self.server_host
        return f"{host}:{self.server_port}"


def application(
    client: AsyncStreamManagerClient, poller: Poller, hub: Hub, settings: ConsoleSettings
) -> Starlette:
    """Everything that the console serves. Somebody has to run the poller beside it."""
    for suffix, media_type in MEDIA_TYPES.items():
        mimetypes.add_type(media_type, suffix)
    files = StaticFiles(directory=STATIC)
    sessions = Sessions(settings.authentication, settings.token_hashes)

    async def index(request: Request) -> Response:
        return await files.get_response("index.html", request.scope)

    async def health(request: Request) -> Response:
        try:
            await poller.picture()
        except ServerAway as error:
            return PlainTextResponse(f"the server does not answer: {error}\n", 503)
        return PlainTextResponse("ok\n")

    async def readiness(request: Request) -> Response:
        try:
            reason = reason_against_work(await poller.picture())
        except ServerAway as error:
            reason = f"the server does not answer: {error}"
        return PlainTextResponse(f"{reason or 'ok'}\n", 503 if reason else 200)

    async def metrics(request: Request) -> Response:
        picture = await poller.picture()
        return Response(exposition(picture.observation), headers={"Content-Type": CONTENT_TYPE})

    return Starlette(
        routes=[
            Route("/", index),
            Mount("/static", files),
            Route("/healthz", health),
            Route("/readyz", readiness),
            Route("/metrics", metrics),
            *Api(client, poller, hub, sessions, settings.server).routes(),
        ],
        middleware=[Middleware(Guard, sessions=sessions, host=settings.host)],
        exception_handlers=ERROR_ANSWERS,
    )
