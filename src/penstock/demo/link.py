"""The way to the cloud, which is cut now and then."""

from __future__ import annotations

import random
import threading
import time

from penstock.testing import LocalCloud

FIRST_OUTAGE_AFTER_S = 20.0
PAUSE_S = (45.0, 90.0)  # shortest and longest time between two outages
OUTAGE_S = (6.0, 15.0)


class Link:
    """While it is down, every request loses its connection before anybody has seen it."""

    def __init__(self, cloud: LocalCloud) -> None:
        self._cloud = cloud
        self._until_s: float | None = None
        self.outages = 0
        self.lost_requests = 0

    def seconds_down(self) -> float | None:
        """How long the outage will still last; None while the link is up."""
        until_s = self._until_s
        return None if until_s is None else max(until_s - time.monotonic(), 0)

    def run(self, stopped: threading.Event) -> None:
        """Outages at random, until stopped."""
        pause_s = FIRST_OUTAGE_AFTER_S
        while not stopped.wait(pause_s):
            self.cut(random.uniform(*OUTAGE_S), stopped)
            pause_s = random.uniform(*PAUSE_S)

    def cut(self, seconds: float, stopped: threading.Event) -> None:
        """One outage."""
        self._until_s = time.monotonic() + seconds
        with self._cloud.every_service.close() as knob:
            stopped.wait(seconds)
        self._until_s = None
        self.outages += 1
        self.lost_requests += knob.used
