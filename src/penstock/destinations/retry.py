"""What to try again, and when. Pure: the caller brings the chance and does the waiting.

A whole request that failed       pause, growing with every failure in a row
A part of it failed               at once, as long as each round settles something
Only a person can help (Blocked)  long pauses: it is tried again, but not often
The service named a time          never before that time
Limit                             PAUSE_S_MAX, always: a repair is noticed within five minutes
"""

from __future__ import annotations

import email.utils
from typing import NamedTuple

from penstock.destinations.base import Blocked, Delivery, DestinationError, Transient

# AWS documents five minutes as the longest pause of stream manager.
PAUSE_S_MAX = 300.0
# Full jitter: anything between nothing and the ceiling, so that exports which failed together do
# not come back together. The first pause is 0.2 s on average.
TRANSIENT_CEILING_S = 0.4
BLOCKED_PAUSE_S = 30.0
# Here a pause near nothing would be useless: at most a fifth is taken off.
BLOCKED_JITTER = 0.2
# 2**20 times anything is beyond every limit here; larger powers would only cost time.
DOUBLINGS_MAX = 20


class NextTry(NamedTuple):
    """When to send again, and what to remember until then."""

    pause_s: float
    failures: int


def next_try(
    outcome: Delivery | DestinationError, message_count: int, failures: int, chance: float
) -> NextTry:
    """What follows a batch of `message_count` messages after `failures` failures in a row.

    `chance` is a random number from 0 up to 1. No failures and no pause: go on.
    """
    if isinstance(outcome, DestinationError):
        return NextTry(_pause_s(outcome, failures, chance), failures + 1)
    settled = len(outcome.retry) < message_count
    if outcome.error is not None:
        before = 0 if settled else failures
        return NextTry(_pause_s(outcome.error, before, chance), before + 1)
    if settled:
        return NextTry(0.0, 0)
    return NextTry(chance * _grown(TRANSIENT_CEILING_S, failures), failures + 1)


def parsed_retry_after(header: str | None, now_s: float) -> float | None:
    """What a Retry-After header asks for, in seconds: it names them, or a point in time."""
    if header is None:
        return None
    if header.strip().isdecimal():
        return float(header)
    try:
        at_s = email.utils.parsedate_to_datetime(header).timestamp()
    except ValueError:
        return None
    return max(at_s - now_s, 0.0)


def _pause_s(error: DestinationError, failures_before: int, chance: float) -> float:
    if isinstance(error, Blocked):
        return (1 - BLOCKED_JITTER * chance) * _grown(BLOCKED_PAUSE_S, failures_before)
    pause = chance * _grown(TRANSIENT_CEILING_S, failures_before)
    named = error.retry_after_s if isinstance(error, Transient) else None
    return min(max(pause, named or 0.0), PAUSE_S_MAX)


def _grown(first_s: float, failures_before: int) -> float:
    return min(first_s * 2.0 ** min(failures_before, DOUBLINGS_MAX), PAUSE_S_MAX)
