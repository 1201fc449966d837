"""One stream: what it takes, what it keeps, what it lets go."""

from __future__ import annotations

from pathlib import Path

import pytest

from log.faulty_disk import FaultyDisk
from log.helpers import as_contents, files, flip
from log.power_cut import PowerCutDisk, lose_all
from penstock.block import ENTRY_BYTES
from penstock.errors import (
    InvalidRequestException,
    RequestPayloadTooLargeException,
    UpdateNotAllowedException,
)
from penstock.log.disk import Disk
from penstock.log.memory import Memory
from penstock.model import MIB, MessageStreamDefinition, StorageStatus, StrategyOnFull
from penstock.streams.exports import ExportProgress
from penstock.streams.stream import INLINE_READ_BYTES_MAX, Stream
from streams.helpers import (
    PAYLOAD_BYTES,
    RECORD_BYTES,
    SEGMENT_BYTES,
    append,
    append_each,
    contents,
    definition,
    exporting,
    kinesis,
    records,
    stored_bytes,
)

REJECT = StrategyOnFull.RejectNewData
OVERWRITE = StrategyOnFull.OverwriteOldestData
TIME_TO_LIVE_MS = 60_000


def opened(folder: Path, **options: object) -> Stream:
    return Stream(Disk(), str(folder), definition(**options))


def reopened(stream: Stream, *, orderly: bool) -> Stream:
    if orderly:
        stream.close()
    else:
        stream.abandon()
    again = Stream(Disk(), stream.folder, stream.definition)
    assert again.notices == []
    return again


def status(stream: Stream) -> tuple[int, int, int]:
    found = stream.storage_status()
    return found.oldest_sequence_number, found.newest_sequence_number, found.total_bytes


# --- an empty stream ---------------------------------------------------------------------------


def test_a_new_stream_is_empty(tmp_path: Path) -> None:
    stream = opened(tmp_path)
    assert stream.storage_status() == StorageStatus(0, -1, 0)
    assert stream.available_from(0) == 0
    assert stream.info().definition == stream.definition
    stream.close()


# --- full: reject ------------------------------------------------------------------------------


def test_total_bytes_are_payload_and_32_each(tmp_path: Path) -> None:
    stream = opened(tmp_path)
    payloads = [b"a", b"bb", b"c" * 300, b"d" * 1500]
    append_each(stream, payloads)
    assert stream.storage_status().total_bytes == stored_bytes(payloads)
    on_disk = sum(path.stat().st_size for path in files(tmp_path, ".data", ".index"))
    assert on_disk == stored_bytes(payloads)
    stream = reopened(stream, orderly=False)
    assert stream.storage_status().total_bytes == stored_bytes(payloads)
    stream.close()


def test_a_stream_can_be_filled_to_the_last_byte(tmp_path: Path) -> None:
    stream = opened(tmp_path, strategy_on_full=REJECT)
    append_each(stream, records(16))
    assert stream.storage_status().total_bytes == stream.definition.max_size
    with pytest.raises(InvalidRequestException) as caught:
        append(stream, [b"x"])
    assert "stream s is full: 4096 of maxSize 4096 bytes are used and 33 more" in str(caught.value)
    assert contents(stream) == as_contents(records(16)), "nothing is deleted"
    assert status(stream) == (0, 15, 4096)
    stream.close()


def test_a_message_one_byte_too_long_does_not_fit(tmp_path: Path) -> None:
    stream = opened(tmp_path, strategy_on_full=REJECT)
    append_each(stream, records(15))
    with pytest.raises(InvalidRequestException, match="257 more do not fit"):
        append(stream, [b"x" * (PAYLOAD_BYTES + 1)])
    assert append(stream, [b"x" * PAYLOAD_BYTES]) == 15
    stream.close()


def test_a_batch_fits_whole_or_not_at_all(tmp_path: Path) -> None:
    stream = opened(tmp_path, strategy_on_full=REJECT)
    append_each(stream, records(14))
    with pytest.raises(InvalidRequestException, match="is full"):
        append(stream, records(3, 14))
    assert stream.storage_status().newest_sequence_number == 13
    assert append(stream, records(2, 14)) == 14
    stream.close()


