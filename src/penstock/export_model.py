"""The nouns of exports beyond AWS's model: leases, reports, states, dead letters.

They travel between the server, the pipeline that does the exports, and those who look on.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from penstock.model import MILLIS_MAX, Model, Sequence

Count = Annotated[int, Meta(ge=0)]


class Lease(Model):
    """The right to send `start` to, not including, `stop` of one export."""

    lease_id: int
    stream_name: str
    destination: str  # the type of the configuration
    config: dict[str, Any]
    start: int
    stop: int
    tries: int = 0  # failed attempts since the last success
    bytes_max: int | None = None
    dead_letter_ids: list[int] = []  # to be sent instead of the range
    stream_id: str = ""  # another one for a stream that was deleted and made again


class Refusal(Model):
    """A message that a destination refused for good."""

    number: int  # sequence number, or id of the dead letter that was replayed
    reason: str


class ExportReport(Model):
    """What a worker says about its lease: progress, trouble, or the end."""

    lease_id: int
    next_sequence_number: Sequence | None = None  # everything below is delivered or refused
    messages: Count = 0
    sent_bytes: Count = 0  # of messages
    file_bytes: Count = 0  # of files that messages name
    refused: list[Refusal] = []
    replayed_ids: list[int] = []
    error: str | None = None
    blocked: bool = False
    retry_after_millis: Annotated[int, Meta(ge=0, le=MILLIS_MAX)] = 0
    done: bool = False


class ExportView(Model):
    """What everybody may see of an export."""

    stream_name: str
    export_identifier: str
    destination: str
    target: str
    state: str
    waiting_for: str | None = None
    priority: int | None = None
    last_exported_sequence_number: int = -1
    lag_messages: int = 0
    lag_bytes: int = 0
    lag_age_millis: int = 0
    delivered_messages: int = 0
    delivered_bytes: int = 0
    refused_messages: int = 0
    lost_messages: int = 0
    dead_letters: int = 0
    messages_per_second: float = 0.0
    bytes_per_second: float = 0.0
    last_attempt_time: int | None = None
    last_error: str | None = None
    tries: int = 0
    next_retry_time: int | None = None


class PipelineView(Model):
    """What everybody may see of the process that does the exports."""

    state: str
    text: str | None = None
    process_id: int | None = None
    restarts: int = 0
    next_start_time: int | None = None
    ui: str | None = None


class DeadLetter(Model):
    """A refused message, with the reason."""

    id: int
    stream_name: str
    export_identifier: str
    sequence_number: int
    ingest_time: int
    refused_time: int
    reason: str
    replay: bool
    payload: bytes
