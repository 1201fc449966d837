"""What a browser is told while it looks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest
from browser_stand_in import Caller, Events

from penstock import (
    ExportDefinition,
    HTTPConfig,
    MessageStreamDefinition,
    StrategyOnFull,
    StreamManagerClient,
)
from penstock.console.events import EVENTS_WAITING_MAX, Hub
from penstock.console.picture import Picture, Rates
from penstock.export_model import ExportView, PipelineView
from penstock.model import Persistence
from penstock.observe_model import Observation, ServerView, StreamView


def definition(name: str, **fields: Any) -> MessageStreamDefinition:
    return MessageStreamDefinition(
        name, strategy_on_full=StrategyOnFull.OverwriteOldestData, **fields
    )


def change_with(events: Events, table: str, key: str, value: str) -> dict[str, Any]:
    """The next row of a table that is told and has this value."""
    while True:
        for row in events.until("change")[table]["changed"]:
            if row[key] == value:
                found: dict[str, Any] = row
                return found


# --- with a server --------------------------------------------------------------------------------


def test_a_browser_gets_a_snapshot_and_then_what_changes(
    call: Caller, client: StreamManagerClient, name: str
) -> None:
    client.create_message_stream(definition(f"{name}-quiet"))
    with call.events() as events:
        assert events.next().name == "snapshot"
        client.create_message_stream(definition(name))
        made = change_with(events, "streams", "name", name)
        assert made["newestSequenceNumber"] == -1

        client.append_messages(name, [b"12345"] * 10)
        row = change_with(events, "streams", "name", name)
        assert (row["newestSequenceNumber"], row["appendedBytes"]) == (9, 50)
        assert row["messagesPerSecond"] > 0
        assert row["bytesPerSecond"] == pytest.approx(5 * row["messagesPerSecond"], rel=0.01)

        client.delete_message_stream(name)
        while name not in (change := events.until("change"))["streams"]["removed"]:
            told = [row["name"] for row in change["streams"]["changed"]]
            assert f"{name}-quiet" not in told


def test_what_a_browser_changes_is_told_at_once(call: Caller, name: str) -> None:
    """Not a second later: whoever clicked waits for it."""
    with call.events() as events:
        events.until("snapshot")
        events.until("change")  # the next look is nearly a second away
        call("POST", "/api/streams", {"name": name, "strategyOnFull": 1})
        changed = events.until("change")["streams"]["changed"]
        assert [row["name"] for row in changed] == [name]


def test_an_export_is_told_when_it_changes_and_when_it_goes(
    call: Caller, client: StreamManagerClient, name: str
) -> None:
    exports = ExportDefinition(http=[HTTPConfig("out", "http://127.0.0.1:9/")])
    with call.events() as events:
        events.until("snapshot")
        client.create_message_stream(definition(name, export_definition=exports))
        assert change_with(events, "exports", "streamName", name)["lagMessages"] == 0
        client.append_message(name, b"x")
        assert change_with(events, "exports", "streamName", name)["lagMessages"] == 1
        client.update_message_stream(definition(name))
        while [name, "out"] not in events.until("change")["exports"]["removed"]:
            pass


# --- without one --------------------------------------------------------------------------------


def view(name: str, **fields: Any) -> StreamView:
    return StreamView(
        name, f"id-{name}", Persistence.File, StrategyOnFull.RejectNewData, False, 1024, **fields
    )


def picture(time_ms: int, *streams: StreamView, exports: tuple[ExportView, ...] = ()) -> Picture:
    server = ServerView("1", 7, 1, time_ms, "/data", 1, 10, 20)
    observation = Observation(server, PipelineView("off"), list(streams), list(exports))
    return Picture(observation, {"a": Rates(1.5, 3.0)})


def export(lag_age_ms: int, **fields: Any) -> ExportView:
    return ExportView("a", "out", "HTTP", "there", "due", lag_age_millis=lag_age_ms, **fields)


async def told(events: AsyncIterator[bytes]) -> tuple[str, Any]:
    lines = (await asyncio.wait_for(anext(events), 5)).decode().split("\n")
    name = lines[0].removeprefix("event: ")
    return name, json.loads(lines[1].removeprefix("data: "))


def test_only_rows_that_changed_are_told() -> None:
    before = picture(1000, view("a"), view("b"), view("c"))
    after = picture(2000, view("a", total_bytes=1), view("b"), view("d"))

    change = json.loads(after.change_since(before))
    assert [row["name"] for row in change["streams"]["changed"]] == ["a", "d"]
    assert change["streams"]["changed"][0]["messagesPerSecond"] == 1.5
    assert change["streams"]["removed"] == ["c"]
    assert change["exports"] == {"changed": [], "removed": []}
    assert change["server"]["serverTime"] == 2000


@pytest.mark.parametrize(
    ("before_ms", "after_ms", "is_told"),
    [(5000, 6000, False), (5000, 6030, False), (5000, 5000, False), (5000, 900, True)],
)
def test_that_a_lag_aged_with_the_clock_is_no_news(
    before_ms: int, after_ms: int, is_told: bool
) -> None:
    """A browser can add the time itself; otherwise every row would be told every second."""
    before = picture(1000, exports=(export(before_ms),))
    after = picture(2000, exports=(export(after_ms),))

    assert bool(json.loads(after.change_since(before))["exports"]["changed"]) == is_told
    more = picture(2000, exports=(export(6000, lag_messages=1),))
    assert json.loads(more.change_since(before))["exports"]["changed"]


def test_a_browser_that_does_not_keep_up_gets_a_fresh_snapshot() -> None:
    async def scenario() -> None:
        hub = Hub()
        pictures = [picture(time_ms, view("a", total_bytes=time_ms)) for time_ms in range(100)]
        hub.tell_all(pictures[0])
        events = hub.events()
        assert (await anext(events)).startswith(b"retry:")
        assert (await told(events))[0] == "snapshot"
        for before, after in pairwise(pictures):
            hub.tell_change(before, after)
            (listener,) = hub._listeners
            assert len(listener.waiting) <= EVENTS_WAITING_MAX
        name, document = await told(events)
        assert name == "snapshot"
        assert document["observation"]["streams"][0]["totalBytes"] == 99
        hub.tell_change(pictures[99], picture(100, view("a")))
        name, document = await told(events)
        assert (name, document["server"]["serverTime"]) == ("change", 100)
        await events.aclose()
        assert not hub.is_watched

    asyncio.run(scenario())


def test_who_comes_during_trouble_is_told_of_it_after_what_was_seen_last() -> None:
    async def scenario() -> None:
        hub = Hub()
        hub.tell_all(picture(1, view("a")))
        hub.tell_trouble("nobody answers")
        events = hub.events()
        await anext(events)
        assert (await told(events))[0] == "snapshot"
        assert await told(events) == ("trouble", {"text": "nobody answers"})
        hub.tell_all(picture(2, view("a")))
        assert (await told(events))[1]["observation"]["server"]["serverTime"] == 2
        hub.stop()
        assert [event async for event in events] == []

    asyncio.run(scenario())


def test_who_comes_before_anything_was_seen_waits_for_it() -> None:
    async def scenario() -> None:
        hub = Hub()
        hub.tell_trouble("not yet")
        events = hub.events()
        await anext(events)
        assert await told(events) == ("trouble", {"text": "not yet"})
        hub.tell_all(picture(1))
        assert (await told(events))[0] == "snapshot"
        await events.aclose()

    asyncio.run(scenario())
