"""S3 tasks that work: uploads and their statuses, against the local cloud."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from s3_export import (
    BUCKET,
    content,
    failing,
    open_uploads,
    parts_sent,
    statuses,
    task,
    told,
)
from s3_front import S3Front, s3_error
from surroundings import STREAM, Surroundings, batch_of

from penstock.destinations.base import Delivery, Transient
from penstock.errors import ConnectionLostException, ResourceNotFoundException
from penstock.model import (
    MIB,
    EventType,
    S3ExportTaskDefinition,
    Status,
    StatusConfig,
    StatusLevel,
)
from penstock.util import Util

# --- uploads ---------------------------------------------------------------------------------


def test_a_small_file_becomes_an_object_in_one_request(
    front: S3Front, s3_client: Any, make_export: Any, small: Path
) -> None:
    payload = task(small, user_metadata={"Machine": "Press 7"})

    assert make_export().send(batch_of(payload)) == Delivery()

    assert front.operations == ["PutObject"]
    assert content(s3_client) == small.read_bytes()
    assert s3_client.head_object(Bucket=BUCKET, Key="data/object")["Metadata"] == {
        "machine": "Press 7"
    }


def test_an_empty_file_becomes_an_empty_object(
    front: S3Front, s3_client: Any, make_export: Any, tmp_path: Path
) -> None:
    (tmp_path / "empty").touch()

    assert make_export().send(batch_of(task(tmp_path / "empty"))) == Delivery()
    assert content(s3_client) == b""


def test_a_large_file_is_sent_in_parts_side_by_side(
    front: S3Front, s3_client: Any, make_export: Any, large: Path
) -> None:
    together = threading.Barrier(3, timeout=20)

    def wait_for_the_others(operation: str) -> None:
        if operation.startswith("UploadPart"):
            together.wait()

    front.fault = wait_for_the_others
    payload = task(large, user_metadata={"machine": "7"})

    assert make_export().send(batch_of(payload)) == Delivery()

    assert parts_sent(front) == [1, 2, 3]
    assert content(s3_client) == large.read_bytes()
    assert s3_client.head_object(Bucket=BUCKET, Key="data/object")["Metadata"] == {"machine": "7"}
    assert open_uploads(s3_client) == 0


@pytest.mark.parametrize(("extra_bytes", "in_parts"), [(0, False), (1, True)])
def test_a_file_above_the_threshold_is_sent_in_parts(
    front: S3Front, make_export: Any, tmp_path: Path, extra_bytes: int, in_parts: bool
) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(6 * MIB + extra_bytes))
    export = make_export(size_threshold_for_multipart_upload_bytes=6 * MIB)

    assert export.send(batch_of(task(path))) == Delivery()

    assert ("CreateMultipartUpload" in front.operations) == in_parts
    assert parts_sent(front) == ([1, 2] if in_parts else [])


def test_the_bytes_of_files_are_counted_request_by_request(
    front: S3Front, make_export: Any, small: Path, large: Path, surroundings: Surroundings
) -> None:
    make_export().send(batch_of(task(small), task(large)))

    assert sorted(surroundings.file_bytes) == [1000, 2 * MIB, 5 * MIB, 5 * MIB]


def test_what_was_sent_in_vain_is_counted_too(
    front: S3Front, make_export: Any, small: Path, surroundings: Surroundings
) -> None:
    front.fault = failing("PutObject", answer=s3_error("SlowDown", 503))
    export = make_export()
    with pytest.raises(Transient):
        export.send(batch_of(task(small)))

    assert surroundings.file_bytes == [1000]


def test_the_smallest_part_is_a_setting(
    front: S3Front, make_export: Any, large: Path, surroundings: Surroundings
) -> None:
    surroundings.settings["s3_part_bytes_min"] = 7 * MIB

    assert make_export().send(batch_of(task(large))) == Delivery()
    assert parts_sent(front) == [1, 2]


def test_placeholders_in_the_key_are_filled_in(
    front: S3Front, s3_client: Any, make_export: Any, small: Path
) -> None:
    before = time.gmtime()

    assert make_export().send(batch_of(task(small, "!{timestamp:yyyy/MM}/x"))) == Delivery()

    (found,) = s3_client.list_objects_v2(Bucket=BUCKET)["Contents"]
    assert found["Key"] in (
        time.strftime("%Y/%m/x", before),
        time.strftime("%Y/%m/x", time.gmtime()),
    )


def test_tasks_are_executed_in_order_and_a_bad_one_does_not_stop_the_next(
    front: S3Front, s3_client: Any, make_export: Any, small: Path, surroundings: Surroundings
) -> None:
    batch = batch_of(task(small, "a"), b"no task", task(small, "c"))

    delivery = make_export().send(batch)

    assert set(delivery.refused) == {1}
    assert [item["Key"] for item in s3_client.list_objects_v2(Bucket=BUCKET)["Contents"]] == [
        "a",
        "c",
    ]
    assert [
        (message.status_context.sequence_number, message.status)
        for message in statuses(surroundings)
        if message.status_context
    ] == [
        (100, Status.InProgress),
        (100, Status.Success),
        (101, Status.Failure),
        (102, Status.InProgress),
        (102, Status.Success),
    ]


# --- statuses --------------------------------------------------------------------------------


def test_statuses_say_everything_about_their_task(
    front: S3Front, make_export: Any, small: Path, surroundings: Surroundings
) -> None:
    payload = task(small, user_metadata={"Machine": "7"})
    before_ms = time.time_ns() // 1_000_000

    make_export().send(batch_of(payload))

    started, finished = statuses(surroundings)
    assert (started.status, started.status_level) == (Status.InProgress, StatusLevel.INFO)
    assert (finished.status, finished.status_level) == (Status.Success, StatusLevel.INFO)
    for message in (started, finished):
        assert message.event_type == EventType.S3Task
        assert message.message
        assert f"s3://{BUCKET}/data/object" in message.message
        assert message.timestamp_epoch_ms is not None
        assert before_ms <= message.timestamp_epoch_ms <= time.time_ns() // 1_000_000
        context = message.status_context
        assert context is not None
        assert context.export_identifier == "to-cloud"
        assert context.stream_name == STREAM
        assert context.sequence_number == 100
        assert context.s3_export_task_definition == Util.deserialize_json_bytes_to_obj(
            payload, S3ExportTaskDefinition
        )


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        (StatusLevel.ERROR, {StatusLevel.ERROR: 1}),
        (StatusLevel.WARN, {StatusLevel.ERROR: 1}),
        (StatusLevel.INFO, {StatusLevel.ERROR: 1, StatusLevel.INFO: 2}),
        (StatusLevel.DEBUG, {StatusLevel.ERROR: 1, StatusLevel.INFO: 2, StatusLevel.DEBUG: 3}),
        (
            StatusLevel.TRACE,
            {
                StatusLevel.ERROR: 1,
                StatusLevel.INFO: 2,
                StatusLevel.DEBUG: 3,
                StatusLevel.TRACE: 3,
            },
        ),
    ],
)
def test_the_level_decides_what_is_told(
    front: S3Front,
    make_export: Any,
    large: Path,
    surroundings: Surroundings,
    level: StatusLevel,
    expected: dict[StatusLevel, int],
) -> None:
    make_export(level).send(batch_of(task(large), b"no task"))

    levels = [message.status_level for message in statuses(surroundings)]
    assert {level: levels.count(level) for level in levels} == expected


def test_progress_of_parts_is_told_between_start_and_end(
    front: S3Front, make_export: Any, large: Path, surroundings: Surroundings
) -> None:
    make_export(StatusLevel.TRACE).send(batch_of(task(large)))

    found = statuses(surroundings)
    assert [message.status for message in found] == [Status.InProgress] * 7 + [Status.Success]
    texts = sorted(str(message.message) for message in found[1:-1])
    assert texts == [
        "Part 1 of 3 (5242880 bytes) is uploaded.",
        "Part 1 of 3 starts.",
        "Part 2 of 3 (5242880 bytes) is uploaded.",
        "Part 2 of 3 starts.",
        "Part 3 of 3 (2097152 bytes) is uploaded.",
        "Part 3 of 3 starts.",
    ]


@pytest.mark.parametrize("config", [None, StatusConfig(), StatusConfig(StatusLevel.TRACE)])
def test_without_a_status_stream_nothing_is_told(
    front: S3Front,
    make_export: Any,
    small: Path,
    surroundings: Surroundings,
    config: StatusConfig | None,
) -> None:
    assert make_export(status_config=config).send(batch_of(task(small))) == Delivery()
    assert surroundings.appended == []


def test_a_status_stream_that_refuses_costs_the_status_and_not_the_task(
    front: S3Front,
    s3_client: Any,
    make_export: Any,
    small: Path,
    surroundings: Surroundings,
    caplog: pytest.LogCaptureFixture,
) -> None:
    surroundings.append_error = ResourceNotFoundException("there is no stream statuses")

    with caplog.at_level(logging.WARNING):
        assert make_export().send(batch_of(task(small))) == Delivery()

    assert content(s3_client) == small.read_bytes()
    assert "The status Success of task 100 in machines is dropped" in caplog.text
    assert "there is no stream statuses" in caplog.text


def test_a_server_that_is_away_delays_the_status_and_nothing_is_uploaded_twice(
    front: S3Front, make_export: Any, small: Path, surroundings: Surroundings
) -> None:
    export = make_export()

    def lose_the_server(operation: str) -> None:
        surroundings.append_error = ConnectionLostException("gone")

    front.fault = lose_the_server
    for _ in range(2):
        with pytest.raises(Transient, match="status stream statuses cannot be reached"):
            export.send(batch_of(task(small)))
    surroundings.append_error = None
    assert export.send(batch_of(task(small))) == Delivery()

    assert front.operations == ["PutObject"]
    assert told(surroundings) == [Status.InProgress, Status.Success]
