"""Many appends, one write; many flushes, one sync."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.errors import (
    DiskFailed,
    InvalidRequestException,
    RequestPayloadTooLargeException,
    ResourceNotFoundException,
    ServerTimeoutException,
)
from penstock.protocol.codec import append_response
from penstock.protocol.operations import Operation
from penstock.streams.origins import Origin, Record
from penstock.streams.stream import End, Stream

if TYPE_CHECKING:
    from penstock.server.reads import Reads
    from penstock.server.tcp import Session

log = logging.getLogger(__name__)

# Clients give up after 60 s, and a late answer kills AWS's Python SDK.
ANSWER_WITHIN_S = 55.0


class Reply:
    """Who waits for an append, and how to tell them."""

    __slots__ = ("answer", "operation", "request_id", "session", "since_s")

    def __init__(
        self, session: Session, operation: Operation, request_id: str, answer: bytes = b""
    ) -> None:
        self.session = session
        self.operation = operation
        self.request_id = request_id
        self.answer = answer
        self.since_s = 0.0  # waits for a sync since then

    def refuse(self, error: BaseException) -> None:
        self.session.refuse(self.operation, self.request_id, error)


class Writer:
    """The one who appends to a stream, on behalf of all connections."""

    def __init__(
        self,
        stream: Stream,
        reads: Reads,
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
        now_ms: Callable[[], int],
        on_shown: Callable[[Stream], None],
    ) -> None:
        self.stream = stream
        self.reads = reads
        self._loop = loop
        self._executor = executor
        self._now_ms = now_ms
        self._on_shown = on_shown
        self._payloads: list[bytes] = []
        self._waiting: list[tuple[Session, str]] = []
        self._unsynced: list[Reply] = []
        self._syncing: list[Reply] = []
        self._sync: asyncio.Future[None] | None = None
        # Where the log ended when everything in it had been told. Not kept up to date while nothing
        # needs a sync; see _remember_told.
        self._told_end: End | None = None
        self._deleted = False
        self._first_appended = stream.visible_next  # numbers from here on were given by this server
        self.refused_appends = 0

    @property
    def appended_messages(self) -> int:
        """Since the server started."""
        return self.stream.visible_next - self._first_appended

    @property
    def is_idle(self) -> bool:
        """Whether a message may be appended at once: nothing is before it, nothing has to wait."""
        return not self._payloads and not self.stream.definition.flush_on_write

    def append(self, session: Session, request_id: str, payload: bytes) -> None:
        """Append one message with everything else that arrives in this turn."""
        if not self._payloads:
            self._loop.call_soon(self.flush)
        self._payloads.append(payload)
        self._waiting.append((session, request_id))

    def append_alone(self, session: Session, request_id: str, payload: bytes) -> None:
        """Append one message and answer at once; not for streams that flush on write.

        What a client sees that waits for each answer: no list, no object, no turn of the loop.
        """
        size = len(payload)
        try:
            self.stream.check_size(size)
            sequence = self.stream.append(payload, (size,), self._now_ms())
        except Exception as error:  # noqa: BLE001  whatever it is, those who wait must be told
            self._after_refusal([payload], [(session, request_id)], error)
            return
        session.answer_now(append_response(request_id, sequence))
        self._show()

    def append_batch(
        self,
        session: Session,
        request_id: str,
        data: bytes,
        sizes: Sequence[int],
        answer: Callable[[int], bytes],
    ) -> None:
        """Append many messages, all or none. Raises what refuses them."""
        first = self._append_after_others(data, sizes)
        reply = Reply(session, Operation.AppendMessagesResponse, request_id, answer(first))
        self._appended([reply])

    def append_once(
        self,
        session: Session,
        request_id: str,
        origin: Origin,
        data: bytes,
        sizes: Sequence[int],
        answer: Callable[[Record, int], bytes],
    ) -> None:
        """The same for an append that may have come before: then it waits for the same sync."""
        self.flush()
        with self._counting_a_refusal():
            self.stream.check_size(max(sizes))
            self._remember_told()
            record, stored_count = self.stream.append_once(origin, data, sizes, self._now_ms())
        answered = answer(record, stored_count)
        self._appended([Reply(session, Operation.AppendOnceResponse, request_id, answered)])

    def append_own(self, payload: bytes) -> None:
        """Append a message of the server itself, for which nobody waits. Raises what refuses it."""
        self._append_after_others(payload, (len(payload),))
        self._appended([])

    def flush(self) -> None:
        """Write what is waiting, now."""
        if not self._payloads:
            return
        payloads, waiting = self._payloads, self._waiting
        self._payloads, self._waiting = [], []
        if len(payloads) == 1 and not self.stream.definition.flush_on_write:
            self.append_alone(*waiting[0], payloads[0])
            return
        sizes = list(map(len, payloads))
        self._remember_told()
        try:
            self.stream.check_size(max(sizes))
            data = payloads[0] if len(payloads) == 1 else b"".join(payloads)
            first = self.stream.append(data, sizes, self._now_ms())
        except Exception as error:  # noqa: BLE001  whatever it is, those who wait must be told
            self._after_refusal(payloads, waiting, error)
            return
        if self.stream.definition.flush_on_write:
            self._appended(
                [
                    Reply(session, Operation.AppendMessageResponse, request_id, answer)
                    for (session, request_id), answer in zip(
                        waiting, _answers(waiting, first), strict=True
                    )
                ]
            )
            return
        for (session, _), answer in zip(waiting, _answers(waiting, first), strict=True):
            session.answer(answer)
        self._show()

    async def settled(self) -> None:
        """Everything that was taken is written and answered."""
        self.flush()
        while self._sync is not None:
            await asyncio.wait([self._sync])

    def check_deadline(self, now_s: float) -> None:
        """Tell those who wait for a disk that hangs, before they give up by themselves."""
        begun_before_s = now_s - ANSWER_WITHIN_S
        self.reads.check_deadline(begun_before_s)
        waiting = self._syncing + self._unsynced
        late = [reply for reply in waiting if reply.since_s < begun_before_s]
        if not late:
            return
        log.error("Stream %s: the disk is too slow for %d appends.", self.stream.name, len(late))
        self._syncing = [reply for reply in self._syncing if reply.since_s >= begun_before_s]
        self._unsynced = [reply for reply in self._unsynced if reply.since_s >= begun_before_s]
        for reply in late:
            reply.refuse(
                ServerTimeoutException(
                    f"the disk of stream {self.stream.name} did not finish in time; the message "
                    f"may or may not be stored"
                )
            )

    def delete(self) -> None:
        """The stream is gone, with everything that was about to be in it."""
        self._deleted = True
        self.reads.stream_deleted()
        error = ResourceNotFoundException(f"stream {self.stream.name} was deleted")
        for reply in self._take_replies():
            reply.refuse(error)

    def _append_after_others(self, data: bytes, sizes: Sequence[int]) -> int:
        self.flush()
        with self._counting_a_refusal():
            self.stream.check_size(max(sizes))
            self._remember_told()
            return self.stream.append(data, sizes, self._now_ms())

    @contextmanager
    def _counting_a_refusal(self) -> Iterator[None]:
        try:
            yield
        except Exception:  # whatever it was, it was refused; who asked is told the reason
            self.refused_appends += 1
            raise

    def _after_refusal(
        self,
        payloads: list[bytes],
        waiting: list[tuple[Session, str]],
        error: Exception,
    ) -> None:
        if len(payloads) > 1 and isinstance(
            error, (InvalidRequestException, RequestPayloadTooLargeException)
        ):
            # Together they do not fit; by itself each may.
            for payload, waiter in zip(payloads, waiting, strict=True):
                self._payloads, self._waiting = [payload], [waiter]
                self.flush()
            return
        failure = self._disk_failure(error)
        self.refused_appends += len(waiting)
        for session, request_id in waiting:
            session.refuse(Operation.AppendMessageResponse, request_id, failure)

    def _appended(self, replies: list[Reply]) -> None:
        if self.stream.definition.flush_on_write:
            now_s = self._loop.time()
            for reply in replies:
                reply.since_s = now_s
            self._unsynced += replies
            if self._sync is None:
                self._begin_sync()
            return
        for reply in replies:
            reply.session.answer(reply.answer)
        self._show()

    def _remember_told(self) -> None:
        """Before something is appended that may have to be taken back."""
        if self._told_end is None and self.stream.definition.flush_on_write:
            self._told_end = self.stream.log.end()

    def _show(self) -> None:
        self._told_end = None
        self.stream.show_appended(self.stream.log.next_sequence)
        self.reads.wake()
        self._on_shown(self.stream)

    def _begin_sync(self) -> None:
        self._syncing, self._unsynced = self._unsynced, []
        end = self.stream.log.end()
        try:
            work = self.stream.log.begin_sync()
        except OSError as error:
            self._sync_failed(error)
            return
        self._sync = self._loop.run_in_executor(self._executor, work)
        self._sync.add_done_callback(lambda done: self._sync_ended(done, end))

    def _sync_ended(self, done: asyncio.Future[None], end: End) -> None:
        self._sync = None
        error = done.exception()
        if error is not None:
            self._sync_failed(error)
            return
        self._told_end = end
        replies, self._syncing = self._syncing, []
        for reply in replies:
            reply.session.answer(reply.answer)
        if not self._deleted:
            self.stream.show_appended(end.next_sequence)
            self.reads.wake()
            self._on_shown(self.stream)
            if self.stream.log.next_sequence > end.next_sequence or self._unsynced:
                self._begin_sync()

    def _sync_failed(self, error: BaseException) -> None:
        """After a failed sync nobody knows what is on the disk: take back all that was not told."""
        failure = self._disk_failure(error)
        replies = self._take_replies()
        self.refused_appends += len(replies)
        for reply in replies:
            reply.refuse(failure)
        if not self._deleted and self._told_end is not None:
            self.stream.take_back_hidden(self._told_end)

    def _take_replies(self) -> list[Reply]:
        """All who wait for a sync; from now on somebody else looks after them."""
        replies = self._syncing + self._unsynced
        self._syncing, self._unsynced = [], []
        return replies

    def _disk_failure(self, error: BaseException) -> BaseException:
        """What to tell those whose messages the disk did not take; the operator is told here."""
        if isinstance(error, OSError):
            error = DiskFailed(f"{self.stream.folder}: {error}")
        if isinstance(error, DiskFailed):
            log.error("Stream %s: the disk refused an append: %s", self.stream.name, error)
        return error


def _answers(waiting: list[tuple[Session, str]], first: int) -> list[bytes]:
    return [
        append_response(request_id, sequence)
        for sequence, (_, request_id) in enumerate(waiting, first)
    ]
