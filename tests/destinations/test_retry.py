"""When a batch is tried again."""

from __future__ import annotations

import pytest

from penstock.destinations.base import Blocked, Delivery, DestinationError, Transient
from penstock.destinations.retry import NextTry, next_try, parsed_retry_after

ALMOST_ONE = 1 - 2**-53
BUSY = Transient("busy")
GONE = Blocked("gone")


def pauses(error: DestinationError, count: int, chance: float) -> list[float]:
    """The pauses of a batch that fails again and again."""
    found = []
    failures = 0
    for _ in range(count):
        pause_s, failures = next_try(error, 10, failures, chance)
        found.append(round(pause_s, 3))
    return found


def test_a_delivered_batch_is_followed_at_once_and_failures_are_forgotten() -> None:
    assert next_try(Delivery(), 10, 7, 0.5) == NextTry(0.0, 0)


def test_a_refused_message_is_no_reason_to_wait() -> None:
    assert next_try(Delivery(refused={3: "bad"}), 10, 7, 0.5) == NextTry(0.0, 0)
    assert next_try(Delivery(refused={0: "bad"}), 1, 7, 0.5) == NextTry(0.0, 0)


def test_pauses_of_a_passing_failure_double_up_to_five_minutes() -> None:
    assert pauses(BUSY, 12, 0.5) == [
        *(0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4),
        *(150.0, 150.0),
    ]
    assert pauses(BUSY, 100, ALMOST_ONE)[-1] == 300.0
    assert next_try(BUSY, 10, 10**9, ALMOST_ONE).pause_s <= 300.0


def test_jitter_is_full_so_that_failed_exports_do_not_come_back_together() -> None:
    assert next_try(BUSY, 10, 5, 0.0).pause_s == 0.0
    assert next_try(BUSY, 10, 5, ALMOST_ONE).pause_s == pytest.approx(0.4 * 2**5)


def test_what_needs_a_person_is_tried_seldom_but_for_ever() -> None:
    assert pauses(GONE, 7, 0.0) == [30.0, 60.0, 120.0, 240.0, 300.0, 300.0, 300.0]
    assert pauses(GONE, 6, ALMOST_ONE) == [24.0, 48.0, 96.0, 192.0, 240.0, 240.0]


def test_the_service_s_own_time_is_kept_but_not_beyond_five_minutes() -> None:
    assert next_try(Transient("", 20.0), 10, 0, 0.5).pause_s == 20.0
    assert next_try(Transient("", 3600.0), 10, 0, 0.5).pause_s == 300.0
    assert next_try(Transient("", 1.0), 10, 9, 0.5).pause_s == 102.4
    assert next_try(Transient("", 0.0), 10, 0, 0.5).pause_s == 0.2


def test_the_rest_of_a_partial_failure_goes_at_once_while_each_round_settles_something() -> None:
    some_left = Delivery(retry={0: "busy", 4: "busy"})

    assert next_try(some_left, 10, 3, 0.5) == NextTry(0.0, 0)
    assert next_try(some_left, 3, 0, 0.5) == NextTry(0.0, 0)


def test_a_round_that_settles_nothing_is_followed_by_a_growing_pause() -> None:
    none_taken = Delivery(retry={0: "busy", 1: "busy"})

    assert next_try(none_taken, 2, 0, 0.5) == NextTry(0.2, 1)
    assert next_try(none_taken, 2, 1, 0.5) == NextTry(0.4, 2)


def test_an_error_after_a_part_was_settled_waits_but_does_not_count_as_the_same_failure() -> None:
    stopped = Delivery(retry={1: "later"}, error=Transient("busy", 1.0))

    assert next_try(stopped, 2, 6, 0.5) == NextTry(1.0, 1)
    assert next_try(Delivery(retry={0: "x"}, error=GONE), 1, 2, 0.0) == NextTry(120.0, 3)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, None),
        ("", None),
        ("120", 120.0),
        (" 0 ", 0.0),
        ("-1", None),
        ("soon", None),
        ("Mon, 30 Dec 2024 15:04:35 GMT", 30.0),
        ("Mon, 30 Dec 2024 15:03:35 GMT", 0.0),
    ],
)
def test_a_retry_after_header_is_seconds_or_a_date(
    header: str | None, expected: float | None
) -> None:
    assert parsed_retry_after(header, now_s=1_735_571_045) == expected
