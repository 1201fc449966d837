"""Sizes, durations and truth values, as people write them."""

from __future__ import annotations

import re
import time

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
TIB = 1024 * GIB

BYTES_PER_UNIT = {
    "": 1,
    "b": 1,
    "kb": 1000,
    "mb": 1000**2,
    "gb": 1000**3,
    "tb": 1000**4,
    "kib": KIB,
    "mib": MIB,
    "gib": GIB,
    "tib": TIB,
}
MILLIS_PER_UNIT = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}
TRUTH = {
    **dict.fromkeys(("true", "1", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "no", "off"), False),
}


def parsed_whole(text: str) -> int:
    """'8088'. Python's int() would also take '8_088'."""
    if not re.fullmatch(r"\s*[+-]?[0-9]{1,30}\s*", text):
        raise ValueError(f'"{text}" is not a whole number')
    return int(text)


def parsed_truth(text: str) -> bool:
    try:
        return TRUTH[text.strip().lower()]
    except KeyError:
        raise ValueError(f'"{text}" is neither true nor false') from None


def parsed_bytes(text: str) -> int:
    """'67108864', '64MiB' or '64 MB' in bytes."""
    found = _with_unit(text, BYTES_PER_UNIT)
    if found is None:
        raise ValueError(f'"{text}" is not a size such as 67108864, 64MiB or 64MB')
    return found


def parsed_millis(text: str) -> int:
    """'90s', '15m', '1h' or '7d' in milliseconds. Without a unit it would be a guess."""
    found = _with_unit(text, MILLIS_PER_UNIT)
    if found is None:
        raise ValueError(f'"{text}" is not a duration such as 90s, 15m, 1h or 7d')
    return found


def shown_bytes(size: int) -> str:
    """An exact size that `parsed_bytes` reads back: 64MiB, 1000."""
    for unit, factor in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if size and size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)


def rounded_bytes(size: int) -> str:
    """A size for tables: 1.4 MiB. Below 1 KiB it is exact."""
    for unit, factor in (("TiB", TIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}".replace(".0 ", " ")
    return f"{size} B"


def shown_millis(millis: int) -> str:
    """An exact duration that `parsed_millis` reads back: 1h, 90s."""
    for unit, factor in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if millis and millis % factor == 0:
            return f"{millis // factor}{unit}"
    return f"{millis}ms"


def shown_time(time_ms: int) -> str:
    """A point in time, in UTC: 2026-01-01T12:00:00.000Z."""
    seconds, millis = divmod(time_ms, 1000)
    try:
        return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{millis:03d}Z"
    except (OverflowError, OSError):  # a clock that was wrong by millions of years
        return f"{time_ms} ms"


def _with_unit(text: str, factors: dict[str, int]) -> int | None:
    match = re.fullmatch(r"\s*([0-9]{1,30})\s*([A-Za-z]*)\s*", text)
    if match is None or match[2].lower() not in factors:
        return None
    return int(match[1]) * factors[match[2].lower()]
