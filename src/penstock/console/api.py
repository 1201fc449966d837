"""What a browser may ask for: the routes below /api, one method each."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from penstock.client.aio import AsyncStreamManagerClient
from penstock.console.access import COOKIE, SESSION_S, Sessions, cookie_options
from penstock.console.answers import Refused, answer
from penstock.console.events import Hub
from penstock.console.messages import PAGE_COUNT_MAX, PAYLOAD_SHOWN_BYTES, Browser
from penstock.console.poll import Poller
from penstock.errors import InvalidRequestException
from penstock.export_model import DeadLetter
from penstock.model import MessageStreamDefinition, dropped_keys
from penstock.units import MIB
from penstock.version import __version__

BODY_BYTES_MAX = MIB  # a definition with a thousand exports takes a third of it
COUNT_DEFAULT = 50
WHOLE_NUMBER = re.compile(r"-?[0-9]{1,19}")

Body = TypeVar("Body", bound=Struct)


class SignIn(Struct, forbid_unknown_fields=True):
    token: str


class ExportChoice(Struct, forbid_unknown_fields=True):
    stream: str
    export: str


class LetterChoice(Struct, forbid_unknown_fields=True):
    """Which dead letters: those named; without ids all that fit stream and export."""

    stream: str | None = None
    export: str | None = None
    ids: list[int] | None = None


class TransformChoice(Struct, forbid_unknown_fields=True):
    name: str
    start: str = "earliest"


class Api:
    """The routes, and what they work with."""

    def __init__(
        self,
        client: AsyncStreamManagerClient,
        poller: Poller,
        hub: Hub,
        sessions: Sessions,
        server: str,
    ) -> None:
        self._client = client
        self._poller = poller
        self._hub = hub
        self._sessions = sessions
        self._server = server
        self._browser = Browser(client)

    def routes(self) -> list[Route]:
        return [
            Route("/api/session", self.session, methods=["GET"]),
            Route("/api/session", self.sign_in, methods=["POST"]),
            Route("/api/session", self.sign_out, methods=["DELETE"]),
            Route("/api/overview", self.overview, methods=["GET"]),
            Route("/api/events", self.events, methods=["GET"]),
            Route("/api/history", self.history, methods=["GET"]),
            Route("/api/streams", self.create_stream, methods=["POST"]),
            Route("/api/stream", self.stream, methods=["GET"]),
            Route("/api/stream", self.update_stream, methods=["PUT"]),
            Route("/api/stream", self.delete_stream, methods=["DELETE"]),
            Route("/api/exports/pause", self.pause_export, methods=["POST"]),
            Route("/api/exports/resume", self.resume_export, methods=["POST"]),
            Route("/api/messages", self.messages, methods=["GET"]),
            Route("/api/message", self.message, methods=["GET"]),
            Route("/api/dead-letters", self.dead_letters, methods=["GET"]),
            Route("/api/dead-letters/replay", self.replay_dead_letters, methods=["POST"]),
            Route("/api/dead-letters/purge", self.purge_dead_letters, methods=["POST"]),
            Route("/api/transforms/reset", self.reset_transform, methods=["POST"]),
        ]

    # --- who is there -----------------------------------------------------------------------

    async def session(self, request: Request) -> Response:
        return answer(
            {
                "authentication": self._sessions.required,
                "signedIn": self._sessions.admits(request),
                "version": __version__,
                "server": self._server,
            }
        )

    async def sign_in(self, request: Request) -> Response:
        name = await self._sessions.sign_in((await body_of(request, SignIn)).token)
        if name is None:
            raise Refused(401, "This token is not known. Use one of the server's setting tokens.")
        response = Response(status_code=204)
        response.set_cookie(value=name, max_age=SESSION_S, **cookie_options(request))
        return response

    async def sign_out(self, request: Request) -> Response:
        self._sessions.sign_out(request.cookies.get(COOKIE, ""))
        response = Response(status_code=204)
        response.delete_cookie(**cookie_options(request))
        return response

    # --- what there is to see ---------------------------------------------------------------

    async def overview(self, request: Request) -> Response:
        picture = await self._poller.picture()
        return Response(picture.document(), media_type="application/json")

    async def events(self, request: Request) -> Response:
        return StreamingResponse(self._hub.events(), media_type="text/event-stream")

    async def history(self, request: Request) -> Response:
        stream, export = text_of(request, "stream"), request.query_params.get("export") or None
        series = self._poller.history.series(stream, export)
        return answer(series)

    # --- streams ----------------------------------------------------------------------------

    async def stream(self, request: Request) -> Response:
        info = await self._client.describe_message_stream(text_of(request, "name"))
        return answer(info)

    async def create_stream(self, request: Request) -> Response:
        definition = await definition_in(request)
        try:
            await self._client.create_message_stream(definition)
        except InvalidRequestException as error:
            is_taken = definition.name in await self._client.list_streams()
            raise Refused(409 if is_taken else 400, str(error)) from error
        self._poller.look_soon()
        return answer({"name": definition.name}, 201)

    async def update_stream(self, request: Request) -> Response:
        definition = await definition_in(request)
        name = text_of(request, "name")
        if definition.name != name:
            raise Refused(400, f"The definition is of stream {definition.name}, not of {name}.")
        await self._client.update_message_stream(definition)
        self._poller.look_soon()
        return answer({"name": name})

    async def delete_stream(self, request: Request) -> Response:
        await self._client.delete_message_stream(text_of(request, "name"))
        self._poller.look_soon()
        return Response(status_code=204)

    # --- exports ----------------------------------------------------------------------------

    async def pause_export(self, request: Request) -> Response:
        return await self._set_disabled(request, True)

    async def resume_export(self, request: Request) -> Response:
        return await self._set_disabled(request, False)

    async def _set_disabled(self, request: Request, disabled: bool) -> Response:
        choice = await body_of(request, ExportChoice)
        info = await self._client.describe_message_stream(choice.stream)
        definition = info.definition
        for config in definition.export_definition.configs():
            if config.identifier == choice.export:
                config.disabled = disabled
                await self._client.update_message_stream(definition)
                self._poller.look_soon()
                return Response(status_code=204)
        raise Refused(404, f"Stream {choice.stream} has no export {choice.export}.")

    # --- messages and dead letters ----------------------------------------------------------

    async def messages(self, request: Request) -> Response:
        page = await self._browser.page(
            text_of(request, "stream"),
            number_of(request, "count", COUNT_DEFAULT, least=1, most=PAGE_COUNT_MAX),
            optional_number(request, "start"),
            optional_number(request, "time"),
        )
        return answer(page)

    async def message(self, request: Request) -> Response:
        stream, number = text_of(request, "stream"), number_of(request, "number")
        payload = await self._browser.message(stream, number)
        if payload is None:
            raise Refused(404, f"Stream {stream} has no message {number} any more, or not yet.")
        return Response(
            payload,
            media_type="application/octet-stream",
            # Names of streams have no characters that would need quoting.
            headers={"Content-Disposition": f'attachment; filename="{stream}-{number}.bin"'},
        )

    async def dead_letters(self, request: Request) -> Response:
        letters = await self._client.find_dead_letters(
            request.query_params.get("stream") or None,
            request.query_params.get("export") or None,
            after_id=number_of(request, "after", 0),
            count_max=number_of(request, "count", COUNT_DEFAULT, least=1, most=PAGE_COUNT_MAX),
        )
        return answer({"letters": [shown_letter(letter) for letter in letters]})

    async def replay_dead_letters(self, request: Request) -> Response:
        choice = await letters_in(request)
        count = await self._client.replay_dead_letters(
            choice.stream, choice.export, choice.ids or ()
        )
        self._poller.look_soon()
        return answer({"count": count})

    async def purge_dead_letters(self, request: Request) -> Response:
        choice = await letters_in(request)
        count = await self._client.purge_dead_letters(
            choice.stream, choice.export, choice.ids or ()
        )
        self._poller.look_soon()
        return answer({"count": count})

    # --- transforms -------------------------------------------------------------------------

    async def reset_transform(self, request: Request) -> Response:
        choice = await body_of(request, TransformChoice)
        generation = await self._client.reset_transform(choice.name, choice.start)
        self._poller.look_soon()
        return answer({"generation": generation})


# --- what is in a request ---------------------------------------------------------------------


def text_of(request: Request, name: str) -> str:
    text = request.query_params.get(name, "")
    if not text:
        raise Refused(400, f"The parameter {name} is missing.")
    return text


def optional_number(request: Request, name: str) -> int | None:
    return number_of(request, name) if name in request.query_params else None


def number_of(
    request: Request,
    name: str,
    default: int | None = None,
    *,
    least: int = 0,
    most: int = 2**63 - 1,
) -> int:
    text = request.query_params.get(name)
    if text is None and default is not None:
        return default
    if text is None or not WHOLE_NUMBER.fullmatch(text) or not least <= int(text) <= most:
        raise Refused(
            400, f"The parameter {name} must be a whole number from {least} to {most}, not {text}."
        )
    return int(text)


async def content_of(request: Request) -> bytes:
    """The body, if it is not too large."""
    content = b""
    async for piece in request.stream():
        content += piece
        if len(content) > BODY_BYTES_MAX:
            raise Refused(400, f"The body is larger than {BODY_BYTES_MAX} bytes.")
    return content


async def body_of(request: Request, kind: type[Body]) -> Body:
    try:
        return msgspec.json.decode(await content_of(request), type=kind)
    except msgspec.DecodeError as error:
        raise Refused(400, f"The body: {error}.") from error


async def letters_in(request: Request) -> LetterChoice:
    """The dead letters that are meant. No ids at all would mean every letter there is."""
    choice = await body_of(request, LetterChoice)
    if choice.ids == []:
        raise Refused(400, "ids is empty. Name letters, or leave ids out for all that fit.")
    return choice


async def definition_in(request: Request) -> MessageStreamDefinition:
    """A checked definition. A key that would be ignored is refused."""
    try:
        values = msgspec.json.decode(await content_of(request))
        definition = MessageStreamDefinition.from_dict(values)
    except ValueError as error:
        raise Refused(400, f"The definition: {error}.") from error
    for place, key in dropped_keys(values, definition.as_dict()):
        raise Refused(400, f"There is no key {key} in {place}.")
    return definition


def shown_letter(letter: DeadLetter) -> dict[str, Any]:
    """A dead letter, with the beginning of its payload (base64 in JSON)."""
    size = len(letter.payload)
    return {
        **msgspec.to_builtins(letter, builtin_types=(bytes,)),
        "payload": letter.payload[:PAYLOAD_SHOWN_BYTES],
        "size": size,
        "isCut": size > PAYLOAD_SHOWN_BYTES,
    }
