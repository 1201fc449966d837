"""What travels about transforms: orders to the pipeline, its reports, what all may see."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from penstock.model import Model, Sequence
from penstock.transforms.declaration import Transform

Count = Annotated[int, Meta(ge=0)]


class Order(Model):
    """A transform that is to run, and what is known of its earlier runs."""

    transform: Transform
    generation: int  # of the checkpoint; a reset begins a new one
    start: str  # where a generation without a checkpoint begins
    has_run: bool = False  # then there must be a checkpoint
    fingerprint: str = ""  # what its state depends on, when it ran last
    checked_sequence_number: Sequence | None = None  # malformed ones below are dead letters


class Malformed(Model):
    """A message whose payload does not fit the format, and why."""

    sequence_number: Sequence
    reason: str


class TransformReport(Model):
    """What the pipeline says about one transform."""

    name: str
    generation: int
    state: str
    has_run: bool = False
    fingerprint: str = ""
    next_sequence_number: Sequence | None = None  # everything below is in the target
    malformed: list[Malformed] = []
    checked_sequence_number: Sequence | None = None
    rows_in: Count = 0  # of this pipeline's run of it, as the next ones
    rows_out: Count = 0
    lost_messages: Count = 0  # gone before they could be read
    rows_in_per_second: float = 0.0
    rows_out_per_second: float = 0.0
    batch_millis: Count = 0
    tries: Count = 0
    error: str | None = None
    next_retry_time: int | None = None


class TransformView(Model):
    """What everybody may see of a transform."""

    name: str
    source: str
    target: str
    state: str
    generation: int = 0
    next_sequence_number: int | None = None
    lag_messages: int | None = None
    rows_in: int = 0
    rows_out: int = 0
    lost_messages: int = 0
    rows_in_per_second: float = 0.0
    rows_out_per_second: float = 0.0
    batch_millis: int = 0
    dead_letters: int = 0
    last_error: str | None = None
    tries: int = 0
    next_retry_time: int | None = None
