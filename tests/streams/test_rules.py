"""What an update may change."""

from __future__ import annotations

import pytest

from penstock.model import (
    GIB,
    KIB,
    MIB,
    ExportDefinition,
    HTTPConfig,
    IoTSiteWiseConfig,
    KinesisConfig,
    MessageStreamDefinition,
    Persistence,
    S3ExportTaskExecutorConfig,
    StorageStatus,
    StrategyOnFull,
)
from penstock.streams.rules import forbidden_change, segment_bytes_for
from streams.helpers import definition, exporting, kinesis

EMPTY = StorageStatus()
FILLED = StorageStatus(0, 9, 3000)


def verdict(
    old: MessageStreamDefinition, new: MessageStreamDefinition, storage: StorageStatus = EMPTY
) -> str:
    return forbidden_change(old, new, storage) or ""


# --- segments ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("max_size", "stream_segment_size", "expected"),
    [
        (256 * MIB, 16 * MIB, 16 * MIB),
        (16 * MIB, 16 * MIB, 16 * MIB),
        (8 * MIB, 16 * MIB, 2 * MIB),
        (KIB, 16 * MIB, 256),
        (KIB, KIB, KIB),
    ],
)
def test_a_stream_smaller_than_a_segment_gets_four_segments(
    max_size: int, stream_segment_size: int, expected: int
) -> None:
    made = definition(max_size=max_size, stream_segment_size=stream_segment_size)
    assert segment_bytes_for(made) == expected


# --- what must stay ----------------------------------------------------------------------------


@pytest.mark.parametrize("old", Persistence)
@pytest.mark.parametrize("new", Persistence)
def test_persistence_must_stay(old: Persistence, new: Persistence) -> None:
    text = verdict(definition(persistence=old), definition(persistence=new))
    assert (text == "") == (old == new)
    if old != new:
        assert f"from {old.name} to {new.name}" in text


def test_persistence_left_out_means_file() -> None:
    memory = definition(persistence=Persistence.Memory)
    omitted = MessageStreamDefinition("s", strategy_on_full=StrategyOnFull.RejectNewData)
    assert "persistence" in verdict(memory, omitted.validated())


# --- sizes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("max_size", "is_allowed"), [(2999, False), (3000, True), (3001, True), (GIB, True)]
)
def test_the_maximum_size_must_hold_what_is_there(max_size: int, is_allowed: bool) -> None:
    text = verdict(definition(), definition(max_size=max_size), FILLED)
    assert (text == "") == is_allowed
    if not is_allowed:
        assert "maxSize 2999 is less than the 3000 bytes that the stream holds" in text


@pytest.mark.parametrize(
    ("max_size", "segment", "is_allowed"),
    [
        (4 * KIB, 4 * KIB, True),  # the maxSize rule allows equality
        (4 * KIB, 4 * KIB + 1, False),
        (4 * KIB, KIB, True),
        (2 * KIB, 4 * KIB, False),
    ],
)
def test_a_segment_must_not_be_larger_than_the_stream(
    max_size: int, segment: int, is_allowed: bool
) -> None:
    new = definition(max_size=max_size, stream_segment_size=segment)
    text = verdict(definition(max_size=8 * KIB), new)
    assert (text == "") == is_allowed
    if not is_allowed:
        assert f"maxSize {max_size} is less than streamSegmentSize {segment}" in text


def small_stream(**options: object) -> MessageStreamDefinition:
    """What SDKs send when only the maximum size is set: segments larger than the stream."""
    return definition(max_size=KIB, stream_segment_size=16 * MIB, **options)


def test_what_describe_returned_is_always_allowed() -> None:
    full = StorageStatus(5, 9, KIB)
    assert verdict(small_stream(), small_stream(), full) == ""
    assert verdict(small_stream(), small_stream(), EMPTY) == ""


def test_a_small_stream_can_be_changed_in_everything_but_its_sizes() -> None:
    new = small_stream(
        strategy_on_full=StrategyOnFull.OverwriteOldestData,
        time_to_live_millis=60_000,
        flush_on_write=True,
        export_definition=exporting(kinesis()),
    )
    assert verdict(small_stream(), new, StorageStatus(0, 3, 500)) == ""


