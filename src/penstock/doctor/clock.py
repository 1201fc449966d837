"""This machine's clock, beside those of the destinations."""

from __future__ import annotations

import email.utils
import http.client
import ssl
import time
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

from penstock.doctor.finding import Finding

TIMEOUT_S = 3.0
# A Date header counts seconds, and travels for some.
DIFFERENCE_S_FINE = 5.0
# AWS refuses signatures that are off by five minutes, SiteWise values by ten.
DIFFERENCE_S_MAX = 60.0
# What a clock that is slewed gains in the seconds between two looks is far less.
STEP_S_MAX = 0.5
PORTS = {"http": 80, "https": 443}


class Clocks:
    """The wall clock beside the one that never steps."""

    def __init__(
        self,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._before_s = wall() - monotonic()

    def check_steps(self) -> Finding:
        """Whether somebody set the clock since this object was made."""
        step_s = self._wall() - self._monotonic() - self._before_s
        if abs(step_s) > STEP_S_MAX:
            return Finding.note(
                "clock",
                f"the clock was set by {step_s:+.1f} s while this ran.",
                "Ingest times jump by as much; see that only one service sets the clock.",
            )
        return Finding.ok("clock", "it was not set while this ran.")


def check_clock(urls: Iterable[str], wall: Callable[[], float] = time.time) -> Finding:
    """Compare with the first destination that tells its time."""
    for url in urls:
        theirs_s = date_of(url)
        if theirs_s is None:
            continue
        ahead_s = wall() - theirs_s
        host = urlsplit(url).hostname
        text = f"it differs by {abs(ahead_s):.0f} s from that of {host}."
        remedy = "Set it, and have it kept by NTP: AWS refuses requests with a wrong time."
        if abs(ahead_s) > DIFFERENCE_S_MAX:
            return Finding.problem("clock", text, remedy)
        if abs(ahead_s) > DIFFERENCE_S_FINE:
            return Finding.note("clock", text, remedy)
        return Finding.ok("clock", text)
    return Finding.note(
        "clock", "cannot be compared: no destination that tells the time can be reached."
    )


def date_of(url: str) -> float | None:
    """What the Date header of an answer says, whatever else the answer is; None without one."""
    address = urlsplit(url)
    host, port = address.hostname or "", address.port or PORTS[address.scheme]
    if address.scheme == "https":
        # The time of an answer is no secret, and a wrong clock is why a certificate may not pass.
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            host, port, timeout=TIMEOUT_S, context=context
        )
    else:
        connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
    try:
        connection.request("HEAD", "/")
        header = connection.getresponse().getheader("Date")
        return None if header is None else email.utils.parsedate_to_datetime(header).timestamp()
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()
