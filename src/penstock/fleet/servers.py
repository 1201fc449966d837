"""Ask many servers at once."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from penstock.client.aio import AsyncStreamManagerClient
from penstock.client.calls import ExtensionMissing
from penstock.errors import NotEnoughMessagesException, StreamManagerException
from penstock.fleet.duplicates import Reading
from penstock.fleet.report import Clock, Contents, PlaceReport, StreamReport
from penstock.model import ReadMessagesOptions
from penstock.survey_model import StreamSurvey

READ_MESSAGES_MAX = 10_000


class ServerName(NamedTuple):
    """Where a server is, and what it is called in the report."""

    name: str
    host: str
    port: int


class Asking(NamedTuple):
    """How servers are asked."""

    token: str | None = None
    answer_timeout_s: float = 3.0
    at_once_max: int = 256
    wanted: Callable[[str], bool] = lambda stream_name: True
    window: int | None = None  # messages before each one among which duplicates are looked for


async def ask_servers(servers: Sequence[ServerName], asking: Asking) -> list[PlaceReport]:
    """A report of each, in their order."""
    free = asyncio.Semaphore(asking.at_once_max)

    async def ask(server: ServerName) -> PlaceReport:
        async with free:
            return await _ask(server, asking)

    return await asyncio.gather(*map(ask, servers))


async def _ask(server: ServerName, asking: Asking) -> PlaceReport:
    asked_at_ms = time.time_ns() // 10**6
    client = AsyncStreamManagerClient(
        server.host,
        server.port,
        logger=_silent(),  # what it would say is in the report
        auth_token=asking.token,
    )
    try:
        async with asyncio.timeout(asking.answer_timeout_s):
            await client.connect()
            clock, surveys = await _survey(client)
        wanted = [survey for survey in surveys if asking.wanted(survey.name)]
        streams = [
            StreamReport(survey, await _read(client, survey, asking.window)) for survey in wanted
        ]
    except ExtensionMissing:
        text = "it is no Penstock server of this version: it does not offer the extension survey"
        return PlaceReport(server.name, asked_at_ms, trouble=text)
    except TimeoutError:
        text = f"it did not answer within {asking.answer_timeout_s:g} s"
        return PlaceReport(server.name, asked_at_ms, trouble=text)
    except StreamManagerException as error:
        return PlaceReport(server.name, asked_at_ms, trouble=str(error))
    finally:
        await client.close()
    return PlaceReport(server.name, asked_at_ms, streams, clock)


async def _survey(client: AsyncStreamManagerClient) -> tuple[Clock, list[StreamSurvey]]:
    """The answer was made at some moment between asking and receiving: nearest is the middle."""
    before_ms = time.time_ns() / 1e6
    survey = await client.survey_streams()
    after_ms = time.time_ns() / 1e6
    ahead_ms = survey.server_time - (before_ms + after_ms) / 2
    return Clock(round(ahead_ms), round((after_ms - before_ms) / 2)), survey.streams


async def _read(
    client: AsyncStreamManagerClient, survey: StreamSurvey, window: int | None
) -> Contents | None:
    """Every message that was there when it was asked; what retention takes meanwhile is skipped."""
    if window is None or not survey.runs:
        return None
    reading = Reading(window)
    position, stop = survey.runs[0].first, survey.runs[-1].stop
    while position < stop:
        options = ReadMessagesOptions(position, 1, min(READ_MESSAGES_MAX, stop - position))
        try:
            blocks = await client.read_blocks(survey.name, options)
        except NotEnoughMessagesException:
            break
        reading.add(blocks)
        position = blocks[-1].next_sequence
    return reading.contents()


def _silent() -> logging.Logger:
    logger = logging.getLogger("penstock.fleet.client")
    logger.disabled = True
    return logger
