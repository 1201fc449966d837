"""What the console shows at one moment, and what is different at the next; no sockets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import structs

from penstock.export_model import ExportView, PipelineView
from penstock.model import Model
from penstock.observe_model import Observation, ServerView, StreamView
from penstock.transforms.reports import TransformView

# A clock that is read twice gives two answers; this far apart they still say the same.
CLOCK_TOLERANCE_MS = 50

Key = TypeVar("Key")
Row = TypeVar("Row")


class StreamRow(StreamView, kw_only=True):
    """A stream, and how fast it grows."""

    messages_per_second: float = 0.0
    bytes_per_second: float = 0.0


class Rates(NamedTuple):
    """What is appended to a stream, per second."""

    messages: float = 0.0
    bytes: float = 0.0


class Overview(Model):
    """Everything at one moment: the answer to /api/overview, and the snapshot of a listener."""

    server: ServerView
    pipeline: PipelineView
    streams: list[StreamRow]
    exports: list[ExportView]
    transforms: list[TransformView]


class Difference(Model):
    """Rows of one table that are new or not what they were, and the keys of those that are gone."""

    changed: list[Any]
    removed: list[Any]


class Change(Model):
    """What a listener has to know to be up to date again."""

    server: ServerView
    pipeline: PipelineView
    streams: Difference
    exports: Difference
    transforms: Difference


class Picture:
    """An observation with its rows by key."""

    def __init__(self, observation: Observation, rates: Mapping[str, Rates]) -> None:
        self.observation = observation
        self.server = observation.server
        self.pipeline = observation.pipeline
        self.streams = {
            view.name: _with_rates(view, rates.get(view.name, Rates()))
            for view in observation.streams
        }
        self.exports = {
            (view.stream_name, view.export_identifier): view for view in observation.exports
        }
        self.transforms = {view.name: view for view in observation.transforms}

    def document(self) -> bytes:
        """The JSON of everything."""
        overview = Overview(
            self.server,
            self.pipeline,
            list(self.streams.values()),
            self.observation.exports,
            self.observation.transforms,
        )
        return msgspec.json.encode({"observation": overview})

    def change_since(self, before: Picture) -> bytes:
        """The JSON of what is different."""
        passed_ms = self.server.server_time - before.server.server_time
        return msgspec.json.encode(
            Change(
                self.server,
                self.pipeline,
                _difference(before.streams, self.streams),
                Difference(
                    [
                        view
                        for key, view in self.exports.items()
                        if not _told_already(before.exports.get(key), view, passed_ms)
                    ],
                    [key for key in before.exports if key not in self.exports],
                ),
                _difference(before.transforms, self.transforms),
            )
        )


def _with_rates(view: StreamView, rates: Rates) -> StreamRow:
    return StreamRow(
        *structs.astuple(view), messages_per_second=rates.messages, bytes_per_second=rates.bytes
    )


def _difference(before: Mapping[Key, Row], after: Mapping[Key, Row]) -> Difference:
    return Difference(
        [row for key, row in after.items() if before.get(key) != row],
        [key for key in before if key not in after],
    )


def _told_already(before: ExportView | None, after: ExportView, passed_ms: int) -> bool:
    """Whether a row says nothing new. That its oldest message aged with the clock is not new."""
    if before is None:
        return False
    aged_ms = after.lag_age_millis - before.lag_age_millis
    if aged_ms and abs(aged_ms - passed_ms) <= CLOCK_TOLERANCE_MS:
        before = structs.replace(before, lag_age_millis=after.lag_age_millis)
    return before == after
