"""A recorded week of three temperature sensors, as the data directory of a Penstock server.

A server stamps every message with the time at which it came in. Here the clock is made up, so that
a week takes a second.
"""

from __future__ import annotations

import json
import math
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from penstock.model import MessageStreamDefinition, StrategyOnFull
from penstock.streams.manager import StreamManager
from penstock.streams.store import owned

STREAM = "temperatures"
MONDAY = datetime(2026, 3, 2, tzinfo=UTC)
WEEK = timedelta(days=7)
INTERVAL = timedelta(minutes=1)


@dataclass(frozen=True)
class Sensor:
    """Where it hangs, and what it usually shows."""

    name: str
    mean_c: float
    daily_swing_c: float


@dataclass(frozen=True)
class Outage:
    """While the radio is out a sensor keeps its readings; then they come all at once."""

    sensors: tuple[str, ...]
    begin: datetime
    end: datetime


SENSORS = (Sensor("boiler", 61.0, 2.5), Sensor("hall", 20.5, 1.2), Sensor("roof", 6.0, 5.0))
OUTAGES = (
    Outage(("roof",), MONDAY + timedelta(days=1, hours=21), MONDAY + timedelta(days=2, hours=4)),
    Outage(
        ("boiler", "hall", "roof"),
        MONDAY + timedelta(days=4, hours=10),
        MONDAY + timedelta(days=4, hours=12, minutes=30),
    ),
)


def make_store(folder: Path) -> None:
    """Write the week into a new data directory."""
    folder.mkdir(parents=True)
    with owned(str(folder), os.getpid()):
        streams = StreamManager(str(folder))
        stream = streams.create(
            MessageStreamDefinition(STREAM, strategy_on_full=StrategyOnFull.OverwriteOldestData)
        )
        for arrival, payload in sorted(_messages()):
            stream.append(payload, [len(payload)], round(arrival.timestamp() * 1000))
        problems = streams.close()
        assert not problems, problems


def _messages() -> Iterator[tuple[datetime, bytes]]:
    """When each reading arrives, and what it says."""
    chance = random.Random(7)
    for sensor in SENSORS:
        for minute in range(WEEK // INTERVAL):
            time = MONDAY + minute * INTERVAL
            reading = {
                "sensor": sensor.name,
                "time": time.isoformat(),
                "temperature_c": round(_temperature_c(sensor, time) + chance.gauss(0, 0.15), 2),
            }
            delay = timedelta(seconds=0.2 + chance.expovariate(1.5))
            yield _sent(sensor.name, time) + delay, json.dumps(reading).encode()


def _temperature_c(sensor: Sensor, time: datetime) -> float:
    """Coldest at three in the night, and a little warmer from day to day."""
    days = (time - MONDAY) / timedelta(days=1)
    return sensor.mean_c - sensor.daily_swing_c * math.cos(math.tau * (days - 0.125)) + 0.3 * days


def _sent(sensor: str, time: datetime) -> datetime:
    for outage in OUTAGES:
        if sensor in outage.sensors and outage.begin <= time < outage.end:
            return outage.end
    return time
