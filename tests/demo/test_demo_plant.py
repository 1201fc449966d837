"""The machines of the demo: believable, and one of them in trouble."""

from __future__ import annotations

from statistics import mean

import pytest

from penstock.demo.machines import PLANT, Reading, Sensors

MACHINES = {machine.name: machine for machine in PLANT}


def readings(name: str, start_s: int, seconds: int = 120) -> list[Reading]:
    sensors = Sensors(MACHINES[name])
    return [sensors.read(start_s + tick / 2) for tick in range(2 * seconds)]


@pytest.mark.parametrize("name", MACHINES)
def test_a_machine_works_within_the_range_of_its_kind(name: str) -> None:
    for reading in readings(name, start_s=0):
        assert 0.3 < reading.load < 1
        assert 0.5 < reading.vibration_mm_s < 12  # ISO 10816 calls for an alarm above 11
        assert reading.peak_mm_s >= reading.vibration_mm_s
        assert 20 < reading.temperature_c < 80
        assert reading.rpm == pytest.approx(MACHINES[name].rpm, rel=0.03)


def test_load_makes_a_machine_shake_more() -> None:
    found = readings("pump-1", start_s=0)
    high = [each.vibration_mm_s for each in found if each.load > 0.9]
    low = [each.vibration_mm_s for each in found if each.load < 0.4]

    assert mean(high) > 1.2 * mean(low)


def test_one_bearing_gets_worse_and_the_others_do_not() -> None:
    growth = {
        name: mean(each.peak_mm_s for each in readings(name, start_s=600))
        / mean(each.peak_mm_s for each in readings(name, start_s=0))
        for name in MACHINES
    }

    assert growth.pop("pump-2") > 2
    assert all(0.95 < value < 1.05 for value in growth.values())


def test_a_bearing_of_weeks_has_a_limit() -> None:
    assert Sensors(MACHINES["pump-2"]).read(3600 * 24 * 60).peak_mm_s < 100
