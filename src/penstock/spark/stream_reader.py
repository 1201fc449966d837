"""`spark.readStream`: each micro-batch is a range of numbers per stream, fixed by its offsets.

Lives in one Python process as long as the query does. A stream that appears later enters the
offsets with the number it begins at in one batch, and is read from the next one on: so that both
ends of every range are in Spark's offset log and a batch can be read again after a restart.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pyarrow
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from penstock.errors import PenstockError
from penstock.spark.filters import Limits
from penstock.spark.offsets import (
    Offsets,
    checked,
    count_between,
    entries,
    from_entries,
    limited,
    lowered,
    merged,
    number_of,
)
from penstock.spark.options import SourceOptions
from penstock.spark.places import Bounds
from penstock.spark.ranges import Range, report_loss
from penstock.spark.reader import batches, portions, start_of
from penstock.spark.survey import Address, Places, Survey, name_of, some
from penstock.spark.trouble import said_plainly

log = logging.getLogger(__name__)

MADE_ANEW = "the stream was made anew or its newest messages were cut off"


class PenstockStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Plans and reads the micro-batches of one query."""

    def __init__(self, options: SourceOptions, refusal: PenstockError | None = None) -> None:
        self._options = options
        # Spark loses the text of what is raised when a reader is made or prepared for availableNow
        # (4.3: UnboundLocalError, EOFException). So it is raised at the first chance after that.
        self._refusal = refusal
        self._places: Places | None = None
        self._survey: Survey | None = None
        self._initial: Offsets | None = None
        self._target: Offsets | None = None
        self._losses_told: set[tuple[str, str, int]] = set()

    def __getstate__(self) -> dict[str, Any]:
        """Tasks need the options only, and connections do not travel."""
        return {"_options": self._options}

    # --- planning ------------------------------------------------------------------------------

    @said_plainly
    def initialOffset(self) -> Offsets:
        """Where a query begins that has no checkpoint yet."""
        self._raise_refusal()
        if self._initial is None:
            survey = self._look()
            self._look_for_places().check_streams(survey, may_appear=True)
            self._initial = self._starts(survey)
            log.warning(
                "A query without a checkpoint begins: %s. If it has run before, its checkpoint is "
                "lost, and messages will be read again.",
                some(f"{s} at {p} from {n}" for p, s, n in entries(self._initial)) or "empty",
            )
        return self._initial

    @said_plainly
    def latestOffset(self, start: Any, limit: ReadLimit) -> Offsets:
        """How far the next micro-batch goes."""
        self._raise_refusal()
        begin = checked(start, "start")
        survey = self._look()
        end = self._ends(survey, begin)
        if self._target is not None:
            end = lowered(end, merged(begin, self._target))
        if isinstance(limit, ReadAllAvailable):
            return end
        return self._admitted(begin, end, survey)

    @said_plainly
    def getDefaultReadLimit(self) -> ReadLimit:
        if self._options.messages_per_trigger_max is not None:
            return ReadMaxRows(self._options.messages_per_trigger_max)
        if self._options.messages_per_trigger_min is not None:
            return ReadMinRows(self._options.messages_per_trigger_min)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """What is there now is all that will be read."""
        try:
            survey = self._look()
        except PenstockError as error:
            self._refusal = self._refusal or error
            return
        self._target = from_entries(
            (name, stream, bounds.next_sequence)
            for name, streams in survey.bounds.items()
            for stream, bounds in streams.items()
        )

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """For the query's progress: where each stream ends; a text for a server that is down."""
        if self._survey is None:
            return None
        found: dict[str, Any] = {
            name: {stream: bounds.next_sequence for stream, bounds in streams.items()}
            for name, streams in self._survey.bounds.items()
        }
        return dict(sorted((found | self._survey.down).items()))

    @said_plainly
    def partitions(self, start: Any, end: Any) -> list[InputPartition]:
        """Exactly the messages between two offsets, whatever has come since."""
        self._raise_refusal()
        begin, until = checked(start, "start"), checked(end, "end")
        addresses = self._look_for_places().addresses()
        ranges = []
        for place, stream, stop in entries(until):
            first = number_of(begin, place, stream)
            if first is not None and first < stop:
                if place in addresses:
                    ranges.append(self._range(addresses[place], stream, first, stop))
                else:
                    self._lost(place, stream, first, stop, "the options no longer name this place")
        return portions([each for each in ranges if len(each)], self._options)

    def stop(self) -> None:
        if self._places is not None:
            self._places.close()

    # --- tasks ---------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        return batches(partition, self._options, Limits())

    # --- helpers -------------------------------------------------------------------------------

    def _raise_refusal(self) -> None:
        if self._refusal is not None:
            raise self._refusal

    def _look_for_places(self) -> Places:
        if self._places is None:
            self._places = Places(self._options)
        return self._places

    def _look(self) -> Survey:
        self._survey = self._look_for_places().survey()
        return self._survey

    def _starts(self, survey: Survey) -> Offsets:
        """The first numbers of all streams, as the options say."""
        places = self._look_for_places()
        addresses = places.addresses()
        return from_entries(
            (
                name,
                stream,
                start_of(self._options, places.place(name), addresses[name], stream, bounds),
            )
            for name, streams in survey.bounds.items()
            for stream, bounds in streams.items()
        )

    def _ends(self, survey: Survey, begin: Offsets) -> Offsets:
        """Where each stream ends; a new one is only noted with its beginning."""
        found = list(self._without_answer(survey, begin))
        for name, streams in survey.bounds.items():
            for stream, bounds in streams.items():
                number = number_of(begin, name, stream)
                found.append((name, stream, self._end(name, stream, number, bounds)))
        return from_entries(found)

    def _end(self, place: str, stream: str, number: int | None, bounds: Bounds) -> int:
        if number is None:
            return bounds.first_sequence
        if bounds.next_sequence < number:
            why = f"{MADE_ANEW}, its next number is {bounds.next_sequence}"
            self._lost(place, stream, number, None, why)
            return bounds.first_sequence
        self._check_overwritten(place, stream, number, bounds.next_sequence, bounds)
        return bounds.next_sequence

    def _without_answer(self, survey: Survey, begin: Offsets) -> Iterator[tuple[str, str, int]]:
        """Offsets to keep although nothing is known of their streams now."""
        for place, stream, number in entries(begin):
            if place in survey.down:
                yield place, stream, number
            elif place not in survey.bounds:
                self._lost(place, stream, number, None, "the options no longer name this place")
                yield place, stream, number
            elif not self._options.streams.match(stream):
                self._lost(place, stream, number, None, "option stream no longer names it")
                yield place, stream, number
            elif stream not in survey.bounds[place]:
                self._lost(place, stream, number, None, "the stream was deleted")

    def _admitted(self, begin: Offsets, end: Offsets, survey: Survey) -> Offsets:
        """No more and no fewer messages than the options say; new streams are noted anyway."""
        readable = from_entries(
            (place, stream, max(number, survey.first_of(place, stream)))
            for place, stream, number in entries(begin)
        )
        count_min = self._options.messages_per_trigger_min
        if count_min and self._target is None and count_between(readable, end) < count_min:
            return lowered(end, merged(end, begin))
        count_max = self._options.messages_per_trigger_max
        return end if count_max is None else limited(readable, end, count_max)

    def _range(self, address: Address, stream: str, first: int, stop: int) -> Range:
        """Without what is known to be lost, so that tasks are of one size."""
        survey = self._survey or self._look()
        name = name_of(address)
        bounds = survey.bounds.get(name, {}).get(stream)
        if bounds is None:
            if name not in survey.down:
                self._lost(name, stream, first, stop, "the stream was deleted")
                stop = first
            return Range(address, stream, first, stop)
        if bounds.next_sequence < stop:
            why = f"{MADE_ANEW}, its next number is {bounds.next_sequence}"
            kept = max(first, bounds.next_sequence)
            self._lost(name, stream, kept, stop, why)
            stop = kept
        self._check_overwritten(name, stream, first, stop, bounds)
        first = max(first, bounds.first_sequence)
        return Range(address, stream, first, stop, bounds.bytes_per_message)

    def _check_overwritten(
        self, place: str, stream: str, first: int, stop: int, bounds: Bounds
    ) -> None:
        oldest = bounds.first_sequence
        if oldest > first:
            why = f"they were overwritten or expired, the oldest message is {oldest}"
            self._lost(place, stream, first, min(stop, oldest), why)

    def _lost(self, place: str, stream: str, first: int, stop: int | None, why: str) -> None:
        """Raise, or tell it once."""
        if (place, stream, first) in self._losses_told:
            return
        report_loss(place, stream, first, stop, why, self._options.fail_on_data_loss)
        self._losses_told.add((place, stream, first))
