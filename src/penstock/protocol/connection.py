"""Handshake and order of things, for either side. Bytes in, frames and bytes out."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from penstock.errors import (
    ConnectFailedException,
    ResponseStatusCode,
    StreamManagerException,
    UnauthorizedException,
)
from penstock.protocol.codec import (
    Unanswerable,
    decode_request,
    decode_response,
    encode,
    load_map,
    request_id_of,
)
from penstock.protocol.framing import FRAME_LENGTH_MAX, Frame, FrameDecoder, FramingError
from penstock.protocol.operations import (
    OPERATIONS,
    STATUS_FOR_1_0_0,
    ConnectRequest,
    ConnectResponse,
    Exchange,
    Extension,
    Operation,
)

CONNECT_VERSION = b"\x01"
PROTOCOL_VERSIONS = ("1.1.0", "1.0.0")
# Who has not shown a token yet gets this much memory. A Connect map takes about 200 bytes; a token
# may be long.
CONNECT_BYTES_MAX = 64 * 1024


def negotiated_version(wanted: str, others: Collection[str]) -> str | None:
    """The version both sides speak, or None."""
    if wanted in PROTOCOL_VERSIONS:
        return wanted
    return next((version for version in PROTOCOL_VERSIONS if version in others), None)


@dataclass
class ServerConnection:
    """The server's side of one conversation.

    Feed it what arrives. It does the handshake by itself and leaves in `reply` what must be sent
    for it; afterwards it returns the frames. Once `refused` is set, send `reply` and close.
    """

    authenticate: Callable[[str], bool]
    server_version: str
    client_identifier: str
    frame_bytes_max: int = FRAME_LENGTH_MAX
    # Which extensions the owner of a token may have, of those it asks for.
    rights: Callable[[str], Collection[str]] = lambda token: Extension.CLIENTS
    reply: bytes = b""
    refused: str | None = None
    protocol_version: str | None = None
    extensions: tuple[str, ...] = ()
    sdk_version: str = "unknown"
    _decoder: FrameDecoder = field(default_factory=lambda: FrameDecoder(CONNECT_BYTES_MAX))
    _version_seen: bool = False

    def receive(self, data: bytes) -> list[Frame]:
        """The frames after the handshake that these bytes complete. FramingError ends it all."""
        if self.refused is not None:
            return []  # one refusal is the last word, whatever still arrives
        if self.protocol_version is not None:
            return self._decoder.feed(data)
        if not self._version_seen and data:
            if data[:1] != CONNECT_VERSION:
                self._refuse(
                    ResponseStatusCode.UnsupportedConnectVersion,
                    f"connect version {data[0]} is not supported; this server speaks version 1",
                )
                return []
            self._version_seen = True
            data = data[1:]
        return self._handshake(data)

    def known(self, operation: int) -> tuple[Operation, Exchange] | None:
        """The operation and its exchange, if this connection may use it."""
        exchange = OPERATIONS.get(operation)  # type: ignore[call-overload]  # any number may come
        if (
            exchange is None
            or (exchange.protocol_version == "1.1.0" and self.protocol_version == "1.0.0")
            or (exchange.extension is not None and exchange.extension not in self.extensions)
        ):
            return None
        return Operation(operation), exchange

    def status_for_client(self, status: ResponseStatusCode) -> ResponseStatusCode:
        """The same status, or the nearest one that an old client knows."""
        if self.protocol_version == "1.0.0":
            return STATUS_FOR_1_0_0.get(status, status)
        return status

    def _handshake(self, data: bytes) -> list[Frame]:
        try:
            frames = self._decoder.feed(data)
        except FramingError as error:
            self._refuse(ResponseStatusCode.InvalidRequest, str(error))
            return []
        if not frames:
            return []
        (operation, payload), rest = frames[0], frames[1:]
        if operation != Operation.Connect:
            self._refuse(
                ResponseStatusCode.UnexpectedOperation,
                f"the first operation must be Connect (1), not {operation}",
            )
        elif not isinstance(payload, bytes):
            self._refuse(
                ResponseStatusCode.RequestPayloadTooLarge,
                f"a Connect request of {payload.length} bytes exceeds {CONNECT_BYTES_MAX}",
            )
        else:
            self._connect(payload)
        return rest if self.refused is None else []

    def _connect(self, payload: bytes) -> None:
        request_id = None
        try:
            values = load_map(payload)
            request_id = request_id_of(values)
            request = decode_request(ConnectRequest, values)
        except (Unanswerable, StreamManagerException) as error:
            self._refuse(ResponseStatusCode.InvalidRequest, str(error), request_id)
            return
        if not re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+", request.protocol_version):
            self._refuse(
                ResponseStatusCode.InvalidProtocolVersion,
                f"protocol version {request.protocol_version!r} is not of the form 1.1.0",
                request_id,
            )
            return
        version = negotiated_version(
            request.protocol_version, request.other_supported_protocol_versions
        )
        if version is None:
            self._refuse(
                ResponseStatusCode.UnsupportedProtocolVersion,
                f"protocol version {request.protocol_version} is not supported; "
                f"this server speaks {' and '.join(PROTOCOL_VERSIONS)}",
                request_id,
            )
            return
        if not self.authenticate(request.auth_token or ""):
            problem = "the token is wrong" if request.auth_token else "a token is needed"
            self._refuse(
                ResponseStatusCode.Unauthorized,
                f"{problem}: set AWS_CONTAINER_AUTHORIZATION_TOKEN for the client to one of the "
                "server's tokens",
                request_id,
            )
            return
        self._accept(request, version)

    def _accept(self, request: ConnectRequest, version: str) -> None:
        self.protocol_version = version
        granted = self.rights(request.auth_token or "")
        wanted = request.penstock or ()
        self.extensions = tuple(
            name for name in Extension.ALL if name in wanted and name in granted
        )
        self.sdk_version = request.sdk_version or "unknown"
        self._decoder.frame_bytes_max = self.frame_bytes_max
        self.reply = CONNECT_VERSION + encode(
            Operation.ConnectResponse,
            ConnectResponse(
                request_id=request.request_id,
                status=ResponseStatusCode.Success,
                error_message="",
                protocol_version=version,
                supported_protocol_versions=list(PROTOCOL_VERSIONS),
                server_version=self.server_version,
                client_identifier=self.client_identifier,
                penstock=list(self.extensions) or None,
            ),
        )

    def _refuse(
        self, status: ResponseStatusCode, reason: str, request_id: str | None = None
    ) -> None:
        self.refused = reason
        self.reply = CONNECT_VERSION + encode(
            Operation.ConnectResponse,
            ConnectResponse(
                request_id=request_id,
                status=status,
                error_message=reason,
                supported_protocol_versions=list(PROTOCOL_VERSIONS),
                server_version=self.server_version,
            ),
        )

    def refuse_at_once(self, reason: str) -> None:
        """Refuse without waiting for the Connect request, for example with too many connections."""
        self._refuse(ResponseStatusCode.FailedToConnect, reason)


@dataclass
class ClientConnection:
    """The client's side: `hello` is what to send first, `receive` gives frames afterwards."""

    sdk_version: str
    auth_token: str | None = None
    wanted_extensions: tuple[str, ...] = Extension.CLIENTS
    connected: ConnectResponse | None = None
    extensions: frozenset[str] = frozenset()
    _decoder: FrameDecoder = field(default_factory=FrameDecoder)
    _version_seen: bool = False

    def hello(self) -> bytes:
        return CONNECT_VERSION + encode(
            Operation.Connect,
            ConnectRequest(
                request_id="connect",
                protocol_version=PROTOCOL_VERSIONS[0],
                other_supported_protocol_versions=list(PROTOCOL_VERSIONS[1:]),
                sdk_version=self.sdk_version,
                auth_token=self.auth_token or None,
                penstock=list(self.wanted_extensions) or None,
            ),
        )

    def receive(self, data: bytes) -> list[Frame]:
        """The frames after the handshake. ConnectFailedException says why there will be none."""
        if self.connected is not None:
            return self._decoder.feed(data)
        if not self._version_seen and data:
            if data[:1] != CONNECT_VERSION:
                raise ConnectFailedException(
                    f"this is not a stream manager: it began with byte {data[0]}, not 1",
                    ResponseStatusCode.UnsupportedConnectVersion,
                )
            self._version_seen = True
            data = data[1:]
        try:
            frames = self._decoder.feed(data)
        except FramingError as error:
            raise ConnectFailedException(f"the handshake was unreadable: {error}") from error
        if not frames:
            return []
        self._finish_handshake(frames[0])
        return frames[1:]

    def _finish_handshake(self, frame: Frame) -> None:
        operation, payload = frame
        try:
            if operation != Operation.ConnectResponse or not isinstance(payload, bytes):
                raise ValueError(f"expected ConnectResponse (6), got operation {operation}")
            response = decode_response(operation, load_map(payload))
        except ValueError as error:
            raise ConnectFailedException(f"the handshake was unreadable: {error}") from error
        assert isinstance(response, ConnectResponse)
        reason = response.error_message or "the server refused the connection"
        if response.status == ResponseStatusCode.Unauthorized:
            raise _Unauthorized(reason, response.status, response.request_id)
        if response.status != ResponseStatusCode.Success:
            raise ConnectFailedException(reason, response.status, response.request_id)
        self.connected = response
        self.extensions = frozenset(response.penstock or ())


class _Unauthorized(ConnectFailedException, UnauthorizedException):
    """Both, because Python's and Java's SDK disagree on what a wrong token raises."""
