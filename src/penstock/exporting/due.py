"""May an export send now, and how far? Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.model import ExportConfig, S3ExportTaskExecutorConfig


@dataclass(frozen=True, slots=True)
class Waiting:
    """Not yet: for what, and until when if time alone will do."""

    reason: str
    until_ms: int | None = None


def due(
    config: ExportConfig,
    start: int,
    stop: int,
    oldest_time_ms: Callable[[], int | None],
    now_ms: int,
) -> int | Waiting:
    """How far the messages from `start` to, not including, `stop` may be sent now.

    With a batch size alone only whole batches go; with an interval, everything once the oldest
    waiting message is older than it; with neither, everything at once.
    """
    pending = stop - start
    if pending <= 0:
        return Waiting("new messages")
    if isinstance(config, S3ExportTaskExecutorConfig):
        return stop
    size, interval_ms = config.batch_size, config.batch_interval_millis
    if size is None and interval_ms is None:
        return stop
    if interval_ms is not None:
        oldest_ms = oldest_time_ms()
        if oldest_ms is None or now_ms - oldest_ms >= interval_ms:
            return stop
    if size is not None and pending >= size:
        return start + pending // size * size
    missing = "" if size is None else f"{size - pending} more messages for a batch of {size}"
    if interval_ms is None:
        return Waiting(missing)
    until_ms = (oldest_ms or now_ms) + interval_ms
    reason = f"the interval of {interval_ms} ms"
    return Waiting(f"{missing} or {reason}" if missing else reason, until_ms)
