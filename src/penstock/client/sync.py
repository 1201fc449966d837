"""The client that blocks. Thread safe: any number of threads may share one."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from time import monotonic
from types import TracebackType
from typing import ClassVar, Self, TypeVar

from penstock.block import Block
from penstock.client import calls
from penstock.client.calls import (
    AppendedOnce,
    AppendedRange,
    Call,
    ExportsInfo,
    ExtensionMissing,
    PackedPayloads,
)
from penstock.client.endpoint import Backoff, endpoint_for, fresh
from penstock.client.fallback import PlainAppends, append_frames, portions
from penstock.client.following import Following, Start, survivable
from penstock.client.link import Link, Slot, dial
from penstock.errors import (
    ClientClosedException,
    ConnectFailedException,
    ConnectionLostException,
    NotEnoughMessagesException,
    RequestTimeoutException,
    StreamManagerException,
)
from penstock.export_model import DeadLetter
from penstock.model import (
    Message,
    MessageStreamDefinition,
    MessageStreamInfo,
    ReadMessagesOptions,
)
from penstock.observe_model import Observation
from penstock.protocol.codec import append_request
from penstock.protocol.operations import Extension, Operation
from penstock.survey_model import StoreSurvey
from penstock.transforms.reports import TransformView

Result = TypeVar("Result")


class StreamManagerClient:
    """Talks to a stream manager over one connection, which is made here and renewed when lost.

    Arguments that are not given come from STREAM_MANAGER_SERVER_HOST, STREAM_MANAGER_SERVER_PORT
    and AWS_CONTAINER_AUTHORIZATION_TOKEN; an empty variable counts as not set. Timeouts are in
    seconds: `connect_timeout` for reaching the server, `request_timeout` for each call.
    """

    EXTENSIONS: ClassVar[tuple[str, ...]] = Extension.CLIENTS

    def __init__(
        self,
        host: str | None = None,
        port: int | None = None,
        connect_timeout: float = 3,
        request_timeout: float = 60,
        logger: logging.Logger | None = None,
        *,
        auth_token: str | None = None,
    ) -> None:
        self._endpoint = replace(
            endpoint_for(host, port, auth_token, connect_timeout, request_timeout),
            extensions=self.EXTENSIONS,
        )
        self._request_timeout_s = self._endpoint.request_timeout_s
        self._logger = logger or logging.getLogger("penstock.client")
        self._names = calls.Names()
        self._request_ids = count(1)
        self._link: Link | None = None
        self._link_lock = threading.Lock()
        self._closed = threading.Event()
        # One thread connects, the others wait for what comes of it.
        self._connect_lock = threading.Lock()
        self._backoff = Backoff()
        self._attempt_count = 0
        self._attempt_failure: ConnectFailedException | None = None
        self._connect(monotonic() + self._endpoint.connect_timeout_s + self._request_timeout_s)

    # --- AWS's operations ----------------------------------------------------------------------

    def create_message_stream(self, definition: MessageStreamDefinition) -> None:
        """Create a stream. InvalidRequestException if the name is taken."""
        self._perform(calls.create_message_stream(definition))

    def update_message_stream(self, definition: MessageStreamDefinition) -> None:
        """Replace a stream's definition: what is not given falls back to its default."""
        self._perform(calls.update_message_stream(definition))

    def delete_message_stream(self, stream_name: str) -> None:
        """Delete a stream with all its messages."""
        self._perform(calls.delete_message_stream(stream_name))

    def describe_message_stream(self, stream_name: str) -> MessageStreamInfo:
        """The stream's definition, what it holds, and how far its exports got."""
        return self._perform(calls.describe_message_stream(stream_name))

    def list_streams(self) -> list[str]:
        """The names of all streams."""
        return self._perform(calls.list_streams())

    def append_message(self, stream_name: str, data: bytes) -> int:
        """Store one message; its sequence number."""
        encoded_name = self._names.encoded(stream_name)
        payload = calls.checked_payload(data)
        request_id = str(next(self._request_ids))
        frame = append_request(request_id, encoded_name, payload)
        deadline = monotonic() + self._request_timeout_s
        link, slot = self._begin(request_id, deadline)
        try:
            link.send(slot, frame, deadline)
            operation, values = link.answer(slot, deadline)
        finally:
            link.release(slot)
        return calls.appended(operation, values)

    def read_messages(
        self, stream_name: str, options: ReadMessagesOptions | None = None
    ) -> list[Message]:
        """Messages in ascending order, at least one; without options the oldest one.

        NotEnoughMessagesException if the minimum did not come within `read_timeout_millis`, which
        must not exceed the client's request timeout.
        """
        call = calls.read_messages(stream_name, options)
        calls.check_read_timeout(options, self._request_timeout_s)
        return self._perform(call)

    # --- beyond AWS ----------------------------------------------------------------------------

    def append_messages(self, stream_name: str, payloads: Iterable[bytes]) -> AppendedRange:
        """Store many messages with one request, all or none; the first and the last number.

        A server without batches gets them one by one: then an error can leave a part stored (its
        text says how much), and messages of others can stand in between.
        """
        checked = calls.checked_payloads(payloads)
        try:
            return self._perform(calls.append_messages(stream_name, checked))
        except ExtensionMissing:
            return self._append_one_by_one(stream_name, checked)

    def append_once(
        self,
        stream_name: str,
        payloads: Iterable[bytes] | PackedPayloads,
        *,
        writer: str,
        batch: int,
        chunk: int = 0,
    ) -> AppendedOnce:
        """Store many messages that may be sent again, and store them once.

        `writer` names who sends, for example a job and its part; its batches ascend, and so do the
        chunks of a batch. Send the next chunk when the one before is answered. After an error send
        the same messages under the same three again: what is stored already is not stored again.
        Of the last 10,000 writers of a stream the last chunk is remembered. Only for servers that
        offer this; UnknownOperationException from others.
        """
        return self._perform(calls.append_once(stream_name, payloads, writer, batch, chunk))

    def read_blocks(
        self, stream_name: str, options: ReadMessagesOptions | None = None
    ) -> list[Block]:
        """What read_messages reads, in the form in which it is stored: for large amounts."""
        call = calls.read_blocks(stream_name, options)
        calls.check_read_timeout(options, self._request_timeout_s)
        return self._perform(call)

    def follow(
        self, stream_name: str, start: Start = "oldest", max_message_count: int = 1000
    ) -> Iterator[Message]:
        """Every message from `start` on, waiting for new ones, until the client is closed.

        `start` is a sequence number, "oldest", or "newest" for what is appended from the first
        step of the iteration on. At most `max_message_count` messages are read at a time. A lost
        connection is made again as often as needed; other errors are raised.
        """
        following = Following(stream_name, start, max_message_count, self._request_timeout_s)
        calls.read_messages(stream_name, following.options())  # checks the arguments now, not later
        self._raise_if_closed()
        return self._followed(following)

    def describe_exports(self) -> ExportsInfo:
        """Every export's state, lag and troubles, and the process that does them."""
        return self._perform(calls.describe_exports())

    def find_dead_letters(
        self,
        stream_name: str | None = None,
        export_identifier: str | None = None,
        ids: Sequence[int] = (),
        after_id: int = 0,
        count_max: int = 100,
    ) -> list[DeadLetter]:
        """Messages that a destination refused for good, oldest first."""
        return self._perform(
            calls.find_dead_letters(stream_name, export_identifier, ids, after_id, count_max)
        )

    def replay_dead_letters(
        self,
        stream_name: str | None = None,
        export_identifier: str | None = None,
        ids: Sequence[int] = (),
    ) -> int:
        """Send dead letters again, all that fit what is given; how many."""
        return self._perform(
            calls.treat_dead_letters(
                Operation.ReplayDeadLetters, stream_name, export_identifier, ids
            )
        )

    def purge_dead_letters(
        self,
        stream_name: str | None = None,
        export_identifier: str | None = None,
        ids: Sequence[int] = (),
    ) -> int:
        """Throw dead letters away, all that fit what is given; how many."""
        return self._perform(
            calls.treat_dead_letters(
                Operation.PurgeDeadLetters, stream_name, export_identifier, ids
            )
        )

    def describe_transforms(self) -> list[TransformView]:
        """Every declared transform's state, lag and troubles."""
        return self._perform(calls.describe_transforms())

    def reset_transform(self, name: str, start: str = "earliest") -> int:
        """Have a transform begin again: at the earliest or latest message, or at a number.

        The old checkpoint is kept aside; the number of the new one is returned.
        """
        return self._perform(calls.reset_transform(name, start))

    def survey_streams(self) -> StoreSurvey:
        """What all streams hold, told without reading a payload, and the server's clock."""
        return self._perform(calls.survey_streams())

    def observe_server(self) -> Observation:
        """Everything that can be seen of a server at one moment: for consoles and metrics."""
        return self._perform(calls.observe_server())

    # --- life ----------------------------------------------------------------------------------

    def close(self) -> None:
        """End the connection. Calls that wait raise ClientClosedException, at once."""
        self._closed.set()
        with self._link_lock:
            if self._link is not None:
                self._link.end(_closed())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _raise_if_closed(self) -> None:
        if self._closed.is_set():
            raise _closed()

    # --- calls ---------------------------------------------------------------------------------

    def _perform(self, call: Call[Result]) -> Result:
        """One request and its answer."""
        request_id = str(next(self._request_ids))
        deadline = monotonic() + self._request_timeout_s
        link, slot = self._begin(request_id, deadline)
        try:
            call = call.suited(link.extensions)
            link.send(slot, call.frame(request_id), deadline)
            operation, values = link.answer(slot, deadline)
        finally:
            link.release(slot)
        return call.judge(operation, values)

    def _begin(self, request_id: str, deadline: float) -> tuple[Link, Slot]:
        """A slot on a connection that is good as far as one can see; nothing is sent yet."""
        link = self._link
        if link is not None:
            slot = link.register(request_id)
            if slot is not None:
                return link, slot
        link = self._reconnected(deadline)
        slot = link.register(request_id)
        if slot is None:
            # Once is enough: the next call tries again, after a pause.
            self._raise_if_closed()
            raise ConnectionLostException(
                f"{self._endpoint} hung up right after the handshake; the request was not sent"
            )
        return link, slot

    def _append_one_by_one(self, stream_name: str, payloads: list[bytes]) -> AppendedRange:
        encoded_name = self._names.encoded(stream_name)
        appends = PlainAppends(len(payloads))
        for portion in portions(payloads):
            request_ids = [str(next(self._request_ids)) for _ in portion]
            frames = append_frames(request_ids, encoded_name, portion)
            appends.add(self._append_outcomes(request_ids, frames))
        return AppendedRange(*appends.numbers())

    def _append_outcomes(
        self, request_ids: list[str], frames: bytes
    ) -> list[int | StreamManagerException]:
        """Send appends together, then wait for each."""
        deadline = monotonic() + self._request_timeout_s
        link, first = self._begin(request_ids[0], deadline)
        slots = deque([first])
        try:
            slots.extend(link.add(request_id) for request_id in request_ids[1:])
            link.send(first, frames, deadline)
            outcomes = []
            while slots:
                outcomes.append(_append_outcome(link, slots[0], deadline))
                link.release(slots.popleft())
            return outcomes
        finally:
            for slot in slots:
                link.release(slot)

    def _followed(self, following: Following) -> Iterator[Message]:
        while True:
            try:
                messages = self._next_messages(following)
            except ClientClosedException:
                return
            yield from messages

    def _next_messages(self, following: Following) -> list[Message]:
        """One step of a follower; nothing came, or the server is away: an empty list."""
        started = monotonic()
        try:
            if following.start_is_unknown:
                info = self.describe_message_stream(following.stream_name)
                following.start_after(info.storage_status.newest_sequence_number)
            messages = self.read_messages(following.stream_name, following.options())
        except NotEnoughMessagesException:
            self._closed.wait(following.pause_s(monotonic() - started))
            return []
        except StreamManagerException as error:
            if not survivable(error):
                raise
            self._logger.warning("Following %s goes on: %s", following.stream_name, error)
            return []
        following.advance(messages)
        return messages

    # --- connecting ----------------------------------------------------------------------------

    def _reconnected(self, deadline: float) -> Link:
        """A new link, made by this thread or by another one that was faster."""
        attempt_count = self._attempt_count
        if not self._connect_lock.acquire(timeout=max(0.0, deadline - monotonic())):
            raise RequestTimeoutException(
                f"no connection to {self._endpoint} within the request timeout; nothing was sent"
            )
        try:
            self._raise_if_closed()
            if self._link is not None and self._link.is_ready:
                return self._link
            if self._attempt_count != attempt_count and self._attempt_failure is not None:
                raise fresh(self._attempt_failure)
            self._pause(deadline)
            link = self._connect(deadline)
        finally:
            self._connect_lock.release()
        self._logger.warning("The connection to %s was lost and made again.", self._endpoint)
        return link

    def _pause(self, deadline: float) -> None:
        """Wait until the next attempt may begin; if that is too late for this call, fail now."""
        lost, self._link = self._link, None
        if lost is not None and lost.has_answered:
            self._backoff.reset()
        pause_s = self._backoff.pause_s(monotonic())
        if self._attempt_failure is not None and monotonic() + pause_s >= deadline:
            raise fresh(self._attempt_failure)
        if self._closed.wait(pause_s):
            raise _closed()

    def _connect(self, deadline: float) -> Link:
        """One attempt."""
        self._attempt_count += 1
        self._backoff.attempted(monotonic())
        try:
            link = self._opened(deadline)
        except ConnectFailedException as error:
            self._attempt_failure = fresh(error)
            raise
        self._attempt_failure = None
        return link

    def _opened(self, deadline: float) -> Link:
        timeout_s = min(self._endpoint.connect_timeout_s, deadline - monotonic())
        link = Link(dial(self._endpoint, timeout_s), self._endpoint, self._logger)
        with self._link_lock:
            # From here on close() reaches it.
            self._link = link
            if self._closed.is_set():
                link.end(_closed())
        link.handshake(min(deadline, monotonic() + self._request_timeout_s))
        return link


def _append_outcome(link: Link, slot: Slot, deadline: float) -> int | StreamManagerException:
    try:
        return calls.appended(*link.answer(slot, deadline))
    except StreamManagerException as error:
        return error


def _closed() -> ClientClosedException:
    return ClientClosedException("the client is closed")
