"""A small HTTP/1.1 server: a thread for each connection, and answers that can be cut short.

It knows nothing of clouds. Its own parser is here because the sink must keep up with benchmarks
(several times the rate of the standard library's), and because a fault needs the socket: an answer
that stops half-way, or that never comes.
"""

from __future__ import annotations

import logging
import select
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from enum import Enum
from http import HTTPStatus

from penstock.errors import ListenFailed
from penstock.testing.errors import LocalCloudError

log = logging.getLogger("penstock.testing")

HEAD_BYTES_MAX = 64 * 1024
# S3 takes parts of up to 5 GiB; what a test sends in one request should fit into memory.
BODY_BYTES_MAX = 1024**3
RECEIVE_BYTES = 256 * 1024
# Bodies above this are sent on their own: joining them to the head would copy them.
JOINED_BYTES_MAX = 64 * 1024
THREAD_END_TIMEOUT_S = 10.0
REASONS = {status.value: status.phrase for status in HTTPStatus}


@dataclass(slots=True)
class Request:
    """One request, read to its end. Header names are in lower case."""

    method: str
    # As it was sent: percent-encoded, without the query.
    path: str
    query: str
    headers: dict[str, str]
    body: bytes


class Cut(Enum):
    """Where an answer ends before its end; the connection is closed there."""

    NOT = "not"
    BEFORE_ANSWER = "before the answer"
    WITHIN_ANSWER = "within the answer"


@dataclass(slots=True)
class Response:
    """One answer."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    cut: Cut = Cut.NOT


class BadRequest(Exception):
    """The bytes are no HTTP request that this server can read."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class HttpServer:
    """Listens from `start` to `stop`; `stop` leaves neither a thread nor a socket behind."""

    def __init__(self, answer: Callable[[Request], Response], host: str, port: int) -> None:
        self._answer = answer
        self._wanted = (host, port)
        self._lock = threading.Lock()
        self._connections: dict[socket.socket, threading.Thread] = {}
        self._stopping = False
        # Answers that failed by a mistake of ours. A test must not take them for a fault it asked
        # for, so that stop() reports them.
        self._mistakes: list[Exception] = []

    @property
    def address(self) -> tuple[str, int]:
        host, port = self._listener.getsockname()[:2]
        return str(host), int(port)

    def start(self) -> None:
        self._listener = self._listen()
        self._wake, self._woken = socket.socketpair()
        self._acceptor = threading.Thread(
            target=self._accept, name="local-cloud-accept", daemon=True
        )
        self._acceptor.start()

    def stop(self) -> None:
        """Close everything; whoever waits for an answer sees its connection end."""
        self._stopping = True
        self._wake.send(b"x")
        self._acceptor.join()
        for closing in (self._listener, self._wake, self._woken):
            closing.close()
        with self._lock:
            connections = dict(self._connections)
        for connection in connections:
            _shut(connection)
        for thread in connections.values():
            thread.join(THREAD_END_TIMEOUT_S)
            if thread.is_alive():
                raise LocalCloudError(f"the thread {thread.name} did not end")
        if self._mistakes:
            raise LocalCloudError(
                f"{len(self._mistakes)} requests failed inside the local cloud; the first one: "
                f"{self._mistakes[0]!r}"
            ) from self._mistakes[0]

    def _listen(self) -> socket.socket:
        host, port = self._wanted
        try:
            return socket.create_server((host, port), backlog=512)
        except OSError as error:
            raise ListenFailed(
                f"Cannot listen on {host}:{port}: {error.strerror}; choose another port"
            ) from error

    def _accept(self) -> None:
        # A socket to be woken by: closing a listener does not end an accept() on every system.
        while self._woken not in select.select([self._listener, self._woken], [], [])[0]:
            connection, (_, port, *_) = self._listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            thread = threading.Thread(
                target=self._serve, args=(connection,), name=f"local-cloud-{port}", daemon=True
            )
            with self._lock:
                self._connections[connection] = thread
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection:
                self._converse(connection)
        except (ConnectionError, TimeoutError):
            # The client went away, as clients under test do. Nobody is left to be told.
            log.debug("A client went away in the middle of a request.")
        finally:
            with self._lock:
                del self._connections[connection]

    def _converse(self, connection: socket.socket) -> None:
        reader = _Reader(connection)
        while not self._stopping:
            try:
                request = reader.next_request()
            except BadRequest as error:
                text = f"{error}\n".encode()
                _send(connection, Response(error.status, text), is_head=False, is_last=True)
                return
            if request is None:
                return
            response = self._answer_or_confess(request)
            is_last = request.headers.get("connection", "").lower() == "close"
            sent = _send(connection, response, is_head=request.method == "HEAD", is_last=is_last)
            if is_last or not sent:
                return

    def _answer_or_confess(self, request: Request) -> Response:
        try:
            return self._answer(request)
        except Exception as error:
            log.exception("The local cloud failed on %s %s.", request.method, request.path)
            self._mistakes.append(error)
            return Response(500, f"The local cloud made a mistake: {error!r}\n".encode())


