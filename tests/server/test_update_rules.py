"""Update: what may change, what may not, and that everything else takes effect."""

from __future__ import annotations

from typing import Any

import pytest
from raw_client import Answer, RawClient

from penstock.protocol.operations import Operation

KIB = 1024


def kinesis(identifier: str = "k", **fields: Any) -> dict[str, Any]:
    return {"identifier": identifier, "kinesisStreamName": "s", **fields}


def update(client: RawClient, name: str, **changes: Any) -> Answer:
    definition = {"name": name, "strategyOnFull": 0, **changes}
    return client.call(Operation.UpdateMessageStream, definition=definition)


def forbidden(client: RawClient, name: str, **changes: Any) -> str:
    """The text of the refusal; the definition in force must not have changed."""
    before = client.describe(name)
    answer = update(client, name, **changes)
    assert (answer.operation, answer.status) == (Operation.UpdateMessageStreamResponse, 17)
    assert f"stream {name} cannot be updated so" in answer.text
    assert client.describe(name) == before
    return answer.text


def test_what_describe_returns_is_a_valid_update_that_changes_nothing(
    client: RawClient, name: str
) -> None:
    exports = {"kinesis": [kinesis(startSequenceNumber=50)], "http": []}
    client.create(name, maxSize=2 * KIB, timeToLiveMillis=60_000, exportDefinition=exports)
    client.append(name, b"x" * 1900)
    before = client.describe(name)
    client.done(Operation.UpdateMessageStream, definition=before["definition"])
    assert client.describe(name) == before


def test_an_update_replaces_everything(client: RawClient, name: str) -> None:
    client.create(
        name,
        maxSize=64 * KIB,
        streamSegmentSize=2 * KIB,
        timeToLiveMillis=60_000,
        strategyOnFull=1,
        flushOnWrite=True,
        exportDefinition={"kinesis": [kinesis()]},
    )
    assert update(client, name).status == 0
    definition = client.describe(name)["definition"]
    assert definition["maxSize"] == 268435456
    assert definition["streamSegmentSize"] == 16777216
    assert definition["strategyOnFull"] == 0
    assert definition["flushOnWrite"] is False
    assert definition["exportDefinition"]["kinesis"] == []
    assert "timeToLiveMillis" not in definition


@pytest.mark.parametrize(("old", "new"), [(0, 1), (1, 0), (1, None)])
def test_persistence_cannot_change(client: RawClient, name: str, old: int, new: int | None) -> None:
    client.create(name, persistence=old)
    changes = {} if new is None else {"persistence": new}
    assert "persistence cannot change" in forbidden(client, name, **changes)


def test_a_stream_cannot_become_smaller_than_what_it_holds(client: RawClient, name: str) -> None:
    client.create(name)
    client.append(name, bytes(3000))
    sizes = {"streamSegmentSize": KIB}
    text = forbidden(client, name, maxSize=3031, **sizes)
    assert "maxSize 3031 is less than the 3032 bytes" in text
    assert update(client, name, maxSize=3032, **sizes).status == 0
    answer = client.call(Operation.AppendMessage, name=name, payload=b"x")
    assert (answer.status, "is full" in answer.text) == (3, True)


def test_a_segment_cannot_become_larger_than_the_stream(client: RawClient, stream: str) -> None:
    sizes = {"maxSize": 4 * KIB, "streamSegmentSize": 4 * KIB + 1}
    assert "is less than streamSegmentSize 4097" in forbidden(client, stream, **sizes)
    assert update(client, stream, maxSize=4 * KIB, streamSegmentSize=4 * KIB).status == 0


def test_a_smaller_segment_size_counts_for_new_segments(client: RawClient, name: str) -> None:
    client.create(name, maxSize=32 * KIB, strategyOnFull=1)
    sizes = {"maxSize": 32 * KIB, "streamSegmentSize": KIB}
    assert update(client, name, strategyOnFull=1, **sizes).status == 0
    for _ in range(100):
        client.append(name, bytes(900))
    storage = client.describe(name)["storageStatus"]
    assert storage["totalBytes"] > 30 * KIB, "with small segments little is dropped at a time"


def test_switching_the_strategy_counts_for_the_next_append(client: RawClient, name: str) -> None:
    sizes = {"maxSize": 4 * KIB, "streamSegmentSize": KIB}
    client.create(name, **sizes)
    client.append(name, bytes(2000), bytes(2000))
    assert client.call(Operation.AppendMessage, name=name, payload=bytes(2000)).status == 3
    assert update(client, name, strategyOnFull=1, **sizes).status == 0
    assert client.append(name, bytes(2000)) == [2]
    assert client.describe(name)["storageStatus"]["oldestSequenceNumber"] == 1


def test_a_larger_stream_takes_appends_at_once(client: RawClient, name: str) -> None:
    client.create(name, maxSize=KIB)
    client.append(name, bytes(900))
    assert client.call(Operation.AppendMessage, name=name, payload=bytes(900)).status == 3
    assert update(client, name, maxSize=16 * 1024 * KIB).status == 0
    assert client.append(name, bytes(900)) == [1]


def test_exports_are_added_changed_and_removed_by_their_identifier(
    client: RawClient, name: str
) -> None:
    client.create(name, exportDefinition={"kinesis": [kinesis("a"), kinesis("b")]})
    exports = {"kinesis": [kinesis("b", disabled=True), kinesis("c")]}
    assert update(client, name, exportDefinition=exports).status == 0
    info = client.describe(name)
    found = [status["exportConfigIdentifier"] for status in info["exportStatuses"]]
    assert found == ["b", "c"]
    assert info["definition"]["exportDefinition"]["kinesis"][0]["disabled"] is True


def test_a_changed_start_number_must_lie_below_the_newest_message(
    client: RawClient, name: str
) -> None:
    client.create(name, exportDefinition={"kinesis": [kinesis()]})
    client.append(name, *[b"x"] * 10)

    def exports(start: int) -> dict[str, Any]:
        return {"exportDefinition": {"kinesis": [kinesis(startSequenceNumber=start)]}}

    text = forbidden(client, name, **exports(9))
    assert "startSequenceNumber 9 must be less than the newest sequence number, 9" in text
    assert update(client, name, **exports(8)).status == 0
    (status,) = client.describe(name)["exportStatuses"]
    assert status["lastExportedSequenceNumber"] == 7


def test_on_an_empty_stream_a_new_export_may_start_at_zero(client: RawClient, stream: str) -> None:
    assert update(client, stream, exportDefinition={"kinesis": [kinesis()]}).status == 0
    text = forbidden(
        client, stream, exportDefinition={"kinesis": [kinesis("n", startSequenceNumber=1)]}
    )
    assert "export n" in text
