"""What a stream holds, told without reading a payload: how fleets are looked over."""

from __future__ import annotations

from penstock.model import Model


class Run(Model):
    """Numbers that stand together: from `first` up to, not including, `stop`."""

    first: int
    stop: int


class StreamSurvey(Model):
    """One stream. Numbers between two runs are missing in the middle of the stream."""

    name: str
    runs: list[Run] = []
    total_bytes: int = 0
    oldest_time: int | None = None  # ingest times in milliseconds; None if it cannot be told
    newest_time: int | None = None
    # How often a segment ends at an earlier time than one before it.
    time_steps_back: int = 0

    @property
    def message_count(self) -> int:
        return sum(run.stop - run.first for run in self.runs)


class StoreSurvey(Model):
    """All streams of a store, and the clock of who told it."""

    server_time: int
    streams: list[StreamSurvey] = []
