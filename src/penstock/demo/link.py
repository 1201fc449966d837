"""The way to the cloud, which is cut now and then."""

from __future__ import annotations

import random
import threading
import time

from penstock.testing import LocalCloud

FIRST_OUTAGE_AFTER_S = 20.0
PAUSE_S = (45.0, 90.0)  # shortest and longest time between two outages
OUTAGE_S = (6.0, 15.0)
# An outage that no export has noticed shows nothing: on a busy machine it lasts longer, up to this.
NOTICED_WITHIN_S = 60.0
GLANCE_S = 0.1


class Link:
    """While it is down, every request loses its connection before anybody has seen it."""

    def __init__(self, cloud: LocalCloud) -> None:
        self._cloud = cloud
        self.lost_requests = 0

    def is_down(self) -> bool:
        """Cut here, or by the same knob in somebody else's hand."""
        return any(knob.kind == "close" for knob in self._cloud.knobs.active())

    def run(self, stopped: threading.Event) -> None:
        """Outages at random, until stopped."""
        pause_s = FIRST_OUTAGE_AFTER_S
        while not stopped.wait(pause_s):
            self.cut(random.uniform(*OUTAGE_S), stopped)
            pause_s = random.uniform(*PAUSE_S)

    def cut(self, seconds: float, stopped: threading.Event) -> None:
        """One outage."""
        with self._cloud.every_service.close() as knob:
            stopped.wait(seconds)
            give_up_s = time.monotonic() + NOTICED_WITHIN_S
            while not knob.used and time.monotonic() < give_up_s and not stopped.wait(GLANCE_S):
                pass
        self.lost_requests += knob.used
