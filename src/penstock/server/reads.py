"""Reads that wait for messages, and large reads in a thread."""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_right
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.block import ENTRY, ENTRY_BYTES, Block, message_count
from penstock.errors import (
    InvalidRequestException,
    MessageStoreReadErrorException,
    NotEnoughMessagesException,
    ResourceNotFoundException,
    ResponsePayloadTooLargeException,
    ServerTimeoutException,
)
from penstock.protocol.framing import FRAME_LENGTH_MAX
from penstock.protocol.operations import Operation
from penstock.streams.stream import Stream

if TYPE_CHECKING:
    from penstock.server.tcp import Session

log = logging.getLogger(__name__)

# Clients may wait exactly as long as they told the server: answer a little earlier.
EARLY_MS = 50
# Longer waits end with "not enough messages" after this; no timer is good for centuries.
WAIT_MS_MAX = 30 * 24 * 3600 * 1000
# What an answer has besides its messages, and what each block adds to it, generously.
FRAME_HEAD_BYTES = 1024
BLOCK_HEAD_BYTES = 128

Encoder = Callable[[str, str, Sequence[Block]], Sequence[bytes]]
Frame = Sequence[bytes]


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
    overhead_bytes: int  # of a message in the answer, besides its payload
    timer: asyncio.TimerHandle | None = None

    def refuse(self, error: BaseException) -> None:
        self.session.refuse(self.operation, self.request_id, error)


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
        self._in_threads: dict[Read, float] = {}  # since when
        self._deleted = False

    def begin(self, read: Read) -> None:
        """Answer now, or when there are enough messages, or that there are not."""
        if self._stream.available_from(read.start) >= read.count_min:
            self._fetch_in_turn(read)
        elif read.timeout_ms == 0:
            read.refuse(self._not_enough(read))
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
            self._fetch_in_turn(read)
        self._note_wake_at()

    def forget(self, session: Session) -> None:
        """A client is gone."""
        for read in [read for read in self._waiting if read.session is session]:
            self._stop_waiting(read)

    def stream_deleted(self) -> None:
        self._deleted = True
        in_threads, self._in_threads = self._in_threads, {}
        for read in in_threads:
            read.refuse(self._was_deleted())
        for read in list(self._waiting):
            self._stop_waiting(read)
            read.refuse(self._was_deleted())

    def server_stops(self) -> None:
        for read in list(self._waiting):
            self._stop_waiting(read)
            read.refuse(NotEnoughMessagesException("the server is stopping; read again later"))

    def check_deadline(self, begun_before_s: float) -> None:
        """Tell those who wait for a disk that hangs, before they give up by themselves."""
        late = [read for read, since_s in self._in_threads.items() if since_s < begun_before_s]
        for read in late:
            del self._in_threads[read]
            read.refuse(
                ServerTimeoutException(
                    f"the disk of stream {self._stream.name} did not answer in time"
                )
            )
        if late:
            log.error(
                "Stream %s: the disk has not finished %d reads.", self._stream.name, len(late)
            )

    def _wait(self, read: Read) -> None:
        if not read.session.may_wait():
            read.refuse(
                InvalidRequestException(
                    f"{read.session.limits.waiting_reads_max} reads wait on this connection "
                    f"already; that is the limit (waiting_reads_max)"
                )
            )
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
        read.refuse(self._not_enough(read))

    def _note_wake_at(self) -> None:
        self._wake_at = min(
            (read.start + read.count_min for read in self._waiting), default=float("inf")
        )

    def _fetch_in_turn(self, read: Read) -> None:
        read.session.when_writable(lambda: self._fetch(read))

    def _fetch(self, read: Read) -> None:
        """Read what was asked for; if it is much, in a thread."""
        try:
            if self._deleted:
                raise self._was_deleted()
            available = self._stream.available_from(read.start)
            fitting = max(1, self._bytes_max // read.overhead_bytes)
            count_max = min(read.count_max, available, fitting)
            found = self._stream.read(read.start, count_max, self._bytes_max)
            if callable(found):
                self._fetch_in_thread(read, [], found)
            else:
                self._continue(read, found, self._frame(read, found))
        except Exception as error:  # noqa: BLE001  whatever it is, the reader must be told
            self._refuse(read, error)

    def _fetch_in_thread(
        self, read: Read, blocks: list[Block], fetch: Callable[[], list[Block]]
    ) -> None:
        def work() -> tuple[list[Block], Frame | None]:
            found = blocks + fetch()
            return found, self._frame(read, found)

        read.session.busy += 1
        self._in_threads[read] = self._loop.time()
        future = self._loop.run_in_executor(self._executor, work)
        future.add_done_callback(lambda done: self._fetched(read, done))

    def _fetched(self, read: Read, done: asyncio.Future[tuple[list[Block], Frame | None]]) -> None:
        read.session.busy -= 1
        if self._in_threads.pop(read, None) is not None:
            try:
                self._continue(read, *done.result())
            except Exception as error:  # noqa: BLE001  whatever it is, the reader must be told
                self._refuse(read, error)
        elif not done.cancelled():
            done.exception()  # the reader was told something else meanwhile
        read.session.writable_again()

    def _frame(self, read: Read, blocks: list[Block]) -> Frame | None:
        """The answer, in pieces, or None if the messages are too few. Any thread may ask."""
        if message_count(blocks) < read.count_min:
            return None
        frame_bytes_max = message_bytes_max(blocks)
        bytes_max = min(self._bytes_max, frame_bytes_max)
        blocks = fitting_blocks(blocks, read.count_min, bytes_max, read.overhead_bytes)
        if message_bytes(blocks, read.overhead_bytes) > frame_bytes_max:
            raise self._too_large(read)
        return read.encode(read.request_id, self._stream.name, blocks)

    def _continue(self, read: Read, blocks: list[Block], frame: Frame | None) -> None:
        if frame is not None:
            read.session.answer(*frame)
        else:
            self._fetch_more(read, blocks)

    def _fetch_more(self, read: Read, blocks: list[Block]) -> None:
        """The soft limit cut the answer below its minimum: only the frame limit counts now.

        Damage may have cut it too; then this read begins with the damage and says so. Or its turn
        came late and retention was faster.
        """
        if self._deleted:
            raise self._was_deleted()
        next_sequence = blocks[-1].next_sequence if blocks else read.start
        missing = read.count_min - message_count(blocks)
        used_bytes = message_bytes(blocks, read.overhead_bytes) + missing * read.overhead_bytes
        room_bytes = message_bytes_max(blocks) - used_bytes
        if room_bytes <= 0:
            raise self._too_large(read)
        if self._stream.available_from(next_sequence) < missing:
            raise self._not_enough(read)
        visible = self._stream.visible_next
        rest = self._stream.log.begin_read(next_sequence, visible, missing, room_bytes)
        self._fetch_in_thread(read, blocks, rest)

    def _refuse(self, read: Read, error: Exception) -> None:
        if isinstance(error, OSError):
            log.error("Stream %s cannot be read: %s", self._stream.name, error)
            error = MessageStoreReadErrorException(
                f"stream {self._stream.name} cannot be read: {error}"
            )
        read.refuse(error)

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

    def _too_large(self, read: Read) -> ResponsePayloadTooLargeException:
        return ResponsePayloadTooLargeException(
            f"{read.count_min} messages from {read.start} on of stream {self._stream.name} do not "
            f"fit a frame of {FRAME_LENGTH_MAX} bytes; ask for fewer"
        )

    def _was_deleted(self) -> ResourceNotFoundException:
        return ResourceNotFoundException(f"stream {self._stream.name} was deleted")


def message_bytes(blocks: Sequence[Block], overhead_bytes: int) -> int:
    """What these messages take in an answer."""
    payload_bytes = sum(len(block.data) for block in blocks)
    return payload_bytes + message_count(blocks) * overhead_bytes


def message_bytes_max(blocks: Sequence[Block]) -> int:
    """What the messages of that many blocks may take, so that the answer fits a frame."""
    return FRAME_LENGTH_MAX - FRAME_HEAD_BYTES - len(blocks) * BLOCK_HEAD_BYTES


def fitting_blocks(
    blocks: Sequence[Block], count_min: int, bytes_max: int, overhead_bytes: int
) -> list[Block]:
    """The first of these messages that fit an answer of `bytes_max`, but at least `count_min`."""
    fitting = []
    for block in blocks:
        count = max(count_min, fitting_count(block, bytes_max, overhead_bytes))
        if count < len(block):
            if count > 0:
                fitting.append(first_messages(block, count))
            break
        fitting.append(block)
        count_min -= len(block)
        bytes_max -= len(block.data) + len(block) * overhead_bytes
    return fitting


def fitting_count(block: Block, bytes_max: int, overhead_bytes: int) -> int:
    """How many messages from the start have at most `bytes_max` bytes together."""
    first = ENTRY.unpack_from(block.index)
    start: int = first[0] - first[2]

    def bytes_through(position: int) -> int:
        end: int = ENTRY.unpack_from(block.index, position * ENTRY_BYTES)[0]
        return end - start + (position + 1) * overhead_bytes

    return bisect_right(range(len(block)), bytes_max, key=bytes_through)


def first_messages(block: Block, count: int) -> Block:
    """The beginning of a block."""
    first = ENTRY.unpack_from(block.index)
    last = ENTRY.unpack_from(block.index, (count - 1) * ENTRY_BYTES)
    data_bytes = last[0] - (first[0] - first[2])
    return Block(
        block.first_sequence,
        block.previous_checksum,
        block.index[: count * ENTRY_BYTES],
        block.data[:data_bytes],
    )
