"""The client that is awaited. It belongs to the event loop in which it is first used."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from itertools import count
from types import TracebackType
from typing import Self, TypeVar

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
from penstock.client.channel import Channel
from penstock.client.endpoint import Backoff, endpoint_for, fresh
from penstock.client.fallback import PlainAppends, portions
from penstock.client.following import Following, Start, survivable
from penstock.errors import (
    ClientClosedException,
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
from penstock.protocol.operations import Operation
from penstock.survey_model import StoreSurvey
from penstock.transforms.reports import TransformView

Result = TypeVar("Result")


class AsyncStreamManagerClient:
    """StreamManagerClient's twin: the same arguments and methods, to be awaited.

    It connects on first use, in `connect()`, or in `async with`. Any number of calls may be on
    their way at once; whoever leaves them without awaiting decides how much memory they take.
    """

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
        self._endpoint = endpoint_for(host, port, auth_token, connect_timeout, request_timeout)
        self._request_timeout_s = self._endpoint.request_timeout_s
        self._logger = logger or logging.getLogger("penstock.client")
        self._names = calls.Names()
        self._request_ids = count(1)
        self._channel: Channel | None = None
        self._backoff = Backoff()
        self._is_closed = False

    # --- AWS's operations ----------------------------------------------------------------------

    async def create_message_stream(self, definition: MessageStreamDefinition) -> None:
        """Create a stream. InvalidRequestException if the name is taken."""
        await self._perform(calls.create_message_stream(definition))

    async def update_message_stream(self, definition: MessageStreamDefinition) -> None:
        """Replace a stream's definition: what is not given falls back to its default."""
        await self._perform(calls.update_message_stream(definition))

    async def delete_message_stream(self, stream_name: str) -> None:
        """Delete a stream with all its messages."""
        await self._perform(calls.delete_message_stream(stream_name))

    async def describe_message_stream(self, stream_name: str) -> MessageStreamInfo:
        """The stream's definition, what it holds, and how far its exports got."""
        return await self._perform(calls.describe_message_stream(stream_name))

    async def list_streams(self) -> list[str]:
        """The names of all streams."""
        return await self._perform(calls.list_streams())

    def append_message(self, stream_name: str, data: bytes) -> asyncio.Future[int]:
        """Store one message; await its sequence number.

        The request is on its way when this returns, and requests leave in the order of the calls:
        call many times and await later to keep the connection full. Wrong arguments and a closed
        client raise here, everything else when the future is awaited.
        """
        encoded_name = self._names.encoded(stream_name)
        payload = calls.checked_payload(data)
        request_id = str(next(self._request_ids))
        frame = append_request(request_id, encoded_name, payload)
        return self._usable_channel().submit(request_id, frame, calls.appended)

    async def read_messages(
        self, stream_name: str, options: ReadMessagesOptions | None = None
    ) -> list[Message]:
        """Messages in ascending order, at least one; without options the oldest one.

        NotEnoughMessagesException if the minimum did not come within `read_timeout_millis`, which
        must not exceed the client's request timeout.
        """
        call = calls.read_messages(stream_name, options)
        calls.check_read_timeout(options, self._request_timeout_s)
        return await self._perform(call)

    # --- beyond AWS ----------------------------------------------------------------------------

    async def append_messages(self, stream_name: str, payloads: Iterable[bytes]) -> AppendedRange:
        """Store many messages with one request, all or none; the first and the last number.

        A server without batches gets them one by one: then an error can leave a part stored (its
        text says how much), and messages of others can stand in between.
        """
        checked = calls.checked_payloads(payloads)
        try:
            return await self._perform(calls.append_messages(stream_name, checked))
        except ExtensionMissing:
            return await self._append_one_by_one(stream_name, checked)

    async def append_once(
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
        return await self._perform(calls.append_once(stream_name, payloads, writer, batch, chunk))

    async def read_blocks(
        self, stream_name: str, options: ReadMessagesOptions | None = None
    ) -> list[Block]:
        """What read_messages reads, in the form in which it is stored: for large amounts."""
        call = calls.read_blocks(stream_name, options)
        calls.check_read_timeout(options, self._request_timeout_s)
        return await self._perform(call)

    def follow(
        self, stream_name: str, start: Start = "oldest", max_message_count: int = 1000
    ) -> AsyncIterator[Message]:
        """Every message from `start` on, waiting for new ones, until the client is closed.

        `start` is a sequence number, "oldest", or "newest" for what is appended from the first
        step of the iteration on. At most `max_message_count` messages are read at a time. A lost
        connection is made again as often as needed; other errors are raised.
        """
        following = Following(stream_name, start, max_message_count, self._request_timeout_s)
        calls.read_messages(stream_name, following.options())  # checks the arguments now, not later
        self._raise_if_closed()
        return self._followed(following)

    async def describe_exports(self) -> ExportsInfo:
        """Every export's state, lag and troubles, and the process that does them."""
        return await self._perform(calls.describe_exports())

    async def find_dead_letters(
        self,
        stream_name: str | None = None,
        export_identifier: str | None = None,
        ids: Sequence[int] = (),
        after_id: int = 0,
        count_max: int = 100,
    ) -> list[DeadLetter]:
        """Messages that a destination refused for good, oldest first."""
        return await self._perform(
            calls.find_dead_letters(stream_name, export_identifier, ids, after_id, count_max)
        )

    async def replay_dead_letters(
        self,
        stream_name: str | None = None,
        export_identifier: str | None = None,
        ids: Sequence[int] = (),
    ) -> int:
        """Send dead letters again, all that fit what is given; how many."""
        return await self._perform(
            calls.treat_dead_letters(
                Operation.ReplayDeadLetters, stream_name, export_identifier, ids
            )
        )

    async def purge_dead_letters(
        self,
        stream_name: str | None = None,
        export_identifier: str | None = None,
        ids: Sequence[int] = (),
    ) -> int:
        """Throw dead letters away, all that fit what is given; how many."""
        return await self._perform(
            calls.treat_dead_letters(
                Operation.PurgeDeadLetters, stream_name, export_identifier, ids
            )
        )

    async def describe_transforms(self) -> list[TransformView]:
        """Every declared transform's state, lag and troubles."""
        return await self._perform(calls.describe_transforms())

    async def reset_transform(self, name: str, start: str = "earliest") -> int:
        """Have a transform begin again: at the earliest or latest message, or at a number.

        The old checkpoint is kept aside; the number of the new one is returned.
        """
        return await self._perform(calls.reset_transform(name, start))

    async def survey_streams(self) -> StoreSurvey:
        """What all streams hold, told without reading a payload, and the server's clock."""
        return await self._perform(calls.survey_streams())

    async def observe_server(self) -> Observation:
        """Everything that can be seen of a server at one moment: for consoles and metrics."""
        return await self._perform(calls.observe_server())

    # --- life ----------------------------------------------------------------------------------

    async def connect(self) -> None:
        """Connect now; ServerUnreachableException or ConnectFailedException says why not."""
        await self._usable_channel().opened()

    async def close(self) -> None:
        """End the connection. Calls that wait raise ClientClosedException, at once."""
        self._is_closed = True
        if self._channel is not None:
            self._channel.end(_closed())
            await self._channel.gone()

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def _raise_if_closed(self) -> None:
        if self._is_closed:
            raise _closed()

    # --- calls ---------------------------------------------------------------------------------

    async def _perform(self, call: Call[Result]) -> Result:
        """One request and its answer."""
        channel = self._usable_channel()
        if not channel.is_ready:
            await self._opened(channel)
        call = call.suited(channel.extensions)
        request_id = str(next(self._request_ids))
        return await channel.submit(request_id, call.frame(request_id), call.judge)

    async def _append_one_by_one(self, stream_name: str, payloads: list[bytes]) -> AppendedRange:
        appends = PlainAppends(len(payloads))
        for portion in portions(payloads):
            futures = [self.append_message(stream_name, payload) for payload in portion]
            appends.add(await asyncio.gather(*futures, return_exceptions=True))
        return AppendedRange(*appends.numbers())

    async def _followed(self, following: Following) -> AsyncIterator[Message]:
        while True:
            try:
                messages = await self._next_messages(following)
            except ClientClosedException:
                return
            for message in messages:
                yield message

    async def _next_messages(self, following: Following) -> list[Message]:
        """One step of a follower; nothing came, or the server is away: an empty list."""
        clock = asyncio.get_running_loop().time
        started = clock()
        try:
            if following.start_is_unknown:
                info = await self.describe_message_stream(following.stream_name)
                following.start_after(info.storage_status.newest_sequence_number)
            messages = await self.read_messages(following.stream_name, following.options())
        except NotEnoughMessagesException:
            await asyncio.sleep(following.pause_s(clock() - started))
            return []
        except StreamManagerException as error:
            if not survivable(error):
                raise
            self._logger.warning("Following %s goes on: %s", following.stream_name, error)
            return []
        following.advance(messages)
        return messages

    # --- connecting ----------------------------------------------------------------------------

    def _usable_channel(self) -> Channel:
        """The channel there is, or a new one that is just being opened."""
        lost = self._channel
        if lost is not None and lost.is_usable():
            return lost
        self._raise_if_closed()
        if lost is not None and lost.has_answered:
            self._backoff.reset()
        loop = asyncio.get_running_loop()
        pause_s = self._backoff.pause_s(loop.time())
        if lost is not None and lost.ended is not None and pause_s >= self._request_timeout_s:
            raise fresh(lost.ended)  # the call would be over before the attempt begins
        self._backoff.attempted(loop.time() + pause_s)
        self._channel = Channel(loop, self._endpoint, self._logger, pause_s)
        return self._channel

    async def _opened(self, channel: Channel) -> None:
        try:
            async with asyncio.timeout(self._request_timeout_s):
                await channel.opened()
        except TimeoutError as error:
            raise RequestTimeoutException(
                f"no connection to {self._endpoint} within the request timeout; nothing was sent"
            ) from error


def _closed() -> ClientClosedException:
    return ClientClosedException("the client is closed")
