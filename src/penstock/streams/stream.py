"""One stream: its log, its definition, what to do when full."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.block import ENTRY_BYTES, Block
from penstock.errors import (
    InvalidRequestException,
    RequestPayloadTooLargeException,
    UpdateNotAllowedException,
)
from penstock.log.disk import Storage
from penstock.log.log import End, Log
from penstock.log.retention import count_to_drop_for_room, expired
from penstock.model import (
    MessageStreamDefinition,
    MessageStreamInfo,
    StorageStatus,
    StrategyOnFull,
)
from penstock.streams.exports import Exports
from penstock.streams.rules import forbidden_change, segment_bytes_for

__all__ = ["End", "Stream"]

# A read that is likely to touch more than this goes to a thread, so that a slow disk or a long
# checksum does not keep other clients waiting.
INLINE_READ_BYTES_MAX = 256 * 1024


class Stream:
    """Appends, reads, retention and definition of one stream."""

    def __init__(
        self,
        storage: Storage,
        folder: str,
        definition: MessageStreamDefinition,
        *,
        power_lost: bool = False,
    ) -> None:
        self.folder = folder
        self.definition = definition
        self.exports = Exports(storage, f"{folder}/exports", definition.export_definition)
        self.log = Log(
            storage,
            folder,
            segment_bytes_max=segment_bytes_for(definition),
            synced=definition.flush_on_write,
            power_lost=power_lost,
            number_floor=self.exports.numbers_seen(),
        )
        self.notices = self.exports.notices + self.log.notices
        # Readers see messages below this. With flushOnWrite it trails behind the log until the
        # sync: what nobody was told yet, nobody can read.
        self.visible_next = self.log.next_sequence

    @property
    def name(self) -> str:
        return self.definition.name

    def append(self, data: bytes, sizes: Sequence[int], now_ms: int) -> int:
        """Store payloads that stand one after another in `data`: all of them, or none."""
        wanted_bytes = len(data) + ENTRY_BYTES * len(sizes)
        if self.log.total_bytes + wanted_bytes > self.definition.max_size:
            self._make_room(wanted_bytes, len(sizes))
        return self.log.append(data, sizes, now_ms)

    def show_appended(self, next_sequence: int) -> None:
        """Let readers see what has been stored as safely as the definition asks for."""
        self.visible_next = max(self.visible_next, next_sequence)

    def take_back_hidden(self, end: End) -> None:
        """Remove messages whose sync failed: nobody was told of them."""
        self.log.return_to(end)

    def storage_status(self) -> StorageStatus:
        return StorageStatus(
            oldest_sequence_number=min(self.log.first_sequence, self.visible_next),
            newest_sequence_number=self.visible_next - 1,
            total_bytes=self.log.total_bytes,
        )

    def info(self) -> MessageStreamInfo:
        return MessageStreamInfo(
            definition=self.definition,
            storage_status=self.storage_status(),
            export_statuses=self.exports.statuses(),
        )

    def available_from(self, sequence: int) -> int:
        """How many messages a reader could get from here."""
        return self.log.count_from(sequence, self.visible_next)

    def read(
        self, sequence: int, count_max: int, bytes_max: int
    ) -> list[Block] | Callable[[], list[Block]]:
        """Blocks of messages, or for a large read the function that fetches them in a thread."""
        arguments = (sequence, self.visible_next, count_max, bytes_max)
        likely_bytes = min(bytes_max, self.log.payload_bytes_estimate(sequence, count_max))
        if likely_bytes > INLINE_READ_BYTES_MAX:
            return self.log.begin_read(*arguments)
        return self.log.read(*arguments)

    def check_update(self, new: MessageStreamDefinition) -> None:
        reason = forbidden_change(self.definition, new, self.storage_status())
        if reason is not None:
            raise UpdateNotAllowedException(f"stream {self.name} cannot be updated so: {reason}")

    def apply_update(self, new: MessageStreamDefinition) -> None:
        self.definition = new
        self.log.segment_bytes_max = segment_bytes_for(new)
        self.log.synced = new.flush_on_write
        self.exports.follow(new.export_definition)

    def expire(self, now_ms: int) -> int:
        """Drop the segments whose messages have all outlived their time; how many went."""
        count = self._expired_count(now_ms)
        if count:
            self.log.drop_oldest(count)
        return count

    def first_unexpired(self, now_ms: int) -> int:
        """The number that will be the first one after `expire`."""
        kept = self.log.segments[self._expired_count(now_ms) :]
        return kept[0].first_sequence if kept else self.log.next_sequence

    def _expired_count(self, now_ms: int) -> int:
        """How many segments, from the oldest on, have outlived their time."""
        time_to_live_ms = self.definition.time_to_live_millis
        if time_to_live_ms is None:
            return 0
        count = 0
        for position, segment in enumerate(self.log.segments, 1):
            newest_time_ms = segment.newest_time_ms()
            if newest_time_ms is None:
                continue  # it cannot be told; those behind it are younger, and may tell
            if not expired(newest_time_ms, now_ms, time_to_live_ms):
                break
            count = position
        return count

    def close(self) -> None:
        self.exports.close()
        self.log.close()

    def abandon(self) -> None:
        """Give up the files without a last word to the disk."""
        self.exports.close()
        self.log.abandon()

    def check_size(self, payload_bytes_max: int) -> None:
        """Refuse a message that could never fit."""
        if payload_bytes_max + ENTRY_BYTES > self.definition.max_size:
            raise RequestPayloadTooLargeException(
                f"a message of {payload_bytes_max} bytes (and {ENTRY_BYTES} of its own) exceeds "
                f"maxSize {self.definition.max_size} of stream {self.name}"
            )

    def _make_room(self, wanted_bytes: int, count: int) -> None:
        max_size = self.definition.max_size
        if wanted_bytes > max_size:
            raise RequestPayloadTooLargeException(
                f"{count} messages of {wanted_bytes} bytes together exceed maxSize {max_size} of "
                f"stream {self.name}; send fewer at once"
            )
        if self.definition.strategy_on_full == StrategyOnFull.RejectNewData:
            raise InvalidRequestException(
                f"stream {self.name} is full: {self.log.total_bytes} of maxSize {max_size} bytes "
                f"are used and {wanted_bytes} more do not fit; its strategy is RejectNewData"
            )
        stored = [segment.stored_bytes for segment in self.log.segments]
        self.log.drop_oldest(count_to_drop_for_room(stored, wanted_bytes, max_size))
