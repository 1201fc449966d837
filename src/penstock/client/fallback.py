"""What a server without Penstock's extensions is asked instead of a batch or a bulk read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from penstock.block import Block, make_entries
from penstock.errors import StreamManagerException
from penstock.model import Message
from penstock.protocol.codec import append_request

# A batch goes out as plain appends in portions, so that neither side has to hold more than this
# while the other one is busy.
PORTION_BYTES_MAX = 256 * 1024
PORTION_MESSAGES_MAX = 256


def portions(payloads: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Cut a batch into what may be on its way at one time."""
    start = size_bytes = 0
    for position, payload in enumerate(payloads):
        is_full = (
            size_bytes + len(payload) > PORTION_BYTES_MAX
            or position - start == PORTION_MESSAGES_MAX
        )
        if is_full and position > start:
            yield payloads[start:position]
            start, size_bytes = position, 0
        size_bytes += len(payload)
    yield payloads[start:]


def append_frames(
    request_ids: Sequence[str], encoded_name: bytes, payloads: Sequence[bytes]
) -> bytes:
    """Plain appends, one after another."""
    return b"".join(
        append_request(request_id, encoded_name, payload)
        for request_id, payload in zip(request_ids, payloads, strict=True)
    )


class PlainAppends:
    """Collects the outcomes of a batch sent as plain appends, and says how far it got."""

    def __init__(self, message_count: int) -> None:
        self._message_count = message_count
        self._sequences: list[int] = []

    def add(self, outcomes: Iterable[int | BaseException]) -> None:
        """Take the outcomes of a portion; the first failure among them is raised."""
        failures: list[BaseException] = []
        for outcome in outcomes:
            if isinstance(outcome, int):
                self._sequences.append(outcome)
            else:
                failures.append(outcome)
        for failure in failures:
            if isinstance(failure, StreamManagerException):
                raise self._explained(failure) from failure
            raise failure

    def numbers(self) -> tuple[int, int]:
        """The first and the last sequence number."""
        return self._sequences[0], self._sequences[-1]

    def _explained(self, failure: StreamManagerException) -> StreamManagerException:
        text = (
            f"{failure.message} (this server takes no batches, so the messages went one by one: "
            f"{len(self._sequences)} of {self._message_count} were acknowledged)"
        )
        return type(failure)(text, failure.status, failure.request_id)


def blocks_of(messages: Iterable[Message]) -> list[Block]:
    """Blocks as a bulk read would give them, made from numbered messages."""
    runs: list[list[Message]] = []
    expected: int | None = None
    for message in messages:
        if message.sequence_number != expected:
            runs.append([])
        runs[-1].append(message)
        expected = (message.sequence_number or 0) + 1
    return [_block(run) for run in runs]


def _block(run: Sequence[Message]) -> Block:
    """One block of messages with consecutive numbers."""
    entries = []
    end = checksum = 0
    for message in run:
        entry, checksum = make_entries(
            message.payload,
            [len(message.payload)],
            end=end,
            time_ms=message.ingest_time or 0,
            sequence=message.sequence_number or 0,
            checksum=checksum,
        )
        entries.append(entry)
        end += len(message.payload)
    payloads = b"".join(message.payload for message in run)
    return Block(run[0].sequence_number or 0, 0, b"".join(entries), payloads)
