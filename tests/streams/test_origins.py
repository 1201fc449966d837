"""An append that names its origin is stored once, however often it comes."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pytest

from log.helpers import flip
from penstock.errors import InvalidRequestException
from penstock.log.disk import Disk
from penstock.log.memory import Memory
from penstock.model import StrategyOnFull
from penstock.streams import origins as origins_module
from penstock.streams.origins import NOWHERE, Origin, Record, journal_line, read_journal
from penstock.streams.stream import Stream
from streams.helpers import append, contents, definition, records

BIG = definition(max_size=1 << 20, stream_segment_size=1 << 18)
SMALL = definition(strategy_on_full=StrategyOnFull.OverwriteOldestData)


def opened(folder: Path, described: object = BIG) -> Stream:
    return Stream(Disk(), str(folder), described)


def once(
    stream: Stream, origin: Origin, payloads: list[bytes]
) -> tuple[list[tuple[int, int]], int]:
    """Append and show; where the messages are, and how many were stored now."""
    record, stored = stream.append_once(origin, b"".join(payloads), list(map(len, payloads)), 1)
    stream.show_appended(stream.log.next_sequence)
    return record.runs, stored


def chunk(number: int = 0, batch: int = 0, writer: str = "w") -> Origin:
    return Origin(writer, batch, number)


# --- recognising -------------------------------------------------------------------------------


@pytest.mark.parametrize("in_memory", [False, True])
def test_the_second_time_gets_the_numbers_of_the_first(tmp_path: Path, in_memory: bool) -> None:
    stream = Stream(Memory(), "/memory", BIG) if in_memory else opened(tmp_path)
    append(stream, [b"before"])

    assert once(stream, chunk(), [b"a", b"b"]) == ([(1, 2)], 2)
    append(stream, [b"between"])
    assert once(stream, chunk(), [b"a", b"b"]) == ([(1, 2)], 0)

    assert list(contents(stream).values()) == [b"before", b"a", b"b", b"between"]
    stream.close()


def test_an_earlier_chunk_of_the_batch_is_known_without_its_numbers(tmp_path: Path) -> None:
    stream = opened(tmp_path)
    once(stream, chunk(0), [b"a"])
    once(stream, chunk(1), [b"b"])

    assert once(stream, chunk(0), [b"a"]) == ([], 0)
    assert once(stream, chunk(2), [b"c"]) == ([(2, 1)], 1)
    assert once(stream, chunk(0, batch=1), [b"d"]) == ([(3, 1)], 1)
    stream.close()


def test_writers_do_not_know_each_other(tmp_path: Path) -> None:
    stream = opened(tmp_path)

    assert once(stream, chunk(writer="a"), [b"same"]) == ([(0, 1)], 1)
    assert once(stream, chunk(writer="b"), [b"same"]) == ([(1, 1)], 1)
    stream.close()


def test_what_was_stored_is_known_after_a_restart(tmp_path: Path) -> None:
    for close in (Stream.close, Stream.abandon):
        stream = opened(tmp_path)
        once(stream, chunk(3, batch=7), [b"a", b"b"])
        close(stream)
        again = opened(tmp_path)

        assert again.notices == []
        assert once(again, chunk(3, batch=7), [b"a", b"b"]) == ([(0, 2)], 0)
        again.close()


def test_a_stream_without_origins_has_no_file_for_them(tmp_path: Path) -> None:
    stream = opened(tmp_path)
    append(stream, [b"x"])
    stream.close()

    assert not (tmp_path / "origins").exists()


# --- refusing ----------------------------------------------------------------------------------


def test_a_batch_that_comes_after_a_later_one_is_refused(tmp_path: Path) -> None:
    """It was not sent by who sent the later one: to drop it silently would lose messages."""
    stream = opened(tmp_path)
    once(stream, chunk(batch=7), [b"a"])

    with pytest.raises(
        InvalidRequestException, match=r"batch 6 of writer w came after batch 7: .*"
    ):
        once(stream, chunk(batch=6), [b"b"])
    assert list(contents(stream).values()) == [b"a"]
    stream.close()


def test_fewer_messages_than_before_are_refused(tmp_path: Path) -> None:
    stream = opened(tmp_path)
    once(stream, chunk(), [b"a", b"b"])

    with pytest.raises(InvalidRequestException, match="again with 1 messages instead of 2"):
        once(stream, chunk(), [b"a"])
    stream.close()


def test_of_more_messages_than_before_those_behind_are_stored(tmp_path: Path) -> None:
    """A sender that is killed can take the end of what reached it for the end of all."""
    stream = opened(tmp_path)
    once(stream, chunk(), [b"a", b"b"])
    append(stream, [b"other"])

    runs = [(0, 2), (3, 1)]
    assert once(stream, chunk(), [b"a", b"b", b"c"]) == (runs, 1)
    assert once(stream, chunk(), [b"a", b"b", b"c"]) == (runs, 0)
    stream.abandon()
    again = opened(tmp_path)
    assert once(again, chunk(), [b"a", b"b", b"c"]) == (runs, 0)
    assert list(contents(again).values()) == [b"a", b"b", b"other", b"c"]
    again.close()


def test_more_messages_that_begin_otherwise_are_refused(tmp_path: Path) -> None:
    stream = opened(tmp_path)
    once(stream, chunk(), [b"a", b"b"])

    with pytest.raises(InvalidRequestException, match="came again with other messages"):
        once(stream, chunk(), [b"a", b"x", b"c"])
    stream.close()


def test_the_next_chunk_must_not_come_before_the_answer(tmp_path: Path) -> None:
    """If the sync fails, both are taken back, and only the last one is remembered."""
    stream = opened(tmp_path, definition(max_size=1 << 20, flush_on_write=True))
    stream.append_once(chunk(0), b"a", [1], 1)

    with pytest.raises(InvalidRequestException, match="wait for the answer"):
        stream.append_once(chunk(1), b"b", [1], 1)
    assert stream.append_once(chunk(0), b"a", [1], 1)[1] == 0, "the same may come and wait"
    stream.log.begin_sync()()
    stream.show_appended(stream.log.next_sequence)
    assert stream.append_once(chunk(1), b"b", [1], 1)[1] == 1
    stream.abandon()


def test_what_a_failed_sync_took_back_is_stored_when_it_comes_again(tmp_path: Path) -> None:
    stream = opened(tmp_path, definition(max_size=1 << 20, flush_on_write=True))
    end = stream.log.end()
    stream.append_once(chunk(0, writer="a"), b"a", [1], 1)
    stream.append_once(chunk(0, writer="b"), b"b", [1], 1)
    stream.take_back_hidden(end)

    assert append(stream, [b"other"]) == 0
    assert once(stream, chunk(0, writer="b"), [b"b"]) == ([(1, 1)], 1)
    assert once(stream, chunk(0, writer="a"), [b"a"]) == ([(2, 1)], 1)
    stream.close()


def test_a_full_stream_refuses_and_stores_it_when_there_is_room(tmp_path: Path) -> None:
    stream = opened(tmp_path, definition())
    payloads = records(16)
    once(stream, chunk(0), payloads)

    with pytest.raises(InvalidRequestException, match="is full"):
        once(stream, chunk(1), [b"x"])
    stream.log.drop_oldest(1)
    assert once(stream, chunk(1), [b"x"]) == ([(16, 1)], 1)
    stream.close()


# --- a part ------------------------------------------------------------------------------------


def test_of_an_append_that_is_stored_in_part_the_rest_is_stored(tmp_path: Path) -> None:
    payloads = [b"%d" % number * 9 for number in range(6)]
    stream = opened(tmp_path)
    append(stream, [b"before"])
    once(stream, chunk(), payloads)
    stream.abandon()
    (data,) = tmp_path.glob("*.data")
    with data.open("r+b") as file:
        file.truncate(6 + 9 * 4 - 1)  # the fourth is torn

    again = opened(tmp_path)
    runs, stored = once(again, chunk(), payloads)

    assert stored == 3
    assert runs == [(1, 3), (again.log.next_sequence - 3, 3)]
    assert list(contents(again).values()) == [b"before", *payloads]
    assert once(again, chunk(), payloads) == (runs, 0)
    again.abandon()
    assert once(opened(tmp_path), chunk(), payloads) == (runs, 0)


def test_messages_that_retention_removed_count_as_stored(tmp_path: Path) -> None:
    for restart in (False, True):
        folder = tmp_path / str(restart)
        folder.mkdir()
        stream = opened(folder, SMALL)
        once(stream, chunk(), records(2))
        for number in range(30):
            append(stream, records(1, 100 + number))
        assert stream.log.first_sequence > 2
        if restart:
            stream.abandon()
            stream = opened(folder, SMALL)

        assert once(stream, chunk(), records(2)) == ([(0, 2)], 0)
        stream.close()


def test_messages_that_outlived_their_time_count_as_stored(tmp_path: Path) -> None:
    described = definition(time_to_live_millis=60_000)
    stream = opened(tmp_path, described)
    once(stream, chunk(), records(2))
    assert stream.expire(100_000) == 1
    stream.abandon()

    assert once(opened(tmp_path, described), chunk(), records(2)) == ([(0, 2)], 0)


# --- the journal -------------------------------------------------------------------------------


def test_the_journal_stays_small(tmp_path: Path) -> None:
    stream = opened(tmp_path)
    for number in range(2000):
        once(stream, chunk(batch=number), [b"x"])
    assert (tmp_path / "origins").stat().st_size <= origins_module.JOURNAL_BYTES_MAX
    stream.abandon()

    again = opened(tmp_path)
    assert once(again, chunk(batch=1999), [b"x"]) == ([(1999, 1)], 0)
    again.close()


def test_the_writer_that_stored_nothing_for_the_longest_time_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(origins_module, "WRITERS_MAX", 3)
    stream = opened(tmp_path)
    for writer in "abc":
        once(stream, chunk(writer=writer), [b"x"])
    once(stream, chunk(1, writer="a"), [b"x"])
    once(stream, chunk(writer="d"), [b"x"])

    for restart in (False, True):
        if restart:
            stream.abandon()
            stream = opened(tmp_path)
        for writer, last in (("a", 1), ("c", 0), ("d", 0)):
            assert once(stream, chunk(last, writer=writer), [b"x"])[1] == 0
    assert once(stream, chunk(writer="b"), [b"x"])[1] == 1
    stream.close()


def test_a_damaged_line_is_reported_and_the_others_count(tmp_path: Path) -> None:
    stream = opened(tmp_path)
    once(stream, chunk(writer="a"), [b"x"])
    once(stream, chunk(writer="b"), [b"x"])
    stream.close()
    flip(tmp_path / "origins", 100)

    again = opened(tmp_path)
    assert again.notices == ["origins: line 1 is damaged and left out"]
    assert once(again, chunk(writer="b"), [b"x"])[1] == 0
    append(again, [b"y"])
    again.close()
    assert opened(tmp_path).notices == []


def test_a_line_with_its_checksum_and_another_shape_is_damaged() -> None:
    line = journal_line(Record(chunk(), [(0, 1)], 5, 0))
    assert read_journal(line).records == [Record(chunk(), [(0, 1)], 5, 0)]
    assert read_journal(b"%08x {}\n" % crc32(b"{}")).damage == [
        "origins: line 1 is damaged and left out"
    ]
    assert read_journal(line[:-1]).notes == ["origins: the last line is torn and left out"]


def test_the_missing_messages_of_a_record_are_found_by_position() -> None:
    record = Record(chunk(), [(5, 2), (NOWHERE, 3), (9, 1), (NOWHERE, 1)], 5, 0)

    assert list(record.missing()) == [(2, 3), (6, 1)]
    assert record.count == 7
    assert record.placed(20, 11).runs == [(5, 2), (20, 3), (9, 1), (23, 1)]
