"""Whatever part of the exports is killed in the middle of its work, nothing is lost.

The sinks take their time for each batch, and there is a backlog, so that every kill hits a batch in
flight. In the end every message has arrived, in order, and per kill and export at most one batch
arrived twice.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from export_payloads import s3_task
from exports_rig import (
    Rig,
    first_arrivals,
    java_process,
    kill,
    numbered,
    python_workers,
    wait_until,
)

from penstock.model import MIB, S3ExportTaskExecutorConfig

EXPORT_COUNT = 3
BATCH_SIZE = 50
REQUEST_S = 0.1
GO_ON_WITHIN_S = 20.0
# What an export sends at that rate until the slowest of the others goes on as well.
BACKLOG_PER_KILL = int(GO_ON_WITHIN_S / REQUEST_S) * BATCH_SIZE
SHORT, LONG = 1, 10


def java(rig: Rig) -> int:
    kill(java_process(rig))
    return 1


def server(rig: Rig) -> int:
    rig.server.kill()
    rig.server.restart()
    return 1


def driver(rig: Rig) -> int:
    process_id = rig.wait_until_running().process_id
    assert process_id is not None
    kill(process_id)
    return 1


def workers(rig: Rig) -> int:
    victims = python_workers(rig)[:2]
    for process_id in victims:
        kill(process_id)
    return len(victims)


@pytest.mark.parametrize("kill_count", [SHORT, pytest.param(LONG, marks=pytest.mark.slow)])
# The server comes between the others: a new one does not know how often the pipeline died.
@pytest.mark.parametrize("kill_some", [java, server, driver, workers])
def test_a_kill_loses_nothing_and_repeats_at_most_a_batch_per_export(
    rig: Rig, kill_some: Callable[[Rig], int], kill_count: int
) -> None:
    total = BACKLOG_PER_KILL * kill_count
    names = [f"{kill_some.__name__}-{kill_count}-{at}" for at in range(EXPORT_COUNT)]
    sinks = [rig.cloud.sink(name) for name in names]
    knobs = [sink.slow(REQUEST_S) for sink in sinks]
    for name in names:
        rig.create(name, http=[rig.json_export(name, batch_size=BATCH_SIZE)])
        rig.append(name, numbered(total))

    killed = 0
    while killed < kill_count:
        for sink in sinks:
            sink.wait_for_messages(sink.message_count + BATCH_SIZE)
        killed += kill_some(rig)
        # The first batch is perhaps the one that was in flight, the second its repetition.
        wanted = [(sink, sink.message_count + 3 * BATCH_SIZE) for sink in sinks]
        deadline = time.monotonic() + GO_ON_WITHIN_S
        for sink, count in wanted:
            sink.wait_for_messages(count, deadline - time.monotonic())

    assert all(sink.message_count < total for sink in sinks), "the backlog was too small"
    for knob in knobs:
        knob.release()
    for name, sink in zip(names, sinks, strict=True):
        rig.wait_until_exported(name, total)
        arrived = sink.messages()
        assert first_arrivals(arrived) == numbered(total)
        repeated = len(arrived) - total
        assert repeated <= killed * BATCH_SIZE, f"{repeated} messages came twice"


def test_after_a_kill_an_upload_goes_on_without_the_parts_that_have_arrived(
    rig: Rig, tmp_path: Path
) -> None:
    rig.cloud.s3.create_bucket("killed")
    rig.cloud.s3.slow(0.3)
    file = tmp_path / "file"
    file.write_bytes(os.urandom(60 * MIB))  # 12 parts, 4 at a time
    rig.create("killed-upload", s3_task_executor=[S3ExportTaskExecutorConfig("export")])
    rig.append("killed-upload", [s3_task(file, "killed", "key")])
    wait_until(
        lambda: any(len(upload.parts) >= 4 for upload in rig.cloud.s3.uploads("killed")),
        "four parts to arrive",
    )
    arrived = {part.number for upload in rig.cloud.s3.uploads("killed") for part in upload.parts}

    for process_id in python_workers(rig):
        kill(process_id)

    rig.wait_until_exported("killed-upload", 1)
    (upload,) = rig.cloud.s3.uploads("killed")
    numbers = [part.number for part in upload.parts]
    looked_count = rig.cloud.request_count("s3", "ListMultipartUploads", "killed")
    assert looked_count > 1, "the kill did not interrupt it"
    assert set(numbers) == set(range(1, 13))
    assert [number for number in arrived if numbers.count(number) > 1] == []
    # The four that were on their way may have come twice.
    assert len(numbers) <= 12 + 4
    assert rig.cloud.s3.object("killed", "key").body == file.read_bytes()
