"""The arithmetic of offsets and of tasks."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.offsets import (
    Offsets,
    checked,
    count_between,
    entries,
    from_entries,
    limited,
    lowered,
    merged,
)
from penstock.spark.ranges import PARTITION_BYTES, Range, pack
from penstock.spark.trouble import SourceError

places = st.sampled_from(["a:1", "b:1", "/store"])
streams = st.sampled_from(["S", "T", "U"])
offsets = st.dictionaries(places, st.dictionaries(streams, st.integers(0, 1000), min_size=1))


def test_offsets_stand_in_one_order_whatever_order_they_came_in() -> None:
    there = from_entries([("b", "T", 1), ("a", "S", 2), ("b", "S", 3)])
    back = from_entries([("b", "S", 3), ("b", "T", 1), ("a", "S", 2)])

    assert json.dumps(there) == json.dumps(back) == '{"a": {"S": 2}, "b": {"S": 3, "T": 1}}'


@given(offsets)
def test_an_offset_that_went_through_a_checkpoint_is_the_same_text(before: Offsets) -> None:
    text = json.dumps(checked(before, "start"))

    assert json.dumps(checked(json.loads(text), "start")) == text


@pytest.mark.parametrize(
    "value", [None, [], {"a": 1}, {"a": {"S": "1"}}, {"a": {"S": -1}}, {"a": {"S": True}}]
)
def test_an_offset_of_another_source_is_refused_with_what_to_do(value: object) -> None:
    with pytest.raises(SourceError, match="checkpoint location of its own"):
        checked(value, "end")


@given(offsets, offsets, st.integers(1, 500))
def test_a_limit_is_kept_and_never_stands_still(start: Offsets, more: Offsets, most: int) -> None:
    end = from_entries(
        (place, stream, number + more.get(place, {}).get(stream, 0))
        for place, stream, number in entries(merged(more, start))
    )

    chosen = limited(start, end, most)

    assert count_between(start, chosen) == min(most, count_between(start, end))
    assert all(number <= end[place][stream] for place, stream, number in entries(chosen))


@given(offsets, offsets)
def test_nothing_goes_beyond_a_target(end: Offsets, target: Offsets) -> None:
    for place, stream, number in entries(lowered(end, target)):
        assert number == min(end[place][stream], target[place][stream])


@given(
    st.lists(st.tuples(st.integers(1, 3_000_000), st.integers(0, 5000)), max_size=20),
    st.integers(1, 16),
)
def test_tasks_cover_every_message_once_and_are_of_one_size(
    sizes: list[tuple[int, int]], cores: int
) -> None:
    ranges = [Range("/s", f"S{n}", 10, 10 + count, each) for n, (count, each) in enumerate(sizes)]

    tasks = pack(ranges, cores, 500_000)

    parts: dict[str, list[Range]] = {}
    for task in tasks:
        assert task
        for part in task:
            parts.setdefault(part.stream, []).append(part)
    for whole in ranges:
        pieces = parts[whole.stream]
        assert pieces[0].first == whole.first
        assert pieces[-1].stop == whole.stop
        assert all(one.stop == other.first for one, other in pairwise(pieces))
    for task in tasks:
        # Rounding to whole messages may add one of the largest per range.
        slack = len(sizes) + 1
        assert sum(map(len, task)) <= 500_000 + slack
        bytes_max = PARTITION_BYTES + slack * 5000
        assert sum(len(part) * part.bytes_per_message for part in task) <= bytes_max


@pytest.mark.parametrize(
    ("count", "cores", "tasks"),
    [
        (1_000_000, 2, 2),  # half a million each
        (1_200_000, 2, 4),  # not three: the second core would be idle
        (300_000, 2, 2),
        (100_000, 2, 1),  # not worth a second task
        (100_000, 16, 1),
        (2_000_000, 16, 16),
        (5_000_000, 2, 10),
    ],
)
def test_the_fewest_tasks_that_fill_the_cores(count: int, cores: int, tasks: int) -> None:
    assert len(pack([Range("/s", "S", 0, count, 288)], cores, 500_000)) == tasks


def test_many_small_streams_share_a_task() -> None:
    ranges = [Range(f"/s{n}", "S", 0, 10, 100) for n in range(1000)]

    assert len(pack(ranges, 2, 500_000)) == 1


def test_nothing_to_read_needs_no_task() -> None:
    assert pack([], 2, 500_000) == []
