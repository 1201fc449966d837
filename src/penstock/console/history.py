"""The last quarter of an hour, in memory: one ring of times, and a ring for each figure.

1,000 streams with an export each take 15 MB: 4 bytes per figure, 900 figures per ring.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping
from typing import TypeVar

from penstock.console.picture import Picture, Rates
from penstock.model import Model

SLOTS = 900  # a quarter of an hour, one per second
SPAN_MS = 15 * 60 * 1000

Key = TypeVar("Key")


class Series(Model):
    """What became of a stream, and of one of its exports, over time. None: not known then."""

    times: list[int]
    appended_per_second: list[float]
    lag_messages: list[float] = []
    lag_bytes: list[float] = []
    messages_per_second: list[float] = []


class Rings:
    """Figures of the same rows at the same times."""

    def __init__(self) -> None:
        self._rings: dict[object, array[float]] = {}

    def put(self, slot: int, values: Mapping[Key, float]) -> None:
        """The figures of this moment; rows that are gone are forgotten."""
        for gone in self._rings.keys() - values.keys():
            del self._rings[gone]
        for key, value in values.items():
            ring = self._rings.get(key)
            if ring is None:
                ring = self._rings[key] = array("f", [math.nan]) * SLOTS
            ring[slot] = value

    def get(self, key: object, slots: Iterable[int]) -> list[float]:
        ring = self._rings.get(key)
        return [] if ring is None else [ring[slot] for slot in slots]


class History:
    """What the polls saw."""

    def __init__(self) -> None:
        self._times_ms = array("q", [0]) * SLOTS
        self._next = 0
        self._appended = Rings()
        self._lag_messages = Rings()
        self._lag_bytes = Rings()
        self._sent = Rings()

    def add(self, picture: Picture, appended: Mapping[str, Rates]) -> None:
        """Keep the figures of a moment. `appended` is since the moment before."""
        slot = self._next % SLOTS
        self._next += 1
        self._times_ms[slot] = picture.server.server_time
        exports = picture.exports
        self._appended.put(slot, {name: appended.get(name, Rates())[0] for name in picture.streams})
        self._lag_messages.put(slot, {key: view.lag_messages for key, view in exports.items()})
        self._lag_bytes.put(slot, {key: view.lag_bytes for key, view in exports.items()})
        self._sent.put(slot, {key: view.messages_per_second for key, view in exports.items()})

    def series(self, stream: str, export: str | None) -> Series:
        """Of a stream, and of one of its exports; empty lists for what there is not."""
        slots = self._recent_slots()
        key = (stream, export)
        return Series(
            times=[self._times_ms[slot] for slot in slots],
            appended_per_second=self._appended.get(stream, slots),
            lag_messages=self._lag_messages.get(key, slots),
            lag_bytes=self._lag_bytes.get(key, slots),
            messages_per_second=self._sent.get(key, slots),
        )

    def _recent_slots(self) -> list[int]:
        """Those of the last quarter of an hour, oldest first."""
        slots = [number % SLOTS for number in range(max(0, self._next - SLOTS), self._next)]
        if not slots:
            return []
        oldest_ms = self._times_ms[slots[-1]] - SPAN_MS
        return [slot for slot in slots if self._times_ms[slot] >= oldest_ms]
