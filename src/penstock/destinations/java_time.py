"""Java's DateTimeFormatter in UTC with Locale.US, as far as a key of an S3 task can ask for it.

A pattern is letters and slashes. A run of one letter is a field; RULES says for every letter which
run lengths Java 17 accepts and what each prints. Everything else is an error, as in Java. Weeks
start on Sunday, and the week that holds 1 January is the first of its year.

One difference: where Java 17 stumbles over a padded number that another number follows without a
slash (`ppMppd`, a ClassCastException of its own), the two are printed.
"""

from __future__ import annotations

from calendar import isleap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import groupby
from operator import attrgetter

NANOS_PER_SECOND = 1_000_000_000

MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
ORDINALS = ("1st", "2nd", "3rd", "4th")
# From this minute of the day on. Midnight and noon are that one minute only.
DAY_PERIODS = (
    (0, "midnight"),
    (1, "at night"),
    (6 * 60, "in the morning"),
    (12 * 60, "noon"),
    (12 * 60 + 1, "in the afternoon"),
    (18 * 60, "in the evening"),
    (21 * 60, "at night"),
)
DAY_PERIODS_NARROW = {"midnight": "mi", "noon": "n"}


class PatternError(ValueError):
    """Java would refuse the pattern, or could not print it."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time in UTC, as the fields that patterns ask for."""

    day: date
    second_of_day: int
    nano: int

    @classmethod
    def of(cls, epoch_ns: int) -> Moment:
        seconds, nano = divmod(epoch_ns, NANOS_PER_SECOND)
        day = datetime.fromtimestamp(seconds, UTC).date()
        return cls(day, seconds % 86_400, nano)

    @property
    def hour(self) -> int:
        return self.second_of_day // 3600

    @property
    def minute_of_day(self) -> int:
        return self.second_of_day // 60

    @property
    def quarter(self) -> int:
        return (self.day.month + 2) // 3

    @property
    def day_of_year(self) -> int:
        return self.day.timetuple().tm_yday

    @property
    def weekday(self) -> int:
        """Sunday is 1."""
        return self.day.isoweekday() % 7 + 1

    @property
    def week_year(self) -> int:
        return self.day.year + self._week_reaches_next_year()

    @property
    def week_of_year(self) -> int:
        return 1 if self._week_reaches_next_year() else self._week(self.day_of_year)

    @property
    def week_of_month(self) -> int:
        return self._week(self.day.day)

    @property
    def day_period(self) -> str:
        return [name for minute, name in DAY_PERIODS if minute <= self.minute_of_day][-1]

    def _week(self, day_number: int) -> int:
        """In which week the n-th day of something is, if the week of the first day is 1."""
        weekday_of_first = (self.weekday - day_number) % 7  # Sunday is 0
        return (day_number - 1 + weekday_of_first) // 7 + 1

    def _week_reaches_next_year(self) -> bool:
        saturday = self.day_of_year + 7 - self.weekday
        return saturday > 365 + isleap(self.day.year)


Render = Callable[[Moment], str]
Value = Callable[[Moment], int]


def formatted(pattern: str, epoch_ns: int) -> str:
    """What Java prints for a point in time. PatternError says what is wrong with the pattern."""
    moment = Moment.of(epoch_ns)
    text = ""
    pad_width = 0
    for letter, run in groupby(pattern):
        count = len(list(run))
        if letter == "p":
            pad_width = count
        elif letter == "/" and not pad_width:
            text += "/" * count
        else:
            text += _padded(_rule(letter, count)(moment), pad_width)
            pad_width = 0
    if pad_width:
        raise PatternError("the padding letter p must stand in front of another letter")
    return text


def _padded(printed: str, width: int) -> str:
    """Java's p: spaces in front. Width 0 is no p."""
    if width and len(printed) > width:
        raise PatternError(f'"{printed}" is longer than the {width} characters of its p')
    return printed.rjust(width)


def _rule(letter: str, count: int) -> Render:
    try:
        by_count = RULES[letter]
    except KeyError:
        raise PatternError(f"{letter} is no pattern letter") from None
    try:
        return by_count[count]
    except KeyError:
        raise PatternError(
            f"{letter * count}: the letter {letter} can stand {_shown(by_count)} times"
        ) from None


def _shown(counts: Iterable[int]) -> str:
    """'1, 2 or 3', '1 to 19'."""
    found = sorted(counts)
    if len(found) > 5:
        return f"{found[0]} to {found[-1]}"
    return " or ".join(", ".join(map(str, found)).rsplit(", ", 1))


def _numbers(value: Value, counts: Iterable[int]) -> dict[int, Render]:
    """A number, filled with zeros up to the run's length."""
    return {count: _number(value, count) for count in counts}


def _number(value: Value, width: int) -> Render:
    return lambda moment: f"{value(moment):0{width}d}"


def _years(value: Value, counts: Iterable[int]) -> dict[int, Render]:
    """Two letters print two digits; any other run the whole year."""
    return {**_numbers(value, counts), 2: lambda moment: f"{value(moment) % 100:02d}"}


def _fractions(count_max: int) -> dict[int, Render]:
    return {count: _fraction(count) for count in range(1, count_max + 1)}


