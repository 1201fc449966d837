"""The last segment cut at every byte."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from faults.stores import check_stream, make_store, reopened


@pytest.mark.parametrize("which", ["data", "index", "both"])
def test_a_last_segment_cut_anywhere_loses_nothing_silently(quick_folder: Path, which: str) -> None:
    original = make_store(quick_folder / f"original-{which}")
    data, index = original.last_segment()
    size = {"data": data, "index": index, "both": index}[which].stat().st_size
    for length in range(size):
        store = original.copied_to(quick_folder / "copy")
        data, index = store.last_segment()
        if which != "data":
            os.truncate(index, length)
        if which != "index":
            os.truncate(data, min(length, data.stat().st_size))
        for stream in reopened(store):
            check_stream(stream, store.acknowledged, notices=stream.notices)
        acknowledged = store.acknowledged
        for stream in reopened(store):
            cut_again = [notice for notice in stream.notices if "torn" in notice]
            assert not cut_again, f"cut at {length}: the second start found {cut_again}"
            assert stream.log.next_sequence > max(acknowledged) + 1


def test_a_last_segment_that_is_gone_altogether_does_not_free_its_numbers(tmp_path: Path) -> None:
    store = make_store(tmp_path / "store")
    for path in store.last_segment():
        path.unlink()
    for stream in reopened(store):
        check_stream(stream, store.acknowledged, notices=stream.notices)
