"""Reads that wait for messages, and large reads in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.block import Block, message_count
from penstock.errors import (
    InvalidRequestException,
    NotEnoughMessagesException,
    ResourceNotFoundException,
    ResponsePayloadTooLargeException,
)
from penstock.protocol.codec import read_response_overhead
from penstock.protocol.framing import FRAME_LENGTH_MAX
from penstock.protocol.operations import Operation
from penstock.streams.stream import Stream

if TYPE_CHECKING:
    from penstock.server.tcp import Session

# Clients may wait exactly as long as they told the server: answer a little earlier.
EARLY_MS = 50
# Longer waits end with "not enough messages" after this; no timer is good for centuries.
WAIT_MS_MAX = 30 * 24 * 3600 * 1000
FRAME_HEAD_BYTES = 1024

Encoder = Callable[[str, str, Sequence[Block]], Sequence[bytes]]


@dataclass(eq=False)
class Read:
    """One request to read."""

    session: Session
    operation: Operation
    request_id: str
    start: int
    count_min: int
    count_max: int
    timeout_ms: int
    encode: Encoder
    timer: asyncio.TimerHandle | None = None


class Reads:
    """The reads of one stream."""

    def __init__(
        self, stream: Stream, loop: asyncio.AbstractEventLoop, executor: Executor, bytes_max: int
    ) -> None:
        self._stream = stream
        self._loop = loop
        self._executor = executor
        self._bytes_max = bytes_max
        self._waiting: set[Read] = set()
        self._wake_at: float = float("inf")

    def begin(self, read: Read) -> None:
        """Answer now, or when there are enough messages, or that there are not."""
        if self._stream.available_from(read.start) >= read.count_min:
            self._fetch(read)
        elif read.timeout_ms == 0:
            read.session.refuse(read.operation, read.request_id, self._not_enough(read))
        else:
            self._wait(read)

    def wake(self) -> None:
        """There are more messages: answer those who have enough now."""
        if self._stream.visible_next < self._wake_at:
            return
        for read in [
            read
            for read in self._waiting
            if self._stream.available_from(read.start) >= read.count_min
        ]:
            self._stop_waiting(read)
            self._fetch(read)
        self._note_wake_at()

    def forget(self, session: Session) -> None:
        """A client is gone."""
        for read in [read for read in self._waiting if read.session is session]:
            self._stop_waiting(read)

    def stream_deleted(self) -> None:
        for read in list(self._waiting):
            self._stop_waiting(read)
            error = ResourceNotFoundException(f"stream {self._stream.name} was deleted")
            read.session.refuse(read.operation, read.request_id, error)

    def server_stops(self) -> None:
        for read in list(self._waiting):
            self._stop_waiting(read)
            error = NotEnoughMessagesException("the server is stopping; read again later")
            read.session.refuse(read.operation, read.request_id, error)

    def _wait(self, read: Read) -> None:
        if not read.session.may_wait():
            error = InvalidRequestException(
                f"{read.session.limits.waiting_reads_max} reads wait on this connection already; "
                f"that is the limit (waiting_reads_max)"
            )
            read.session.refuse(read.operation, read.request_id, error)
            return
        delay_s = max(0, min(read.timeout_ms, WAIT_MS_MAX) - EARLY_MS) / 1000
        read.timer = self._loop.call_later(delay_s, self._time_is_over, read)
        read.session.waiting_reads += 1
        self._waiting.add(read)
        self._wake_at = min(self._wake_at, read.start + read.count_min)

    def _stop_waiting(self, read: Read) -> None:
        self._waiting.discard(read)
        read.session.waiting_reads -= 1
        if read.timer is not None:
            read.timer.cancel()

    def _time_is_over(self, read: Read) -> None:
        self._stop_waiting(read)
        self._note_wake_at()
        read.session.refuse(read.operation, read.request_id, self._not_enough(read))

    def _note_wake_at(self) -> None:
        self._wake_at = min(
            (read.start + read.count_min for read in self._waiting), default=float("inf")
        )

    def _not_enough(self, read: Read) -> NotEnoughMessagesException:
        newest = self._stream.visible_next - 1
        if read.start > newest:
            return NotEnoughMessagesException(
                f"the desired start sequence number {read.start} is greater than the last sequence "
                f"number {newest} of stream {self._stream.name}"
            )
        return NotEnoughMessagesException(
            f"stream {self._stream.name} has {self._stream.available_from(read.start)} messages "
            f"from {read.start} on, fewer than minMessageCount {read.count_min}"
        )

    def _fetch(self, read: Read) -> None:
        read.session.when_writable(lambda: self._fetch_now(read))

    def _fetch_now(self, read: Read) -> None:
        try:
            found = self._stream.read(read.start, read.count_max, self._bytes_max)
        except Exception as error:  # noqa: BLE001  whatever it is, the reader must be told
            read.session.refuse(read.operation, read.request_id, error)
            return
        if not callable(found):
            self._answer(read, found)
            return
        read.session.busy += 1
        future = self._loop.run_in_executor(self._executor, found)
        future.add_done_callback(lambda done: self._fetched(read, done, self._answer))

    def _fetched(
        self,
        read: Read,
        done: asyncio.Future[list[Block]],
        then: Callable[[Read, list[Block]], None],
    ) -> None:
        read.session.busy -= 1
        error = done.exception()
        if error is not None:
            read.session.refuse(read.operation, read.request_id, error)
        else:
            then(read, done.result())
        read.session.writable_again()

    def _answer(self, read: Read, blocks: list[Block]) -> None:
        if message_count(blocks) < read.count_min:
            self._fetch_more(read, blocks)
        else:
            self._encode(read, blocks)

    def _fetch_more(self, read: Read, blocks: list[Block]) -> None:
        """The soft limit cut the answer below its minimum: only the frame limit counts now.

        Damage may have cut it too; then this read begins with the damage and says so.
        """
        overhead = read_response_overhead(self._stream.name) * read.count_min
        bytes_max = FRAME_LENGTH_MAX - FRAME_HEAD_BYTES - overhead
        missing = read.count_min - message_count(blocks)
        rest = self._stream.log.begin_read(
            blocks[-1].next_sequence,
            self._stream.visible_next,
            missing,
            bytes_max - sum(len(block.data) for block in blocks),
        )

        def finish(read: Read, more: list[Block]) -> None:
            fetched = sum(len(block.data) for block in blocks + more)
            if message_count(blocks + more) < read.count_min or fetched > bytes_max:
                read.session.refuse(
                    read.operation,
                    read.request_id,
                    ResponsePayloadTooLargeException(
                        f"{read.count_min} messages from {read.start} on of stream "
                        f"{self._stream.name} do not fit a frame of {FRAME_LENGTH_MAX} bytes; ask "
                        f"for fewer"
                    ),
                )
            else:
                self._encode(read, blocks + more)

        read.session.busy += 1
        future = self._loop.run_in_executor(self._executor, rest)
        future.add_done_callback(lambda done: self._fetched(read, done, finish))

    def _encode(self, read: Read, blocks: list[Block]) -> None:
        read.session.answer(*read.encode(read.request_id, self._stream.name, blocks))
