"""An HTTP service that does what a test tells it to, once, and what it always does otherwise."""

from __future__ import annotations

import json
import ssl
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Request:
    """What arrived."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    client_port: int

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Answer:
    """What goes back."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def json(cls, value: object, status: int = 200, **headers: str) -> Answer:
        return cls(status, json.dumps(value).encode(), headers)


@dataclass(frozen=True)
class Hang:
    """Read the request and never answer."""


@dataclass(frozen=True)
class Drip:
    """Answer one byte at a time, each within any timeout for a single read."""

    pause_s: float


@dataclass(frozen=True)
class Close:
    """Close the connection after so many bytes of the answer."""

    after_bytes: int = 0
    answer: Answer = field(default_factory=lambda: Answer(body=b"x" * 1000))


@dataclass(frozen=True)
class CloseQuietly:
    """Answer, then close the connection without having said that it would be."""

    answer: Answer = field(default_factory=Answer)


Deed = Answer | Hang | Drip | Close | CloseQuietly


class ScriptedService:
    """Runs while it is entered. `next` is done first, one deed per request; then `answer`."""

    def __init__(
        self,
        answer: Callable[[Request], Deed] = lambda _: Answer(),
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.answer = answer
        # Given at once to whoever asks, without reading what else he has to say.
        self.deaf_answer: Answer | None = None
        self.next: deque[Deed] = deque()
        self.requests: list[Request] = []
        self.stopped = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.service = self
        self.scheme = "http"
        if tls is not None:
            self.scheme = "https"
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def port(self) -> int:
        return self._server.server_port

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def deed_for(self, request: Request) -> Deed:
        self.requests.append(request)
        return self.next.popleft() if self.next else self.answer(request)

    def __enter__(self) -> ScriptedService:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    service: ScriptedService
    # Handlers of kept-alive connections wait for their clients, which tests close later.
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up are what these tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and body in one packet, as real services do
    server: _Server

    def do_POST(self) -> None:
        if self.server.service.deaf_answer is not None:
            self.wfile.write(self._bytes_of(self.server.service.deaf_answer))
            self.close_connection = True
            return
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.command, self.path, headers, body, self.client_address[1])
        deed = self.server.service.deed_for(request)
        match deed:
            case Answer():
                self.wfile.write(self._bytes_of(deed))
            case CloseQuietly():
                self.wfile.write(self._bytes_of(deed.answer))
                self.close_connection = True
            case Close():
                self.wfile.write(self._bytes_of(deed.answer)[: deed.after_bytes])
                self.close_connection = True
            case Hang():
                self.server.service.stopped.wait()
                self.close_connection = True
            case Drip():
                self._drip(deed.pause_s)

    do_PUT = do_POST
    do_GET = do_POST
    do_DELETE = do_POST
    do_CONNECT = do_POST

    def handle_expect_100(self) -> bool:
        """Say "go on" now: it would wait in the buffer, and botocore a second for it."""
        done = super().handle_expect_100()
        self.wfile.flush()
        return done

    def _drip(self, pause_s: float) -> None:
        for byte in self._bytes_of(Answer(body=b"slow")):
            if self.server.service.stopped.wait(pause_s):
                break
            self.wfile.write(bytes((byte,)))
            self.wfile.flush()
        self.close_connection = True

    def _bytes_of(self, answer: Answer) -> bytes:
        headers = {
            "Date": formatdate(usegmt=True),
            "Content-Length": str(len(answer.body)),
            **answer.headers,
        }
        lines = [f"HTTP/1.1 {answer.status} Because", *(f"{k}: {v}" for k, v in headers.items())]
        return "\r\n".join([*lines, "", ""]).encode() + answer.body

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet: the tests look at `requests`."""
