"""One token bucket for all exports."""

from __future__ import annotations

from penstock.exporting.bandwidth import PORTION_BYTES_MIN, Bandwidth


def test_without_a_limit_there_is_no_portion() -> None:
    bandwidth = Bandwidth(None, 0)
    assert bandwidth.portion(0) is None
    bandwidth.settle(None, 10**9)
    assert bandwidth.portion(1) is None


def test_an_empty_bucket_gives_nothing_and_says_when_it_will() -> None:
    bandwidth = Bandwidth(8_000, 0)  # a thousand bytes per millisecond
    assert bandwidth.portion(0) == 0
    assert bandwidth.portion(bandwidth.next_portion_ms(0)) == 500_000


def test_the_average_stays_below_the_limit_whatever_is_sent() -> None:
    bandwidth = Bandwidth(8_000, 0)
    sent = 0
    now_ms = 0
    while now_ms < 60_000:
        portion = bandwidth.portion(now_ms)
        if portion == 0:
            now_ms = bandwidth.next_portion_ms(now_ms)
            continue
        assert portion is not None
        overshoot = portion + 70_000  # the last batch goes beyond the portion
        sent += overshoot
        bandwidth.owe(overshoot - portion, now_ms)
        bandwidth.settle(portion, overshoot)
    assert 0.95 * 60_000_000 < sent < 1.05 * 60_000_000


def test_what_a_lease_did_not_use_comes_back() -> None:
    bandwidth = Bandwidth(8_000, 0)
    portion = bandwidth.portion(1_000)
    assert portion == 500_000
    bandwidth.settle(portion, 0)
    assert bandwidth.portion(1_000) == 500_000


def test_idle_time_is_not_saved_up_for_ever() -> None:
    bandwidth = Bandwidth(8_000, 0)
    portions = []
    while (portion := bandwidth.portion(3_600_000)) != 0:
        portions.append(portion)
    assert sum(filter(None, portions)) <= 1_500_000


def test_time_that_was_not_saved_up_pays_for_nothing_that_is_owed() -> None:
    bandwidth = Bandwidth(8_000, 0)
    assert bandwidth.portion(1_000) == 500_000
    bandwidth.owe(2_000_000, 60_000)
    assert bandwidth.portion(60_999) == 0
    assert bandwidth.portion(61_001) == 500_000


def test_a_portion_is_never_too_small_for_a_message() -> None:
    bandwidth = Bandwidth(1, 0)
    assert bandwidth.portion(1_000) == PORTION_BYTES_MIN
    assert bandwidth.portion(1_001) == 0
