"""Looking through the messages of a stream, by number and by time."""

from __future__ import annotations

from penstock.client.aio import AsyncStreamManagerClient
from penstock.errors import NotEnoughMessagesException
from penstock.model import Message, Model, ReadMessagesOptions
from penstock.units import KIB, MIB

# What a page shows of a payload; the whole of it is downloaded by itself.
PAYLOAD_SHOWN_BYTES = 64 * KIB
PAGE_COUNT_MAX = 500
# The server sends payloads whole: about this much at a time, so that a page of large messages does
# not take the console's memory.
READ_BYTES_MAX = 8 * MIB
# Pages end here, however many messages were asked for.
PAGE_BYTES_MAX = 8 * MIB


class ShownMessage(Model):
    """A message, with the beginning of its payload (base64 in JSON)."""

    sequence_number: int
    ingest_time: int | None
    size: int
    payload: bytes
    is_cut: bool


class Page(Model):
    """Messages that stand together, and what there is besides."""

    messages: list[ShownMessage]
    oldest: int
    newest: int


class Browser:
    """Reads pages of a stream."""

    def __init__(self, client: AsyncStreamManagerClient) -> None:
        self._client = client

    async def page(self, stream: str, count: int, start: int | None, time_ms: int | None) -> Page:
        """From a number, from a time, or the newest ones."""
        info = await self._client.describe_message_stream(stream)
        status = info.storage_status
        oldest, newest = status.oldest_sequence_number, status.newest_sequence_number
        if newest < oldest:
            return Page([], oldest, newest)
        if time_ms is not None:
            start = await self._first_since(stream, time_ms, oldest, newest)
        elif start is None:
            start = newest - count + 1
        start = max(start, oldest)
        mean_bytes = status.total_bytes // (newest - oldest + 1)
        portion = max(1, READ_BYTES_MAX // max(1, mean_bytes))
        messages = await self._messages(stream, start, min(count, newest - start + 1), portion)
        return Page(messages, oldest, newest)

    async def message(self, stream: str, number: int) -> bytes | None:
        """The whole payload; None if there is no such message."""
        found = await self._read(stream, number, 1)
        return found[0].payload if found and found[0].sequence_number == number else None

    async def _first_since(self, stream: str, time_ms: int, oldest: int, newest: int) -> int:
        """The first number that was appended at a time or after; newest + 1 if none was.

        A binary search: where a clock was set back, one of the places that fit.
        """
        low, high = oldest, newest + 1
        while low < high:
            middle = (low + high) // 2
            found = await self._read(stream, middle, 1)
            if not found:
                return low
            # Numbers can be missing: the message found may stand behind the middle.
            if (found[0].ingest_time or 0) < time_ms:
                low = max(middle, found[0].sequence_number or 0) + 1
            else:
                high = middle
        return low

    async def _messages(
        self, stream: str, start: int, count: int, portion: int
    ) -> list[ShownMessage]:
        shown: list[ShownMessage] = []
        shown_bytes = 0
        while len(shown) < count and shown_bytes < PAGE_BYTES_MAX:
            found = await self._read(stream, start, min(portion, count - len(shown)))
            if not found:
                break
            shown += map(_shown, found)
            shown_bytes = sum(len(message.payload) for message in shown)
            start = shown[-1].sequence_number + 1
        return shown

    async def _read(self, stream: str, start: int, count: int) -> list[Message]:
        options = ReadMessagesOptions(
            desired_start_sequence_number=start, min_message_count=1, max_message_count=count
        )
        try:
            return await self._client.read_messages(stream, options)
        except NotEnoughMessagesException:
            return []


def _shown(message: Message) -> ShownMessage:
    size = len(message.payload)
    return ShownMessage(
        message.sequence_number or 0,
        message.ingest_time,
        size,
        message.payload[:PAYLOAD_SHOWN_BYTES],
        size > PAYLOAD_SHOWN_BYTES,
    )