def test_a_small_stream_whose_sizes_change_must_obey_the_rule() -> None:
    new = definition(max_size=2 * KIB, stream_segment_size=16 * MIB)
    assert "streamSegmentSize" in verdict(small_stream(), new)
    assert (
        verdict(small_stream(), definition(max_size=16 * MIB, stream_segment_size=16 * MIB)) == ""
    )


def test_a_stream_that_already_holds_more_may_keep_its_maximum() -> None:
    assert verdict(definition(), definition(), StorageStatus(0, 9, 10**9)) == ""


# --- what may change freely --------------------------------------------------------------------


def test_retention_and_durability_may_change() -> None:
    new = definition(
        time_to_live_millis=60_000,
        strategy_on_full=StrategyOnFull.OverwriteOldestData,
        flush_on_write=True,
    )
    assert verdict(definition(), new, FILLED) == ""
    assert verdict(new, definition(), FILLED) == ""


def test_exports_may_come_and_go_and_pause() -> None:
    one = definition(export_definition=exporting(kinesis("a")))
    two = definition(export_definition=exporting(kinesis("a", disabled=True), kinesis("b")))
    for old, new in ((one, two), (two, one), (one, definition()), (definition(), two)):
        assert verdict(old, new, EMPTY) == ""
        assert verdict(old, new, FILLED) == ""


# --- where exports start -----------------------------------------------------------------------


def with_start(start: int, identifier: str = "k") -> MessageStreamDefinition:
    return definition(export_definition=exporting(kinesis(identifier, start)))


@pytest.mark.parametrize(("start", "is_allowed"), [(0, True), (8, True), (9, False), (10, False)])
def test_a_changed_start_must_be_below_the_newest_message(start: int, is_allowed: bool) -> None:
    text = verdict(with_start(3), with_start(start), FILLED)
    assert (text == "") == is_allowed
    if not is_allowed:
        assert f"export k: startSequenceNumber {start} must be less than" in text
        assert text.endswith("the newest sequence number, 9")


def test_an_unchanged_start_may_be_anywhere() -> None:
    assert verdict(with_start(1000), with_start(1000), FILLED) == ""
    assert verdict(with_start(1000), with_start(1000), EMPTY) == ""


def test_a_new_export_may_start_at_zero_even_if_the_stream_is_empty() -> None:
    assert verdict(definition(), with_start(0), EMPTY) == ""
    assert verdict(with_start(0, "a"), with_start(0, "b"), EMPTY) == ""


def test_a_new_export_that_starts_elsewhere_must_start_below_the_newest() -> None:
    assert verdict(definition(), with_start(8), FILLED) == ""
    assert "startSequenceNumber 9" in verdict(definition(), with_start(9), FILLED)
    assert "newest sequence number, -1" in verdict(definition(), with_start(1), EMPTY)


def test_an_export_that_moves_to_another_type_is_a_new_one() -> None:
    moved = definition(
        export_definition=ExportDefinition(
            http=[HTTPConfig("k", "http://localhost", start_sequence_number=1000)]
        )
    )
    assert "startSequenceNumber 1000" in verdict(with_start(1000), moved, FILLED)


def test_every_type_of_export_is_looked_at() -> None:
    for new in (
        ExportDefinition(http=[HTTPConfig("e", "http://localhost", start_sequence_number=99)]),
        ExportDefinition(kinesis=[KinesisConfig("e", "t", start_sequence_number=99)]),
        ExportDefinition(iot_sitewise=[IoTSiteWiseConfig("e", start_sequence_number=99)]),
    ):
        assert "export e" in verdict(definition(), definition(export_definition=new), FILLED)
    tasks = ExportDefinition(s3_task_executor=[S3ExportTaskExecutorConfig("e")])
    assert verdict(definition(), definition(export_definition=tasks), EMPTY) == ""
