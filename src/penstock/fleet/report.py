"""What is known of a fleet, and what of it somebody should look at. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from penstock.survey_model import Run, StreamSurvey

GAPS_SHOWN_MAX = 3


class Duplicate(NamedTuple):
    """A message with the payload of an earlier one."""

    sequence_number: int
    earlier_sequence_number: int


class Contents(NamedTuple):
    """What only reading every message can tell."""

    duplicate_count: int
    duplicates: tuple[Duplicate, ...]  # the first ones
    time_steps_back: int  # from one message to the next


@dataclass(frozen=True)
class StreamReport:
    """One stream of a server or store."""

    survey: StreamSurvey
    contents: Contents | None = None

    @property
    def first(self) -> int | None:
        return self.survey.runs[0].first if self.survey.runs else None

    @property
    def last(self) -> int | None:
        return self.survey.runs[-1].stop - 1 if self.survey.runs else None

    @property
    def gaps(self) -> list[Run]:
        """Numbers that are missing inside the stream. What retention took in front is none."""
        return [Run(before.stop, after.first) for before, after in pairwise(self.survey.runs)]

    @property
    def missing_count(self) -> int:
        return sum(gap.stop - gap.first for gap in self.gaps)


@dataclass(frozen=True)
class Clock:
    """How far a server's clock is ahead of ours, and how exactly that is known."""

    ahead_ms: int
    uncertainty_ms: int

    def differs_by(self, tolerance_ms: int) -> bool:
        return abs(self.ahead_ms) - self.uncertainty_ms > tolerance_ms


@dataclass(frozen=True)
class PlaceReport:
    """A server or a store folder: its streams, or why they are not known."""

    name: str
    asked_at_ms: int
    streams: list[StreamReport] = field(default_factory=list)
    clock: Clock | None = None
    trouble: str | None = None

    def findings(self, tolerance_ms: int) -> Iterator[str]:
        """What somebody should look at, a sentence each."""
        if self.clock is not None and self.clock.differs_by(tolerance_ms):
            side = "ahead of" if self.clock.ahead_ms > 0 else "behind"
            yield f"its clock is {abs(self.clock.ahead_ms):,} ms {side} ours"
        for stream in self.streams:
            for text in _findings(stream, self.asked_at_ms + tolerance_ms):
                yield f"stream {stream.survey.name}: {text}"


@dataclass(frozen=True)
class FleetReport:
    """All places that were asked, in the order in which they were named."""

    places: Sequence[PlaceReport]
    tolerance_ms: int

    @property
    def unreachable(self) -> list[PlaceReport]:
        return [place for place in self.places if place.trouble is not None]

    @property
    def findings(self) -> list[tuple[PlaceReport, str]]:
        return [
            (place, text) for place in self.places for text in place.findings(self.tolerance_ms)
        ]


def _findings(stream: StreamReport, future_ms: int) -> Iterator[str]:
    gaps = stream.gaps
    if gaps:
        shown = ", ".join(_shown(gap) for gap in gaps[:GAPS_SHOWN_MAX])
        more = f" and {len(gaps) - GAPS_SHOWN_MAX} more gaps" if len(gaps) > GAPS_SHOWN_MAX else ""
        yield f"{stream.missing_count:,} numbers are missing: {shown}{more}"
    newest_ms = stream.survey.newest_time
    if newest_ms is not None and newest_ms > future_ms:
        yield f"its newest message is {newest_ms - future_ms:,} ms in the future"
    contents = stream.contents
    steps = stream.survey.time_steps_back if contents is None else contents.time_steps_back
    if steps:
        yield f"ingest times run backwards {steps:,} times"
    if contents is not None and contents.duplicate_count:
        first = contents.duplicates[0]
        yield (
            f"{contents.duplicate_count:,} messages repeat a payload, the first of them "
            f"{first.sequence_number} that of {first.earlier_sequence_number}"
        )


def _shown(gap: Run) -> str:
    last = gap.stop - 1
    return str(gap.first) if last == gap.first else f"{gap.first} to {last}"
