"""Receivers for exports that cost as little as they can: count messages, answer, forget."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

import uvloop

HEAD_END = b"\r\n\r\n"
LENGTH_FIELD = b"content-length:"
# Occurs once in each message of a JSON batch: payloads are in base64.
MESSAGE_SIGN = b'"sequenceNumber"'
WAIT_STEP_S = 0.001


class Manner(IntEnum):
    """What a receiver does with a request. The value is the status of its answer."""

    HANG = 0  # never answers
    ACCEPT = 200
    REFUSE = 400  # for what is in it: the exporter halves the request until it is a single message
    FAIL = 503  # for a reason that passes: the exporter pauses


class Receiver:
    """One address, and what came there so far.

    The memory is shared with its process: messages accepted, last arrival, manner.
    """

    def __init__(self, port: int, shared: Any) -> None:
        self.url = f"http://127.0.0.1:{port}/"
        self._shared = shared

    @property
    def message_count(self) -> int:
        """How many it accepted."""
        return int(self._shared[0])

    @property
    def last_arrival(self) -> float:
        """When the last request was complete, by time.monotonic(), which all processes share."""
        return float(self._shared[1])

    def behave(self, manner: Manner) -> None:
        """From its next request on."""
        self._shared[2] = manner


class Sink:
    """Receivers that share a process."""

    def __init__(self, receivers: Sequence[Receiver]) -> None:
        self.receivers = receivers

    @property
    def message_count(self) -> int:
        return sum(each.message_count for each in self.receivers)

    @property
    def last_arrival(self) -> float:
        return max(each.last_arrival for each in self.receivers)

    def wait_for(self, count: int, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while self.message_count < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.message_count} of {count} messages in {timeout_s} s")
            time.sleep(WAIT_STEP_S)


@contextmanager
def sink_process(receiver_count: int = 1) -> Iterator[Sink]:
    """Receivers in a process of their own, so that they compete like a stranger."""
    # Not forked: a fork would inherit the threads' locks of whoever measures.
    context = multiprocessing.get_context("spawn")
    shared = [context.Array("d", (0, 0, Manner.ACCEPT), lock=False) for _ in range(receiver_count)]
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(shared, sending), daemon=True)
    process.start()
    sending.close()  # else a process that could not start would be waited for, for ever
    try:
        yield Sink([Receiver(*each) for each in zip(receiving.recv(), shared, strict=True)])
    finally:
        process.terminate()
        process.join()


def _serve(shared: Sequence[Any], ports: Any) -> None:
    async def listener(each: Any) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        return await loop.create_server(lambda: Connection(each), "127.0.0.1", 0, backlog=1024)

    async def serve() -> None:
        servers = [await listener(each) for each in shared]
        ports.send([server.sockets[0].getsockname()[1] for server in servers])
        await asyncio.Event().wait()  # until the process is ended

    uvloop.run(serve())


class Connection(asyncio.Protocol):
    """Requests with a Content-Length, one after another, none before the last was answered."""

    def __init__(self, shared: Any) -> None:
        self._shared = shared
        self._parts: list[bytes] = []
        self._received_bytes = 0
        self._request_bytes: int | None = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._parts.append(data)
        self._received_bytes += len(data)
        if self._request_bytes is None:
            self._request_bytes = request_bytes(b"".join(self._parts))
        if self._received_bytes == self._request_bytes:
            self._take(b"".join(self._parts))

    def _take(self, request: bytes) -> None:
        self._parts, self._received_bytes, self._request_bytes = [], 0, None
        self._shared[1] = time.monotonic()
        manner = int(self._shared[2])
        if manner == Manner.ACCEPT:
            self._shared[0] += request.count(MESSAGE_SIGN)
        if manner != Manner.HANG:
            self._transport.write(b"HTTP/1.1 %d As told\r\ncontent-length: 0\r\n\r\n" % manner)


def request_bytes(begun: bytes) -> int | None:
    """How long a request is; None while its head is not complete."""
    head, end, _ = begun.partition(HEAD_END)
    if not end:
        return None
    length = int(head.lower().partition(LENGTH_FIELD)[2].partition(b"\r")[0])
    return len(head) + len(end) + length