def _fraction(count: int) -> Render:
    return lambda moment: f"{moment.nano:09d}"[:count]


def _texts(short: Render, full: Render, narrow: Render) -> dict[int, Render]:
    return {3: short, 4: full, 5: narrow}


def _constants(**text_of_counts: str) -> dict[int, Render]:
    """_constants(_12="a", _5="b"): runs of 1 and 2 print a, of 5 print b."""
    return {
        int(count): _constant(text)
        for counts, text in text_of_counts.items()
        for count in counts.removeprefix("_")
    }


def _constant(text: str) -> Render:
    return lambda _: text


_MONTH_TEXTS = _texts(
    lambda moment: MONTHS[moment.day.month - 1][:3],
    lambda moment: MONTHS[moment.day.month - 1],
    lambda moment: MONTHS[moment.day.month - 1][:1],
)
_QUARTER_TEXTS = _texts(
    lambda moment: f"Q{moment.quarter}",
    lambda moment: f"{ORDINALS[moment.quarter - 1]} quarter",
    lambda moment: str(moment.quarter),
)
_WEEKDAY_TEXTS = _texts(
    lambda moment: WEEKDAYS[moment.weekday - 1][:3],
    lambda moment: WEEKDAYS[moment.weekday - 1],
    lambda moment: WEEKDAYS[moment.weekday - 1][:1],
)

_ONE_OR_TWO = (1, 2)
_UP_TO_19 = range(1, 20)
# Java itself fails on runs of 11 to 18, by an index error of its own, and prints 19 again.
_YEAR_COUNTS = (*range(1, 11), 19)
# Here it has no upper limit. A key has 1024 characters at most.
_WEEK_YEAR_COUNTS = (*range(1, 11), *range(19, 1025))

RULES: dict[str, dict[int, Render]] = {
    "G": _constants(_123="AD", _4="Anno Domini", _5="A"),
    "u": _years(attrgetter("day.year"), _YEAR_COUNTS),
    "y": _years(attrgetter("day.year"), _YEAR_COUNTS),
    "Y": _years(attrgetter("week_year"), _WEEK_YEAR_COUNTS),
    "D": _numbers(attrgetter("day_of_year"), (1, 2, 3)),
    "M": _numbers(attrgetter("day.month"), _ONE_OR_TWO) | _MONTH_TEXTS,
    "L": _numbers(attrgetter("day.month"), _ONE_OR_TWO) | _MONTH_TEXTS,
    "d": _numbers(attrgetter("day.day"), _ONE_OR_TWO),
    "g": _numbers(lambda moment: moment.day.toordinal() - 678_576, _UP_TO_19),
    "Q": _numbers(attrgetter("quarter"), _ONE_OR_TWO) | _QUARTER_TEXTS,
    "q": _numbers(attrgetter("quarter"), _ONE_OR_TWO) | _QUARTER_TEXTS,
    "w": _numbers(attrgetter("week_of_year"), _ONE_OR_TWO),
    "W": _numbers(attrgetter("week_of_month"), (1,)),
    "E": dict.fromkeys((1, 2), _WEEKDAY_TEXTS[3]) | _WEEKDAY_TEXTS,
    "e": _numbers(attrgetter("weekday"), _ONE_OR_TWO) | _WEEKDAY_TEXTS,
    "c": _numbers(attrgetter("weekday"), (1,)) | _WEEKDAY_TEXTS,
    "F": _numbers(lambda moment: (moment.day.day - 1) % 7 + 1, (1,)),
    "a": {1: lambda moment: "AM" if moment.hour < 12 else "PM"},
    "B": dict.fromkeys((1, 4), attrgetter("day_period"))
    | {5: lambda moment: DAY_PERIODS_NARROW.get(moment.day_period, moment.day_period)},
    "h": _numbers(lambda moment: (moment.hour - 1) % 12 + 1, _ONE_OR_TWO),
    "K": _numbers(lambda moment: moment.hour % 12, _ONE_OR_TWO),
    "k": _numbers(lambda moment: (moment.hour - 1) % 24 + 1, _ONE_OR_TWO),
    "H": _numbers(attrgetter("hour"), _ONE_OR_TWO),
    "m": _numbers(lambda moment: moment.minute_of_day % 60, _ONE_OR_TWO),
    "s": _numbers(lambda moment: moment.second_of_day % 60, _ONE_OR_TWO),
    "S": _fractions(9),
    "A": _numbers(lambda moment: moment.second_of_day * 1000 + moment.nano // 10**6, _UP_TO_19),
    "n": _numbers(attrgetter("nano"), _UP_TO_19),
    "N": _numbers(lambda moment: moment.second_of_day * 10**9 + moment.nano, _UP_TO_19),
    # The rest names the time zone, which is always the offset zero.
    "V": _constants(_2="Z"),
    "v": _constants(_14="Z"),
    "z": _constants(_1234="Z"),
    "O": _constants(_14="GMT"),
    "X": _constants(_12345="Z"),
    "x": _constants(_1="+00", _24="+0000", _35="+00:00"),
    "Z": _constants(_123="+0000", _4="GMT", _5="Z"),
}
