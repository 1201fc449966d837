"""S3 tasks that are interrupted: by a crash, by a lost lease, by their end."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
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
from scripted_service import Answer, Deed, Hang
from surroundings import STREAM, Surroundings, batch_of

from penstock.destinations.base import Batch, Delivery, LeaseLost, Transient
from penstock.errors import ConnectionLostException
from penstock.model import (
    MIB,
    Status,
    StatusLevel,
)

# --- after a crash ---------------------------------------------------------------------------


@pytest.fixture
def killed_after_two_parts(front: S3Front, large: Path) -> S3Front:
    """A process has sent parts 1 and 2 of the large file, and was killed while it sent part 3."""
    third_arrived = threading.Event()

    def hang_at_the_third(operation: str) -> Deed | None:
        if operation == "UploadPart 3" and not third_arrived.is_set():
            third_arrived.set()
            return Hang()
        return None

    front.fault = hang_at_the_third
    here = Path(__file__).parent
    child = subprocess.Popen(
        [sys.executable, str(here / "s3_child.py"), str(large), BUCKET, "data/object"],
        env={**os.environ, "PYTHONPATH": str(here)},
    )
    try:
        waited_for = {"UploadPart 1", "UploadPart 2"}
        while waited_for:
            waited_for.discard(front.done.get(timeout=30))
        assert third_arrived.wait(30)
    finally:
        child.kill()
        child.wait(timeout=20)
    front.operations.clear()
    return front


def test_after_a_crash_parts_that_the_service_has_are_not_sent_again(
    killed_after_two_parts: S3Front,
    s3_client: Any,
    make_export: Any,
    large: Path,
    surroundings: Surroundings,
) -> None:
    assert make_export(StatusLevel.DEBUG).send(batch_of(task(large))) == Delivery()

    assert parts_sent(killed_after_two_parts) == [3]
    assert content(s3_client) == large.read_bytes()
    assert open_uploads(s3_client) == 0
    texts = [str(message.message) for message in statuses(surroundings)]
    assert sum("had been uploaded before" in text for text in texts) == 2


def test_after_a_crash_parts_of_a_file_that_changed_are_sent_again(
    killed_after_two_parts: S3Front, s3_client: Any, make_export: Any, large: Path
) -> None:
    with large.open("r+b") as file:
        file.seek(7 * MIB)
        file.write(b"changed")

    assert make_export().send(batch_of(task(large))) == Delivery()

    assert parts_sent(killed_after_two_parts) == [2, 3]
    assert content(s3_client) == large.read_bytes()


@pytest.mark.parametrize("operation", ["ListMultipartUploads", "ListParts"])
@pytest.mark.parametrize("answer", [s3_error("AccessDenied", 403), s3_error("NotImplemented", 501)])
def test_after_a_crash_and_without_the_right_to_look_the_upload_begins_again(
    killed_after_two_parts: S3Front,
    s3_client: Any,
    make_export: Any,
    large: Path,
    operation: str,
    answer: Answer,
) -> None:
    killed_after_two_parts.fault = failing(operation, answer=answer)

    assert make_export().send(batch_of(task(large))) == Delivery()

    assert parts_sent(killed_after_two_parts) == [1, 2, 3]
    assert content(s3_client) == large.read_bytes()


def test_an_upload_that_was_begun_before_the_task_is_left_alone(
    killed_after_two_parts: S3Front, s3_client: Any, make_export: Any, large: Path
) -> None:
    later_ms = (int(time.time()) + 3600) * 1000
    batch = Batch(STREAM, [100], [later_ms], [task(large, user_metadata={"a": "b"})])

    assert make_export().send(batch) == Delivery()

    assert parts_sent(killed_after_two_parts) == [1, 2, 3]
    assert s3_client.head_object(Bucket=BUCKET, Key="data/object")["Metadata"] == {"a": "b"}
    assert open_uploads(s3_client) == 1


# --- leases ----------------------------------------------------------------------------------


def test_a_lease_lost_for_good_aborts_the_upload_and_tells_canceled(
    front: S3Front, s3_client: Any, make_export: Any, large: Path, surroundings: Surroundings
) -> None:
    front.fault = failing("UploadPart 3", answer=Hang())
    lost = LeaseLost("the stream was deleted")

    def lose_it(operation: str) -> Deed | None:
        if operation == "UploadPart 3":
            surroundings.lease_lost = lost
            return Hang()
        return None

    front.fault = lose_it
    export = make_export(read_s=2.0)
    with pytest.raises(LeaseLost) as raised:
        export.send(batch_of(task(large)))

    assert raised.value is lost
    assert open_uploads(s3_client) == 0
    assert told(surroundings) == [Status.InProgress, Status.Canceled]
    final = statuses(surroundings)[-1]
    assert final.status_level == StatusLevel.WARN
    assert "the stream was deleted" in str(final.message)


def test_a_lease_lost_for_now_keeps_the_upload_and_goes_on_with_it_later(
    front: S3Front, s3_client: Any, make_export: Any, large: Path, surroundings: Surroundings
) -> None:
    def pause(operation: str) -> None:
        if operation == "UploadPart 1":
            surroundings.lease_lost = LeaseLost("paused", canceled=False)

    front.fault = pause
    export = make_export()
    with pytest.raises(LeaseLost):
        export.send(batch_of(task(large)))
    assert told(surroundings) == [Status.InProgress]
    assert open_uploads(s3_client) == 1

    front.fault = lambda _: None
    surroundings.lease_lost = None
    assert export.send(batch_of(task(large))) == Delivery()

    assert told(surroundings) == [Status.InProgress, Status.Success]
    assert front.operations.count("CreateMultipartUpload") == 1
    assert content(s3_client) == large.read_bytes()


def test_tasks_that_will_never_run_are_told_canceled(
    front: S3Front, make_export: Any, small: Path, surroundings: Surroundings
) -> None:
    make_export().cancel(batch_of(task(small), b"no task"), "its time to live is over")

    found = statuses(surroundings)
    assert [message.status for message in found] == [Status.Canceled, Status.Canceled]
    assert all("its time to live is over" in str(message.message) for message in found)
    assert [
        message.status_context.s3_export_task_definition is not None
        for message in found
        if message.status_context
    ] == [True, False]
    assert front.operations == []


def test_canceling_a_task_between_two_tries_aborts_its_upload(
    front: S3Front, s3_client: Any, make_export: Any, large: Path, surroundings: Surroundings
) -> None:
    export = make_export()
    front.fault = failing("UploadPart 1", answer=s3_error("SlowDown", 503))
    with pytest.raises(Transient):
        export.send(batch_of(task(large)))

    export.cancel(batch_of(task(large)), "deleted")

    assert open_uploads(s3_client) == 0
    assert told(surroundings) == [Status.InProgress, Status.Canceled]


def test_going_on_to_another_task_aborts_the_upload_that_was_left(
    front: S3Front, s3_client: Any, make_export: Any, large: Path, small: Path
) -> None:
    export = make_export()
    front.fault = failing("UploadPart 1", answer=s3_error("SlowDown", 503))
    with pytest.raises(Transient):
        export.send(batch_of(task(large)))

    assert export.send(batch_of(task(small, "other"), first=101)) == Delivery()

    assert open_uploads(s3_client) == 0


def test_an_upload_that_is_gone_already_need_not_be_aborted(
    front: S3Front, make_export: Any, large: Path, surroundings: Surroundings
) -> None:
    export = make_export()
    front.fault = failing("UploadPart 1", answer=s3_error("SlowDown", 503))
    with pytest.raises(Transient):
        export.send(batch_of(task(large)))

    front.fault = failing("AbortMultipartUpload", answer=s3_error("NoSuchUpload", 404))
    export.cancel(batch_of(task(large)), "deleted")

    assert told(surroundings) == [Status.InProgress, Status.Canceled]


def test_a_cancellation_that_cannot_be_told_is_logged(
    make_export: Any,
    small: Path,
    surroundings: Surroundings,
    caplog: pytest.LogCaptureFixture,
) -> None:
    surroundings.append_error = ConnectionLostException("gone")

    with caplog.at_level(logging.WARNING):
        make_export().cancel(batch_of(task(small)), "deleted")

    assert "The status Canceled of task 100 is lost" in caplog.text
