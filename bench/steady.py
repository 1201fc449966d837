"""Exports over minutes: does the lag grow, does memory?"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from statistics import linear_regression, median
from typing import TYPE_CHECKING

import uvloop

from bench import machine
from bench.exports import with_spark
from bench.figures import Figure
from bench.sink import sink_process

if TYPE_CHECKING:
    from bench.cases import Effort

STREAM_COUNT = 1000
DURATION_S = 600
SAMPLE_EVERY_S = 10
SERIES_NOTE = f"In order, one each {SAMPLE_EVERY_S} s."


def thousand_streams(folder: Path, effort: Effort) -> list[Figure]:
    """A message a second in each of 1,000 streams with an export each: does anything grow?"""
    duration_s = round(DURATION_S * effort.share)
    lags: list[float] = []
    samples: list[dict[str, machine.Usage]] = []
    with sink_process() as sink, with_spark(folder / "spark", sink, streams=STREAM_COUNT) as side:
        started = time.monotonic()
        before_s = machine.tree(side.pid).cpu_seconds
        for second in range(duration_s):
            uvloop.run(side.append_everywhere())
            time.sleep(max(0.0, started + second + 1 - time.monotonic()))
            lags.append(float(side.expected - sink.message_count))
            if second % SAMPLE_EVERY_S == SAMPLE_EVERY_S - 1:
                samples.append(machine.by_role(side.pid))
        elapsed_s = time.monotonic() - started
        used_s = machine.tree(side.pid).cpu_seconds - before_s
    sizes = [sum(usage.pss_bytes for usage in sample.values()) / 1e6 for sample in samples]
    title = f"1,000 exports, a message a second each, {duration_s} s: the lag's growth"
    return [
        # A hundredth of what is appended.
        Figure(title, "messages/s", [per_second(lags, 1)], at_most=STREAM_COUNT / 100),
        Figure("... not delivered when the next are appended", "messages", lags),
        Figure("... memory, last third : first third", "times", [growth(sizes)], at_most=1.05),
        Figure("... memory's growth", "MB/min", [60 * per_second(sizes, SAMPLE_EVERY_S)]),
        Figure("... memory of server, JVM and workers (PSS)", "MB", sizes, note=SERIES_NOTE),
        *role_figures(samples),
        Figure("... their CPU", "%", [100 * used_s / elapsed_s]),
        Figure("... a round of appends took, on average", "s", [elapsed_s / duration_s]),
    ]


def role_figures(samples: Sequence[dict[str, machine.Usage]]) -> list[Figure]:
    """The series of each kind of process."""
    return [
        Figure(
            f"... of that {role}",
            "MB",
            [sample[role].pss_bytes / 1e6 for sample in samples if role in sample],
            note=SERIES_NOTE,
        )
        for role in machine.ROLES
    ]


def growth(values: Sequence[float]) -> float:
    """The median of the last third, as a multiple of that of the first."""
    third = len(values) // 3
    return median(values[-third:]) / median(values[:third])


def per_second(values: Sequence[float], interval_s: float) -> float:
    """The slope of a line through values that were taken at this interval."""
    return linear_regression([at * interval_s for at in range(len(values))], values).slope
