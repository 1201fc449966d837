"""Following a stream: where the follower stands and what it asks next. No I/O."""

from __future__ import annotations

from typing import Literal

from penstock.errors import (
    ResponseStatusCode,
    StreamManagerException,
    ValidationException,
)
from penstock.model import Message, ReadMessagesOptions

Start = int | Literal["oldest", "newest"]

# One read waits at most this long. Longer ones would save nothing, and a proxy between us and the
# server may forget a connection that says nothing for a minute.
SLICE_S_MAX = 30.0
# A server that answers "not enough" without having waited is asked again after this pause.
HASTE_PAUSE_S = 0.05


class Following:
    """One follower's position in a stream."""

    def __init__(
        self, stream_name: str, start: Start, message_count_max: int, request_timeout_s: float
    ) -> None:
        self.stream_name = stream_name
        # Half: the answer to a read that waited to the end must not come late.
        self._slice_s = min(SLICE_S_MAX, request_timeout_s / 2)
        self._next_sequence = _first_sequence(start)
        self._message_count_max = message_count_max

    @property
    def start_is_unknown(self) -> bool:
        """Whether the newest message must be looked up first."""
        return self._next_sequence is None

    def start_after(self, sequence: int) -> None:
        self._next_sequence = sequence + 1

    def options(self) -> ReadMessagesOptions:
        """The next read: whatever is there, or the first message that comes."""
        return ReadMessagesOptions(
            desired_start_sequence_number=self._next_sequence or 0,
            min_message_count=1,
            max_message_count=self._message_count_max,
            read_timeout_millis=max(1, int(self._slice_s * 1000)),
        )

    def advance(self, messages: list[Message]) -> None:
        if messages:
            self.start_after(messages[-1].sequence_number or 0)

    def pause_s(self, waited_s: float) -> float:
        """How long to leave the server alone after a read that found nothing."""
        return HASTE_PAUSE_S if waited_s < self._slice_s / 2 else 0.0


def survivable(error: StreamManagerException) -> bool:
    """Whether a follower goes on: the server is away or busy, and may be back soon."""
    return (
        isinstance(error, ConnectionError | TimeoutError)
        or error.status == ResponseStatusCode.FailedToConnect
    )


def _first_sequence(start: Start) -> int | None:
    if start == "newest":
        return None
    if start == "oldest":
        return 0
    if not isinstance(start, int) or isinstance(start, bool) or start < 0:
        raise ValidationException(
            f"start: must be a sequence number, 'oldest' or 'newest', not {start!r}"
        )
    return start
