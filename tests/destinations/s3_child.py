"""Executes one S3 task, and is killed while it does. Arguments: file, bucket, key."""

from __future__ import annotations

import sys

from surroundings import Surroundings, batch_of

from penstock.destinations.s3 import S3Destination
from penstock.model import S3ExportTaskDefinition, S3ExportTaskExecutorConfig
from penstock.util import Util

path, bucket, key = sys.argv[1:]
task = S3ExportTaskDefinition(f"file:{path}", bucket, key)
destination = S3Destination(S3ExportTaskExecutorConfig("s3"), Surroundings().context())
destination.send(batch_of(Util.validate_and_serialize_to_json_bytes(task)))
