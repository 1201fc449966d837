"""Destinations that fail, hang or refuse: messages arrive at least once and in order, neighbours
do not notice, and everybody can see what is wrong.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from export_payloads import s3_export, s3_task, sitewise_entry, sitewise_values, statuses
from exports_rig import Rig, first_arrivals, numbered, wait_until

from penstock.model import IoTAnalyticsConfig, IoTSiteWiseConfig, KinesisConfig, Status
from penstock.testing import ActiveKnob, CloseWhen, LocalCloud, Sink

BATCH_SIZE = 50
BATCH_COUNT = 10
COUNT = BATCH_SIZE * BATCH_COUNT
# Neighbours of exports in trouble; with the two troubled ones more than there are slots.
NEIGHBOUR_COUNT = 8

SINK_KNOBS: dict[str, Callable[[Sink], ActiveKnob]] = {
    "throttle": lambda sink: sink.throttle(times=2),
    "throttle-with-time": lambda sink: sink.throttle(times=1, retry_after_s=1),
    "fail": lambda sink: sink.fail(times=2),
    "fail-in-the-middle": lambda sink: sink.fail(times=2, after=4),
    "close-before": lambda sink: sink.close(CloseWhen.BEFORE_PROCESSING, times=2, after=1),
    "close-unanswered": lambda sink: sink.close(CloseWhen.BEFORE_ANSWER, times=2, after=1),
    "close-half-way": lambda sink: sink.close(CloseWhen.WITHIN_ANSWER, times=2, after=1),
    "slow": lambda sink: sink.slow(0.2, times=3),
}
KINESIS_KNOBS: dict[str, Callable[[LocalCloud, str], ActiveKnob]] = {
    "throttle": lambda cloud, name: cloud.kinesis.throttle(target=name, times=2),
    "fail": lambda cloud, name: cloud.kinesis.fail(target=name, times=2),
    "expired-credentials": lambda cloud, name: cloud.kinesis.expire(target=name, times=2),
    "close-half-way": lambda cloud, name: cloud.kinesis.close(
        CloseWhen.WITHIN_ANSWER, target=name, times=1, after=1
    ),
}


@pytest.mark.parametrize("trouble", SINK_KNOBS)
def test_http_messages_arrive_at_least_once_and_in_order(rig: Rig, trouble: str) -> None:
    sink = rig.cloud.sink(f"http-{trouble}")
    knob = SINK_KNOBS[trouble](sink)
    rig.create(sink.name, http=[rig.json_export(sink.name, batch_size=BATCH_SIZE)])
    rig.append(sink.name, numbered(COUNT))

    view = rig.wait_until_exported(sink.name, COUNT)

    assert knob.used == knob.knob.times
    assert first_arrivals(sink.messages()) == numbered(COUNT)
    assert len(sink.messages()) <= COUNT + knob.used * BATCH_SIZE
    assert (view.delivered_messages, view.refused_messages, view.last_error) == (COUNT, 0, None)


@pytest.mark.parametrize("trouble", KINESIS_KNOBS)
def test_kinesis_records_arrive_at_least_once_and_in_order(rig: Rig, trouble: str) -> None:
    name = f"kinesis-{trouble}"
    rig.cloud.kinesis.create_stream(name)
    knob = KINESIS_KNOBS[trouble](rig.cloud, name)
    rig.create(name, kinesis=[KinesisConfig("export", name, batch_size=BATCH_SIZE)])
    rig.append(name, numbered(COUNT))

    rig.wait_until_exported(name, COUNT)

    assert knob.used == knob.knob.times
    arrived = [record.data for record in rig.cloud.kinesis.records(name)]
    assert first_arrivals(arrived) == numbered(COUNT)
    assert len(arrived) <= COUNT + knob.used * BATCH_SIZE


def test_records_that_kinesis_left_out_of_a_batch_come_before_anything_newer(rig: Rig) -> None:
    rig.cloud.kinesis.create_stream("partial")
    failed = numbered(3)
    knob = rig.cloud.kinesis.fail_records(
        target="partial", indexes=(0, 1, 2), times=1, code="InternalFailure"
    )
    config = KinesisConfig("export", "partial", batch_size=BATCH_SIZE)
    rig.create("partial", kinesis=[config])
    rig.append("partial", numbered(COUNT))

    view = rig.wait_until_exported("partial", COUNT)

    assert knob.used == 1
    arrived = [record.data for record in rig.cloud.kinesis.records("partial")]
    # Each came once: the service took the rest of the first batch, then those it had left out.
    rest = numbered(COUNT)[3:]
    assert arrived == rest[: BATCH_SIZE - 3] + failed + rest[BATCH_SIZE - 3 :]
    assert view.delivered_messages == COUNT


def test_iot_analytics_that_fails_gets_every_message_in_the_end(rig: Rig) -> None:
    rig.cloud.iot_analytics.create_channel("weak")
    rig.cloud.iot_analytics.fail(target="weak", times=2)
    rig.create("weak", iot_analytics=[IoTAnalyticsConfig("export", "weak")])
    rig.append("weak", numbered(COUNT))

    rig.wait_until_exported("weak", COUNT)

    arrived = [message.payload for message in rig.cloud.iot_analytics.messages("weak")]
    assert first_arrivals(arrived) == numbered(COUNT)


def test_sitewise_that_throttles_and_fails_entries_gets_every_value(rig: Rig) -> None:
    count = 30
    rig.cloud.sitewise.throttle(times=1)
    rig.cloud.sitewise.fail_records(indexes=(1, 2), times=1, after=1)
    rig.create("values", iot_sitewise=[IoTSiteWiseConfig("export")])
    rig.append("values", [sitewise_entry(number, "/valve/state") for number in range(count)])

    view = rig.wait_until_exported("values", count)

    assert sorted(set(sitewise_values(rig, "/valve/state"))) == list(range(count))
    assert (view.delivered_messages, view.refused_messages) == (count, 0)


def test_an_s3_task_that_fails_at_first_starts_and_then_ends_once(rig: Rig, tmp_path: Path) -> None:
    rig.cloud.s3.create_bucket("troubled")
    knob = rig.cloud.s3.fail(operation="PutObject", times=2)
    file = tmp_path / "file"
    file.write_bytes(b"content")
    rig.create("task-statuses")
    rig.create("task", s3_task_executor=[s3_export("task-statuses")])
    rig.append("task", [s3_task(file, "troubled", "key")])

    rig.wait_until_exported("task", 1)

    assert knob.used == 2
    assert rig.cloud.s3.object("troubled", "key").body == b"content"
    *starts, end = statuses(rig.client, "task-statuses")
    # One for each process that took it up.
    assert 1 <= len(starts) <= 3
    assert set(starts) == {(0, Status.InProgress)}
    assert end == (0, Status.Success)


def test_neighbours_of_a_hanging_and_a_denying_destination_go_on(rig: Rig) -> None:
    hanging, denying = rig.cloud.sink("hanging"), rig.cloud.sink("denying")
    hang = hanging.hang()
    denying.deny()
    neighbours = [rig.cloud.sink(f"neighbour-{at}") for at in range(NEIGHBOUR_COUNT)]
    for sink in (hanging, denying, *neighbours):
        rig.create(sink.name, http=[rig.json_export(sink.name, batch_size=BATCH_SIZE)])
        rig.append(sink.name, numbered(COUNT))
    hang.wait_used()
    rig.wait_for_state("denying", "blocked")

    # They have been in trouble for a while, and there is more work for everybody.
    for round_ in range(1, 4):
        more = numbered(BATCH_SIZE, start=COUNT + (round_ - 1) * BATCH_SIZE)
        for sink in neighbours:
            rig.append(sink.name, more)
        for sink in neighbours:
            sink.wait_for_messages(COUNT + round_ * BATCH_SIZE, timeout_s=5)

    assert rig.export("hanging").state == "sending"
    for sink in neighbours:
        assert sink.messages() == numbered(COUNT + 3 * BATCH_SIZE)

    hang.release()
    rig.wait_until_exported("hanging", COUNT)
    assert first_arrivals(hanging.messages()) == numbered(COUNT)


def test_a_destination_that_denies_access_is_shown_as_blocked_with_its_reason(rig: Rig) -> None:
    rig.cloud.kinesis.create_stream("forbidden")
    rig.cloud.kinesis.deny(target="forbidden")
    rig.create("forbidden", kinesis=[KinesisConfig("export", "forbidden")])
    rig.append("forbidden", numbered(7))

    view = rig.wait_for_state("forbidden", "blocked")

    assert view.last_error is not None
    assert "forbidden" in view.last_error
    assert view.tries == 1
    assert view.next_retry_time is not None
    assert 10_000 < view.next_retry_time - time.time_ns() // 10**6 < 60_000
    assert (view.lag_messages, view.lag_bytes, view.dead_letters) == (7, 7, 0)
    assert view.lag_age_millis > 0
    (status,) = rig.client.describe_message_stream("forbidden").export_statuses
    assert status.error_message == view.last_error
    assert status.last_exported_sequence_number == -1


def test_a_destination_that_fails_is_shown_as_backing_off_until_it_works(rig: Rig) -> None:
    sink = rig.cloud.sink("failing")
    knob = sink.fail(status=503)
    rig.create("failing", http=[rig.json_export("failing")])
    rig.append("failing", numbered(3))
    knob.wait_used(3)

    view = rig.wait_for_state("failing", "backing off")

    assert view.tries >= 2
    assert view.next_retry_time is not None
    assert view.last_error is not None
    assert "503" in view.last_error

    knob.release()
    rig.wait_until_exported("failing", 3)
    wait_until(lambda: rig.export("failing").state == "idle", "it to be idle")
    view = rig.export("failing")
    assert (view.tries, view.next_retry_time, view.last_error) == (0, None, None)
    assert sink.messages() == numbered(3)


def test_the_server_stops_although_a_destination_hangs_and_goes_on_later(rig: Rig) -> None:
    sink = rig.cloud.sink("never")
    hang = sink.hang()
    rig.create("never", http=[rig.json_export("never")])
    rig.append("never", numbered(10))
    hang.wait_used()
    log_start = len(rig.server.log)

    rig.server.stop()
    said = rig.server.log[log_start:]
    assert "Traceback" not in said
    assert "Python worker exited" not in said
    hang.release()
    rig.server.restart()

    rig.wait_until_exported("never", 10, timeout_s=60)
    assert first_arrivals(sink.messages()) == numbered(10)
