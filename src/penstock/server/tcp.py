"""One connection: bytes in, requests to their handlers, answers out."""

from __future__ import annotations

import asyncio
import hmac
import logging
import socket
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from penstock.errors import (
    DataDamaged,
    DiskFailed,
    RequestPayloadTooLargeException,
    ResponseStatusCode,
    StreamManagerException,
)
from penstock.protocol import codec
from penstock.protocol.connection import ServerConnection
from penstock.protocol.framing import Frame, FramingError, Oversized
from penstock.protocol.operations import Extension, Operation
from penstock.server.handlers import HANDLERS
from penstock.server.outbox import Outbox
from penstock.server.streams import LiveStreams

log = logging.getLogger(__name__)

# The version of AWS's server whose behaviour is followed; SDKs only log it.
SERVER_VERSION = "1.1.0"
# After the last word the socket stays open this long for the peer to read it: closing with unread
# bytes in the buffer would make the kernel throw away what the peer has not got yet.
LINGER_S = 1.0
# SDKs send Connect as soon as the socket is open. Who does not is refused, so that nobody takes the
# place of a client for ever without having shown a token.
HANDSHAKE_WITHIN_S = 30.0
QUICK_ACKNOWLEDGE: int | None = getattr(socket, "TCP_QUICKACK", None)  # Linux has it
# With few clients an append is written and answered at once; with more, what arrives in one turn of
# the loop shares a write, which costs each of them time but the server less.
FEW_SESSIONS = 8


@dataclass(frozen=True)
class Limits:
    """What one connection may take."""

    frame_bytes_max: int
    unsent_bytes_max: int
    waiting_reads_max: int
    requests_in_flight_max: int


class Authenticator:
    """Knows the tokens; compares in constant time."""

    def __init__(
        self, tokens: tuple[str, ...], required: bool, pipeline_tokens: tuple[str, ...] = ()
    ) -> None:
        self._tokens = [token.encode() for token in tokens]
        self._pipeline_tokens = [token.encode() for token in pipeline_tokens]
        self._required = required

    def __call__(self, token: str) -> bool:
        """Whether the owner of a token may connect."""
        if not self._required:
            return True
        return _is_among(token, self._tokens + self._pipeline_tokens)

    def rights(self, token: str) -> tuple[str, ...]:
        """The extensions that the owner of a token may have."""
        if _is_among(token, self._pipeline_tokens):
            return Extension.ALL
        return Extension.CLIENTS


def _is_among(token: str, known_tokens: list[bytes]) -> bool:
    """Every token is compared, so that the time says nothing about which one came near."""
    given = token.encode("utf-8", "surrogatepass")
    return sum(hmac.compare_digest(given, known) for known in known_tokens) > 0


