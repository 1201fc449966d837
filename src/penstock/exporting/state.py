"""One export while the server runs: its progress, its lease, its troubles."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from penstock.exporting.tables import gathering
from penstock.model import ExportConfig, IoTAnalyticsConfig
from penstock.streams.exports import ExportProgress
from penstock.streams.stream import Stream

# Rates are averages over this long.
RATE_WINDOW_MS = 10_000


@dataclass(frozen=True, slots=True)
class Grant:
    """A lease as the desk sees it."""

    id: int
    start: int
    stop: int
    bytes_max: int | None
    replay: tuple[int, ...] = ()  # ids of dead letters to send instead


@dataclass(eq=False)
class Export:
    """Runtime state of one export configuration of one stream."""

    stream: Stream
    config: ExportConfig
    lease: Grant | None = None
    holder: object = None  # the connection that took the lease or spoke of it last
    vacant: Grant | None = None  # the last lease, if its holder is gone and nobody has a new one
    lease_until_ms: int = 0
    progress_at_ms: int = 0  # last sign of progress under the present lease
    due_since_ms: int = 0
    waiting_for: str = ""
    retry_at_ms: int = 0
    tries: int = 0
    blocked: bool = False
    replay_wanted: bool = False
    table: str = ""  # the folder of the table that it goes to instead
    target: str = ""  # where it goes, for a person
    sent_bytes: int = 0  # under the present lease
    # The ingest time of a message does not change: the last one that was asked for.
    timed_sequence: int = -1
    timed_ms: int | None = None
    refusals_untold: int = 0  # in the log; see life.py
    refusals_told_again_ms: int = 0
    recent: deque[tuple[int, int, int]] = field(default_factory=deque)  # time, messages, bytes

    @property
    def key(self) -> tuple[str, str]:
        return self.stream.name, self.config.identifier

    @property
    def progress(self) -> ExportProgress:
        return self.stream.exports.progress[self.config.identifier]

    @property
    def priority(self) -> int:
        """1 is most urgent; none given comes after 10."""
        return self.config.priority or 11

    @property
    def pace(self) -> ExportConfig:
        """The configuration that says when it is due."""
        if self.table and isinstance(self.config, IoTAnalyticsConfig):
            return gathering(self.config)
        return self.config

    @property
    def next_sequence(self) -> int:
        """The first message still to be sent. What retention removed before is lost to it."""
        return max(self.progress.last_exported_sequence + 1, self.stream.log.first_sequence)

    def note_sent(self, now_ms: int, messages: int, sent_bytes: int) -> None:
        self.recent.append((now_ms, messages, sent_bytes))
        self.progress_at_ms = now_ms
        self._forget_old(now_ms)

    def rates(self, now_ms: int) -> tuple[float, float]:
        """Messages and bytes per second, lately."""
        self._forget_old(now_ms)
        if not self.recent:
            return 0.0, 0.0
        seconds = RATE_WINDOW_MS / 1000
        return (
            sum(messages for _, messages, _ in self.recent) / seconds,
            sum(sent_bytes for _, _, sent_bytes in self.recent) / seconds,
        )

    def state(self, now_ms: int) -> str:
        """One word for a person."""
        if self.config.disabled:
            return "paused"
        if self.lease is not None:
            return "sending"
        if self.retry_at_ms > now_ms:
            return "blocked" if self.blocked else "backing off"
        if self.due_since_ms:
            return "due"
        return "idle" if self.next_sequence >= self.stream.visible_next else "waiting"

    def _forget_old(self, now_ms: int) -> None:
        while self.recent and self.recent[0][0] < now_ms - RATE_WINDOW_MS:
            self.recent.popleft()
