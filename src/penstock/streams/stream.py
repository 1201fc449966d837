"""One stream: its log, its definition, what to do when full."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import accumulate

from penstock.block import ENTRY_BYTES, Block
from penstock.errors import (
    DiskFailed,
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
from penstock.streams.origins import Origin, Origins, Record
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
        # Another one for a stream that was deleted and made again, whose numbers begin anew.
        self.id = os.path.basename(folder)
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
        self.origins = Origins(storage, f"{folder}/origins", self.log)
        if definition.flush_on_write and self.origins.first_unproven is not None:
            # Whoever asks again for the answer they missed must not get it before a sync.
            self.log.require_sync(self.origins.first_unproven)
        self.notices = self.exports.notices + self.log.notices + self.origins.notices
        # Readers see messages below this. With flushOnWrite it trails behind the log until the
        # sync: what nobody was told yet, nobody can read.
        self.visible_next = self.log.next_sequence

    @property
    def name(self) -> str:
        return self.definition.name

    def append(self, data: bytes, sizes: Sequence[int], now_ms: int) -> int:
        """Store payloads that stand one after another in `data`: all of them, or none."""
        self._prepare(len(data), len(sizes))
        return self.log.append(data, sizes, now_ms)

    def append_once(
        self, origin: Origin, data: bytes, sizes: Sequence[int], now_ms: int
    ) -> tuple[Record, int]:
        """The same for an append that may come again: of that, only what is not stored yet.

        Where its messages are, and how many were stored now.
        """
        known = self.origins.find(origin, data, sizes)
        missing_count = known.missing_count
        if not missing_count:
            return known, 0
        if missing_count < len(sizes):
            data, sizes = _missing(known, data, sizes)
        self._prepare(len(data), len(sizes))
        record = known.placed(self.log.next_sequence, self.visible_next)
        try:
            self.origins.begin(record, synced=self.definition.flush_on_write)
        except OSError as error:
            raise DiskFailed(f"{self.folder}/origins: {error.strerror}") from error
        try:
            self.log.append(data, sizes, now_ms)
        except (DiskFailed, MemoryError):
            self.origins.take_back(self.log.next_sequence)
            raise
        return record, missing_count

    def show_appended(self, next_sequence: int) -> None:
        """Let readers see what has been stored as safely as the definition asks for."""
        self.visible_next = max(self.visible_next, next_sequence)
        if self.origins.untold:
            self.origins.told(next_sequence)

    def take_back_hidden(self, end: End) -> None:
        """Remove messages whose sync failed: nobody was told of them."""
        self.log.return_to(end)
        self.origins.take_back(end.next_sequence)

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
            self._drop_oldest(count)
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
        try:
            self.origins.close()
        except OSError as error:
            self.log.abandon()
            raise DiskFailed(f"{self.folder}/origins: {error.strerror}") from error
        self.log.close()

    def abandon(self) -> None:
        """Give up the files without a last word to the disk."""
        self.exports.close()
        self.origins.abandon()
        self.log.abandon()

    def check_size(self, payload_bytes_max: int) -> None:
        """Refuse a message that could never fit."""
        if payload_bytes_max + ENTRY_BYTES > self.definition.max_size:
            raise RequestPayloadTooLargeException(
                f"a message of {payload_bytes_max} bytes (and {ENTRY_BYTES} of its own) exceeds "
                f"maxSize {self.definition.max_size} of stream {self.name}"
            )

    def _prepare(self, data_bytes: int, count: int) -> None:
        """Everything that comes before an append: room, and no journal that misjudges it."""
        if not self.origins.in_order:
            self._put_origins_in_order()
        wanted_bytes = data_bytes + ENTRY_BYTES * count
        if self.log.total_bytes + wanted_bytes > self.definition.max_size:
            self._make_room(wanted_bytes, count)

    def _put_origins_in_order(self) -> None:
        """Have the journal say what is in the log, which therefore has to be sure first."""
        self.log.put_in_order()
        try:
            if self.log.synced:
                self.log.begin_sync()()
            self.origins.put_in_order(self.visible_next)
        except OSError as error:
            raise DiskFailed(f"{self.folder}/origins: {error.strerror}") from error

    def _drop_oldest(self, count: int) -> None:
        kept = self.log.segments[count:]
        first_kept = kept[0].first_sequence if kept else self.log.next_sequence
        first_unproven = self.origins.first_unproven
        if first_unproven is not None and first_unproven < first_kept:
            self._put_origins_in_order()
        self.log.drop_oldest(count)

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
        self._drop_oldest(count_to_drop_for_room(stored, wanted_bytes, max_size))


def _missing(record: Record, data: bytes, sizes: Sequence[int]) -> tuple[bytes, Sequence[int]]:
    """The messages of an append that are not stored yet."""
    ends = list(accumulate(sizes, initial=0))
    runs = list(record.missing())
    return (
        b"".join(data[ends[position] : ends[position + count]] for position, count in runs),
        [size for position, count in runs for size in sizes[position : position + count]],
    )