class Session(asyncio.Protocol):
    """One client."""

    transport: asyncio.Transport
    outbox: Outbox

    def __init__(
        self,
        streams: LiveStreams,
        limits: Limits,
        authenticate: Authenticator,
        sessions: set[Session],
        connections_max: int,
    ) -> None:
        self.on_lost: set[Callable[[Session], None]] = set()
        self.limits = limits
        self.waiting_reads = 0
        self.busy = 0  # reads in a thread
        self.in_flight = 0
        self._streams = streams
        self._sessions = sessions
        self._connections_max = connections_max
        self._want_to_write: deque[Callable[[], None]] = deque()
        self._reading = True
        self._closed = False  # nothing more is read or sent
        self._gone: asyncio.Future[None] | None = None  # there once the server stops
        self.connection = ServerConnection(
            authenticate,
            SERVER_VERSION,
            str(uuid.uuid4()),
            limits.frame_bytes_max,
            authenticate.rights,
        )

    # --- called by asyncio ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        loop = asyncio.get_running_loop()
        self.transport = cast(asyncio.Transport, transport)
        self.outbox = Outbox(self.transport, loop, self.writable_again)
        self._handshake_timer = loop.call_later(HANDSHAKE_WITHIN_S, self._handshake_is_late)
        self._sessions.add(self)
        if len(self._sessions) > self._connections_max:
            self.connection.refuse_at_once(
                f"{self._connections_max} clients are connected already; that is the limit "
                f"(connections_max)"
            )
            self._say_goodbye()

    def data_received(self, data: bytes) -> None:
        if self._closed or self._gone is not None:
            return
        try:
            frames = self.connection.receive(data)
            if self.connection.reply:
                self._finish_handshake()
            self._serve(frames)
            if not frames:
                self._acknowledge_at_once()
        except (FramingError, codec.Unanswerable) as error:
            log.warning("Closing the connection from %s: %s.", self.peer(), error)
            self._hang_up()
        self._pace()

    def pause_writing(self) -> None:
        self.outbox.blocked()

    def resume_writing(self) -> None:
        self.outbox.unblocked()

    def connection_lost(self, error: Exception | None) -> None:
        self._closed = True
        self._handshake_timer.cancel()
        self._sessions.discard(self)
        self._want_to_write.clear()
        self.outbox.close()
        if self.waiting_reads:
            for writer in self._streams:
                writer.reads.forget(self)
        for tell in self.on_lost:
            tell(self)
        if self._gone is not None:
            self._gone.set_result(None)

    # --- called by handlers, writers and reads --------------------------------------------------

    def answer(self, *pieces: bytes) -> None:
        """Send the response to a request."""
        self.in_flight -= 1
        if not self._closed:
            self.outbox.put(*pieces)
        if not self._reading:
            self._pace()

    def answer_now(self, frame: bytes) -> None:
        """Send the response to a request without waiting for others of this turn."""
        self.in_flight -= 1
        if not self._closed:
            self.outbox.send(frame)
        if not self._reading or self._want_to_write or self._gone is not None:
            self.writable_again()

    def refuse(self, operation: Operation, request_id: str, error: BaseException) -> None:
        """Send the response that says why not."""
        status, text = describe_failure(error)
        status = self.connection.status_for_client(status)
        self.answer(codec.error_response(operation, request_id, status, text))

    def may_wait(self) -> bool:
        return self.waiting_reads < self.limits.waiting_reads_max

    def when_writable(self, action: Callable[[], None]) -> None:
        """Fetch data for this client when it has taken what it asked for before.

        One large read at a time, and none while the client is behind: so a connection never
        holds more than its limits, however much it asks for.
        """
        self._want_to_write.append(action)
        self.writable_again()

    def writable_again(self) -> None:
        while (
            self._want_to_write
            and not self.busy
            and self.outbox.unsent_bytes <= self.limits.unsent_bytes_max
        ):
            self._want_to_write.popleft()()
        self._pace()
        self._hang_up_if_finished()

    def finish(self) -> asyncio.Future[None]:
        """Take no more requests; when everything asked for so far has left, the client goes too."""
        self._gone = asyncio.get_running_loop().create_future()
        if not self._reading:
            # What still comes is thrown away, so that it cannot spoil the end, see LINGER_S.
            self.transport.resume_reading()
        if self.connection.protocol_version is None and not self._closed:
            self.connection.refuse_at_once("the server is stopping")
            self._say_goodbye()
        self._hang_up_if_finished()
        return self._gone

    def cut(self) -> None:
        """End the connection at once."""
        self._closed = True
        self.transport.abort()

    def peer(self) -> str:
        name = self.transport.get_extra_info("peername")
        return f"{name[0]}:{name[1]}" if name else "a local socket"

    # --- inside ---------------------------------------------------------------------------------

    def _handshake_is_late(self) -> None:
        self.connection.refuse_at_once(
            f"no Connect request came within {HANDSHAKE_WITHIN_S:g} seconds"
        )
        self._say_goodbye()

    def _finish_handshake(self) -> None:
        if self.connection.refused is not None:
            self._say_goodbye()
            return
        self._handshake_timer.cancel()
        self.outbox.put(self.connection.reply)
        self.connection.reply = b""
        self.outbox.together = bool(self.connection.extensions)
        log.debug(
            "Client %s connected from %s with SDK %s.",
            self.connection.client_identifier,
            self.peer(),
            self.connection.sdk_version,
        )

    def _say_goodbye(self) -> None:
        log.warning("Refused %s: %s.", self.peer(), self.connection.refused)
        self._handshake_timer.cancel()
        self._sessions.discard(self)  # it takes nobody's place while it reads this
        self.outbox.put(self.connection.reply)
        self._hang_up()

    def _hang_up(self) -> None:
        """Send what can be sent now, say that nothing more comes, and close a little later."""
        self._closed = True
        self._want_to_write.clear()
        self.outbox.flush()
        if not self.transport.is_closing():
            self.transport.write_eof()
            asyncio.get_running_loop().call_later(LINGER_S, self.transport.abort)

    def _hang_up_if_finished(self) -> None:
        if (
            self._gone is not None
            and not self._closed
            and self.in_flight == 0
            and self.outbox.unsent_bytes == 0
        ):
            self._hang_up()

    def _acknowledge_at_once(self) -> None:
        """Half a frame came. Node's SDK sends the other half only when this one is acknowledged.

        It writes head and payload apart and leaves Nagle's algorithm on; the kernel would wait
        40 ms before it acknowledges, with every request.
        """
        if QUICK_ACKNOWLEDGE is not None:
            connected = self.transport.get_extra_info("socket")
            connected.setsockopt(socket.IPPROTO_TCP, QUICK_ACKNOWLEDGE, 1)

    def _serve(self, frames: list[Frame]) -> None:
        alone = len(frames) == 1 and len(self._sessions) <= FEW_SESSIONS
        self.in_flight += len(frames)
        for operation, payload in frames:
            if isinstance(payload, Oversized):
                self._refuse_oversized(operation, payload)
            elif operation != Operation.AppendMessage or not self._append(payload, alone):
                self._dispatch(operation, codec.load_map(payload))

    def _append(self, payload: bytes, alone: bool) -> bool:
        """The hot path: an append as SDKs send it. False: something else, for the long way."""
        found = codec.usual_append(payload)
        if found is None:
            return False
        request_id, encoded_name, body = found
        writer = self._streams.by_encoded_name.get(encoded_name)
        if writer is None:
            return False
        if alone and writer.is_idle:
            writer.append_alone(self, request_id, body)
        else:
            writer.append(self, request_id, body)
        return True

    def _dispatch(self, operation: int, values: dict[object, object]) -> None:
        request_id = codec.request_id_of(values)
        known = self.connection.known(operation)
        if operation == Operation.Connect:
            text = "this connection is connected already"
            status = ResponseStatusCode.UnexpectedOperation
            self.answer(codec.error_response(Operation.ConnectResponse, request_id, status, text))
            return
        if known is None:
            self._refuse_unknown(operation, request_id)
            return
        _, exchange = known
        try:
            request = codec.decode_request(exchange.request, values)
            response = HANDLERS[exchange.request](self._streams, self, request)
            if response is not None:
                self.answer(codec.encode(exchange.answer, response))
        except Exception as error:  # noqa: BLE001  whatever it is, the client must be told
            self.refuse(exchange.answer, request_id, error)

    def _refuse_unknown(self, operation: int, request_id: str) -> None:
        if self.connection.protocol_version == "1.0.0":
            # That protocol has no way to say so.
            raise codec.Unanswerable(f"operation {operation} is unknown to protocol 1.0.0")
        text = f"operation {operation} is unknown to this server"
        status = ResponseStatusCode.UnknownOperation
        self.answer(codec.error_response(Operation.UnknownOperationError, request_id, status, text))

    def _refuse_oversized(self, operation: int, oversized: Oversized) -> None:
        request_id = codec.oversized_request_id(oversized)
        known = self.connection.known(operation)
        if known is None:
            self._refuse_unknown(operation, request_id)
            return
        error = RequestPayloadTooLargeException(
            f"a frame of {oversized.length} bytes exceeds the server's limit of "
            f"{self.limits.frame_bytes_max} (frame_bytes_max)"
        )
        self.refuse(known[1].answer, request_id, error)

    def _pace(self) -> None:
        """Read no more requests while the client has too much in flight or unread."""
        if self._closed or self._gone is not None:
            return
        room = (
            self.in_flight - self.waiting_reads < self.limits.requests_in_flight_max
            and self.outbox.unsent_bytes <= self.limits.unsent_bytes_max
        )
        if room != self._reading:
            self._reading = room
            if room:
                self.transport.resume_reading()
            else:
                self.transport.pause_reading()


def describe_failure(error: BaseException) -> tuple[ResponseStatusCode, str]:
    """The status and the text for whatever went wrong."""
    if isinstance(error, StreamManagerException) and error.status is not None:
        return error.status, str(error)
    if isinstance(error, DataDamaged):
        log.error("Damaged data: %s", error)
        return ResponseStatusCode.MessageStoreReadError, str(error)
    if isinstance(error, DiskFailed):
        return (
            ResponseStatusCode.UnknownFailure,
            f"the disk refused to store it ({error}); nothing was stored, try again later",
        )
    if isinstance(error, MemoryError):
        return ResponseStatusCode.OutOfMemoryError, "the server is out of memory; try again later"
    log.error("A request failed unexpectedly.", exc_info=error)
    return ResponseStatusCode.UnknownFailure, f"the server failed: {type(error).__name__}: {error}"
