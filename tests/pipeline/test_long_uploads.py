"""An upload that takes longer than Spark keeps workers without a task."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from export_payloads import s3_task
from exports_rig import Rig

from penstock.model import MIB, S3ExportTaskExecutorConfig

REQUEST_S = 15.0
FILE_BYTES = 100 * MIB
# Spark looks every 10 s for workers that were idle for 60 s.
SPARK_PATIENCE_S = 75


@pytest.mark.slow
def test_an_upload_of_minutes_is_done_once(rig: Rig, tmp_path: Path) -> None:
    rig.cloud.s3.create_bucket("slow-uploads")
    rig.cloud.s3.slow(REQUEST_S)
    file = tmp_path / "large"
    file.touch()
    os.truncate(file, FILE_BYTES)
    rig.create("large", s3_task_executor=[S3ExportTaskExecutorConfig("export")])
    rig.append("large", [s3_task(file, "slow-uploads", "large")])
    start = time.monotonic()

    rig.wait_until_exported("large", 1, timeout_s=250)

    assert time.monotonic() - start > SPARK_PATIENCE_S, "it was too quick to show anything"
    (upload,) = rig.cloud.s3.uploads("slow-uploads")
    assert sum(part.size_bytes for part in upload.parts) == FILE_BYTES