@pytest.mark.parametrize("strategy", [REJECT, OVERWRITE])
def test_what_could_never_fit_is_too_large(tmp_path: Path, strategy: StrategyOnFull) -> None:
    stream = opened(tmp_path, strategy_on_full=strategy)
    append_each(stream, records(3))
    stream.check_size(4096 - ENTRY_BYTES)
    with pytest.raises(RequestPayloadTooLargeException, match="exceeds maxSize 4096 of stream s"):
        stream.check_size(4096 - ENTRY_BYTES + 1)
    with pytest.raises(RequestPayloadTooLargeException, match="send fewer at once"):
        append(stream, records(17))
    assert contents(stream) == as_contents(records(3)), "nothing was dropped for it"
    stream.close()


# --- full: overwrite ---------------------------------------------------------------------------


def test_the_oldest_segment_goes_when_the_next_message_does_not_fit(tmp_path: Path) -> None:
    stream = opened(tmp_path, strategy_on_full=OVERWRITE)
    append_each(stream, records(16))
    assert append(stream, [b"x"]) == 16
    assert contents(stream) == as_contents([*records(12, 4), b"x"], 4)
    assert status(stream) == (4, 16, 12 * RECORD_BYTES + 1 + ENTRY_BYTES)
    stream.close()


@pytest.mark.parametrize(("record_count", "dropped"), [(1, 4), (4, 4), (5, 8), (9, 12), (16, 16)])
def test_no_more_segments_go_than_a_batch_needs(
    tmp_path: Path, record_count: int, dropped: int
) -> None:
    stream = opened(tmp_path, strategy_on_full=OVERWRITE)
    append_each(stream, records(16))
    assert append(stream, records(record_count, 16)) == 16
    assert contents(stream).keys() == set(range(dropped, 16 + record_count))
    stream.close()


def test_a_message_as_large_as_the_stream_replaces_everything(tmp_path: Path) -> None:
    stream = opened(tmp_path, strategy_on_full=OVERWRITE)
    append_each(stream, records(7))
    for number in range(7, 10):
        assert append(stream, [b"L" * (4096 - ENTRY_BYTES)]) == number
        assert status(stream) == (number, number, 4096)
    stream = reopened(stream, orderly=False)
    assert status(stream) == (9, 9, 4096)
    stream.close()


def test_a_stream_smaller_than_a_segment_does_not_lose_everything_when_it_is_full(
    tmp_path: Path,
) -> None:
    stream = opened(tmp_path, strategy_on_full=OVERWRITE, max_size=1024, stream_segment_size=MIB)
    for number in range(100):
        append(stream, [b"%04d" % number])
        assert stream.storage_status().total_bytes <= 1024
        if number > 50:
            assert len(contents(stream)) >= 20
    stream.close()


def test_numbers_go_on_however_often_data_is_overwritten(tmp_path: Path) -> None:
    stream = opened(tmp_path, strategy_on_full=OVERWRITE)
    for number in range(100):
        assert append(stream, records(1, number)) == number
        if number % 30 == 29:
            stream = reopened(stream, orderly=number % 60 == 29)
    found = contents(stream)
    assert found == {number: records(1, number)[0] for number in found}
    assert max(found) == 99
    stream.close()


# --- time to live ------------------------------------------------------------------------------


def aging_stream(folder: Path, **options: object) -> Stream:
    """Three segments, filled at 1000, 2000 and 3000 ms."""
    stream = opened(folder, time_to_live_millis=TIME_TO_LIVE_MS, **options)
    for segment in range(3):
        append(stream, records(4, 4 * segment), now_ms=1000 * (segment + 1))
    return stream


def test_without_a_time_to_live_nothing_expires(tmp_path: Path) -> None:
    stream = opened(tmp_path)
    append(stream, records(4), now_ms=0)
    assert stream.expire(10**15) == 0
    stream.close()


@pytest.mark.parametrize(
    ("now_ms", "segments_gone"),
    [(1000, 0), (61_000, 0), (61_001, 1), (62_000, 1), (62_001, 2), (63_001, 3), (10**15, 3)],
)
def test_a_segment_goes_when_its_newest_message_has_outlived_its_time(
    tmp_path: Path, now_ms: int, segments_gone: int
) -> None:
    stream = aging_stream(tmp_path)
    assert stream.expire(now_ms) == segments_gone
    assert stream.storage_status().oldest_sequence_number == 4 * segments_gone
    assert stream.storage_status().newest_sequence_number == 11
    assert contents(stream) == as_contents(records(12)[4 * segments_gone :], 4 * segments_gone)
    stream.close()


