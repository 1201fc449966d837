"""Key placeholders mean what the real java.time class makes of them."""

from __future__ import annotations

import string
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.java_gateway import launch_gateway

from penstock.destinations.java_time import RULES, PatternError, formatted
from penstock.pipeline.jvm import find_java, spark_home, start_gateway

JAVA_PROGRAM = Path(__file__).parent / "JavaTime.java"
NANOS_PER_SECOND = 10**9

# Every boundary of hours, half days and day periods, and a time with nine digits behind the point.
TIMES_OF_DAY_NS = [
    ((hour * 60 + minute) * 60 + second) * NANOS_PER_SECOND + nano
    for hour, minute, second, nano in (
        (0, 0, 0, 0),
        (0, 1, 0, 1),
        (5, 59, 59, 999_999_999),
        (12, 0, 59, 0),
        (15, 4, 5, 123_456_789),
        (21, 0, 0, 60_000),
    )
]


def every_letter_and_count() -> list[str]:
    return [letter * count for letter in string.ascii_letters for count in range(1, 23)]


COMBINED = [
    *("yyyy/MM/dd", "YYYY/MM/dd/HH/mm/ss", "yyyyMMddHHmmssSSS", "uuuuDDD", "YYYYwwe", "EEEEMMMMd"),
    *(
        "pH",
        "ppH",
        "pppH",
        "ppHH",
        "ppppMMM",
        "pppppppppMMMM",
        "ppppyyyy/ppM",
        "ppSS",
        "ppX",
        "pVV",
    ),
    *("p/", "ppp/", "pp", "/p", "yyyyp", "/", "//", "ppB", "ppppppppppppppppB", "hB", "pa", "ppa"),
    *("ppYY", "ppppw/W", "HHo", "b", "yyyy/j", "MMMMMM/d"),
]


def every_day(first: date, last: date) -> list[date]:
    return [first + timedelta(days=n) for n in range((last - first).days + 1)]


def moments_ns() -> list[int]:
    """A leap year of days at one time each, and the days around four New Years at all times."""
    days = every_day(date(2024, 1, 1), date(2024, 12, 31))
    edges = [
        day
        for year in (2023, 2024, 2025, 2026)
        for day in every_day(date(year - 1, 12, 22), date(year, 1, 10))
    ]
    return [midnight_ns(day) + TIMES_OF_DAY_NS[4] for day in days] + [
        midnight_ns(day) + time_ns for day in edges for time_ns in TIMES_OF_DAY_NS
    ]


def midnight_ns(day: date) -> int:
    at = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return int(at.timestamp()) * NANOS_PER_SECOND


@pytest.fixture
def java_time() -> Iterator[Any]:
    """JAVA_PROGRAM in the JVM that exports run in, compiled there: one call answers everything."""
    process = start_gateway(find_java(), spark_home(), [])
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYSPARK_GATEWAY_PORT", str(process.port))
            patch.setenv("PYSPARK_GATEWAY_SECRET", process.secret)
            gateway = launch_gateway()
        compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
        compiler.cook(JAVA_PROGRAM.read_text())
        yield compiler.getClassLoader().loadClass("JavaTime").newInstance()
        gateway.shutdown()
    finally:
        process.stop()


def results_of_java(java_time: Any, patterns: list[str], moments: list[int]) -> list[list[str]]:
    instants = " ".join(f"{ns // NANOS_PER_SECOND}.{ns % NANOS_PER_SECOND}" for ns in moments)
    lines = java_time.apply("\n".join([instants, *patterns])).splitlines()
    assert len(lines) == len(patterns)
    return [line.split("\t") if line != "!" else ["!"] * len(moments) for line in lines]


def our_result(pattern: str, moment_ns: int) -> str:
    try:
        return formatted(pattern, moment_ns)
    except PatternError:
        return "!"


def test_every_letter_in_every_count_prints_what_java_prints_or_fails_where_java_fails(
    java_time: Any,
) -> None:
    patterns = every_letter_and_count() + COMBINED
    moments = moments_ns()

    expected = results_of_java(java_time, patterns, moments)

    different = [
        f"{pattern} at {moment_ns} is {ours!r}, in Java {theirs!r}"
        for pattern, row in zip(patterns, expected, strict=True)
        for moment_ns, theirs in zip(moments, row, strict=True)
        if (ours := our_result(pattern, moment_ns)) != theirs
    ]
    assert different == []
    accepted = {
        pattern[0] for pattern, row in zip(patterns, expected, strict=True) if row[0] != "!"
    }
    assert accepted - {"/", "p"} == set(RULES)


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("o", "o is no pattern letter"),
        ("yyyy-MM", "- is no pattern letter"),
        ("HHH", "HHH: the letter H can stand 1 or 2 times"),
        ("n" * 20, "can stand 1 to 19 times"),
        ("OO", "the letter O can stand 1 or 4 times"),
        ("ppyyyy", '"2024" is longer than the 2 characters of its p'),
        ("ddp", "the padding letter p must stand in front of another letter"),
    ],
)
def test_a_pattern_that_java_refuses_is_an_error_that_says_why(pattern: str, words: str) -> None:
    with pytest.raises(PatternError, match=f"^.*{words}"):
        formatted(pattern, 1_735_571_045 * NANOS_PER_SECOND)


@pytest.mark.parametrize(
    ("day", "expected"),
    [
        ("2022-12-31", "2022/53"),
        ("2023-01-01", "2023/01"),
        ("2023-12-30", "2023/52"),
        ("2023-12-31", "2024/01"),
        ("2024-12-28", "2024/52"),
        ("2024-12-29", "2025/01"),
        ("2025-12-27", "2025/52"),
        ("2025-12-28", "2026/01"),
    ],
)
def test_the_week_that_holds_new_year_belongs_to_the_new_year(day: str, expected: str) -> None:
    assert formatted("YYYY/ww", midnight_ns(date.fromisoformat(day))) == expected