class _Reader:
    """Turns what a connection receives into requests."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._buffer = bytearray()

    def next_request(self) -> Request | None:
        """The next request; None when the client closed between two requests."""
        head = self._take_head()
        if head is None:
            return None
        request = parsed_head(head)
        if request.headers.get("expect", "").lower() == "100-continue":
            self._connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        if "chunked" in request.headers.get("transfer-encoding", "").lower():
            request.body = self._take_chunks()
        else:
            request.body = self._take(_content_length(request))
        return request

    def _take_head(self) -> str | None:
        searched = 0
        while (end := self._buffer.find(b"\r\n\r\n", searched)) < 0:
            if len(self._buffer) > HEAD_BYTES_MAX:
                raise BadRequest(431, f"The head of a request has at most {HEAD_BYTES_MAX} bytes.")
            searched = max(0, len(self._buffer) - 3)
            if not self._receive():
                if self._buffer:
                    raise ConnectionResetError("closed within a head")
                return None
        head = self._buffer[:end].decode("latin-1")
        del self._buffer[: end + 4]
        return head

    def _take_chunks(self) -> bytes:
        chunks: list[bytes] = []
        size = 0
        while length := _chunk_length(self._take_line()):
            size += length
            if size > BODY_BYTES_MAX:
                raise BadRequest(413, f"A body has at most {BODY_BYTES_MAX} bytes.")
            chunks.append(self._take(length))
            if self._take_line():
                raise BadRequest(400, "A chunk is longer than it says.")
        while self._take_line():  # trailing headers say nothing that the services here need
            continue
        return b"".join(chunks)

    def _take_line(self) -> bytes:
        while (end := self._buffer.find(b"\r\n")) < 0:
            if len(self._buffer) > HEAD_BYTES_MAX:
                raise BadRequest(400, "A line within a body never ends.")
            self._receive_more()
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        return line

    def _take(self, size: int) -> bytes:
        missing = size - len(self._buffer)
        if missing <= 0:
            taken = bytes(self._buffer[:size])
            del self._buffer[:size]
            return taken
        body = self._buffer + bytes(missing)
        self._buffer = bytearray()
        unfilled = memoryview(body)[-missing:]
        while unfilled:
            count = self._connection.recv_into(unfilled)
            if not count:
                raise ConnectionResetError("closed within a body")
            unfilled = unfilled[count:]
        return bytes(body)

    def _receive_more(self) -> None:
        if not self._receive():
            raise ConnectionResetError("closed within a body")

    def _receive(self) -> int:
        data = self._connection.recv(RECEIVE_BYTES)
        self._buffer += data
        return len(data)


def parsed_head(head: str) -> Request:
    """A request without its body. A header that comes twice has both values, with a comma."""
    first, *lines = head.split("\r\n")
    try:
        method, target, version = first.split(" ")
    except ValueError:
        raise BadRequest(400, "The first line is no HTTP request line.") from None
    if version not in ("HTTP/1.1", "HTTP/1.0"):
        raise BadRequest(505, "This server speaks HTTP/1.1.")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or name != name.strip():
            raise BadRequest(400, "A header is not of the form `name: value`.")
        name, value = name.lower(), value.strip()
        headers[name] = f"{headers[name]},{value}" if name in headers else value
    if version == "HTTP/1.0":
        headers["connection"] = "close"
    path, _, query = target.partition("?")
    return Request(method, path, query, headers, b"")


def _content_length(request: Request) -> int:
    text = request.headers.get("content-length", "0")
    if not (text.isascii() and text.isdigit()):
        raise BadRequest(400, "Content-Length is not a number.")
    length = int(text)
    if length > BODY_BYTES_MAX:
        raise BadRequest(413, f"A body has at most {BODY_BYTES_MAX} bytes.")
    return length


def _chunk_length(line: bytes) -> int:
    try:
        return int(line.partition(b";")[0], 16)
    except ValueError:
        raise BadRequest(400, "A chunk has no length.") from None


def _send(connection: socket.socket, response: Response, *, is_head: bool, is_last: bool) -> bool:
    """Send an answer as far as it goes; False when the connection is then to be closed."""
    if response.cut is Cut.BEFORE_ANSWER:
        return False
    body = b"" if is_head else response.body
    head = _head(response, is_last=is_last)
    if response.cut is Cut.WITHIN_ANSWER:
        connection.sendall(head + body[: len(body) // 2])
        return False
    if len(body) <= JOINED_BYTES_MAX:
        connection.sendall(head + body)
    else:
        connection.sendall(head)
        connection.sendall(body)
    return True


def _head(response: Response, *, is_last: bool) -> bytes:
    lines = [f"HTTP/1.1 {response.status} {REASONS.get(response.status, 'Unknown')}"]
    lines += [f"{name}: {value}" for name, value in response.headers.items()]
    # SDKs compare their clocks with it.
    lines.append(f"date: {formatdate(usegmt=True)}")
    if "content-length" not in response.headers and response.status != HTTPStatus.NO_CONTENT:
        lines.append(f"content-length: {len(response.body)}")
    if is_last:
        lines.append("connection: close")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _shut(connection: socket.socket) -> None:
    """Wake the thread that reads from a connection."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        # The client or the thread itself was faster: the connection is closed already.
        log.debug("A connection was closed before the local cloud closed it.")