def test_one_young_message_keeps_its_segment(tmp_path: Path) -> None:
    stream = opened(tmp_path, time_to_live_millis=TIME_TO_LIVE_MS)
    append(stream, records(3), now_ms=1000)
    append(stream, records(1, 3), now_ms=50_000)
    assert stream.expire(61_001) == 0
    assert stream.expire(110_001) == 1
    stream.close()


@pytest.mark.parametrize("orderly", [True, False])
def test_when_everything_expired_the_numbers_go_on(tmp_path: Path, orderly: bool) -> None:
    stream = aging_stream(tmp_path)
    assert stream.expire(100_000) == 3
    assert status(stream) == (12, 11, 0)
    assert stream.available_from(0) == 0
    assert stream.expire(10**15) == 0
    stream = reopened(stream, orderly=orderly)
    assert status(stream) == (12, 11, 0)
    assert append(stream, [b"x"], now_ms=100_000) == 12
    stream.close()


@pytest.mark.parametrize("orderly", [True, False])
def test_what_expired_while_the_server_was_off_goes_after_the_start(
    tmp_path: Path, orderly: bool
) -> None:
    stream = reopened(aging_stream(tmp_path), orderly=orderly)
    assert status(stream) == (0, 11, 12 * RECORD_BYTES)
    assert stream.expire(62_001) == 2
    stream = reopened(stream, orderly=orderly)
    assert stream.expire(62_001) == 0
    assert status(stream) == (8, 11, 4 * RECORD_BYTES)
    assert stream.expire(10**15) == 1
    assert status(stream) == (12, 11, 0)
    stream.close()


def test_a_lower_time_to_live_reaches_existing_segments(tmp_path: Path) -> None:
    stream = opened(tmp_path)
    append(stream, records(4), now_ms=1000)
    stream.apply_update(definition(time_to_live_millis=TIME_TO_LIVE_MS))
    assert stream.expire(61_001) == 1
    stream.close()


@pytest.mark.parametrize(("now_ms", "segments_gone"), [(62_000, 0), (62_001, 2), (63_001, 3)])
def test_a_segment_whose_time_is_damaged_goes_with_the_next_one(
    tmp_path: Path, now_ms: int, segments_gone: int
) -> None:
    stream = aging_stream(tmp_path)
    stream.close()
    index = files(tmp_path, ".index")[0]
    flip(index, (3 * ENTRY_BYTES + 8) * 8)
    stream = Stream(Disk(), str(tmp_path), stream.definition)
    assert stream.expire(now_ms) == segments_gone
    stream.close()


# --- flushOnWrite ------------------------------------------------------------------------------


def test_with_flush_on_write_messages_are_hidden_until_they_are_synced(tmp_path: Path) -> None:
    stream = opened(tmp_path, flush_on_write=True)
    stream.append(b"abc", [1, 2], 1)
    assert stream.available_from(0) == 0
    assert stream.read(0, 10, 1000) == []
    assert status(stream) == (0, -1, 3 + 2 * ENTRY_BYTES)
    end = stream.log.end()
    stream.log.begin_sync()()
    stream.show_appended(end.next_sequence)
    assert contents(stream) == {0: b"a", 1: b"bc"}
    stream.show_appended(1)
    assert stream.visible_next == 2, "what was shown stays"
    stream.close()


def test_hidden_messages_can_be_taken_back(tmp_path: Path) -> None:
    stream = opened(tmp_path, flush_on_write=True)
    append(stream, records(3))
    end = stream.log.end()
    stream.append(b"untold" * 80, [6] * 80, 1)
    stream.take_back_hidden(end)
    assert status(stream) == (0, 2, 3 * RECORD_BYTES)
    assert append(stream, [b"told"]) == 3
    assert contents(stream) == as_contents([*records(3), b"told"])
    stream.close()


def test_hidden_messages_that_overwrote_what_was_told_can_be_taken_back(tmp_path: Path) -> None:
    stream = opened(tmp_path, flush_on_write=True, strategy_on_full=OVERWRITE)
    append(stream, records(4))
    end = stream.log.end()
    stream.append(b"u" * (4096 - ENTRY_BYTES), [4096 - ENTRY_BYTES], 1)
    stream.take_back_hidden(end)
    assert status(stream) == (4, 3, 0)
    assert append(stream, [b"told"]) == 4
    stream = reopened(stream, orderly=False)
    assert contents(stream) == {4: b"told"}
    stream.close()


