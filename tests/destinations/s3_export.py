"""What tests of S3 tasks share: tasks, faults, and looks into the cloud."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from s3_front import S3Front
from scripted_service import Deed
from surroundings import Surroundings

from penstock.model import MIB, S3ExportTaskDefinition, Status, StatusMessage
from penstock.util import Util

BUCKET = "plant-data"
THREE_PARTS = 12 * MIB
STATUS_STREAM = "statuses"


def task(path: Path, key: str = "data/object", bucket: str = BUCKET, **fields: Any) -> bytes:
    definition = S3ExportTaskDefinition(path.as_uri(), bucket, key, **fields)
    return Util.validate_and_serialize_to_json_bytes(definition)


def statuses(surroundings: Surroundings) -> list[StatusMessage]:
    assert {name for name, _ in surroundings.appended} <= {STATUS_STREAM}
    return [
        Util.deserialize_json_bytes_to_obj(payload, StatusMessage)
        for _, payload in surroundings.appended
    ]


def told(surroundings: Surroundings) -> list[Status]:
    return [message.status for message in statuses(surroundings)]


def content(client: Any, key: str = "data/object") -> bytes:
    return bytes(client.get_object(Bucket=BUCKET, Key=key)["Body"].read())


def failing(*operations: str, answer: Deed, times: int = 1) -> Callable[[str], Deed | None]:
    """A fault that hits these operations so many times."""
    left = dict.fromkeys(operations, times)
    lock = threading.Lock()

    def fault(operation: str) -> Deed | None:
        with lock:
            if left.get(operation, 0) == 0:
                return None
            left[operation] -= 1
            return answer

    return fault


def parts_sent(front: S3Front) -> list[int]:
    return sorted(
        int(name.split()[1]) for name in front.operations if name.startswith("UploadPart")
    )


def open_uploads(client: Any) -> int:
    return len(client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", ()))
