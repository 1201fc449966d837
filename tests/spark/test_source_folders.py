"""A store folder as it is read beside its server, after a crash, or from a copy."""

from __future__ import annotations

import logging
import shutil
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stores import (
    TIME_MS,
    append,
    flip_bit,
    make_store,
    make_stream,
    numbered,
    open_store,
    payloads_of,
    stream_folder,
)

from penstock import Persistence
from penstock.spark.folder_place import FolderPlace, find_folders
from penstock.spark.places import Bounds, first_at_or_after
from penstock.spark.ranges import Range, read_range
from penstock.spark.trouble import DataLoss, SourceError
from penstock.streams.manager import StreamManager


def everything(place: FolderPlace, stream: str = "S") -> list[bytes]:
    bounds = place.bounds(stream)
    assert bounds is not None
    return payloads_of(place.blocks(stream, bounds.first_sequence, bounds.next_sequence))


def test_a_store_is_read_over_all_its_segments(tmp_path: Path) -> None:
    place = FolderPlace(str(make_store(tmp_path, S=numbered(1000), T=[b"x"])))

    assert place.streams() == ["S", "T"]
    assert everything(place) == numbered(1000)
    assert payloads_of(place.blocks("S", 990, 993)) == numbered(3, 990)


def test_reading_changes_nothing_(tmp_path: Path) -> None:
    make_store(tmp_path, S=numbered(100))
    before = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")}

    everything(FolderPlace(str(tmp_path)))

    assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")} == before


def test_a_stream_that_never_held_a_message_is_empty(tmp_path: Path) -> None:
    place = FolderPlace(str(make_store(tmp_path, S=[])))

    assert place.bounds("S") == Bounds(0, 0, 0)
    assert place.bounds("T") is None
    assert place.time_ms("S", 0) is None


def test_streams_in_memory_are_not_there(tmp_path: Path) -> None:
    with open_store(tmp_path) as manager:
        append(make_stream(manager, "M", persistence=Persistence.Memory), [b"x"])
        append(make_stream(manager, "F"), [b"x"])

        assert FolderPlace(str(tmp_path)).streams() == ["F"]


def test_a_live_store_is_read_while_it_is_written_to(tmp_path: Path) -> None:
    total = 3000
    with open_store(tmp_path) as manager:
        stream = make_stream(manager)
        done = threading.Event()

        def write() -> None:
            for first in range(0, total, 7):
                append(stream, numbered(min(7, total - first), first))
            done.set()

        writer = threading.Thread(target=write)
        writer.start()
        place = FolderPlace(str(tmp_path))
        seen: list[bytes] = []
        looks = 0
        while len(seen) < total:
            was_done = done.is_set()
            bounds = place.bounds("S")
            assert bounds is not None
            found = payloads_of(place.blocks("S", len(seen), bounds.next_sequence))
            assert len(found) == bounds.next_sequence - len(seen)
            seen += found
            looks += 1
            assert not was_done or len(seen) == total
        writer.join()

    assert seen == numbered(total)
    assert looks > 1


@pytest.mark.parametrize("lost_bytes", [1, 5, 31, 32, 33, 64])
@pytest.mark.parametrize("kind", ["data", "index"])
def test_a_torn_end_is_not_there(tmp_path: Path, kind: str, lost_bytes: int) -> None:
    make_store(tmp_path, S=numbered(20))
    (file,) = stream_folder(tmp_path).glob(f"*.{kind}")
    file.write_bytes(file.read_bytes()[:-lost_bytes])

    found = everything(FolderPlace(str(tmp_path)))

    assert found == numbered(len(found))
    assert 10 < len(found) < 20


def test_bytes_behind_the_end_are_not_there(tmp_path: Path) -> None:
    make_store(tmp_path, S=numbered(20))
    for kind in ("data", "index"):
        (file,) = stream_folder(tmp_path).glob(f"*.{kind}")
        file.write_bytes(file.read_bytes() + bytes(100))

    assert everything(FolderPlace(str(tmp_path))) == numbered(20)


@pytest.mark.parametrize("kind", ["data", "index"])
def test_damage_is_an_error_with_file_and_byte_after_what_is_sound(
    tmp_path: Path, kind: str
) -> None:
    make_store(tmp_path, S=[b"0123456789"] * 50)
    (file,) = stream_folder(tmp_path).glob(f"*.{kind}")
    flip_bit(file, 20 * 10 + 3 if kind == "data" else 20 * 32 + 3)
    blocks = FolderPlace(str(tmp_path)).blocks("S", 0, 50)

    assert payloads_of(iter([next(blocks)])) == [b"0123456789"] * 20
    with pytest.raises(
        SourceError, match=r"stream S in .*messages 20 to 20 .*\.data from byte 200"
    ):
        next(blocks)


def test_a_segment_that_retention_took_meanwhile_is_a_loss(tmp_path: Path) -> None:
    make_store(tmp_path, S=numbered(1000))
    place = FolderPlace(str(tmp_path))
    segments = sorted(stream_folder(tmp_path).glob("*.index"))
    reading = read_range(place, Range(str(tmp_path), "S", 0, 1000), fail_on_data_loss=True)
    read = next(reading)
    for index in segments[:4]:
        index.unlink()
        index.with_suffix(".data").unlink()

    lost = f"messages {read.next_sequence} to {int(segments[4].stem) - 1} of stream S .*overwritten"
    with pytest.raises(DataLoss, match=lost):
        list(reading)


