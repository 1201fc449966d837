"""`spark.read`: ranges are fixed when the query is planned."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from penstock.block import Block
from penstock.errors import PenstockError
from penstock.spark.arrow import to_batch
from penstock.spark.filters import Limits, limits_of
from penstock.spark.garbage import spare_what_is_loaded
from penstock.spark.options import EARLIEST, LATEST, Number, SourceOptions
from penstock.spark.places import Bounds, Place, first_at_or_after
from penstock.spark.ranges import Range, pack, read_ranges, report_loss
from penstock.spark.survey import Address, Places, name_of
from penstock.spark.trouble import SourceError, said_plainly, speak_plainly


@dataclass(frozen=True)
class Portion(InputPartition):  # type: ignore[misc]  # pyspark's types are not looked at
    """What one task reads."""

    ranges: tuple[Range, ...]


class PenstockReader(DataSourceReader):  # type: ignore[misc]
    """Reads what is there when the query is planned."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._limits = Limits()

    @said_plainly
    def partitions(self) -> list[InputPartition]:
        places = Places(self._options)
        try:
            ranges = list(self._ranges(places))
        finally:
            places.close()
        spare_what_is_loaded()
        return portions(ranges, self._options)

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        return batches(partition, self._options, self._limits)

    def _ranges(self, places: Places) -> Iterator[Range]:
        survey = places.survey()
        places.check_streams(survey, may_appear=False)
        addresses = places.addresses()
        for name, streams in survey.bounds.items():
            if not self._limits.allows("server", name):
                continue
            for stream, bounds in streams.items():
                if self._limits.allows("stream", stream):
                    yield from self._ranges_of(places.place(name), addresses[name], stream, bounds)

    def _ranges_of(
        self, place: Place, address: Address, stream: str, bounds: Bounds
    ) -> Iterator[Range]:
        first, stop = chosen_range(self._options, place, address, stream, bounds)
        first, stop = self._limits.within(first, stop)
        if first >= stop:
            return
        parts = [(first, stop)]
        if self._limits.has_times:
            parts = place.times_within(
                stream, first, stop, self._limits.from_ms, self._limits.before_ms
            )
        for part_first, part_stop in parts:
            yield Range(address, stream, part_first, part_stop, bounds.bytes_per_message)


class PenstockPushdownReader(PenstockReader):
    """The same, reading no more than the query's filters let through.

    Only if the user asks for it: Spark (4.3) keeps one plan of reading for all uses of a DataFrame.
    After `frame.filter(...).count()` a plain `frame.count()` would count what the filter left.
    """

    @said_plainly
    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take note of them. Spark applies them once more, row by row."""
        self._limits = limits_of(filters)
        return filters


def chosen_range(
    options: SourceOptions, place: Place, address: Address, stream: str, bounds: Bounds
) -> tuple[int, int]:
    """What the options choose of what a stream holds."""
    first = start_of(options, place, address, stream, bounds)
    if options.end_time_ms is not None:
        return first, first_at_or_after(place, stream, bounds, options.end_time_ms)
    stop = options.end.of(name_of(address), stream)
    return first, min(_as_number(stop, bounds), bounds.next_sequence)


def start_of(
    options: SourceOptions, place: Place, address: Address, stream: str, bounds: Bounds
) -> int:
    """Where a read begins that has not begun before."""
    if options.start_time_ms is not None:
        return first_at_or_after(place, stream, bounds, options.start_time_ms)
    start = _as_number(options.start.of(name_of(address), stream), bounds)
    if start > bounds.next_sequence:
        raise SourceError(
            f"option startingSequence cannot be {start} for stream {stream} at "
            f"{name_of(address)}: its next number is {bounds.next_sequence}"
        )
    if start < bounds.first_sequence:
        why = (
            f"startingSequence asks for them, and the oldest message is {bounds.first_sequence} "
            f"(earliest begins there)"
        )
        report_loss(
            name_of(address),
            stream,
            start,
            bounds.first_sequence,
            why,
            options.fail_on_data_loss,
        )
    return max(start, bounds.first_sequence)


def _as_number(number: Number, bounds: Bounds) -> int:
    known = {EARLIEST: bounds.first_sequence, LATEST: bounds.next_sequence}
    return known[number] if isinstance(number, str) else number


def portions(ranges: list[Range], options: SourceOptions) -> list[InputPartition]:
    """Ranges as tasks."""
    packed = pack(ranges, _core_count(), options.messages_per_partition_max)
    return [Portion(tuple(each)) for each in packed]


def _core_count() -> int:
    """Of this machine: the driver's. On a cluster it is the partitions' size that counts."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def batches(
    partition: InputPartition, options: SourceOptions, limits: Limits
) -> Iterator[pyarrow.RecordBatch]:
    """The rows of one task."""
    if not isinstance(partition, Portion):
        return  # Spark's stand-in for a plan without any task
    spare_what_is_loaded()
    try:
        for wanted, block in read_ranges(partition.ranges, options.fail_on_data_loss):
            if limits.may_hold(block):
                yield batch_of(wanted, block, options.has_server_column)
    except PenstockError:
        speak_plainly()
        raise


def batch_of(wanted: Range, block: Block, has_server_column: bool) -> pyarrow.RecordBatch:
    return to_batch(block, wanted.stream, name_of(wanted.address) if has_server_column else None)
