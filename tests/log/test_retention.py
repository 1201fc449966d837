"""Which segments may go."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.log.retention import count_to_drop_for_room, expired

SIZES = st.lists(st.integers(0, 100), max_size=10)


def test_nothing_goes_when_there_is_room() -> None:
    assert count_to_drop_for_room([10, 10], 5, 25) == 0


def test_the_oldest_go_until_there_is_room() -> None:
    assert count_to_drop_for_room([10, 10, 10], 1, 30) == 1
    assert count_to_drop_for_room([10, 10, 10], 11, 30) == 2
    assert count_to_drop_for_room([10, 10, 10], 30, 30) == 3


def test_all_go_when_even_that_is_not_enough() -> None:
    assert count_to_drop_for_room([10, 10], 100, 50) == 2


@given(SIZES, st.integers(0, 200), st.integers(0, 1000))
def test_no_more_go_than_necessary(stored: list[int], wanted: int, limit: int) -> None:
    count = count_to_drop_for_room(stored, wanted, limit)
    fits = [sum(stored[gone:]) + wanted <= limit for gone in range(len(stored) + 1)]
    assert count == (fits.index(True) if True in fits else len(stored))


def test_a_message_expires_when_it_is_older_than_its_time_to_live() -> None:
    assert not expired(1000, 1500, 500)
    assert expired(1000, 1501, 500)
    assert not expired(2000, 1000, 500), "the clock was set back"