@pytest.mark.parametrize("fail", [True, False])
def test_what_was_overwritten_before_the_task_came_is_named_whole(
    tmp_path: Path, fail: bool, caplog: pytest.LogCaptureFixture
) -> None:
    make_store(tmp_path, S=numbered(1000))
    segments = sorted(stream_folder(tmp_path).glob("*.index"))
    for index in segments[:2]:
        index.unlink()
    first_left = int(segments[2].stem)
    wanted = Range(str(tmp_path), "S", 10, 900)
    gap = rf"messages 10 to {first_left - 1} of stream S at {tmp_path} are lost: .*overwritten"

    if fail:
        with pytest.raises(DataLoss, match=gap):
            list(read_range(FolderPlace(str(tmp_path)), wanted, fail_on_data_loss=True))
    else:
        with caplog.at_level(logging.WARNING):
            found = payloads_of(read_range(FolderPlace(str(tmp_path)), wanted, False))
        assert found == numbered(900 - first_left, first_left)
        assert len(caplog.messages) == 1
        assert caplog.messages[0].startswith(f"messages 10 to {first_left - 1} of stream S")


def test_numbers_that_a_power_cut_skipped_are_no_loss_but_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_store(tmp_path, S=numbered(10))
    # What was written after the reservation is gone with the power; numbering goes on above it.
    manager = StreamManager(str(tmp_path))
    append(manager.get("S"), numbered(1, 10))
    manager = StreamManager(str(tmp_path), power_lost=True)
    stream = manager.get("S")
    skipped_to = stream.log.next_sequence
    append(stream, [b"behind the gap"])
    manager.close()
    assert skipped_to > 11

    wanted = Range(str(tmp_path), "S", 0, skipped_to + 1)
    found = payloads_of(read_range(FolderPlace(str(tmp_path)), wanted, fail_on_data_loss=True))

    assert found == [*numbered(11), b"behind the gap"]
    assert f"has no messages 11 to {skipped_to - 1}" in caplog.messages[-1]


def test_a_time_is_found_by_halving(tmp_path: Path) -> None:
    with open_store(tmp_path) as manager:
        stream = make_stream(manager)
        for number in range(500):
            append(stream, [b"x" * 40], TIME_MS + 10 * (number // 3))
    place = FolderPlace(str(tmp_path))
    bounds = place.bounds("S")
    assert bounds is not None

    for number in (0, 1, 3, 250, 498, 499):
        time_ms = TIME_MS + 10 * (number // 3)
        assert first_at_or_after(place, "S", bounds, time_ms) == number // 3 * 3
        assert first_at_or_after(place, "S", bounds, time_ms + 1) == min(500, number // 3 * 3 + 3)
    assert first_at_or_after(place, "S", bounds, 0) == 0


@settings(deadline=None, max_examples=30)
@given(times=st.lists(st.integers(0, 50), min_size=1, max_size=60), bound=st.integers(0, 50))
def test_no_message_within_times_is_missed_though_the_clock_stepped_back(
    tmp_path_factory: pytest.TempPathFactory, times: list[int], bound: int
) -> None:
    root = tmp_path_factory.mktemp("times")
    with open_store(root) as manager:
        stream = make_stream(manager, stream_segment_size=1024)
        for time_ms in times:
            append(stream, [b"x" * 60], time_ms)
    place = FolderPlace(str(root))

    ranges = place.times_within("S", 0, len(times), bound, bound + 5)

    chosen = {number for first, stop in ranges for number in range(first, stop)}
    wanted = {number for number, time_ms in enumerate(times) if bound <= time_ms < bound + 5}
    assert wanted <= chosen
    assert all(first in wanted for first, _ in ranges)
    shutil.rmtree(root)


def test_a_stream_whose_definition_is_lost_is_told_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_store(tmp_path, S=[b"x"])
    for document in stream_folder(tmp_path).glob("stream.json*"):
        document.write_bytes(b"{}")
    place = FolderPlace(str(tmp_path))

    assert place.streams() == place.streams() == []
    assert len(caplog.messages) == 1
    assert "is left out" in caplog.messages[0]


def test_a_pattern_finds_stores_and_passes_over_the_rest(tmp_path: Path) -> None:
    for name in ("pump-1", "pump-2"):
        make_store(tmp_path / name, S=[b"x"])
    (tmp_path / "pump-3").mkdir()

    assert find_folders(f"{tmp_path}/pump-*") == [f"{tmp_path}/pump-1", f"{tmp_path}/pump-2"]


@pytest.mark.parametrize(("name", "text"), [("none", "is not a folder"), ("empty", "not a Penst")])
def test_a_folder_that_is_no_store_is_named(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "empty").mkdir()

    with pytest.raises(SourceError, match=f"option path: {tmp_path}/{name} .*{text}"):
        find_folders(f"{tmp_path}/{name}")
