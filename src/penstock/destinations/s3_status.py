"""Status messages of S3 tasks, for the stream that the export's configuration names."""

from __future__ import annotations

import logging
import time

from penstock.destinations.base import Context, Transient
from penstock.errors import ClientException, StreamManagerException
from penstock.model import (
    EventType,
    S3ExportTaskDefinition,
    Status,
    StatusConfig,
    StatusContext,
    StatusLevel,
    StatusMessage,
)
from penstock.util import Util

LOG = logging.getLogger("penstock.destinations.s3")

LEVELS = {
    Status.Success: StatusLevel.INFO,
    Status.InProgress: StatusLevel.INFO,
    Status.Warning: StatusLevel.WARN,
    Status.Canceled: StatusLevel.WARN,
    Status.Failure: StatusLevel.ERROR,
}


class StatusReporter:
    """Appends what is within the configured level."""

    def __init__(self, config: StatusConfig | None, context: Context) -> None:
        self._config = config or StatusConfig()
        self._context = context

    def report(
        self,
        task: S3ExportTaskDefinition | None,
        sequence_number: int,
        status: Status,
        text: str,
        level: StatusLevel | None = None,
    ) -> None:
        """Transient if the server does not answer. A stream that refuses it loses it."""
        stream_name = self._config.status_stream_name
        level = LEVELS[status] if level is None else level
        if stream_name is None or level > self._config.status_level:
            return
        message = StatusMessage(
            EventType.S3Task,
            level,
            status,
            StatusContext(
                task, self._context.export_identifier, self._context.stream_name, sequence_number
            ),
            text,
            time.time_ns() // 1_000_000,
        )
        try:
            self._context.append(stream_name, Util.validate_and_serialize_to_json_bytes(message))
        except ClientException as error:
            raise Transient(
                f"the status stream {stream_name} cannot be reached: {error}"
            ) from error
        except StreamManagerException as error:
            LOG.warning(
                "The status %s of task %d in %s is dropped: the status stream %s refuses it: %s",
                status.name,
                sequence_number,
                self._context.stream_name,
                stream_name,
                error,
            )
