"""A client that can also misbehave: a plain socket and the protocol package, nothing in between."""

from __future__ import annotations

import socket
import uuid
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import cbor2

from penstock.block import Block
from penstock.protocol.framing import FrameDecoder, frame
from penstock.protocol.operations import Extension, Operation

# Nothing a server does takes this long; a test that waits for an answer in vain says so.
ANSWER_TIMEOUT_S = 20.0
ALL_EXTENSIONS = (Extension.APPEND_MESSAGES, Extension.READ_BLOCKS)


@dataclass(frozen=True)
class Answer:
    """A frame from the server."""

    operation: int
    values: dict[str, Any]

    @property
    def status(self) -> int:
        return int(self.values["status"])

    @property
    def text(self) -> str:
        return str(self.values.get("errorMessage", ""))

    @property
    def request_id(self) -> str:
        return str(self.values["requestId"])

    @property
    def sequence(self) -> int:
        return int(self.values["sequenceNumber"])

    @property
    def payloads(self) -> list[bytes]:
        return [message["payload"] for message in self.values["messages"]]

    @property
    def sequences(self) -> list[int]:
        return [message["sequenceNumber"] for message in self.values["messages"]]

    @property
    def blocks(self) -> list[Block]:
        names = ("firstSequenceNumber", "previousChecksum", "index", "data")
        return [Block(*(block[name] for name in names)) for block in self.values["blocks"]]


class RawClient:
    """One connection. Without `handshake` nothing is sent until a test does."""

    def __init__(
        self,
        port: int,
        *,
        handshake: bool = True,
        extensions: Iterable[str] = (),
        receive_buffer_bytes: int | None = None,
        **connect_fields: Any,
    ) -> None:
        self.socket = socket.socket()
        if receive_buffer_bytes is not None:
            # Before connecting, because the window is agreed on there.
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.settimeout(ANSWER_TIMEOUT_S)
        try:
            self.socket.connect(("127.0.0.1", port))
        except OSError:
            self.socket.close()
            raise
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._decoder = FrameDecoder()
        self._arrived: deque[Answer] = deque()
        self._version_seen = False
        if handshake:
            self.send(hello(penstock=list(extensions) or None, **connect_fields))
            self.connected = self.next_answer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    # --- bytes ----------------------------------------------------------------------------------

    def send(self, *data: bytes) -> None:
        self.socket.sendall(b"".join(data))

    def dribble(self, data: bytes, piece_bytes: int = 1) -> None:
        """Send in small pieces, each in a packet of its own."""
        for start in range(0, len(data), piece_bytes):
            self.socket.sendall(data[start : start + piece_bytes])

    def read_some(self, byte_count: int = 1 << 18) -> bool:
        """Read at most this many bytes; whether there was anything before the end."""
        data = self.socket.recv(byte_count)
        if not data:
            return False
        if not self._version_seen:
            assert data[:1] == b"\x01", f"the server began with byte {data[0]}"
            self._version_seen = True
            data = data[1:]
        for operation, payload in self._decoder.feed(data):
            assert isinstance(payload, bytes)
            values = cbor2.loads(payload)
            assert isinstance(values, dict)
            self._arrived.append(Answer(operation, values))
        return True

    def at_end(self) -> bool:
        """Whether the server closed the connection without another frame; waits for it."""
        return not self._arrived and not self.read_some()

    @contextmanager
    def patience(self, seconds: float) -> Iterator[None]:
        """Wait no longer than this for bytes; TimeoutError if none come."""
        self.socket.settimeout(seconds)
        try:
            yield
        finally:
            self.socket.settimeout(ANSWER_TIMEOUT_S)

    # --- frames ---------------------------------------------------------------------------------

    def next_answer(self) -> Answer:
        """The next frame, whoever it is for."""
        while not self._arrived:
            assert self.read_some(), "the server closed the connection instead of answering"
        return self._arrived.popleft()

    def answers(self, count: int) -> list[Answer]:
        return [self.next_answer() for _ in range(count)]

    def hears_nothing_for(self, seconds: float) -> bool:
        try:
            with self.patience(seconds):
                return not self._arrived and not self.read_some()
        except TimeoutError:
            return True

    # --- requests -------------------------------------------------------------------------------

    def ask(self, operation: int, request_id: str | None = None, **fields: Any) -> str:
        """Send a request and do not wait; the answer is its id."""
        request_id = request_id or str(uuid.uuid4())
        self.send(request(operation, request_id, **fields))
        return request_id

    def call(self, operation: int, **fields: Any) -> Answer:
        """Send a request and wait for its answer, which must be the next frame."""
        request_id = self.ask(operation, **fields)
        answer = self.next_answer()
        assert answer.request_id == request_id
        return answer

    def done(self, operation: int, **fields: Any) -> Answer:
        """A call that must succeed."""
        answer = self.call(operation, **fields)
        assert answer.status == 0, f"status {answer.status}: {answer.text}"
        return answer

    def create(self, name: str, **definition: Any) -> None:
        definition = {"name": name, "strategyOnFull": 0, **definition}
        self.done(Operation.CreateMessageStream, definition=definition)

    def append(self, name: str, *payloads: bytes) -> list[int]:
        """Append one after another; their numbers."""
        return [
            self.done(Operation.AppendMessage, name=name, payload=payload).sequence
            for payload in payloads
        ]

    def append_many(self, name: str, payloads: Iterable[bytes]) -> list[int]:
        """Append pipelined; their numbers."""
        frames = [append_frame(name, payload) for payload in payloads]
        self.send(*frames)
        answers = self.answers(len(frames))
        assert [answer.text for answer in answers if answer.status] == []
        return [answer.sequence for answer in answers]

    def read(self, name: str, start: int = 0, count: int = 1, **options: Any) -> Answer:
        """Read `count` messages, no fewer."""
        options = read_options(start, count, **options)
        return self.call(Operation.ReadMessages, streamName=name, readMessagesOptions=options)

    def ask_to_read(self, name: str, start: int = 0, count: int = 1, **options: Any) -> str:
        options = read_options(start, count, **options)
        return self.ask(Operation.ReadMessages, streamName=name, readMessagesOptions=options)

    def describe(self, name: str) -> dict[str, Any]:
        answer = self.done(Operation.DescribeMessageStream, name=name)
        info: dict[str, Any] = answer.values["messageStreamInfo"]
        return info

    def is_served(self) -> bool:
        """Whether this connection still works."""
        return self.call(Operation.ListStreams).status == 0


def hello(**changes: Any) -> bytes:
    """The version byte and a Connect frame; None leaves a field out."""
    values = {"requestId": "connect", "protocolVersion": "1.1.0", "sdkVersion": "1.1.2", **changes}
    known = {name: value for name, value in values.items() if value is not None}
    return b"\x01" + frame(Operation.Connect, cbor2.dumps(known))


def request(operation: int, request_id: str, **fields: Any) -> bytes:
    return frame(operation, cbor2.dumps({"requestId": request_id, **fields}))


def append_frame(name: str, payload: bytes, request_id: str = "append") -> bytes:
    return request(Operation.AppendMessage, request_id, name=name, payload=payload)


def read_options(start: int, count: int, **options: Any) -> dict[str, Any]:
    wanted = {"minMessageCount": count, "maxMessageCount": count, **options}
    known = {name: value for name, value in wanted.items() if value is not None}
    return {"desiredStartSequenceNumber": start, **known}
