"""One TCP connection of the sync client, shared by all threads that call.

There is no thread of our own. Whoever waits for an answer while nobody reads becomes the reader:
it takes everybody's answers off the socket until its own is among them, then passes the role on to
another waiting thread. A single thread therefore sends, receives, and is done.

On an idle link the caller is the reader from the start, so that the lonely thread takes the mutex
only twice. It gives up the role before it sends something large or waits for its turn to send: a
server that cannot get rid of the others' answers may stop taking our requests.

A call's slot stays in the table from `register` to `release`. When the link ends, the socket is
shut down at once, which wakes whoever is in it, and closed by the last one to release: no thread
ever touches a file descriptor that may already belong to somebody else.
"""

from __future__ import annotations

import math
import os
import select
import socket
import struct
import threading
from logging import Logger
from time import monotonic
from typing import Any

from penstock.client.endpoint import Endpoint, fresh, reason_of
from penstock.errors import (
    ClientException,
    ConnectFailedException,
    ConnectionLostException,
    RequestTimeoutException,
    ServerUnreachableException,
)
from penstock.protocol.codec import load_appended, load_large_map, load_map, request_id_of
from penstock.protocol.connection import ClientConnection
from penstock.protocol.framing import FrameBuffer
from penstock.protocol.operations import Operation
from penstock.version import __version__

# A bulk read needs few system calls, and the bytes still fit the processor's cache. The buffer is
# kept: to allocate so much for every answer costs more than the answer itself.
RECEIVE_BYTES = 256 * 1024
# What answers a hello takes about 200 bytes.
HELLO_BYTES = 4096
# An append is answered within 50 us. To fall asleep and be woken costs each side about as much, in
# time and in processor time, where an idle processor has to be brought back first: so it pays to
# look for this long. Who waits longer sleeps.
LOOK_S = 0.0001
# The kernel ends a plain recv after the whole request timeout. While nearly all of it is left that
# is exact enough, and saves a system call; below this part of it we poll for what is left.
PLAIN_RECEIVE_FROM = 0.95

# What surely fits the socket's send buffer while the link is idle: sending it does not wait.
SEND_AS_READER_BYTES_MAX = 16 * 1024

APPENDED = int(Operation.AppendMessageResponse)

Answer = tuple[int, dict[Any, Any]]


class Slot:
    """One call that waits: its answer, and the lock that its thread sleeps on."""

    __slots__ = ("answer", "request_id", "wake")

    def __init__(self, request_id: str) -> None:
        self.request_id = request_id
        self.answer: Answer | None = None
        self.wake: threading.Lock | None = None


def dial(endpoint: Endpoint, timeout_s: float) -> socket.socket:
    """A TCP connection, nothing said yet."""
    try:
        dialled = socket.create_connection((endpoint.host, endpoint.port), max(timeout_s, 0.001))
    except (OSError, UnicodeError) as error:
        raise ServerUnreachableException(
            f"no stream manager can be reached at {endpoint}: {reason_of(error)}"
        ) from error
    try:
        if dialled.getsockname() == dialled.getpeername():
            # Linux connects a socket to itself when the port it picked for us is the one we call.
            raise ServerUnreachableException(f"no stream manager listens at {endpoint}")
        dialled.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        dialled.close()
        if isinstance(error, ServerUnreachableException):
            raise
        raise ServerUnreachableException(
            f"{endpoint} hung up at once: {reason_of(error)}"
        ) from error
    return dialled