@pytest.mark.parametrize("first", [True, False])
def test_flush_on_write_can_be_changed(first: bool) -> None:
    disk = PowerCutDisk()
    stream = Stream(disk, "/s", definition(flush_on_write=first))
    append(stream, records(2))
    stream.log.begin_sync()()
    stream.apply_update(definition(flush_on_write=not first))
    append(stream, records(2, 2))
    stream.log.begin_sync()()
    after = Stream(disk.cut(lose_all), "/s", stream.definition, power_lost=True)
    assert after.visible_next >= (4 if not first else 2)
    if first:
        assert contents(after).keys() >= {0, 1}, "they were synced before they were told"
    else:
        assert contents(after).keys() >= {2, 3}


# --- reading -----------------------------------------------------------------------------------


def test_small_reads_are_done_at_once_and_large_ones_in_a_thread() -> None:
    stream = Stream(Memory(), "/m", definition(max_size=8 * MIB, stream_segment_size=4 * MIB))
    payload = b"x" * 1000
    append(stream, [payload] * 1000)
    assert isinstance(stream.read(0, 100, 8 * MIB), list)
    assert isinstance(stream.read(0, 1000, INLINE_READ_BYTES_MAX), list)
    large = stream.read(0, 1000, 8 * MIB)
    assert callable(large)
    assert sum(map(len, large())) == 1000


def test_available_messages_are_counted_from_any_number(tmp_path: Path) -> None:
    stream = opened(tmp_path, strategy_on_full=OVERWRITE)
    append_each(stream, records(17))
    assert stream.available_from(0) == 13
    assert stream.available_from(4) == 13
    assert stream.available_from(10) == 7
    assert stream.available_from(17) == 0
    stream.close()


# --- updates and exports -----------------------------------------------------------------------


def test_a_forbidden_update_is_refused_with_the_reason(tmp_path: Path) -> None:
    stream = opened(tmp_path)
    append_each(stream, records(8))
    with pytest.raises(UpdateNotAllowedException, match="stream s cannot be updated so: maxSize"):
        stream.check_update(definition(max_size=1024))
    stream.check_update(definition(max_size=2048))
    stream.close()


def test_what_describe_returns_can_be_updated_unchanged(tmp_path: Path) -> None:
    made = MessageStreamDefinition(
        "s",
        max_size=1024,
        strategy_on_full=REJECT,
        export_definition=exporting(kinesis("a", start=1000), kinesis("b")),
    ).validated()
    stream = Stream(Disk(), str(tmp_path), made)
    append(stream, [b"x" * 900])
    described = stream.info().validated().definition
    stream.check_update(described)
    stream.apply_update(described)
    assert stream.info().validated().definition == described
    stream.close()


def test_a_new_segment_size_is_for_new_segments(tmp_path: Path) -> None:
    stream = opened(tmp_path)
    append(stream, records(2))
    stream.apply_update(definition(stream_segment_size=2 * SEGMENT_BYTES))
    append_each(stream, records(10, 2))
    assert [segment.count for segment in stream.log.segments] == [8, 4]
    stream.close()


def test_numbers_that_an_export_saw_are_not_given_again() -> None:
    """A power cut took messages that had been exported: their numbers are skipped, and said so."""
    disk = PowerCutDisk()
    made = definition(export_definition=exporting(kinesis()), flush_on_write=True)
    stream = Stream(disk, "/s", made)
    append(stream, records(3))
    stream.log.begin_sync()()
    append(stream, records(3, 3))
    stream.exports.save(ExportProgress("k", "KinesisConfig", 0, 5, exported_count=6))
    disk.open("/s/exports").sync()

    after = Stream(disk.cut(lose_all), "/s", made, power_lost=True)
    assert contents(after) == as_contents(records(3))
    assert [text for text in after.notices if "messages 3 to 5 are not in /s" in text]
    assert append(after, [b"x"]) == 6
    assert after.exports.progress["k"].last_exported_sequence == 5


def test_a_journal_that_cannot_be_rewritten_does_not_undo_an_update(tmp_path: Path) -> None:
    disk = FaultyDisk()
    stream = Stream(disk, str(tmp_path), definition(export_definition=exporting(kinesis())))
    disk.faults.fail_operation("replace_file")
    with pytest.raises(OSError, match="No space"):
        stream.apply_update(definition(export_definition=exporting(kinesis("new"))))
    assert stream.definition.export_definition == exporting(kinesis("new"))
    assert stream.exports.progress.keys() == {"new"}
    stream.abandon()
