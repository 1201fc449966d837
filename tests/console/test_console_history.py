"""What the console remembers: how much, how long, and what is between two looks."""

from __future__ import annotations

import math
import tracemalloc
from typing import Any

import pytest

from penstock.console.history import SLOTS, History
from penstock.console.picture import Picture, Rates
from penstock.console.poll import rates_between, restarted
from penstock.export_model import ExportView, PipelineView
from penstock.model import Persistence, StrategyOnFull
from penstock.observe_model import Observation, ServerView, StreamView


def stream(name: str, identity: str = "", **fields: Any) -> StreamView:
    return StreamView(
        name, identity or name, Persistence.File, StrategyOnFull.RejectNewData, False, 99, **fields
    )


def export(name: str, lag_messages: int = 0, lag_bytes: int = 0) -> ExportView:
    return ExportView(
        name, "out", "HTTP", "", "idle", lag_messages=lag_messages, lag_bytes=lag_bytes
    )


def observed(
    time_ms: int,
    streams: list[StreamView],
    exports: list[ExportView] | None = None,
    process_id: int = 1,
) -> Observation:
    server = ServerView("1", process_id, 5, time_ms, "/data", 1, 10, 20)
    return Observation(server, PipelineView("off"), streams, exports or [])


def kept(history: History, observation: Observation, **rates: Rates) -> None:
    history.add(Picture(observation, {}), rates)


def test_figures_stand_beside_their_times() -> None:
    history = History()
    for second in range(3):
        seen = observed(second * 1000, [stream("a")], [export("a", second, 100 * second)])
        kept(history, seen, a=Rates(second + 0.5, 0))

    series = history.series("a", "out")
    assert series.times == [0, 1000, 2000]
    assert series.lag_messages == [0, 1, 2]
    assert series.lag_bytes == [0, 100, 200]
    assert series.appended_per_second == [0.5, 1.5, 2.5]
    assert series.messages_per_second == [0, 0, 0]


def test_what_came_later_has_nothing_for_the_times_before() -> None:
    history = History()
    kept(history, observed(0, [stream("a")]))
    kept(history, observed(1000, [stream("a"), stream("b")], [export("b", 7)]))

    series = history.series("b", "out")
    assert math.isnan(series.appended_per_second[0])
    assert math.isnan(series.lag_messages[0])
    assert series.lag_messages[1] == 7


def test_a_quarter_of_an_hour_is_kept_and_no_more() -> None:
    history = History()
    for second in range(SLOTS + 100):
        kept(history, observed(second * 1000, [stream("a")]))
    times = history.series("a", None).times
    assert (len(times), times[0], times[-1]) == (SLOTS, 100_000, (SLOTS + 99) * 1000)

    for step in range(1, 500):  # every five seconds, as while nobody looks
        kept(history, observed((SLOTS + 99 + 5 * step) * 1000, [stream("a")]))
    times = history.series("a", None).times
    assert times[-1] - times[0] == 15 * 60 * 1000


def test_what_is_gone_is_forgotten() -> None:
    history = History()
    kept(history, observed(0, [stream("a")], [export("a", 5)]))
    kept(history, observed(1000, []))
    kept(history, observed(2000, [stream("a")], [export("a", 6)]))

    assert math.isnan(history.series("a", "out").lag_messages[0])
    assert history.series("a", "out").lag_messages[-1] == 6
    assert history.series("b", None).appended_per_second == []


def test_a_thousand_exports_for_a_quarter_of_an_hour_take_less_than_20_mb() -> None:
    history = History()
    streams = [stream(f"s{number}") for number in range(1000)]
    exports = [export(f"s{number}") for number in range(1000)]
    tracemalloc.start()
    try:
        before_bytes, _ = tracemalloc.get_traced_memory()
        for second in range(3):  # every ring has its full size from the first figure on
            kept(history, observed(second * 1000, streams, exports))
        taken_bytes = tracemalloc.get_traced_memory()[0] - before_bytes
    finally:
        tracemalloc.stop()
    assert taken_bytes < 20_000_000


# --- rates --------------------------------------------------------------------------------------


def test_rates_are_what_was_appended_in_between() -> None:
    before = observed(1000, [stream("a", appended_messages=10, appended_bytes=100)])
    after = observed(3000, [stream("a", appended_messages=30, appended_bytes=500)])
    assert rates_between(before, after) == {"a": Rates(10.0, 200.0)}


@pytest.mark.parametrize("before", [[], [stream("a", "old", appended_messages=900)]])
def test_a_stream_that_was_made_in_between_began_with_nothing(before: list[StreamView]) -> None:
    after = observed(3000, [stream("a", "new", appended_messages=4)])
    assert rates_between(observed(1000, before), after)["a"].messages == 2.0


def test_at_the_same_moment_there_is_no_rate() -> None:
    seen = observed(1000, [stream("a", appended_messages=10)])
    assert rates_between(seen, seen) == {}


def test_another_process_and_a_clock_set_back_begin_anew() -> None:
    assert restarted(observed(1000, []), observed(2000, [], process_id=2))
    assert restarted(observed(2000, []), observed(1000, []))
    assert not restarted(observed(1000, []), observed(2000, []))
