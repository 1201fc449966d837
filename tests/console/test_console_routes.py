"""Every route of the console, with a real server behind it."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from browser_stand_in import Caller

from penstock import (
    ExportDefinition,
    HTTPConfig,
    MessageStreamDefinition,
    ReadMessagesOptions,
    StrategyOnFull,
    StreamManagerClient,
)
from penstock.console.messages import PAYLOAD_SHOWN_BYTES
from penstock.units import MIB


def create(client: StreamManagerClient, name: str, **fields: Any) -> None:
    client.create_message_stream(
        MessageStreamDefinition(name, strategy_on_full=StrategyOnFull.RejectNewData, **fields)
    )


def exporting(identifier: str = "out") -> ExportDefinition:
    return ExportDefinition(http=[HTTPConfig(identifier, "http://127.0.0.1:9/nowhere")])


def row_of(call: Caller, name: str) -> dict[str, Any]:
    """A stream as the overview shows it, once it has come."""
    streams: list[dict[str, Any]] = call.get("/api/overview")["observation"]["streams"]
    return next((row for row in streams if row["name"] == name), {})


# --- what there is to see -----------------------------------------------------------------------


def test_the_overview_has_everything_at_one_moment(
    call: Caller, client: StreamManagerClient, name: str
) -> None:
    create(client, name, export_definition=exporting())
    client.append_messages(name, [b"one", b"three"])
    call("POST", "/api/exports/resume", {"stream": name, "export": "out"})  # looks at once

    seen = call.get("/api/overview")["observation"]
    assert seen["server"]["version"]
    assert seen["pipeline"]["state"] == "external"
    assert [view["name"] for view in seen["transforms"]] == ["hot"]
    row = next(row for row in seen["streams"] if row["name"] == name)
    assert (row["oldestSequenceNumber"], row["newestSequenceNumber"]) == (0, 1)
    assert (row["appendedMessages"], row["appendedBytes"]) == (2, 8)
    assert row["newestTime"] >= row["oldestTime"] > 1_600_000_000_000
    export = next(view for view in seen["exports"] if view["streamName"] == name)
    assert (export["exportIdentifier"], export["lagMessages"]) == ("out", 2)


def test_the_session_says_who_answers(call: Caller) -> None:
    session = call.get("/api/session")

    assert session["authentication"] is False
    assert session["signedIn"] is True
    assert re.fullmatch(r"127\.0\.0\.1:\d+", session["server"])
    assert session["version"]


def test_rates_and_lags_are_kept_over_time(
    call: Caller, client: StreamManagerClient, name: str
) -> None:
    create(client, name, export_definition=exporting())
    with call.events() as events:
        events.until("snapshot")
        client.append_messages(name, [b"x"] * 100)
        while not any(row["name"] == name for row in events.until("change")["streams"]["changed"]):
            pass
    series = call.get("/api/history", stream=name, export="out")

    assert series["times"] == sorted(series["times"])
    assert series["lagMessages"][-1] == 100
    assert len({len(figures) for figures in series.values()}) == 1
    alone = call.get("/api/history", stream=name)
    assert len(alone["appendedPerSecond"]) >= len(series["times"])
    assert alone["lagMessages"] == []


def test_metrics_and_probes_answer(call: Caller) -> None:
    metrics = call("GET", "/metrics")
    assert metrics.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert b"penstock_server_connections " in metrics.content
    for path in ("/healthz", "/readyz"):
        reply = call("GET", path)
        assert (reply.status, reply.content) == (200, b"ok\n")


# --- files --------------------------------------------------------------------------------------


def test_the_page_comes_with_its_type_its_rules_and_a_tag(call: Caller) -> None:
    page = call("GET", "/")

    assert page.status == 200
    assert page.headers["Content-Type"].startswith("text/html")
    assert page.headers["Content-Security-Policy"].startswith("default-src 'self'")
    assert page.headers["X-Content-Type-Options"] == "nosniff"
    again = call("GET", "/", headers={"If-None-Match": page.headers["ETag"]})
    assert (again.status, again.content) == (304, b"")


def test_every_file_that_the_page_names_is_served_with_its_type(call: Caller) -> None:
    types = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
    named = re.findall(r'(?:src|href)="(/static/[^"]+)"', call("GET", "/").content.decode())

    assert named
    for path in named:
        reply = call("GET", path)
        assert reply.status == 200, path
        assert reply.headers["Content-Type"].startswith(types[path.rpartition(".")[2]])


@pytest.mark.parametrize(
    "path", ["/static/../app.py", "/static/%2e%2e/app.py", "/static/none.js", "/nowhere", "/api/no"]
)
def test_what_is_not_there_is_not_found(call: Caller, path: str) -> None:
    reply = call("GET", path)

    assert reply.status == 404
    assert path.partition("?")[0].rpartition("/")[2] in reply.error


# --- streams ------------------------------------------------------------------------------------


def test_a_stream_is_created_shown_updated_and_deleted(call: Caller, name: str) -> None:
    definition = {"name": name, "strategyOnFull": 1, "maxSize": 32 * MIB}
    assert call("POST", "/api/streams", definition).status == 201
    assert row_of(call, name)["maxSize"] == 32 * MIB

    shown = call.get("/api/stream", name=name)["definition"]
    assert definition.items() <= shown.items()
    changed = {**shown, "maxSize": 64 * MIB}  # all that was shown can be sent back
    assert call("PUT", "/api/stream", changed, name=name).status == 200
    assert call.get("/api/stream", name=name)["definition"] == changed

    assert call("DELETE", "/api/stream", name=name).status == 204
    assert row_of(call, name) == {}
    assert call("GET", "/api/stream", name=name).status == 404


def test_a_name_that_is_taken_is_a_conflict(
    call: Caller, client: StreamManagerClient, name: str
) -> None:
    create(client, name)
    reply = call("POST", "/api/streams", {"name": name, "strategyOnFull": 1})

    assert reply.status == 409
    assert name in reply.error


def test_an_update_that_is_not_allowed_is_a_conflict(
    call: Caller, client: StreamManagerClient, name: str
) -> None:
    create(client, name)
    reply = call(
        "PUT", "/api/stream", {"name": name, "strategyOnFull": 0, "persistence": 1}, name=name
    )

    assert reply.status == 409
    assert "persistence" in reply.error


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"{", "definition"),
        (b"[]", "object"),
        (b'{"strategyOnFull": 1}', "name"),
        (b'{"name": "a", "strategyOnFull": 9}', "strategyOnFull"),
        (b'{"name": "a", "strategyOnFull": 1, "maxSiez": 1}', "maxSiez"),
        (b'{"name": "a", "strategyOnFull": 1, "exportDefinition": {"kinesys": []}}', "kinesys"),
        (b'{"name": "a/b", "strategyOnFull": 1}', "name"),
        (b'{"name": "a", "strategyOnFull": 1, "maxSize": 3}', "maxSize"),
        (b" " * 2_000_000, "larger"),
    ],
)
def test_a_definition_that_is_wrong_is_refused_with_the_reason(
    call: Caller, body: bytes, named: str
) -> None:
    headers = {"Content-Type": "application/json"}
    reply = call("POST", "/api/streams", body, headers=headers)

    assert reply.status == 400
    assert named in reply.error


def test_an_update_under_another_name_is_refused(call: Caller) -> None:
    reply = call("PUT", "/api/stream", {"name": "a", "strategyOnFull": 1}, name="b")
    assert reply.status == 400
    assert "stream a, not of b" in reply.error


# --- exports ------------------------------------------------------------------------------------


def test_an_export_is_paused_and_goes_on(
    call: Caller, client: StreamManagerClient, name: str
) -> None:
    create(client, name, export_definition=exporting())

    def state() -> str:
        exports = call.get("/api/overview")["observation"]["exports"]
        return next(str(view["state"]) for view in exports if view["streamName"] == name)

    assert call("POST", "/api/exports/pause", {"stream": name, "export": "out"}).status == 204
    assert state() == "paused"
    assert call("POST", "/api/exports/resume", {"stream": name, "export": "out"}).status == 204
    assert state() == "idle"


@pytest.mark.parametrize(
    ("body", "status", "named"),
    [
        ({"stream": "none", "export": "out"}, 404, "none"),
        ({"stream": "plant-of-pause", "export": "other"}, 404, "other"),
        ({"stream": "plant-of-pause"}, 400, "export"),
        ({"stream": 1, "export": "out"}, 400, "str"),
        ({"stream": "a", "export": "b", "more": 1}, 400, "more"),
    ],
)
def test_an_export_that_is_not_there_cannot_be_paused(
    call: Caller, client: StreamManagerClient, body: dict[str, Any], status: int, named: str
) -> None:
    if "plant-of-pause" not in client.list_streams():
        create(client, "plant-of-pause", export_definition=exporting())
    reply = call("POST", "/api/exports/pause", body)

    assert reply.status == status
    assert named in reply.error


# --- messages -----------------------------------------------------------------------------------


def numbers(page: dict[str, Any]) -> list[int]:
    return [message["sequenceNumber"] for message in page["messages"]]


def test_messages_are_found_by_number_and_the_newest_come_without(
    call: Caller, client: StreamManagerClient, name: str
) -> None:
    create(client, name)
    client.append_messages(name, [b"message %d" % number for number in range(200)])

    assert numbers(call.get("/api/messages", stream=name, start=17, count=3)) == [17, 18, 19]
    newest = call.get("/api/messages", stream=name)
    assert numbers(newest) == list(range(150, 200))
    assert (newest["oldest"], newest["newest"]) == (0, 199)
    first = newest["messages"][0]
    assert base64.b64decode(first["payload"]) == b"message 150"
    assert (first["size"], first["isCut"]) == (11, False)
    assert numbers(call.get("/api/messages", stream=name, start=1000)) == []


def test_messages_are_found_by_time(call: Caller, client: StreamManagerClient, name: str) -> None:
    create(client, name)
    client.append_messages(name, [b"early"] * 50)
    last_early = client.describe_message_stream(name).storage_status.newest_sequence_number
    time.sleep(0.01)  # ingest times are milliseconds: the two batches must not share one
    client.append_messages(name, [b"late"] * 50)
    late_ms = client.read_messages(name, ReadMessagesOptions(last_early + 1))[0].ingest_time
    assert late_ms is not None

    assert numbers(call.get("/api/messages", stream=name, time=late_ms, count=2)) == [50, 51]
    assert numbers(call.get("/api/messages", stream=name, time=0, count=2)) == [0, 1]
    assert numbers(call.get("/api/messages", stream=name, time=late_ms + 10**9)) == []


def test_a_large_payload_is_cut_in_a_page_and_whole_by_itself(
    call: Caller, client: StreamManagerClient, name: str
) -> None:
    create(client, name)
    payload = bytes(range(256)) * 1024
    client.append_message(name, payload)

    (shown,) = call.get("/api/messages", stream=name)["messages"]
    assert (shown["size"], shown["isCut"]) == (len(payload), True)
    assert base64.b64decode(shown["payload"]) == payload[:PAYLOAD_SHOWN_BYTES]
    whole = call("GET", "/api/message", stream=name, number=0, raw=1)
    assert whole.content == payload
    assert whole.headers["Content-Type"] == "application/octet-stream"
    assert whole.headers["Content-Disposition"] == f'attachment; filename="{name}-0.bin"'


def test_an_empty_stream_has_an_empty_page(
    call: Caller, client: StreamManagerClient, name: str
) -> None:
    create(client, name)
    assert call.get("/api/messages", stream=name, time=5) == {
        "messages": [],
        "oldest": 0,
        "newest": -1,
    }
    assert call("GET", "/api/message", stream=name, number=0).status == 404


@pytest.mark.parametrize(
    ("path", "query", "status", "named"),
    [
        ("/api/messages", {}, 400, "stream"),
        ("/api/messages", {"stream": "none"}, 404, "none"),
        ("/api/messages", {"stream": "a", "count": "0"}, 400, "count"),
        ("/api/messages", {"stream": "a", "count": "501"}, 400, "count"),
        ("/api/messages", {"stream": "a", "start": "first"}, 400, "start"),
        ("/api/messages", {"stream": "a", "start": "-1"}, 400, "start"),
        ("/api/messages", {"stream": "a", "time": "9" * 30}, 400, "time"),
        ("/api/message", {"stream": "a"}, 400, "number"),
        ("/api/message", {"stream": "none", "number": "1"}, 404, "none"),
        ("/api/history", {}, 400, "stream"),
        ("/api/stream", {}, 400, "name"),
        ("/api/stream", {"name": "a/b"}, 400, "name"),
        ("/api/dead-letters", {"after": "x"}, 400, "after"),
    ],
)
def test_a_wrong_parameter_is_refused_with_its_name(
    call: Caller, path: str, query: dict[str, str], status: int, named: str
) -> None:
    reply = call("GET", path, **query)

    assert reply.status == status
    assert named in reply.error


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/api/overview"), ("PUT", "/api/streams"), ("DELETE", "/")]
)
def test_a_wrong_method_is_refused(call: Caller, method: str, path: str) -> None:
    assert call(method, path).status == 405


# --- dead letters and transforms ----------------------------------------------------------------


def test_dead_letters_are_shown_replayed_and_purged(
    call: Caller,
    client: StreamManagerClient,
    name: str,
    refuse_all: Callable[[str], None],
) -> None:
    create(client, name, export_definition=exporting())
    client.append_messages(name, [b"bad %d" % number for number in range(3)])
    refuse_all(name)

    letters = call.get("/api/dead-letters", stream=name, export="out")["letters"]
    assert [letter["sequenceNumber"] for letter in letters] == [0, 1, 2]
    assert base64.b64decode(letters[1]["payload"]) == b"bad 1"
    assert (letters[1]["size"], letters[1]["isCut"]) == (5, False)
    assert letters[1]["reason"] == "it is bad"
    after = call.get("/api/dead-letters", stream=name, after=letters[0]["id"], count=1)
    assert [letter["id"] for letter in after["letters"]] == [letters[1]["id"]]

    chosen = {"stream": name, "export": "out", "ids": [letters[0]["id"]]}
    assert call("POST", "/api/dead-letters/replay", chosen).json == {"count": 1}
    shown = call.get("/api/dead-letters", stream=name)["letters"]
    assert [letter["replay"] for letter in shown] == [True, False, False]
    everything = {"stream": name, "export": "out", "ids": None}
    assert call("POST", "/api/dead-letters/purge", everything).json == {"count": 3}
    assert call.get("/api/dead-letters", stream=name) == {"letters": []}


def test_no_ids_at_all_are_not_taken_for_every_letter(call: Caller) -> None:
    for path in ("/api/dead-letters/purge", "/api/dead-letters/replay"):
        reply = call("POST", path, {"ids": []})
        assert reply.status == 400
        assert "ids is empty" in reply.error


def test_a_transform_begins_again(call: Caller) -> None:
    first = call("POST", "/api/transforms/reset", {"name": "hot", "start": "latest"})
    second = call("POST", "/api/transforms/reset", {"name": "hot"})

    assert second.json["generation"] == first.json["generation"] + 1
    assert call("POST", "/api/transforms/reset", {"name": "cold"}).status == 404
    wrong = call("POST", "/api/transforms/reset", {"name": "hot", "start": "soon"})
    assert (wrong.status, "soon" in wrong.error) == (400, True)
