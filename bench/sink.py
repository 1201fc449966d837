"""A receiver for exports that costs as little as it can: counts messages, answers, forgets."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import uvloop

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
HEAD_END = b"\r\n\r\n"
LENGTH_FIELD = b"content-length:"
# Occurs once in each message of a JSON batch: payloads are in base64.
MESSAGE_SIGN = b'"sequenceNumber"'
WAIT_STEP_S = 0.001


class Sink:
    """What the receiver's process has seen so far. The memory is shared with it."""

    def __init__(self, port: int, seen: Sequence[float]) -> None:
        self.url = f"http://127.0.0.1:{port}/"
        self._seen = seen

    @property
    def message_count(self) -> int:
        return int(self._seen[0])

    @property
    def last_arrival(self) -> float:
        """When the last request was complete, by time.monotonic(), which all processes share."""
        return self._seen[1]

    def wait_for(self, count: int, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while self.message_count < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.message_count} of {count} messages in {timeout_s} s")
            time.sleep(WAIT_STEP_S)


@contextmanager
def sink_process() -> Iterator[Sink]:
    """A receiver in a process of its own, so that it competes like a stranger."""
    # Not forked: a fork would inherit the threads' locks of whoever measures.
    context = multiprocessing.get_context("spawn")
    seen = context.Array("d", 2, lock=False)
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(seen, sending), daemon=True)
    process.start()
    try:
        yield Sink(receiving.recv(), seen)
    finally:
        process.terminate()
        process.join()


def _serve(seen: Any, ports: Any) -> None:
    async def serve() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Connection(seen), "127.0.0.1", 0, backlog=1024)
        ports.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    uvloop.run(serve())


class Connection(asyncio.Protocol):
    """Requests with a Content-Length, one after another, none before the last was answered."""

    def __init__(self, seen: Any) -> None:
        self._seen = seen
        self._begin()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._parts.append(data)
        self._received_bytes += len(data)
        if self._request_bytes is None:
            self._request_bytes = request_bytes(b"".join(self._parts))
        if self._received_bytes == self._request_bytes:
            self._take(b"".join(self._parts))

    def _begin(self) -> None:
        self._parts: list[bytes] = []
        self._received_bytes = 0
        self._request_bytes: int | None = None

    def _take(self, request: bytes) -> None:
        self._begin()
        self._seen[1] = time.monotonic()
        self._seen[0] += request.count(MESSAGE_SIGN)
        self._transport.write(ANSWER)


def request_bytes(begun: bytes) -> int | None:
    """How long a request is; None while its head is not complete."""
    head, end, _ = begun.partition(HEAD_END)
    if not end:
        return None
    length = int(head.lower().partition(LENGTH_FIELD)[2].partition(b"\r")[0])
    return len(head) + len(end) + length
