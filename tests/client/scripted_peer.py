"""A server that does exactly what a test tells it to, and therefore can misbehave.

A script is a function that gets a Talk, one accepted connection, and holds the conversation. The
peer runs its scripts one after another, one per connection, the last one again and again.
"""

from __future__ import annotations

import queue
import select
import socket
import struct
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from time import monotonic, sleep
from types import TracebackType
from typing import Any, Self

import cbor2

from penstock.block import make_entries
from penstock.errors import ResponseStatusCode
from penstock.protocol.codec import encode, load_map
from penstock.protocol.connection import CONNECT_VERSION, ServerConnection
from penstock.protocol.framing import Frame, frame
from penstock.protocol.operations import OPERATIONS, ConnectResponse, Extension, Operation

# Far more than any step takes; a script that hangs must fail, not stop the run.
STEP_TIMEOUT_S = 20.0

Request = tuple[Operation, dict[Any, Any]]


class HungUp(Exception):
    """The client has closed the connection."""


class Talk:
    """The peer's side of one connection."""

    def __init__(self, accepted: socket.socket) -> None:
        self.socket = accepted
        self._connection = ServerConnection(
            authenticate=self._seen, server_version="1.1.0", client_identifier="scripted"
        )
        self._frames: list[Frame] = []
        self.token: str | None = None

    def _seen(self, token: str) -> bool:
        self.token = token
        return True

    def shake_hands(self, extensions: Collection[str] = Extension.ALL) -> None:
        """An ordinary handshake, granting what is asked for among `extensions`."""
        self.take_hello()
        granted = [name for name in self._connection.extensions if name in extensions]
        self.socket.sendall(
            CONNECT_VERSION
            + encode(
                Operation.ConnectResponse,
                ConnectResponse(
                    request_id="connect",
                    status=ResponseStatusCode.Success,
                    protocol_version="1.1.0",
                    penstock=granted or None,
                ),
            )
        )

    def take_hello(self) -> None:
        """Read the client's hello, and leave it unanswered."""
        while not self._connection.reply:
            self._frames += self._connection.receive(self._received())

    def request(self) -> Request:
        """The next request. HungUp if there will be none."""
        while not self._frames:
            self._frames += self._connection.receive(self._received())
        operation, payload = self._frames.pop(0)
        assert isinstance(payload, bytes)
        return Operation(operation), load_map(payload)

    def requests(self) -> Iterator[Request]:
        """Every request until the client hangs up."""
        with suppress(HungUp):
            while True:
                yield self.request()

    def has_request(self) -> bool:
        """Whether there is something to read, now."""
        return bool(self._frames or select.select([self.socket], [], [], 0)[0])

    def answer(self, request: Request, status: int = 0, **values: Any) -> None:
        """Answer a request as its operation is answered."""
        self.socket.sendall(answer_to(request, status, **values))

    def wait_for_hang_up(self) -> None:
        for request in self.requests():
            raise AssertionError(f"there should be no more requests, but {request}")

    def reset(self) -> None:
        """Close with an error instead of an end."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def _received(self) -> bytes:
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionError as error:
            raise HungUp from error
        if not data:
            raise HungUp
        return data


Script = Callable[[Talk], object]


class ScriptedPeer:
    """Listens at once; as a context manager it raises what went wrong in a script."""

    def __init__(self, *scripts: Script, port: int = 0) -> None:
        self._scripts = list(scripts)
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        self.connection_count = 0
        self._ends: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._errors: list[BaseException] = []
        self._open: Talk | None = None
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="scripted peer")
        self._thread.start()

    def wait_for_end(self, conversation_count: int = 1) -> None:
        """Return when so many more conversations are over, their sockets closed."""
        for _ in range(conversation_count):
            self._ends.get(timeout=STEP_TIMEOUT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_closing = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        if self._open is not None:
            with suppress(OSError):
                self._open.socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(STEP_TIMEOUT_S)
        self._listener.close()
        assert not self._thread.is_alive(), "a script hangs"
        if self._errors and kind is None:
            raise self._errors[0]

    def _run(self) -> None:
        while not self._is_closing:
            try:
                accepted, _ = self._listener.accept()
            except OSError:  # the test is over
                return
            self.connection_count += 1
            script = self._scripts.pop(0) if len(self._scripts) > 1 else self._scripts[0]
            accepted.settimeout(STEP_TIMEOUT_S)
            with accepted:
                self._open = Talk(accepted)
                try:
                    script(self._open)
                except HungUp:
                    pass
                except BaseException as error:  # noqa: BLE001  raised again by __exit__
                    self._errors.append(error)
            self._ends.put(None)


def answer_to(request: Request, status: int = 0, **values: Any) -> bytes:
    """The frame that answers a request."""
    operation, request_values = request
    return frame(
        OPERATIONS[operation].answer,
        cbor2.dumps({"requestId": request_values["requestId"], "status": status, **values}),
    )


def free_port() -> int:
    """A port where, for the moment, nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def wait_until_in(thread: threading.Thread, function: str) -> None:
    """Return when the thread has arrived in a function, and stays there."""
    assert thread.ident is not None
    deadline = monotonic() + STEP_TIMEOUT_S
    while sys._current_frames()[thread.ident].f_code.co_name != function:
        assert monotonic() < deadline, f"{thread.name} never came to {function}"
        sleep(0.001)
    sleep(0.05)  # from the first line of the function to the system call that waits


# --- scripts that several tests use -------------------------------------------------------------


def answer_appends(talk: Talk) -> None:
    """A polite server: appends are numbered from 0 on."""
    talk.shake_hands()
    for sequence, request in enumerate(talk.requests()):
        talk.answer(request, sequenceNumber=sequence)


class PlainServer:
    """Just enough of a server without extensions: one stream, kept over connections."""

    def __init__(self) -> None:
        self.payloads: list[bytes] = []
        self.operations: list[Operation] = []

    def __call__(self, talk: Talk) -> None:
        talk.shake_hands(extensions=())
        for request in talk.requests():
            operation, values = request
            self.operations.append(operation)
            if operation == Operation.AppendMessage:
                self.payloads.append(values["payload"])
                talk.answer(request, sequenceNumber=len(self.payloads) - 1)
            elif operation == Operation.ReadMessages:
                self._read(talk, request, values)
            else:
                raise AssertionError(f"unexpected {operation.name}")

    def _read(self, talk: Talk, request: Request, values: dict[Any, Any]) -> None:
        options = values["readMessagesOptions"]
        first = options["desiredStartSequenceNumber"]
        stop = first + options.get("maxMessageCount", options["minMessageCount"])
        found = self.payloads[first:stop]
        if not found:
            talk.answer(request, status=13, errorMessage="nothing there")
            return
        messages = [
            {"streamName": "s", "sequenceNumber": n, "ingestTime": 1000 + n, "payload": payload}
            for n, payload in enumerate(found, first)
        ]
        talk.answer(request, messages=messages)


def wire_block(first: int, payloads: list[bytes]) -> dict[str, Any]:
    """A run of messages as a bulk read carries it."""
    data = b"".join(payloads)
    index, _ = make_entries(
        data, list(map(len, payloads)), end=0, time_ms=5, sequence=first, checksum=77
    )
    return {"firstSequenceNumber": first, "previousChecksum": 77, "index": index, "data": data}
