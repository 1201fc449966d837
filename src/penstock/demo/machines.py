"""Machines that nobody has built: how fast they turn, how they shake, how warm they get.

A signal is a function of the seconds since the start, and of chance.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

ROOM_C = 22.0
# What a sensor averages: samples of the movement in the tenth of a second before a reading.
SAMPLES = 24
SAMPLED_S = 0.1
# A machine shakes with its rotation and with multiples of it, each weaker than the one before.
HARMONICS = ((1, 1.0), (2, 0.35), (3, 0.15))
# The balls of a damaged bearing hit the damage about this often per rotation.
BALL_PASSES = 3.57
DAMAGE_AT_START = 0.06
DAMAGE_MAX = 4.0


class Reading(NamedTuple):
    """What the sensors of a machine say at one moment."""

    rpm: float
    load: float
    vibration_mm_s: float  # root mean square
    peak_mm_s: float
    temperature_c: float


@dataclass(frozen=True)
class Machine:
    """One machine and its habits."""

    name: str
    rpm: float
    vibration_mm_s: float
    warming_c: float  # above the room, at full load
    cycle_s: float  # from one time of high load to the next
    damage_doubles_s: float | None = None  # a bearing that gets worse


PLANT = (
    Machine("pump-1", 1480, 1.6, 28, 45),
    Machine("pump-2", 1475, 1.8, 30, 60, damage_doubles_s=75),
    Machine("fan-3", 980, 2.4, 18, 120),
    Machine("press-4", 640, 3.1, 42, 20),
)


class Sensors:
    """The sensors of one machine. The same machine shakes in the same way every time."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._chance = random.Random(machine.name)

    def read(self, at_s: float) -> Reading:
        """All of them, at a time since the start."""
        machine = self._machine
        load = _load(machine, at_s)
        samples = [abs(sample) for sample in self._movement(at_s, load)]
        rms_mm_s = math.sqrt(sum(sample * sample for sample in samples) / len(samples))
        # Heat follows the load late, and a bad bearing adds its own.
        warm_c = machine.warming_c * _load(machine, at_s - machine.cycle_s / 6)
        return Reading(
            rpm=round(machine.rpm * (1 - 0.015 * load) + self._chance.gauss(0, 1), 1),
            load=round(load, 3),
            vibration_mm_s=round(rms_mm_s, 3),
            peak_mm_s=round(max(samples), 3),
            temperature_c=round(
                ROOM_C + warm_c + 4 * _damage(machine, at_s) + self._chance.gauss(0, 0.15), 2
            ),
        )

    def _movement(self, until_s: float, load: float) -> Iterator[float]:
        machine = self._machine
        strength = machine.vibration_mm_s * math.sqrt(2) * (0.6 + 0.5 * load)
        damage = machine.vibration_mm_s * _damage(machine, until_s)
        for sample in range(SAMPLES):
            angle = math.tau * machine.rpm / 60 * (until_s - SAMPLED_S * sample / SAMPLES)
            smooth = sum(part * math.sin(order * angle) for order, part in HARMONICS)
            # Blows come once per passing ball, and are strongest where the load presses.
            blows = max(math.sin(BALL_PASSES * angle), 0) ** 4 * (1 + math.cos(angle))
            yield strength * smooth + damage * blows + self._chance.gauss(0, 0.05 * strength)


def _load(machine: Machine, at_s: float) -> float:
    """Between a third and full: work and rest in turns, with ramps between them."""
    return 0.65 + 0.3 * math.tanh(3 * math.sin(math.tau * at_s / machine.cycle_s))


def _damage(machine: Machine, at_s: float) -> float:
    """The strength of a bad bearing's blows, in proportion to the machine's own vibration."""
    if machine.damage_doubles_s is None:
        return 0.0
    # The exponent is bounded, so that a demo of weeks does not leave the range of numbers.
    doublings = min(at_s / machine.damage_doubles_s, 16)
    return min(DAMAGE_AT_START * 2**doublings, DAMAGE_MAX)
