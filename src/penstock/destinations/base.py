"""The contract: what a destination is told, what it must do, how it says what happened.

A destination knows its service: how large a request may be, how to send one, and what the service's
answers mean. Cutting batches, waiting, retrying and reporting belong to the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from penstock.errors import PenstockError


@dataclass(frozen=True)
class BatchLimits:
    """How much one request may carry."""

    messages_max: int
    # Payloads and overheads together. A single message above it travels alone.
    bytes_max: int
    # One payload above this is refused for good: no request could ever carry it.
    message_bytes_max: int
    # What a message costs in the request besides its payload.
    message_overhead_bytes: int = 0


@dataclass(frozen=True)
class Timeouts:
    """How long one request may take. An address that never answers costs this much, not more."""

    connect_s: float = 10.0
    read_s: float = 60.0


@dataclass(frozen=True)
class Batch:
    """Messages for one request, in order. The three lists have the same length."""

    stream_name: str
    sequence_numbers: Sequence[int]
    ingest_times_ms: Sequence[int]
    payloads: Sequence[bytes]

    def __len__(self) -> int:
        return len(self.payloads)

    def __getitem__(self, part: slice) -> Batch:
        return Batch(
            self.stream_name,
            self.sequence_numbers[part],
            self.ingest_times_ms[part],
            self.payloads[part],
        )


@dataclass(frozen=True)
class Delivery:
    """What became of a batch, by position in it. Whatever is in neither list is delivered."""

    # To be sent again before anything newer, with the reason that the service gave.
    retry: dict[int, str] = field(default_factory=dict)
    # Never to be sent again: these become dead letters, with the reason.
    refused: dict[int, str] = field(default_factory=dict)
    # Set when a part of the batch was settled before this happened. The engine takes note of what
    # is settled, then acts as if it had been raised: it waits, or gives up the lease.
    error: DestinationError | None = None


class DestinationError(PenstockError):
    """Nothing of the batch is known to be delivered."""


class Transient(DestinationError):
    """Try again: the network, a throttle, an overloaded service, credentials that ran out."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Blocked(DestinationError):
    """Trying again soon is pointless until a person acts: a missing target, denied access."""


class LeaseLost(DestinationError):
    """The export was changed, paused or deleted meanwhile: stop, and clean up.

    `canceled` says that the work will never be taken up again: the export or its stream is gone.
    """

    def __init__(self, message: str, *, canceled: bool = True) -> None:
        super().__init__(message)
        self.canceled = canceled


@dataclass(frozen=True)
class Context:
    """What a destination may use besides its configuration."""

    stream_name: str
    export_identifier: str
    # Settings of the server that concern destinations, by their keys in the declaration.
    settings: dict[str, Any]
    # Called between the steps of something long; raises LeaseLost when the work must stop.
    keep_alive: Callable[[], None]
    # Appends to another stream of the server: (stream name, payload). For status messages. Raises
    # ClientException when there was no answer, another StreamManagerException when it was refused.
    append: Callable[[str, bytes], None]
    # Called with the size of what went out besides the messages: files. From any thread.
    count_file_bytes: Callable[[int], None]


class Destination(Protocol):
    """One target of one export, used by one thread at a time, for as long as it works."""

    limits: BatchLimits

    def send(self, batch: Batch) -> Delivery:
        """Send a batch and judge every message of it.

        Raises Transient or Blocked when the whole batch came to nothing. Every request has a hard
        timeout. Usually this is one request; where it takes several, they go in order, and none
        follows one that must be retried.
        """

    def check(self) -> None:
        """Prove that the settings work, without sending data; raises like send."""

    def close(self) -> None:
        """Give back connections."""


@runtime_checkable
class Canceling(Protocol):
    """A destination that also says of messages that nothing will become of them."""

    def cancel(self, batch: Batch, reason: str) -> None:
        """Their export, or they, are gone. A payload that could not be read any more is empty."""
