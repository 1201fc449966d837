"""Every destination gets every message, once and in order, and what it refuses is kept."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from export_payloads import s3_export, s3_task, sitewise_entry, sitewise_values, statuses
from exports_rig import Rig, numbered, wait_until

from penstock.model import (
    ExportDefinition,
    ExportFormat,
    HTTPConfig,
    IoTAnalyticsConfig,
    IoTSiteWiseConfig,
    KinesisConfig,
    MessageStreamDefinition,
    Persistence,
    Status,
    StrategyOnFull,
)

# More than one request for every destination, and no whole number of full ones.
MESSAGE_COUNT = 1234


def test_http_gets_raw_messages_one_by_one(rig: Rig) -> None:
    sink = rig.cloud.sink("raw")
    payloads = numbered(MESSAGE_COUNT)
    rig.create("raw", http=[HTTPConfig("export", sink.url)])
    rig.append("raw", payloads)

    view = rig.wait_until_exported("raw", MESSAGE_COUNT)

    assert sink.bodies() == payloads
    assert (view.delivered_messages, view.refused_messages) == (MESSAGE_COUNT, 0)


def test_http_gets_json_batches_with_stream_number_and_time(rig: Rig) -> None:
    sink = rig.cloud.sink("json")
    payloads = [bytes([number % 256]) * (number + 1) for number in range(MESSAGE_COUNT)]
    config = HTTPConfig("export", sink.url, batch_size=100, export_format=ExportFormat.JSON_BATCHED)
    before_ms = time.time_ns() // 10**6
    rig.create("json", http=[config])
    # The rest of 34 would wait for 66 more.
    rig.append("json", payloads[:1200])

    rig.wait_until_exported("json", 1200)

    messages = [message for request in sink.requests() for message in request.batch or ()]
    assert [message.payload for message in messages] == payloads[:1200]
    assert [message.sequence_number for message in messages] == list(range(1200))
    assert {message.stream_name for message in messages} == {"json"}
    assert all(before_ms <= message.ingest_time <= before_ms + 60_000 for message in messages)
    assert {request.message_count for request in sink.requests()} == {100}


def test_kinesis_gets_every_record(rig: Rig) -> None:
    rig.cloud.kinesis.create_stream("telemetry")
    payloads = numbered(MESSAGE_COUNT)
    rig.create("kinesis", kinesis=[KinesisConfig("export", "telemetry")])
    rig.append("kinesis", payloads)

    view = rig.wait_until_exported("kinesis", MESSAGE_COUNT)

    assert [record.data for record in rig.cloud.kinesis.records("telemetry")] == payloads
    assert view.delivered_bytes == sum(map(len, payloads))


def test_iot_analytics_gets_every_message_under_unique_ids(rig: Rig) -> None:
    rig.cloud.iot_analytics.create_channel("channel")
    payloads = numbered(MESSAGE_COUNT)
    config = IoTAnalyticsConfig("export", "channel", iot_msg_id_prefix="device7-")
    rig.create("analytics", iot_analytics=[config])
    rig.append("analytics", payloads)

    rig.wait_until_exported("analytics", MESSAGE_COUNT)

    messages = rig.cloud.iot_analytics.messages("channel")
    assert [message.payload for message in messages] == payloads
    assert len({message.message_id for message in messages}) == MESSAGE_COUNT
    assert all(message.message_id.startswith("device7-") for message in messages)


def test_sitewise_gets_every_value(rig: Rig) -> None:
    count = 105
    rig.create("sitewise", iot_sitewise=[IoTSiteWiseConfig("export")])
    rig.append("sitewise", [sitewise_entry(number, "/pump/speed") for number in range(count)])

    rig.wait_until_exported("sitewise", count)

    assert sitewise_values(rig, "/pump/speed") == list(range(count))


def test_s3_tasks_are_done_in_order_and_leave_their_statuses(rig: Rig, tmp_path: Path) -> None:
    rig.cloud.s3.create_bucket("delivered")
    rig.create("statuses")
    rig.create("s3", s3_task_executor=[s3_export("statuses")])
    sizes = [1, 1000, 6 * 1024 * 1024]  # the last one is sent in parts
    contents = [bytes([65 + at]) * size for at, size in enumerate(sizes)]
    for at, content in enumerate(contents):
        file = tmp_path / f"{at}.bin"
        file.write_bytes(content)
        rig.append("s3", [s3_task(file, "delivered", f"key-{at}")])

    rig.wait_until_exported("s3", len(sizes))

    assert [stored.key for stored in rig.cloud.s3.stored("delivered")] == [
        "key-0",
        "key-1",
        "key-2",
    ]
    for at, content in enumerate(contents):
        assert rig.cloud.s3.object("delivered", f"key-{at}").body == content
    assert statuses(rig.client, "statuses") == [
        (number, status) for number in range(3) for status in (Status.InProgress, Status.Success)
    ]


def test_one_poison_message_among_ten_thousand_costs_one_message(rig: Rig) -> None:
    sink = rig.cloud.sink("poisoned")
    payloads = numbered(10_000)
    payloads[4321] = b"poison"
    knob = sink.refuse("poison")
    rig.create("poisoned", http=[rig.json_export("poisoned")])
    rig.append("poisoned", payloads)

    view = rig.wait_until_exported("poisoned", 10_000)

    assert sink.messages() == payloads[:4321] + payloads[4322:]
    assert (view.delivered_messages, view.refused_messages, view.dead_letters) == (9_999, 1, 1)
    (letter,) = rig.client.find_dead_letters("poisoned", "export")
    assert (letter.sequence_number, letter.payload) == (4321, b"poison")
    assert "The sink refuses this message" in letter.reason

    knob.release()
    assert rig.client.replay_dead_letters("poisoned", "export") == 1
    sink.wait_for_messages(10_000)
    assert sink.messages()[-1] == b"poison"
    wait_until(lambda: not rig.client.find_dead_letters("poisoned"), "the dead letter to go")
    assert rig.export("poisoned").dead_letters == 0


def test_a_replay_that_is_refused_again_stays_a_dead_letter(rig: Rig) -> None:
    sink = rig.cloud.sink("stubborn")
    sink.refuse("poison")
    rig.create("stubborn", http=[HTTPConfig("export", sink.url)])
    rig.append("stubborn", [b"one", b"poison", b"two"])
    rig.wait_until_exported("stubborn", 3)
    (letter,) = rig.client.find_dead_letters("stubborn")

    rig.client.replay_dead_letters("stubborn")

    def refused_again() -> bool:
        (again,) = rig.client.find_dead_letters("stubborn")
        return again.refused_time > letter.refused_time and not again.replay

    wait_until(refused_again, "the second refusal")
    assert sink.bodies() == [b"one", b"two"]
    assert "The sink refuses this message" in rig.client.find_dead_letters("stubborn")[0].reason


@pytest.mark.parametrize("persistence", Persistence)
def test_each_message_goes_out_by_itself_without_waiting_for_more(
    rig: Rig, persistence: Persistence
) -> None:
    sink = rig.cloud.sink(f"single-{persistence.name}")
    rig.client.create_message_stream(
        MessageStreamDefinition(
            name=sink.name,
            strategy_on_full=StrategyOnFull.OverwriteOldestData,
            persistence=persistence,
            export_definition=ExportDefinition(http=[HTTPConfig("export", sink.url)]),
        )
    )
    for number in range(3):
        rig.append(sink.name, numbered(1, number))
        sink.wait_for_messages(number + 1)
    assert sink.bodies() == numbered(3)
