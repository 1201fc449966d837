"""What stands around a destination: what the engine gives it, and what it gives the engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock.destinations.base import Batch, Context, LeaseLost
from penstock.errors import StreamManagerException

STREAM = "machines"
SETTINGS = {
    "kinesis_inter_call_delay_ms": 1000,
    "read_only_dirs": [],
    "s3_part_bytes_min": 5 * 1024 * 1024,
}


@dataclass
class Surroundings:
    """What the engine would be: it keeps what a destination appends, and can take its lease."""

    settings: dict[str, Any] = field(default_factory=lambda: dict(SETTINGS))
    appended: list[tuple[str, bytes]] = field(default_factory=list)
    # Raised by append as long as it is set, as the server's client would.
    append_error: StreamManagerException | None = None
    file_bytes: list[int] = field(default_factory=list)
    keep_alive_count: int = 0
    # Raised by keep_alive as long as it is set.
    lease_lost: LeaseLost | None = None

    def context(self) -> Context:
        return Context(
            STREAM,
            "to-cloud",
            self.settings,
            self.keep_alive,
            self.append,
            self.file_bytes.append,
        )

    def keep_alive(self) -> None:
        self.keep_alive_count += 1
        if self.lease_lost is not None:
            raise self.lease_lost

    def append(self, stream_name: str, payload: bytes) -> None:
        if self.append_error is not None:
            raise self.append_error
        self.appended.append((stream_name, payload))


def batch_of(*payloads: bytes, first: int = 100) -> Batch:
    count = len(payloads)
    return Batch(
        STREAM,
        list(range(first, first + count)),
        [1_735_571_045_000 + n for n in range(count)],
        list(payloads),
    )
