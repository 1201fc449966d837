"""S3 tasks that fail, for good or for a while; the cloud is behind a door that can fail."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest
from s3_export import (
    BUCKET,
    THREE_PARTS,
    content,
    failing,
    open_uploads,
    parts_sent,
    statuses,
    task,
    told,
)
from s3_front import S3Front, s3_error
from scripted_service import Answer, Close, Deed, Hang
from surroundings import Surroundings, batch_of

from penstock.destinations.base import Blocked, Delivery, Transient
from penstock.destinations.s3 import S3Destination
from penstock.model import (
    MIB,
    S3ExportTaskDefinition,
    Status,
    StatusLevel,
    StatusMessage,
)
from penstock.util import Util

# --- failures of the task itself -------------------------------------------------------------


def fails(
    export: S3Destination, payload: bytes, surroundings: Surroundings, *words: str
) -> StatusMessage:
    """Execute a task that must fail; the one final status."""
    delivery = export.send(batch_of(payload))
    assert set(delivery.refused) == {0}
    found = statuses(surroundings)
    finals = [message for message in found if message.status != Status.InProgress]
    assert finals[-1].status == Status.Failure
    assert finals[-1].status_level == StatusLevel.ERROR
    assert finals[-1].message == delivery.refused[0]
    for word in words:
        assert word in delivery.refused[0]
    assert [message.status for message in found].count(Status.Failure) == 1
    return finals[-1]


def test_a_file_that_is_not_there_fails_the_task(
    front: S3Front, make_export: Any, tmp_path: Path, surroundings: Surroundings
) -> None:
    message = fails(
        make_export(), task(tmp_path / "nothing"), surroundings, "nothing", "No such file"
    )

    assert message.status_context is not None
    assert message.status_context.s3_export_task_definition is not None
    assert told(surroundings) == [Status.Failure]
    assert front.operations == []


def test_a_file_outside_of_the_allowed_folders_fails_the_task(
    front: S3Front, make_export: Any, tmp_path: Path, small: Path, surroundings: Surroundings
) -> None:
    inputs = tmp_path / "inputs"
    inputs.mkdir()
    (inputs / "link").symlink_to(small)
    surroundings.settings["read_only_dirs"] = [str(inputs)]

    fails(make_export(), task(inputs / "link"), surroundings, str(small), "read_only_dirs")

    assert told(surroundings) == [Status.Failure]
    assert front.operations == []
    (inputs / "link").unlink()
    (inputs / "link").write_bytes(b"inside")
    assert make_export().send(batch_of(task(inputs / "link"))) == Delivery()


def test_a_payload_that_is_no_task_fails_with_what_is_known_of_it(
    front: S3Front, make_export: Any, surroundings: Surroundings
) -> None:
    message = fails(make_export(), b"no JSON", surroundings, "S3ExportTaskDefinition")

    assert message.status_context is not None
    assert message.status_context.s3_export_task_definition is None
    assert message.status_context.sequence_number == 100


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"key": "!{date:yyyy}"}, "is unknown"),
        ({"key": "!{timestamp:o}"}, "no pattern of Java"),
        ({"user_metadata": {"$aws-gg-a": "b"}}, "reserved"),
        ({"input_url": "http://host/file"}, "local file"),
    ],
)
def test_a_task_that_cannot_be_executed_fails(
    front: S3Front,
    make_export: Any,
    small: Path,
    surroundings: Surroundings,
    fields: dict[str, Any],
    words: str,
) -> None:
    definition = S3ExportTaskDefinition(
        **{"input_url": small.as_uri(), "bucket": BUCKET, "key": "k", **fields}
    )

    payload = Util.validate_and_serialize_to_json_bytes(definition)

    fails(make_export(), payload, surroundings, words)
    assert front.operations == []


@pytest.mark.parametrize("size", ["small", "large"])
def test_a_bucket_that_does_not_exist_fails_the_task(
    front: S3Front,
    make_export: Any,
    surroundings: Surroundings,
    request: pytest.FixtureRequest,
    size: str,
) -> None:
    path = request.getfixturevalue(size)

    fails(
        make_export(),
        task(path, bucket="nobodys-bucket"),
        surroundings,
        "s3://nobodys-bucket/data/object",
        "the bucket doesn't exist",
    )


def test_denied_access_fails_the_task_and_names_the_right(
    front: S3Front, make_export: Any, small: Path, surroundings: Surroundings
) -> None:
    front.fault = failing("PutObject", answer=s3_error("AccessDenied", 403))

    fails(make_export(), task(small), surroundings, "allow s3:PutObject")


def test_a_failed_upload_in_parts_is_aborted(
    front: S3Front, s3_client: Any, make_export: Any, large: Path, surroundings: Surroundings
) -> None:
    front.fault = failing("UploadPart 2", answer=s3_error("AccessDenied", 403))

    fails(make_export(), task(large), surroundings, "allow s3:PutObject")

    assert front.operations[-1] == "AbortMultipartUpload"
    assert open_uploads(s3_client) == 0
    assert told(surroundings) == [Status.InProgress, Status.Failure]


def test_an_upload_that_cannot_be_aborted_is_a_warning_besides(
    front: S3Front, make_export: Any, large: Path, surroundings: Surroundings
) -> None:
    front.fault = failing(
        "UploadPart 2", "AbortMultipartUpload", answer=s3_error("AccessDenied", 403)
    )

    fails(make_export(), task(large), surroundings)

    warning = statuses(surroundings)[1]
    assert told(surroundings) == [Status.InProgress, Status.Warning, Status.Failure]
    assert warning.status_level == StatusLevel.WARN
    assert "could not be aborted" in str(warning.message)


def test_a_file_that_becomes_shorter_during_its_upload_fails_the_task(
    front: S3Front, s3_client: Any, make_export: Any, large: Path, surroundings: Surroundings
) -> None:
    def shorten(operation: str) -> None:
        if operation == "CreateMultipartUpload":
            os.truncate(large, 6 * MIB)

    front.fault = shorten

    fails(make_export(), task(large), surroundings, "became shorter")
    assert open_uploads(s3_client) == 0


def test_a_file_that_changes_during_its_upload_is_a_warning(
    front: S3Front, make_export: Any, small: Path, surroundings: Surroundings
) -> None:
    front.fault = lambda _: os.utime(small, (1, 1))

    assert make_export().send(batch_of(task(small))) == Delivery()
    assert told(surroundings) == [Status.InProgress, Status.Warning, Status.Success]


# --- failures that pass ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "deed",
    [
        s3_error("SlowDown", 503),
        s3_error("InternalError", 500),
        s3_error("RequestTimeout", 400),
        s3_error("ExpiredToken", 400),
        Close(0),
        Hang(),
    ],
    ids=["SlowDown", "InternalError", "RequestTimeout", "ExpiredToken", "closes", "hangs"],
)
def test_a_passing_failure_is_raised_and_told_to_nobody(
    front: S3Front,
    s3_client: Any,
    make_export: Any,
    small: Path,
    surroundings: Surroundings,
    deed: Deed,
) -> None:
    export = make_export(read_s=1.0)
    front.fault = failing("PutObject", answer=deed, times=2)

    for _ in range(2):
        with pytest.raises(Transient):
            export.send(batch_of(task(small)))
    assert told(surroundings) == [Status.InProgress]
    assert export.send(batch_of(task(small))) == Delivery()

    assert told(surroundings) == [Status.InProgress, Status.Success]
    assert content(s3_client) == small.read_bytes()


def test_no_credentials_block_the_export_and_fail_no_task(
    front: S3Front,
    make_export: Any,
    small: Path,
    surroundings: Surroundings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    export = make_export()

    with pytest.raises(Blocked, match="no AWS credentials"):
        export.check()
    with pytest.raises(Blocked, match="no AWS credentials"):
        export.send(batch_of(task(small)))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDLATER")
    export.close()

    export.check()
    assert export.send(batch_of(task(small))) == Delivery()
    assert told(surroundings) == [Status.InProgress, Status.Success]


def test_a_part_that_failed_is_sent_again_and_the_others_are_not(
    front: S3Front, s3_client: Any, make_export: Any, large: Path, surroundings: Surroundings
) -> None:
    export = make_export()
    # The others are through before it fails.
    others = threading.Semaphore(0)
    slow_down = failing("UploadPart 2", answer=s3_error("SlowDown", 503))

    def fault(operation: str) -> Deed | None:
        if operation == "UploadPart 2" and (found := slow_down(operation)):
            assert others.acquire(timeout=20)
            assert others.acquire(timeout=20)
            return found
        if operation.startswith("UploadPart"):
            others.release()
        return None

    front.fault = fault
    with pytest.raises(Transient, match="SlowDown"):
        export.send(batch_of(task(large)))
    assert export.send(batch_of(task(large))) == Delivery()

    assert parts_sent(front) == [1, 2, 2, 3]
    assert front.operations.count("CreateMultipartUpload") == 1
    assert content(s3_client) == large.read_bytes()
    assert told(surroundings) == [Status.InProgress, Status.Success]


def test_a_key_with_a_time_stays_the_same_when_its_upload_is_taken_up_again(
    front: S3Front, s3_client: Any, make_export: Any, large: Path
) -> None:
    export = make_export()
    front.fault = failing("UploadPart 3", answer=s3_error("SlowDown", 503))
    payload = task(large, "!{timestamp:HHmmssSSS}")

    with pytest.raises(Transient):
        export.send(batch_of(payload))
    assert export.send(batch_of(payload)) == Delivery()

    assert front.operations.count("CreateMultipartUpload") == 1
    assert len(s3_client.list_objects_v2(Bucket=BUCKET)["Contents"]) == 1


def test_a_file_that_changed_between_two_tries_is_sent_anew(
    front: S3Front, s3_client: Any, make_export: Any, large: Path
) -> None:
    export = make_export()
    front.fault = failing("CompleteMultipartUpload", answer=s3_error("SlowDown", 503))

    with pytest.raises(Transient):
        export.send(batch_of(task(large)))
    large.write_bytes(os.urandom(THREE_PARTS))
    assert export.send(batch_of(task(large))) == Delivery()

    assert content(s3_client) == large.read_bytes()
    assert open_uploads(s3_client) == 0, "the parts of the old content are gone"


@pytest.mark.parametrize(
    "answer",
    [
        s3_error("NoSuchUpload", 404),
        s3_error("InvalidPart", 400),
        Answer(200, s3_error("InternalError", 200).body),
        Answer(200, b""),
    ],
    ids=["NoSuchUpload", "InvalidPart", "error after 200", "empty"],
)
def test_an_upload_that_cannot_be_completed_begins_again(
    front: S3Front, s3_client: Any, make_export: Any, large: Path, answer: Answer
) -> None:
    export = make_export()
    front.fault = failing("CompleteMultipartUpload", answer=answer)

    with pytest.raises(Transient):
        export.send(batch_of(task(large)))
    assert export.send(batch_of(task(large))) == Delivery()

    assert content(s3_client) == large.read_bytes()


def test_answers_that_were_cut_off_are_no_success(
    front: S3Front, s3_client: Any, make_export: Any, large: Path
) -> None:
    export = make_export()
    for operation in ("CreateMultipartUpload", "UploadPart 1", "CompleteMultipartUpload"):
        front.fault = failing(operation, answer=Close(40))
        with pytest.raises(Transient):
            export.send(batch_of(task(large)))
    assert export.send(batch_of(task(large))) == Delivery()

    assert content(s3_client) == large.read_bytes()
