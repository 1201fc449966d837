"""What a thread does with one export: read, batch, send, report."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from penstock.block import ENTRY, Block
from penstock.client.worker import WorkerClient
from penstock.destinations import DESTINATIONS, destination_for
from penstock.destinations.base import (
    Batch,
    BatchLimits,
    Blocked,
    Canceling,
    Context,
    Delivery,
    Destination,
    DestinationError,
    LeaseLost,
    Transient,
)
from penstock.destinations.batching import Piece, pieces
from penstock.destinations.retry import next_try
from penstock.errors import (
    MessageStoreReadErrorException,
    NotEnoughMessagesException,
    ResourceNotFoundException,
    StreamManagerException,
)
from penstock.export_model import ExportReport, Lease, Refusal
from penstock.model import (
    ExportConfig,
    HTTPConfig,
    IoTAnalyticsConfig,
    IoTSiteWiseConfig,
    KinesisConfig,
    ReadMessagesOptions,
    S3ExportTaskExecutorConfig,
    from_wire,
)

CONFIG_TYPES: dict[str, type[ExportConfig]] = {
    kind.__name__: kind
    for kind in (
        HTTPConfig,
        IoTAnalyticsConfig,
        KinesisConfig,
        IoTSiteWiseConfig,
        S3ExportTaskExecutorConfig,
    )
}
assert CONFIG_TYPES.keys() == DESTINATIONS.keys()

# A lease ends after about this long even with a backlog left, so that priorities, pauses and
# updates act quickly.
WORK_S_MAX = 5.0
# One read: enough for several requests, little enough for many exports side by side.
READ_MESSAGES_MAX = 5_000
# The bucket of the bandwidth holds a second's worth.
FILE_BYTES_INTERVAL_S = 1.0
# Each has a connection, and many systems allow a process 1,024 files. Above it, one is opened anew.
DESTINATIONS_KEPT_MAX = 256


class ExportRun:
    """One lease being worked on."""

    def __init__(
        self,
        lease: Lease,
        settings: dict[str, Any],
        client: WorkerClient,
        destinations: Destinations,
    ) -> None:
        self.lease = lease
        self.lost = threading.Event()
        self.canceled = False  # and never to be taken up again
        self.last_progress = time.monotonic()
        self._settings = settings
        self._client = client
        self._destinations = destinations
        self._sent_bytes = 0  # and reported
        self._file_bytes = 0  # not reported yet
        self._file_bytes_lock = threading.Lock()
        self._file_bytes_told_s = time.monotonic()
        self._until = time.monotonic() + WORK_S_MAX

    def run(self) -> None:
        """Work until the lease is done, lost, or in trouble; the server is told in any case."""
        seat = None
        try:
            seat = self._destinations.take(self.lease, self._settings, self)
            if self.lease.dead_letter_ids:
                self._replay(seat.destination)
            else:
                self._export(seat.destination)
        except LeaseLost:
            return
        except DestinationError as error:
            self._report_trouble(error)
        except StreamManagerException:
            raise  # the server is away: it takes the lease back by itself
        except Exception as error:  # noqa: BLE001  our own defect must be seen, and stop nobody else
            self._report_trouble(Transient(f"unexpected {type(error).__name__}: {error}"))
        finally:
            if seat is not None:
                self._destinations.give_back(self.lease, seat)

    def keep_alive(self) -> None:
        """Called by destinations between the steps of something long."""
        self.last_progress = time.monotonic()
        self._tell_file_bytes()
        if self.lost.is_set() and self.canceled:
            raise LeaseLost("its export or stream is gone")
        if self.lost.is_set():
            raise LeaseLost("its export was changed or paused meanwhile", canceled=False)

    def count_file_bytes(self, size_bytes: int) -> None:
        """Called by destinations, from any thread."""
        with self._file_bytes_lock:
            self._file_bytes += size_bytes

    def append(self, stream_name: str, payload: bytes) -> None:
        self._client.append_message(stream_name, payload)

    # --- the range ----------------------------------------------------------------------------

    def _export(self, destination: Destination) -> None:
        position = self.lease.start
        while not self._is_over(position):
            blocks = self._read(position, destination)
            if not blocks:
                position += 1  # it was damaged, and is reported
                continue
            for piece in self._pieces(blocks, destination):
                position = piece.batch.sequence_numbers[-1] + 1
                tally = self._settle(destination, piece)
                # The last report is also the end: a lease of one message has one report, not two.
                done = self._is_over(position, tally.sent_bytes)
                self._report_tally(tally, position, done=done)
                if done:
                    return
        self._report(ExportReport(self.lease.lease_id, done=True))

    def _read(self, position: int, destination: Destination) -> list[Block]:
        """Messages from `position` on; none if that one is damaged, which is reported."""
        count = min(self.lease.stop - position, READ_MESSAGES_MAX)
        options = ReadMessagesOptions(position, 1, count, 0)
        try:
            blocks = self._client.read_blocks(self.lease.stream_name, options)
        except MessageStoreReadErrorException as error:
            refusal = Refusal(position, f"its stored data is damaged: {error}")
            self._report(
                ExportReport(
                    self.lease.lease_id, next_sequence_number=position + 1, refused=[refusal]
                )
            )
            return []
        except (NotEnoughMessagesException, ResourceNotFoundException) as error:
            self._cancel_unread(position, destination)
            raise LeaseLost("its messages are gone", canceled=False) from error
        if blocks[0].first_sequence > position:
            self._cancel_unread(position, destination)
        return blocks

    def _cancel_unread(self, position: int, destination: Destination) -> None:
        """The server says it of all messages that go unsent, but not of the one in flight."""
        if not isinstance(destination, Canceling):
            return
        lost = self._client.renew_leases([self.lease.lease_id])
        if lost.ids and not lost.canceled_ids:
            return  # somebody else had it meanwhile, and has said what became of it
        batch = Batch(self.lease.stream_name, [position], [0], [b""])
        destination.cancel(batch, "it was removed from its stream before it was read")

    def _pieces(self, blocks: Sequence[Block], destination: Destination) -> Iterator[Piece]:
        size = self.lease.config.get("batchSize")
        limits = within_portion(destination.limits, self.lease.bytes_max)
        for block in blocks:
            yield from pieces(whole_batch(self.lease.stream_name, block), limits, size)

    def _settle(self, destination: Destination, piece: Piece) -> Tally:
        """Deliver or refuse every message of a piece."""
        tally = Tally()
        rest = piece.batch
        if piece.refusal is not None:
            tally.refused.append(Refusal(rest.sequence_numbers[0], piece.refusal))
            rest = rest[:0]
        while len(rest):
            self._go_on_with(rest, destination)
            delivery = destination.send(rest)
            tally.add(rest, delivery)
            trouble = delivery.error
            if delivery.retry and trouble is None and len(delivery.retry) == len(rest):
                trouble = Transient(next(iter(delivery.retry.values())))
            rest = only(rest, delivery.retry)
            if trouble is not None:
                self._report_part(piece.batch, rest, tally)
                raise trouble
        return tally

    def _go_on_with(self, batch: Batch, destination: Destination) -> None:
        """Raises LeaseLost if this batch must not be sent, and says so to those who wait for it."""
        try:
            self.keep_alive()
        except LeaseLost as lost:
            if lost.canceled and isinstance(destination, Canceling):
                destination.cancel(batch, str(lost))
            raise

    def _report_part(self, batch: Batch, rest: Batch, tally: Tally) -> None:
        """Tell what is settled up to the first message that has to wait.

        What was delivered behind it will be delivered once more: positions have no holes.
        """
        stop = rest.sequence_numbers[0] if len(rest) else batch.sequence_numbers[-1] + 1
        count = sum(number < stop for number in batch.sequence_numbers)
        if not count:
            return
        refused = [refusal for refusal in tally.refused if refusal.number < stop]
        numbers = {refusal.number for refusal in refused}
        sent = [
            payload
            for number, payload in zip(batch.sequence_numbers, batch.payloads, strict=True)
            if number < stop and number not in numbers
        ]
        part = Tally(len(sent), sum(map(len, sent)), refused)
        self._report_tally(part, stop, done=False)

    def _report_tally(self, tally: Tally, position: int, *, done: bool) -> None:
        self._sent_bytes += tally.sent_bytes
        self._report(
            ExportReport(
                self.lease.lease_id,
                next_sequence_number=position,
                messages=tally.messages,
                sent_bytes=tally.sent_bytes,
                refused=tally.refused,
                done=done,
            )
        )

    # --- dead letters -------------------------------------------------------------------------

    def _replay(self, destination: Destination) -> None:
        letters = self._client.find_dead_letters(ids=self.lease.dead_letter_ids, count_max=1000)
        ids = {letter.sequence_number: letter.id for letter in letters}
        batch = Batch(
            self.lease.stream_name,
            [letter.sequence_number for letter in letters],
            [letter.ingest_time for letter in letters],
            [letter.payload for letter in letters],
        )
        size = self.lease.config.get("batchSize")
        for piece in pieces(batch, destination.limits, size):
            self.keep_alive()
            part = piece.batch
            if piece.refusal is not None:
                delivery = Delivery(refused={0: piece.refusal})
            else:
                delivery = destination.send(part)
            tally = Tally()
            tally.add(part, delivery)
            kept = delivery.retry.keys() | delivery.refused.keys()
            self._report(
                ExportReport(
                    self.lease.lease_id,
                    messages=tally.messages,
                    sent_bytes=tally.sent_bytes,
                    refused=[Refusal(ids[each.number], each.reason) for each in tally.refused],
                    replayed_ids=[
                        ids[number]
                        for at, number in enumerate(part.sequence_numbers)
                        if at not in kept
                    ],
                )
            )
            if delivery.error is not None:
                raise delivery.error
            if delivery.retry:
                raise Transient(next(iter(delivery.retry.values())))
        self._report(ExportReport(self.lease.lease_id, done=True))

    # --- reporting ----------------------------------------------------------------------------

    def _tell_file_bytes(self) -> None:
        """During a long upload, where bandwidth is limited, so that the others make room for it."""
        if self.lease.bytes_max is None or self._file_bytes == 0 or self.lost.is_set():
            return
        if time.monotonic() - self._file_bytes_told_s >= FILE_BYTES_INTERVAL_S:
            self._report(ExportReport(self.lease.lease_id))

    def _with_file_bytes(self, report: ExportReport) -> ExportReport:
        with self._file_bytes_lock:
            report.file_bytes, self._file_bytes = self._file_bytes, 0
        self._sent_bytes += report.file_bytes
        self._file_bytes_told_s = time.monotonic()
        return report

    def _report(self, report: ExportReport) -> None:
        self.last_progress = time.monotonic()
        held, self.canceled = self._client.report_export(self._with_file_bytes(report))
        if not held:
            self.lost.set()
            self.keep_alive()

    def _report_trouble(self, error: DestinationError) -> None:
        self._client.report_export(self._with_file_bytes(trouble_report(self.lease, error)))

    def _is_over(self, position: int, unreported_bytes: int = 0) -> bool:
        """Whether the lease ends here: all is sent, or its time or bandwidth is used up."""
        limit = self.lease.bytes_max
        unreported_bytes += self._file_bytes
        return (
            position >= self.lease.stop
            or time.monotonic() > self._until
            or (limit is not None and self._sent_bytes + unreported_bytes >= limit)
        )


def trouble_report(lease: Lease, error: DestinationError) -> ExportReport:
    """The end of a lease that came to nothing, and when to try again."""
    pause_s, _ = next_try(error, 1, lease.tries, random.random())
    return ExportReport(
        lease.lease_id,
        error=str(error),
        blocked=isinstance(error, Blocked),
        retry_after_millis=int(pause_s * 1000),
        done=True,
    )


class Tally:
    """What became of the messages of a batch so far."""

    def __init__(
        self, messages: int = 0, sent_bytes: int = 0, refused: list[Refusal] | None = None
    ) -> None:
        self.messages = messages
        self.sent_bytes = sent_bytes
        self.refused = refused if refused is not None else []

    def add(self, batch: Batch, delivery: Delivery) -> None:
        kept = delivery.retry.keys() | delivery.refused.keys()
        self.messages += len(batch) - len(kept)
        self.sent_bytes += sum(map(len, batch.payloads))
        self.sent_bytes -= sum(len(batch.payloads[at]) for at in kept)
        self.refused += [
            Refusal(batch.sequence_numbers[at], reason) for at, reason in delivery.refused.items()
        ]


class Seat(NamedTuple):
    """A destination, and the run that uses it at present (or nobody)."""

    destination: Destination
    runs: list[ExportRun]


class Destinations:
    """Destinations that are kept for the next lease, with their connections."""

    def __init__(self) -> None:
        self._free: dict[str, Seat] = {}
        self._lock = threading.Lock()

    def take(self, lease: Lease, settings: dict[str, Any], run: ExportRun) -> Seat:
        """One that nobody else uses."""
        with self._lock:
            seat = self._free.pop(_key(lease), None)
        if seat is not None:
            seat.runs.append(run)
            return seat
        runs = [run]
        context = Context(
            lease.stream_name,
            str(lease.config["identifier"]),
            settings,
            lambda: runs[-1].keep_alive(),
            lambda name, payload: runs[-1].append(name, payload),
            lambda size_bytes: runs[-1].count_file_bytes(size_bytes),
        )
        config = from_wire(lease.config, CONFIG_TYPES[lease.destination])
        return Seat(destination_for(config, context), runs)

    def give_back(self, lease: Lease, seat: Seat) -> None:
        seat.runs.clear()
        key = _key(lease)
        with self._lock:
            superfluous = [seat] if key in self._free else []
            self._free.setdefault(key, seat)
            if len(self._free) > DESTINATIONS_KEPT_MAX:
                superfluous.append(self._free.pop(next(iter(self._free))))  # unused for longest
        for each in superfluous:
            each.destination.close()


def _key(lease: Lease) -> str:
    return f"{lease.stream_name}\n{lease.destination}\n{sorted(lease.config.items())}"


def within_portion(limits: BatchLimits, portion_bytes: int | None) -> BatchLimits:
    """No request above the portion of bandwidth: what is more urgent would wait for its end."""
    if portion_bytes is None:
        return limits
    return replace(limits, bytes_max=min(limits.bytes_max, portion_bytes))


def whole_batch(stream_name: str, block: Block) -> Batch:
    """All messages of a block."""
    return Batch(
        stream_name,
        range(block.first_sequence, block.next_sequence),
        [entry[1] for entry in ENTRY.iter_unpack(block.index)],
        list(block.payloads()),
    )


def only(batch: Batch, positions: dict[int, str]) -> Batch:
    """The messages at these positions, in order."""
    order = sorted(positions)
    return Batch(
        batch.stream_name,
        [batch.sequence_numbers[at] for at in order],
        [batch.ingest_times_ms[at] for at in order],
        [batch.payloads[at] for at in order],
    )
