"""Ten exports, two of whose destinations fail: do the other eight keep their rate?"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from bench.exports import BATCH_COUNT, PAYLOAD, TIMEOUT_S, WARM_UP_DRAINS, Side, with_spark
from bench.figures import Figure, ratios
from bench.sink import Manner, Sink, sink_process

if TYPE_CHECKING:
    from bench.cases import Effort

EXPORT_COUNT = 10
HEALTHY_COUNT = 8
STREAM = "S0"
DRAIN_COUNT = 100_000
STEADY_S = 10.0
# A small part of what can be drained: nobody has to wait for a processor.
STEADY_PER_S = 2_000
STEADY_STEP_S = 0.05
# After this long without a request nobody works on an earlier round any more.
QUIET_S = 0.5
# The start of an export must be below the newest message: each round begins with these.
START_COUNT = 2
RATE_MIN = 0.8

NO_FAULT = (Manner.ACCEPT, Manner.ACCEPT)
# 400 is the worst: a request is halved down to each single message, and each is kept as a dead
# letter. 503 is the most usual.
FAULTS = {
    "one hangs, one answers 400": (Manner.HANG, Manner.REFUSE),
    "one hangs, one answers 503": (Manner.HANG, Manner.FAIL),
}


def neighbours(folder: Path, effort: Effort) -> list[Figure]:
    """With and without faults in turns; each ratio is of two neighbouring rounds."""
    drained = max(1, round(DRAIN_COUNT * effort.share / BATCH_COUNT)) * BATCH_COUNT
    with (
        sink_process(EXPORT_COUNT) as sink,
        with_spark(folder / "spark", sink, exports=EXPORT_COUNT) as side,
    ):
        ten = Ten(side)
        for _ in range(WARM_UP_DRAINS):
            ten.drained_per_s(drained)
        figures = _compared("drained", ten, lambda: ten.drained_per_s(drained), effort.repeats)
        duration_s = max(4.0, STEADY_S * effort.share)
        title = f"at {STEADY_PER_S:,} messages/s each"
        repeats = max(1, effort.repeats // 2)
        figures += _compared(title, ten, lambda: ten.steady_per_s(duration_s), repeats)
        ten.pause()
    return figures


def _compared(title: str, ten: Ten, measure: Callable[[], float], repeats: int) -> list[Figure]:
    """The rate of the eight under each fault, and just before it without one."""
    figures = []
    for fault, manners in FAULTS.items():
        sound, faulty = [], []
        for _ in range(repeats):
            ten.manners = NO_FAULT
            sound.append(measure())
            ten.manners = manners
            faulty.append(measure())
        figures += [
            Figure(
                f"{title}, 8 of 10 exports; {fault}: rate", "times", ratios(faulty, sound), RATE_MIN
            ),
            Figure("... of the slowest of the eight, with the faults", "messages/s", faulty),
            Figure("... and without", "messages/s", sound),
        ]
    return figures


class Ten:
    """A stream with ten exports, the last two of which can be made to fail."""

    def __init__(self, side: Side) -> None:
        self.manners = NO_FAULT
        self._side = side
        self._healthy = Sink(side.sink.receivers[:HEALTHY_COUNT])
        self._faulty = side.sink.receivers[HEALTHY_COUNT:]
        self._start = 0

    def drained_per_s(self, count: int) -> float:
        """Fill the stream while all are paused, then let them go at once."""
        self.pause()
        for _ in range(0, count, BATCH_COUNT):
            self._side.client.append_messages(STREAM, [PAYLOAD] * BATCH_COUNT)
        expected = self._healthy.message_count + HEALTHY_COUNT * (START_COUNT + count)
        started = self._resume()
        self._healthy.wait_for(expected, TIMEOUT_S)
        return count / (self._healthy.last_arrival - started)

    def steady_per_s(self, duration_s: float) -> float:
        """Append at an even pace; what the slowest had got when the time was over."""
        self.pause()
        before = [each.message_count for each in self._healthy.receivers]
        started = self._resume()
        step = [PAYLOAD] * round(STEADY_PER_S * STEADY_STEP_S)
        for number in range(round(duration_s / STEADY_STEP_S)):
            self._side.client.append_messages(STREAM, step)
            time.sleep(max(0.0, started + (number + 1) * STEADY_STEP_S - time.monotonic()))
        elapsed_s = time.monotonic() - started
        after = [each.message_count for each in self._healthy.receivers]
        return min(b - a for a, b in zip(before, after, strict=True)) / elapsed_s

    def pause(self) -> None:
        """Stop all exports, and skip what two of them have left when they go on."""
        self._define(disabled=True)
        for each in self._faulty:
            each.behave(Manner.ACCEPT)
        while time.monotonic() - self._side.sink.last_arrival < QUIET_S:
            time.sleep(QUIET_S / 10)
        appended = self._side.client.append_messages(STREAM, [PAYLOAD] * START_COUNT)
        self._start = appended.first_sequence_number

    def _resume(self) -> float:
        """Let all exports go, some of them into trouble; when that was."""
        for each, manner in zip(self._faulty, self.manners, strict=True):
            each.behave(manner)
        started = time.monotonic()
        self._define(disabled=False)
        return started

    def _define(self, *, disabled: bool) -> None:
        definition = self._side.definition(0, disabled=disabled, start=self._start)
        self._side.client.update_message_stream(definition)
