"""What the local cloud remembers."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from penstock.testing.recorder import Entry, Item, Recorder


def take(recorder: Recorder, target: str, *sizes: int, service: str = "s") -> None:
    recorder.take(service, target, [partial(Item, size_bytes=size) for size in sizes])


def entry(number: int, operation: str = "Put", target: str = "t", **more: object) -> Entry:
    fields = {"status": 200, "taken_count": 1, "failed_count": 0, "knobs": ()} | more
    return Entry(number, 0.0, 0.0015, "s", operation, target, **fields)  # type: ignore[arg-type]


def sizes(recorder: Recorder, target: str) -> list[int]:
    return [item.size_bytes for item in recorder.items("s", target, Item)]


def test_items_keep_their_order_over_all_targets() -> None:
    recorder = Recorder()
    take(recorder, "a", 1, 2)
    take(recorder, "b", 3)
    take(recorder, "a", 4)
    assert sizes(recorder, "a") == [1, 2, 4]
    assert sizes(recorder, "b") == [3]
    assert [item.size_bytes for item in recorder.all_items()] == [1, 2, 3, 4]
    assert [item.order for item in recorder.all_items()] == [0, 1, 2, 3]


def test_a_limit_drops_the_oldest_and_keeps_the_counts() -> None:
    recorder = Recorder(bytes_max=10)
    take(recorder, "a", 4, 4, 4)
    take(recorder, "b", 11)
    assert sizes(recorder, "a") == [4, 4]
    assert sizes(recorder, "b") == []
    assert (recorder.totals("s", "a").count, recorder.totals("s", "a").size_bytes) == (3, 12)
    assert recorder.totals("s", "b").count == 1


def test_a_limit_of_zero_keeps_nothing_not_even_what_is_empty() -> None:
    recorder = Recorder(bytes_max=0)
    take(recorder, "a", 5, 0)
    assert sizes(recorder, "a") == []
    assert recorder.totals("s", "a").count == 2


def test_requests_are_counted_by_what_they_were() -> None:
    recorder = Recorder()
    for number, (operation, target) in enumerate([("Put", "a"), ("Put", "b"), ("Get", "a")]):
        recorder.finish(entry(number, operation, target))
    assert recorder.request_count() == 3
    assert recorder.request_count("s", "Put") == 2
    assert recorder.request_count(target="a") == 2
    assert recorder.request_count("other") == 0
    assert [done.number for done in recorder.entries()] == [0, 1, 2]


def test_waiting_ends_with_the_change_that_was_waited_for() -> None:
    recorder = Recorder()
    waits = threading.Event()

    def enough() -> bool:
        waits.set()
        return recorder.totals("s", "a").count >= 3

    def fill() -> None:
        waits.wait(10)
        for _ in range(3):
            take(recorder, "a", 1)

    filler = threading.Thread(target=fill)
    filler.start()
    recorder.wait_until(enough, 10, "three items")
    filler.join()
    assert recorder.totals("s", "a").count == 3


def test_waiting_in_vain_says_for_what() -> None:
    with pytest.raises(TimeoutError, match=r"waited 0.01 s in vain for a miracle"):
        Recorder().wait_until(lambda: False, 0.01, "a miracle")


def test_forgetting_forgets_items_requests_and_counts() -> None:
    recorder = Recorder()
    take(recorder, "a", 1)
    recorder.finish(entry(1))
    recorder.forget()
    assert recorder.all_items() == []
    assert recorder.entries() == []
    assert recorder.request_count() == 0
    assert recorder.totals("s", "a").count == 0


@pytest.mark.parametrize(
    ("made", "line"),
    [
        (entry(1), "s Put t 200 1 taken 1.5 ms"),
        (
            entry(1, failed_count=2, knobs=("slow", "fail_records")),
            "s Put t 200 1 taken 2 failed [slow, fail_records] 1.5 ms",
        ),
        (
            entry(1, status=None, taken_count=0, knobs=("close",)),
            "s Put t no answer [close] 1.5 ms",
        ),
    ],
)
def test_a_request_is_one_line_for_people(made: Entry, line: str) -> None:
    assert str(made) == line
