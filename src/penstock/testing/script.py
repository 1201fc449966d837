"""A script of knobs: which to set how long after the start, and when to release them.

[[knob]]
from_s = 20
until_s = 40
kind = "close"      # the link is down: every request loses its connection
service = "*"
"""

from __future__ import annotations

import threading
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from penstock.testing.errors import LocalCloudError
from penstock.testing.knobs import ActiveKnob, AnyKnob, Knobs, knob_from_json

TIMES = ("from_s", "until_s")


@dataclass(frozen=True)
class Step:
    """One knob of a script."""

    knob: AnyKnob
    from_s: float
    # None: until the end.
    until_s: float | None


def parsed_script(text: str) -> list[Step]:
    """The steps of a script. LocalCloudError names the one that is wrong."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise LocalCloudError(f"The script is not TOML: {error}") from error
    tables = document.pop("knob", [])
    if document or not isinstance(tables, list):
        raise LocalCloudError("A script consists of [[knob]] tables and nothing else")
    return [_parsed_step(table, number) for number, table in enumerate(tables, start=1)]


def load_script(path: str) -> list[Step]:
    try:
        return parsed_script(Path(path).read_text())
    except LocalCloudError as error:
        raise LocalCloudError(f"{path}: {error}") from error


def _parsed_step(table: dict[str, Any], number: int) -> Step:
    start_s, until_s = table.get("from_s", 0), table.get("until_s")
    for time_s in (start_s, until_s):
        if time_s is not None and not (isinstance(time_s, int | float) and time_s >= 0):
            raise LocalCloudError(f"knob {number}: {time_s!r} is no number of seconds")
    if until_s is not None and until_s <= start_s:
        raise LocalCloudError(f"knob {number}: until_s is not after from_s")
    fields = {name: value for name, value in table.items() if name not in TIMES}
    try:
        return Step(knob_from_json(fields), start_s, until_s)
    except LocalCloudError as error:
        raise LocalCloudError(f"knob {number}: {error}") from error


class Timeline:
    """Plays a script: a timer for each knob, from entering the block to leaving it."""

    def __init__(
        self,
        steps: list[Step],
        knobs: Knobs,
        on_change: Callable[[str, Step], None] = lambda what, step: None,
    ) -> None:
        self._steps = steps
        self._knobs = knobs
        self._on_change = on_change
        self._lock = threading.Lock()
        self._timers: list[threading.Timer] = []
        self._is_over = False

    def __enter__(self) -> Self:
        for step in self._steps:
            self._after(step.from_s, partial(self._begin, step))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._is_over = True
            timers = list(self._timers)
        for timer in timers:
            timer.cancel()
        for timer in timers:
            timer.join()

    def _after(self, delay_s: float, action: Callable[[], None]) -> None:
        with self._lock:
            if self._is_over:
                return
            timer = threading.Timer(delay_s, action)
            self._timers.append(timer)
            timer.start()

    def _begin(self, step: Step) -> None:
        active = self._knobs.set(step.knob)
        self._on_change("set", step)
        if step.until_s is not None:
            self._after(step.until_s - step.from_s, partial(self._end, active, step))

    def _end(self, active: ActiveKnob, step: Step) -> None:
        active.release()
        self._on_change("released", step)
