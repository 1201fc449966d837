"""When an export may send, and how far."""

from __future__ import annotations

import pytest

from penstock.exporting.due import Waiting, due
from penstock.model import HTTPConfig, KinesisConfig, S3ExportTaskExecutorConfig

NOW = 10_000_000
MINUTE = 60_000


def kinesis(size: int | None = None, interval: int | None = None) -> KinesisConfig:
    return KinesisConfig("k", "target", batch_size=size, batch_interval_millis=interval)


def decide(
    config: KinesisConfig | HTTPConfig | S3ExportTaskExecutorConfig,
    pending: int,
    age_ms: int | None = 0,
) -> int | Waiting:
    oldest = None if age_ms is None else NOW - age_ms
    return due(config, 100, 100 + pending, lambda: oldest, NOW)


def test_without_messages_every_export_waits_for_them() -> None:
    assert decide(kinesis(), 0) == Waiting("new messages")
    assert decide(S3ExportTaskExecutorConfig("s"), 0) == Waiting("new messages")


def test_without_size_and_interval_everything_goes_at_once() -> None:
    assert decide(kinesis(), 1) == 101
    assert decide(kinesis(), 7_000) == 7_100


def test_s3_tasks_go_at_once() -> None:
    assert decide(S3ExportTaskExecutorConfig("s"), 3) == 103


@pytest.mark.parametrize(("pending", "stop"), [(10, 110), (19, 110), (20, 120), (105, 200)])
def test_with_a_size_alone_only_whole_batches_go(pending: int, stop: int) -> None:
    assert decide(kinesis(size=10), pending, age_ms=10 * MINUTE) == stop


def test_with_a_size_alone_an_incomplete_batch_waits_however_old_it_is() -> None:
    found = decide(kinesis(size=10), 9, age_ms=1_000 * MINUTE)
    assert found == Waiting("1 more messages for a batch of 10")


def test_with_an_interval_alone_messages_wait_until_the_oldest_is_that_old() -> None:
    config = kinesis(interval=MINUTE)
    assert decide(config, 500, age_ms=MINUTE - 1) == Waiting("the interval of 60000 ms", NOW + 1)
    assert decide(config, 500, age_ms=MINUTE) == 600


def test_with_both_either_is_enough() -> None:
    config = kinesis(size=10, interval=MINUTE)
    assert decide(config, 12, age_ms=5) == 110
    assert decide(config, 12, age_ms=MINUTE) == 112
    assert decide(config, 3, age_ms=MINUTE) == 103
    found = decide(config, 3, age_ms=5)
    assert isinstance(found, Waiting)
    assert found.until_ms == NOW + MINUTE - 5
    assert "7 more messages" in found.reason


def test_an_age_that_cannot_be_told_does_not_hold_messages_back() -> None:
    assert decide(kinesis(interval=MINUTE), 5, age_ms=None) == 105
