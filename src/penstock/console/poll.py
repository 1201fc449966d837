"""Looks at the server again and again; keeps what it saw last, and what became of it."""

from __future__ import annotations

import asyncio
import logging
from collections import deque

from penstock.client.aio import AsyncStreamManagerClient
from penstock.console.events import Hub
from penstock.console.history import History
from penstock.console.picture import Picture, Rates
from penstock.errors import StreamManagerException
from penstock.observe_model import Observation

log = logging.getLogger(__name__)

INTERVAL_S = 1.0
# Nobody looks: for the history, and so that the first one to look finds something.
IDLE_INTERVAL_S = 5.0
# Rates are averages over about this long, as those of exports on the server.
RATE_WINDOW_MS = 5_000


class ServerAway(Exception):
    """The server does not answer; the text says why."""


class Poller:
    """The one who asks the server, for everybody who looks."""

    def __init__(self, client: AsyncStreamManagerClient, hub: Hub) -> None:
        self.history = History()
        self._client = client
        self._hub = hub
        self._picture: Picture | None = None
        self._trouble = ""
        self._looked_at_s = -IDLE_INTERVAL_S
        self._is_outdated = False  # by something that was changed since the last look began
        self._looking = asyncio.Lock()
        self._recent: deque[Observation] = deque()

    async def run(self) -> None:
        """Look until cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            interval_s = INTERVAL_S if self._hub.is_watched else IDLE_INTERVAL_S
            left_s = self._looked_at_s + interval_s - clock()
            if left_s > 0 and not self._is_outdated:
                await self._hub.pause(left_s)
                continue
            async with self._looking:
                await self._look()

    def look_soon(self) -> None:
        """Something was changed by a browser, which waits to see it."""
        self._is_outdated = True
        self._hub.wake()

    async def picture(self, age_s_max: float = INTERVAL_S) -> Picture:
        """What the server looks like now, or a moment ago; ServerAway if it does not answer."""
        async with self._looking:
            age_s = asyncio.get_running_loop().time() - self._looked_at_s
            if self._is_outdated or age_s > age_s_max:
                await self._look()
            if self._trouble or self._picture is None:
                raise ServerAway(self._trouble)
            return self._picture

    def latest(self) -> Observation | None:
        """What was seen last, for other threads; None while the server does not answer."""
        picture = self._picture
        return None if self._trouble or picture is None else picture.observation

    async def _look(self) -> None:
        self._is_outdated = False
        try:
            observation = await self._client.observe_server()
        except StreamManagerException as error:
            self._note_trouble(str(error))
        else:
            self._take(observation)
        self._looked_at_s = asyncio.get_running_loop().time()

    def _note_trouble(self, text: str) -> None:
        if not self._trouble:
            log.warning("The server does not answer: %s", text)
        self._trouble = text
        self._hub.tell_trouble(text)

    def _take(self, observation: Observation) -> None:
        before = self._picture
        is_back = bool(self._trouble)
        if is_back:
            log.info("The server answers again.")
        self._trouble = ""
        if self._recent and restarted(self._recent[-1], observation):
            self._recent.clear()  # its counters began again
        rates = rates_between(self._recent[0] if self._recent else observation, observation)
        steps = rates_between(self._recent[-1] if self._recent else observation, observation)
        self._picture = Picture(observation, rates)
        self.history.add(self._picture, steps)
        self._recent.append(observation)
        oldest_ms = observation.server.server_time - RATE_WINDOW_MS
        while len(self._recent) > 2 and self._recent[1].server.server_time <= oldest_ms:
            self._recent.popleft()
        if before is None or is_back:
            self._hub.tell_all(self._picture)
        else:
            self._hub.tell_change(before, self._picture)


def restarted(before: Observation, after: Observation) -> bool:
    """Whether it is another process, or a clock was set back."""
    was, now = before.server, after.server
    return (was.process_id, was.started_time) != (now.process_id, now.started_time) or (
        now.server_time < was.server_time
    )


def rates_between(before: Observation, after: Observation) -> dict[str, Rates]:
    """What was appended per second; streams that were made in between began with nothing."""
    seconds = (after.server.server_time - before.server.server_time) / 1000
    if seconds <= 0:
        return {}
    known = {view.id: view for view in before.streams}
    rates = {}
    for view in after.streams:
        was = known.get(view.id)
        messages = view.appended_messages - (was.appended_messages if was else 0)
        appended_bytes = view.appended_bytes - (was.appended_bytes if was else 0)
        rates[view.name] = Rates(round(messages / seconds, 3), round(appended_bytes / seconds, 3))
    return rates
