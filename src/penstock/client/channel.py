"""One TCP connection of the async client, from the decision to connect until it is gone.

Calls may be submitted at once: what is submitted before the handshake is over leaves right after
it. The frames of one turn of the event loop are written together. All calls have the same timeout,
so the table of pending ones is in order of deadline and one timer serves them all.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from logging import Logger
from typing import Any, TypeVar, cast

from penstock.client.endpoint import Endpoint, fresh, reason_of
from penstock.errors import (
    ClientException,
    ConnectFailedException,
    ConnectionLostException,
    RequestTimeoutException,
    ServerUnreachableException,
    StreamManagerException,
)
from penstock.protocol.codec import load_map, request_id_of
from penstock.protocol.connection import ClientConnection
from penstock.version import __version__

# Frames gathered in one turn are written when they reach this size, so that the server can begin
# while we still encode.
OUTBOX_BYTES_MAX = 64 * 1024
# Timers may fire a little early.
CLOCK_SLACK_S = 0.001
# What poll reports of a connection that the other side has closed. Not every system tells.
HANG_UP = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR

Result = TypeVar("Result")
Judge = Callable[[int, dict[Any, Any]], Any]


class Channel(asyncio.Protocol):
    """A connection and the calls on it. Never reused: the client makes a new one."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, endpoint: Endpoint, logger: Logger, pause_s: float
    ) -> None:
        self.has_answered = False
        self.is_ready = False
        self.ended: ClientException | None = None
        self._loop = loop
        self._endpoint = endpoint
        self._logger = logger
        self._connection = ClientConnection(__version__, endpoint.auth_token, endpoint.extensions)
        self._pending: dict[str, tuple[float, asyncio.Future[Any], Judge]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._last_heard = 0.0
        self._outbox: list[bytes] = []
        self._outbox_bytes = 0
        self._flush_is_planned = False
        self._transport: asyncio.Transport | None = None
        self._hang_up_poll: select.poll | None = None
        self._shaken = asyncio.Event()
        self._lost = asyncio.Event()
        self._opening = loop.create_task(self._open(pause_s))

    @property
    def extensions(self) -> frozenset[str]:
        return self._connection.extensions

    def is_usable(self) -> bool:
        """Whether a call makes sense. Looks at an idle connection before saying yes."""
        if self.ended is not None:
            return False
        if not self._pending and self._hang_up_poll is not None and self._hang_up_poll.poll(0):
            self.end(ConnectionLostException(f"{self._endpoint} closed the connection"))
            return False
        return True

    async def opened(self) -> None:
        """Wait until the handshake is over; raise what made it fail, not what came after it."""
        await asyncio.wait([self._opening])
        if self.ended is not None and not isinstance(self.ended, ConnectionLostException):
            raise fresh(self.ended)

    async def gone(self) -> None:
        """Wait, after the end, until nothing is left of it."""
        self._opening.cancel()
        await asyncio.wait([self._opening])
        if self._transport is not None:
            await self._lost.wait()

    def submit(
        self, request_id: str, frame: bytes, judge: Callable[[int, dict[Any, Any]], Result]
    ) -> asyncio.Future[Result]:
        """Send a request; the future gets what `judge` makes of the answer."""
        future: asyncio.Future[Result] = self._loop.create_future()
        if self.ended is not None:
            future.set_exception(fresh(self.ended))
            return future
        deadline = self._loop.time() + self._endpoint.request_timeout_s
        self._pending[request_id] = (deadline, future, judge)
        if self._timer is None:
            self._timer = self._loop.call_at(deadline, self._expire)
        self._outbox.append(frame)
        self._outbox_bytes += len(frame)
        if self._outbox_bytes >= OUTBOX_BYTES_MAX:
            self._flush()
        elif not self._flush_is_planned:
            self._flush_is_planned = True
            self._loop.call_soon(self._planned_flush)
        return future

    def end(self, reason: ClientException) -> None:
        """Fail every pending call, at once. The first reason is the one that counts."""
        if self.ended is not None:
            return
        self.ended = reason
        self.is_ready = False
        pending, self._pending = self._pending, {}
        for _, future, _ in pending.values():
            if not future.done():
                future.set_exception(fresh(reason))
        self._outbox.clear()
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()
        self._shaken.set()

    # --- connecting --------------------------------------------------------------------------

    async def _open(self, pause_s: float) -> None:
        """One attempt to connect. It raises nothing: `ended` says how it went."""
        try:
            await asyncio.sleep(pause_s)
            await self._dial()
            await self._shake_hands()
        except ConnectFailedException as error:
            self.end(error)
        if self.ended is not None and self._transport is not None:
            await self._lost.wait()

    async def _dial(self) -> None:
        endpoint = self._endpoint
        try:
            async with asyncio.timeout(endpoint.connect_timeout_s):
                transport, _ = await self._loop.create_connection(
                    lambda: self, endpoint.host, endpoint.port
                )
        except (OSError, UnicodeError) as error:
            raise ServerUnreachableException(
                f"no stream manager can be reached at {endpoint}: {reason_of(error)}"
            ) from error
        if transport.get_extra_info("sockname") == transport.get_extra_info("peername"):
            # Linux connects a socket to itself when the port it picked for us is the one we call.
            raise ServerUnreachableException(f"no stream manager listens at {endpoint}")

    async def _shake_hands(self) -> None:
        try:
            async with asyncio.timeout(self._endpoint.request_timeout_s):
                await self._shaken.wait()
        except TimeoutError as error:
            raise ServerUnreachableException(
                f"{self._endpoint} did not answer the handshake: it took too long"
            ) from error

    # --- what the event loop tells -----------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self.ended is not None:
            self._transport.abort()
            return
        self._transport.write(self._connection.hello())

    def data_received(self, data: bytes) -> None:
        self._last_heard = self._loop.time()
        try:
            frames = self._connection.receive(data)
            if not self.is_ready and self._connection.connected is not None:
                self._begin()
            for operation, payload in frames:
                assert isinstance(payload, bytes)  # the decoder's limit is the protocol's own
                self._deliver(operation, load_map(payload))
        except ConnectFailedException as error:
            self.end(error)
        except ValueError as error:
            self.end(ConnectionLostException(f"{self._endpoint} broke the protocol: {error}"))

    def connection_lost(self, error: Exception | None) -> None:
        if self._connection.connected is None:
            reason = error or "it closed the connection"
            self.end(
                ServerUnreachableException(
                    f"{self._endpoint} did not answer the handshake: {reason}"
                )
            )
        elif error is None:
            self.end(ConnectionLostException(f"{self._endpoint} closed the connection"))
        else:
            self.end(ConnectionLostException(f"the connection was lost: {error}"))
        self._lost.set()

    # --- calls -------------------------------------------------------------------------------

    def _begin(self) -> None:
        """The handshake is over: send what has been waiting for it."""
        assert self._transport is not None
        self.is_ready = True
        self._hang_up_poll = select.poll()
        self._hang_up_poll.register(self._transport.get_extra_info("socket").fileno(), HANG_UP)
        self._shaken.set()
        self._flush()

    def _planned_flush(self) -> None:
        self._flush_is_planned = False
        self._flush()

    def _flush(self) -> None:
        """Write everything that waits, with one system call."""
        if self.is_ready and self._outbox:
            assert self._transport is not None
            self._transport.write(b"".join(self._outbox))
            self._outbox.clear()
            self._outbox_bytes = 0

    def _deliver(self, operation: int, values: dict[Any, Any]) -> None:
        """Hand an answer to whoever waits for it."""
        request_id = request_id_of(values)
        entry = self._pending.get(request_id)
        if entry is None:
            self._logger.warning("Ignored an answer that nobody waits for: %s.", request_id)
            return
        self.has_answered = True
        _, future, judge = entry
        try:
            if not future.done():  # done: the caller gave up
                future.set_result(judge(operation, values))
        except StreamManagerException as error:
            future.set_exception(error)
        del self._pending[request_id]

    def _expire(self) -> None:
        """Fail the calls whose time is over, and come back for the next one."""
        self._timer = None
        now = self._loop.time() + CLOCK_SLACK_S
        expired: list[str] = []
        for request_id, (deadline, _, _) in self._pending.items():
            if deadline > now:
                self._timer = self._loop.call_at(deadline, self._expire)
                break
            expired.append(request_id)
        for request_id in expired:
            _, future, _ = self._pending.pop(request_id)
            if not future.done():
                future.set_exception(self._timeout(request_id))
        if expired and self._is_deaf(now):
            self.end(ConnectionLostException(f"{self._endpoint} stopped taking requests"))

    def _is_deaf(self, now: float) -> bool:
        """Whether, for a whole request timeout, the server neither spoke nor took what we send."""
        return (
            self._transport is not None
            and self._transport.get_write_buffer_size() > 0
            and self._last_heard <= now - self._endpoint.request_timeout_s
        )

    def _timeout(self, request_id: str) -> RequestTimeoutException:
        return RequestTimeoutException(
            f"no answer from {self._endpoint} within {self._endpoint.request_timeout_s:g} s: "
            "the request may or may not have been done",
            None,
            request_id,
        )
