"""The check of a demo can fail, and says where."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from penstock.demo.check import at_least, averaged, compared, counted
from penstock.demo.table import Average


def test_equal_lists_leave_nothing_to_say() -> None:
    assert compared("records", [b"a", b"b"], [b"a", b"b"]).difference == ""


@pytest.mark.parametrize(
    ("found", "difference"),
    [
        ([1, 2], "number 2 should be 3 and is None"),
        ([1, 3, 2], "number 1 should be 2 and is 3"),
        ([1, 2, 2, 3], "number 2 should be 3 and is 2"),
        ([1, 2, 3, 3], "number 3 should be None and is 3"),
    ],
    ids=["one is missing", "out of order", "twice in between", "twice at the end"],
)
def test_the_first_difference_is_named(found: list[int], difference: str) -> None:
    finding = compared("records", [1, 2, 3], found)

    assert finding.difference == difference
    assert (finding.expected, finding.found) == (3, len(found))


def test_to_have_counted_nothing_is_not_to_be_right() -> None:
    assert compared("records", [], []).difference.startswith("there was nothing to count")


def test_a_wrong_count_is_named() -> None:
    assert counted("delivered", 2, 2).difference == ""
    assert counted("delivered", 2000, 3).difference == "should be 2,000 and is 3"


def test_an_outage_that_nobody_noticed_is_named() -> None:
    assert at_least("lost requests", 1, 5).difference == ""
    assert at_least("lost requests", 1, 0).difference == "should be 1 or more and is 0"


def row(average: float = 2.0, readings: int = 50) -> Average:
    return Average(datetime(2026, 1, 1, tzinfo=UTC), "pump-1", readings, average, 3.5)


def test_an_average_may_differ_where_numbers_end() -> None:
    assert averaged([row()], [row(2.0 + 1e-12)]).difference == ""


@pytest.mark.parametrize(
    "found",
    [[row(2.001)], [row(readings=49)], [], [row(), row()]],
    ids=["another average", "a reading less", "no row", "the row twice"],
)
def test_any_other_row_is_a_difference(found: list[Average]) -> None:
    assert averaged([row()], found).difference
