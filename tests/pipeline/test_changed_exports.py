"""Exports that are paused, moved, replaced or deleted, also while they send."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from export_payloads import s3_export, s3_task, statuses
from exports_rig import PIPELINE_START_S, Rig, first_arrivals, numbered, running_rig, wait_until

from failure_logs import show_on_failure
from penstock.model import MIB, S3ExportTaskExecutorConfig, Status
from penstock.testing import UploadState

BATCH_SIZE = 20
COUNT = 100 * BATCH_SIZE
REQUEST_S = 0.02


def start_slowly(rig: Rig, name: str, **options: object) -> None:
    """An export with a backlog, in the middle of it."""
    sink = rig.cloud.sink(name)
    sink.slow(REQUEST_S)
    rig.create(name, http=[rig.json_export(name, batch_size=BATCH_SIZE, **options)])
    rig.append(name, numbered(COUNT))
    sink.wait_for_messages(5 * BATCH_SIZE)


def test_a_paused_export_stops_and_goes_on_where_it_stopped(rig: Rig) -> None:
    sink = rig.cloud.sink("paused")
    start_slowly(rig, "paused")

    rig.update("paused", http=[rig.json_export("paused", batch_size=BATCH_SIZE, disabled=True)])
    stopped_at = rig.export("paused").last_exported_sequence_number

    assert rig.export("paused").state == "paused"
    # A request may have been on its way; by the time that another export is done, it is there.
    rig.create("after-the-pause", http=[rig.json_export("after-the-pause")])
    rig.append("after-the-pause", numbered(1))
    rig.wait_until_exported("after-the-pause", 1)
    assert sink.message_count <= stopped_at + 1 + BATCH_SIZE
    assert rig.export("paused").last_exported_sequence_number == stopped_at < COUNT - 1

    rig.update("paused", http=[rig.json_export("paused", batch_size=BATCH_SIZE)])
    rig.wait_until_exported("paused", COUNT)
    assert first_arrivals(sink.messages()) == numbered(COUNT)
    assert len(sink.messages()) <= COUNT + BATCH_SIZE


def test_a_changed_start_sends_again_from_there(rig: Rig) -> None:
    sink = rig.cloud.sink("again")
    rig.create("again", http=[rig.json_export("again")])
    rig.append("again", numbered(100))
    rig.wait_until_exported("again", 100)

    rig.update("again", http=[rig.json_export("again", start_sequence_number=60)])

    sink.wait_for_messages(140)
    assert sink.messages() == numbered(100) + numbered(40, start=60)


def test_a_new_address_gets_what_the_old_one_did_not(rig: Rig) -> None:
    old, new = rig.cloud.sink("old"), rig.cloud.sink("new")
    start_slowly(rig, "old")

    rig.update("old", http=[rig.json_export("new", batch_size=BATCH_SIZE)])
    rig.wait_until_exported("old", COUNT)

    at_old, at_new = old.messages(), new.messages()
    assert at_old == numbered(len(at_old))
    assert at_new == numbered(len(at_new), start=COUNT - len(at_new))
    assert COUNT <= len(at_old) + len(at_new) <= COUNT + BATCH_SIZE


def test_a_deleted_stream_stops_its_export(rig: Rig) -> None:
    sink = rig.cloud.sink("deleted")
    start_slowly(rig, "deleted")

    rig.client.delete_message_stream("deleted")
    sent = sink.message_count
    # The same name again, with an export of the same name: nothing of the old one is left.
    rig.create("deleted", http=[rig.json_export("deleted-anew")])
    rig.append("deleted", numbered(10))

    rig.wait_until_exported("deleted", 10)
    assert rig.cloud.sink("deleted-anew").messages() == numbered(10)
    assert sink.message_count <= sent + BATCH_SIZE


def test_a_deleted_stream_cancels_the_upload_in_flight(rig: Rig, tmp_path: Path) -> None:
    rig.cloud.s3.create_bucket("changed")
    knob = rig.cloud.s3.slow(1)
    file = tmp_path / "file"
    file.touch()
    os.truncate(file, 100 * MIB)  # in parts, several seconds
    rig.create("upload-statuses")
    rig.create("uploads", s3_task_executor=[s3_export("upload-statuses")])
    rig.append("uploads", [s3_task(file, "changed", "key")])
    knob.wait_used(4)

    rig.client.delete_message_stream("uploads")

    wait_until(
        lambda: (0, Status.Canceled) in statuses(rig.client, "upload-statuses"),
        "the upload to be canceled",
        shown=lambda: statuses(rig.client, "upload-statuses"),
    )
    (upload,) = rig.cloud.s3.uploads("changed")
    assert upload.state == UploadState.ABORTED
    assert rig.cloud.s3.keys("changed") == []


def test_an_added_export_starts_at_the_beginning_and_leaves_the_first_alone(rig: Rig) -> None:
    first, second = rig.json_export("first", "first"), rig.json_export("second", "second")
    rig.create("two", http=[first])
    rig.append("two", numbered(50))
    rig.wait_until_exported("two", 50, "first")

    rig.update("two", http=[first, second])

    rig.wait_until_exported("two", 50, "second")
    assert rig.cloud.sink("first").messages() == rig.cloud.sink("second").messages() == numbered(50)


def test_a_batch_size_alone_waits_for_whole_batches_and_says_so(rig: Rig) -> None:
    sink = rig.cloud.sink("whole")
    rig.create("whole", http=[rig.json_export("whole", batch_size=5)])
    rig.append("whole", numbered(12))

    view = rig.wait_until_exported("whole", 10)
    view = rig.wait_for_state("whole", "waiting")

    assert view.waiting_for == "3 more messages for a batch of 5"
    assert view.lag_messages == 2
    rig.append("whole", numbered(3, start=12))
    rig.wait_until_exported("whole", 15)
    assert [request.message_count for request in sink.requests()] == [5, 5, 5]


def test_a_full_batch_does_not_wait_for_the_interval(rig: Rig) -> None:
    interval_ms = 60_000
    rig.create(
        "interval",
        http=[
            rig.json_export("interval", batch_size=5, batch_interval_millis=interval_ms),
        ],
    )
    rig.append("interval", numbered(3))

    view = rig.wait_for_state("interval", "waiting")

    assert view.waiting_for == (
        f"2 more messages for a batch of 5 or the interval of {interval_ms} ms"
    )
    rig.append("interval", numbered(2, start=3))
    rig.wait_until_exported("interval", 5)
    assert rig.cloud.sink("interval").messages() == numbered(5)


@pytest.mark.slow
def test_what_does_not_fill_a_batch_goes_when_its_interval_is_over(rig: Rig) -> None:
    interval_s = 60  # the smallest that is allowed
    sink = rig.cloud.sink("elapsed")
    config = rig.json_export("elapsed", batch_size=5, batch_interval_millis=interval_s * 1000)
    rig.create("elapsed", http=[config])
    before_s = time.time()
    rig.append("elapsed", numbered(3))
    appended_s = time.time()

    sink.wait_for_messages(3, interval_s + 30)

    (arrival,) = [entry for entry in rig.cloud.requests() if entry.target == "elapsed"]
    assert before_s + interval_s <= arrival.time_s < appended_s + interval_s + 10
    assert sink.messages() == numbered(3)


@pytest.fixture(scope="module")
def narrow_rig(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Rig]:
    """All exports together may send 200 kB a second."""
    folder = tmp_path_factory.mktemp("narrow")
    show_on_failure(request, folder / "server.log")
    with running_rig(folder, {"PENSTOCK_EXPORTER_BANDWIDTH_KBPS_MAX": "1600"}) as running:
        yield running


def test_with_little_bandwidth_the_urgent_backlog_goes_first(narrow_rig: Rig) -> None:
    rig = narrow_rig
    low, high = rig.cloud.sink("low"), rig.cloud.sink("high")
    payloads = [b"%01000d" % number for number in range(600)]  # 3 s worth of each
    rig.create("warm-up", http=[rig.json_export("warm-up")])
    rig.append("warm-up", numbered(1))
    rig.wait_until_exported("warm-up", 1, timeout_s=PIPELINE_START_S)
    for sink, priority in ((low, 10), (high, 1)):
        rig.create(sink.name, http=[rig.json_export(sink.name, priority=priority, disabled=True)])
        rig.append(sink.name, payloads)
    for sink, priority in ((low, 10), (high, 1)):
        rig.update(sink.name, http=[rig.json_export(sink.name, priority=priority)])

    high.wait_for_messages(len(payloads))

    # What went before the urgent one was there: a second's worth at most.
    assert low.message_count <= 200
    low.wait_for_messages(len(payloads))
    assert low.messages() == high.messages() == payloads
    arrivals = [
        entry.time_s for entry in rig.cloud.requests() if entry.target in (low.name, high.name)
    ]
    # 1.2 MB at 200 kB/s, but for the burst at the start and the last portion.
    assert arrivals[-1] - arrivals[0] > 4


def test_the_files_of_s3_tasks_count_for_the_bandwidth(narrow_rig: Rig, tmp_path: Path) -> None:
    rig = narrow_rig
    rig.cloud.s3.create_bucket("changed")
    file = tmp_path / "file"
    file.write_bytes(bytes(800_000))  # 4 s worth
    rig.create("file", s3_task_executor=[S3ExportTaskExecutorConfig("export")])
    rig.append("file", [s3_task(file, "changed", "key")])
    rig.wait_until_exported("file", 1, timeout_s=PIPELINE_START_S)

    sink = rig.cloud.sink("after-the-file")
    rig.create(sink.name, http=[rig.json_export(sink.name)])
    rig.append(sink.name, numbered(1))
    sink.wait_for_messages(1)

    # Of the 4 s one and a half had gathered before: a second's worth, and the portion.
    (upload,) = [entry for entry in rig.cloud.requests() if entry.operation == "PutObject"]
    (arrival,) = [entry for entry in rig.cloud.requests() if entry.target == sink.name]
    assert arrival.time_s - upload.time_s > 2


@pytest.mark.slow
def test_with_little_bandwidth_a_low_priority_waits_for_half_a_minute_and_not_for_ever(
    narrow_rig: Rig,
) -> None:
    rig = narrow_rig
    low, high = rig.cloud.sink("trickle"), rig.cloud.sink("flood")
    payloads = [b"%01000d" % number for number in range(10_000)]  # 50 s worth
    rig.create(high.name, http=[rig.json_export(high.name, priority=1)])
    rig.append(high.name, payloads)
    high.wait_for_messages(100)
    rig.create(low.name, http=[rig.json_export(low.name, priority=10)])
    rig.append(low.name, numbered(1))
    due_s = time.time()

    low.wait_for_messages(1, timeout_s=60)

    (arrival,) = [entry for entry in rig.cloud.requests() if entry.target == low.name]
    assert 29 < arrival.time_s - due_s < 40
    assert high.message_count < len(payloads)
    high.wait_for_messages(len(payloads), timeout_s=60)
    assert high.messages() == payloads