class Link:
    """A connection from the first byte to the last. Never reused: the client makes a new one."""

    def __init__(self, connected: socket.socket, endpoint: Endpoint, logger: Logger) -> None:
        self.has_answered = False
        self._socket = connected
        self._endpoint = endpoint
        self._logger = logger
        self._connection = ClientConnection(__version__, endpoint.auth_token, endpoint.extensions)
        self._plain_receive_from_s = endpoint.request_timeout_s * PLAIN_RECEIVE_FROM
        self._incoming = FrameBuffer(RECEIVE_BYTES)
        # Two, because a poll object serves one thread at a time.
        self._idle_poll = _poll_for_input(connected)
        self._reader_poll = _poll_for_input(connected)
        self._send_lock = threading.Lock()
        # Guards everything below. Held for a few instructions only, never while waiting.
        self._mutex = threading.RLock()
        self._slots: dict[str, Slot] = {}
        self._reader: Slot | None = None
        self._is_ready = False
        self._ended: ClientException | None = None

    @property
    def extensions(self) -> frozenset[str]:
        return self._connection.extensions

    @property
    def is_ready(self) -> bool:
        return self._is_ready

    # --- life --------------------------------------------------------------------------------

    def handshake(self, deadline: float) -> None:
        """Introduce ourselves; whatever goes wrong ends the link."""
        slot = self.add("connect")
        try:
            self._say_hello(deadline)
            self._set_kernel_timeouts()
            with self._mutex:
                self._raise_if_ended()
                self._is_ready = True
        except OSError as error:
            self._raise_if_ended()
            self.end(ConnectionLostException(f"the handshake failed: {error}"))
            raise ServerUnreachableException(
                f"{self._endpoint} did not answer the handshake: {error}"
            ) from error
        except ValueError as error:
            self.end(ConnectionLostException(f"the handshake failed: {error}"))
            raise ConnectFailedException(f"{self._endpoint} talks nonsense: {error}") from error
        except BaseException as error:
            self.end(ConnectionLostException(f"the handshake failed: {error}"))
            raise
        finally:
            self.release(slot)

    def end(self, reason: ClientException) -> None:
        """Fail every call that waits. The first reason is the one that counts.

        The shutdown wakes the reader, who wakes the next one in passing on the role, and so on.
        """
        with self._mutex:
            if self._ended is not None:
                return
            self._ended = reason
            self._is_ready = False
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError as error:  # the other side was faster, and there is nobody to wake
                self._logger.debug("The connection was down already: %s.", error)
            if not self._slots:
                self._socket.close()

    def _say_hello(self, deadline: float) -> None:
        self._socket.sendall(self._connection.hello())
        while self._connection.connected is None:
            self._socket.settimeout(max(deadline - monotonic(), 0.001))
            data = self._socket.recv(HELLO_BYTES)
            if not data:
                raise ConnectionResetError("it closed the connection")
            if self._connection.receive(data):
                raise ConnectionResetError("it said more than it was asked")

    def _set_kernel_timeouts(self) -> None:
        """From now on recv and send are single, blocking system calls that end by themselves."""
        fraction, whole = math.modf(self._endpoint.request_timeout_s)
        timeval = struct.pack("@ll", int(whole), max(1, int(fraction * 1_000_000)))
        self._socket.settimeout(None)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeval)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeval)

    def _raise_if_ended(self) -> None:
        if self._ended is not None:
            raise fresh(self._ended)

    # --- calls -------------------------------------------------------------------------------

    def register(self, request_id: str) -> Slot | None:
        """A slot for a call; None if the link is of no use any more. Nothing is sent yet."""
        slot = Slot(request_id)
        with self._mutex:
            if not self._slots:
                if self._is_ready and self._idle_poll.poll(0):
                    self._catch_up()
                self._reader = slot
            if not self._is_ready:
                self._reader = None
                return None
            self._slots[request_id] = slot
        return slot

    def add(self, request_id: str) -> Slot:
        """A slot without asking whether the link is still good: its answer will say."""
        slot = Slot(request_id)
        with self._mutex:
            self._slots[request_id] = slot
        return slot

    def release(self, slot: Slot) -> None:
        """The call is over. After the end of the link, the last one closes the door."""
        with self._mutex:
            del self._slots[slot.request_id]
            slot.wake = None
            if self._reader is slot:
                self._pass_on_reading()
            if self._ended is not None and not self._slots:
                self._socket.close()

    def send(self, slot: Slot, data: bytes, deadline: float) -> None:
        """Send whole frames. If the connection is lost, the slot's answer says so."""
        if len(data) > SEND_AS_READER_BYTES_MAX:
            self._let_others_read(slot)
        if not self._send_lock.acquire(blocking=False):
            self._let_others_read(slot)
            self._wait_to_send(deadline)
        try:
            sent_bytes = self._socket.send(data)
            while sent_bytes < len(data):
                if monotonic() >= deadline:
                    raise TimeoutError("the time is over")
                sent_bytes += self._socket.send(memoryview(data)[sent_bytes:])
        except (BlockingIOError, TimeoutError) as error:
            self.end(ConnectionLostException("the server stopped taking requests"))
            raise RequestTimeoutException(
                f"{self._endpoint} did not take the request within the request timeout"
            ) from error
        except OSError as error:
            self.end(ConnectionLostException(f"the connection was lost: {error}"))
        except BaseException:  # interrupted: a part of the frame may be out, nothing can follow it
            self.end(ConnectionLostException("a thread was interrupted while it was sending"))
            raise
        finally:
            self._send_lock.release()

    def answer(self, slot: Slot, deadline: float) -> Answer:
        """Wait for the answer to a request that was sent, reading for all if nobody else does."""
        if self._reader is not slot:
            self._queue_up(slot, deadline)
        if self._reader is slot:
            self._read(slot, deadline)
        if slot.answer is not None:
            return slot.answer
        self._raise_if_ended()
        raise RequestTimeoutException(
            f"no answer from {self._endpoint} within {self._endpoint.request_timeout_s:g} s: "
            "the request may or may not have been done",
            None,
            slot.request_id,
        )

    def _wait_to_send(self, deadline: float) -> None:
        if not self._send_lock.acquire(timeout=max(0.0, deadline - monotonic())):
            raise RequestTimeoutException(
                "no answer in time: other requests were still being sent; this one was not"
            )

    def _queue_up(self, slot: Slot, deadline: float) -> None:
        """Become the reader, or sleep until there is an answer or it is our turn to read."""
        with self._mutex:
            if slot.answer is not None or self._ended is not None:
                return
            if self._reader is None:
                self._reader = slot
                return
            sleep = slot.wake = threading.Lock()
            sleep.acquire()
        sleep.acquire(timeout=max(0.0, deadline - monotonic()))

    # --- reading -----------------------------------------------------------------------------

    def _read(self, slot: Slot, deadline: float) -> None:
        """Be the reader until our own answer is there, the link ends, or the time is over."""
        try:
            self._look_a_while()
            while slot.answer is None and self._ended is None:
                left_s = deadline - monotonic()
                if left_s < self._plain_receive_from_s and not self._input_within(left_s):
                    return
                self._receive()
        except BlockingIOError:  # the kernel's own receive timeout
            return
        except BaseException as error:
            # Interrupted: bytes may be off the socket that nobody has looked at.
            self.end(ConnectionLostException(f"the thread that read was interrupted: {error!r}"))
            raise

    def _receive(self, flags: int = 0) -> None:
        """Take what has arrived. A connection that is lost or talks nonsense ends here."""
        try:
            received_bytes = self._socket.recv_into(self._incoming.space(), 0, flags)
            if received_bytes:
                self._deliver(self._incoming.received(received_bytes))
            else:
                self.end(ConnectionLostException(f"{self._endpoint} closed the connection"))
        except BlockingIOError:
            raise
        except OSError as error:
            self.end(ConnectionLostException(f"the connection was lost: {error}"))
        except ValueError as error:
            self.end(ConnectionLostException(f"{self._endpoint} broke the protocol: {error}"))

    def _catch_up(self) -> None:
        """On an idle link: notice that it was closed, throw away answers that came too late."""
        try:
            while self._is_ready and self._idle_poll.poll(0):
                self._receive(socket.MSG_DONTWAIT)
        except BlockingIOError:  # a false alarm
            return

    def _look_a_while(self) -> None:
        """Stay awake for a moment: most answers are there before a sleeper would be woken."""
        stop = monotonic() + LOOK_S
        while not self._reader_poll.poll(0) and monotonic() < stop:
            os.sched_yield()  # the server may need this very processor

    def _input_within(self, left_s: float) -> bool:
        return bool(self._reader_poll.poll(max(0, math.ceil(left_s * 1000))))

    def _deliver(self, frames: list[tuple[int, bytes | memoryview]]) -> None:
        """Put each answer into its slot, and wake its thread."""
        for operation, payload in frames:
            values = _values(operation, payload)
            request_id = request_id_of(values)
            slot = self._slots.get(request_id)
            if slot is None or slot.answer is not None:
                self._logger.warning("Ignored an answer that nobody waits for: %s.", request_id)
                continue
            self.has_answered = True
            if slot is self._reader:
                slot.answer = (operation, values)
                continue
            with self._mutex:
                slot.answer = (operation, values)
                _wake(slot)

    def _let_others_read(self, slot: Slot) -> None:
        """Before waiting for anything but input."""
        with self._mutex:
            if self._reader is slot:
                self._pass_on_reading()

    def _pass_on_reading(self) -> None:
        """The next reader is somebody who sleeps; if nobody does, the next one to wait."""
        self._reader = None
        for slot in self._slots.values():
            if slot.wake is not None:
                self._reader = slot
                _wake(slot)
                return


def _values(operation: int, payload: bytes | memoryview) -> dict[Any, Any]:
    if isinstance(payload, memoryview):
        return load_large_map(payload)
    if operation == APPENDED and (values := load_appended(payload)) is not None:
        return values
    return load_map(payload)


def _wake(slot: Slot) -> None:
    """Wake the slot's thread if it sleeps; only once, and only under the mutex."""
    if slot.wake is not None:
        slot.wake.release()
        slot.wake = None


def _poll_for_input(connected: socket.socket) -> select.poll:
    poll = select.poll()
    poll.register(connected, select.POLLIN)
    return poll
