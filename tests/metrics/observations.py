"""Observations of servers that were never there: small ones, large ones, strange ones."""

from __future__ import annotations

from penstock.export_model import ExportView, PipelineView
from penstock.model import Persistence, StrategyOnFull
from penstock.observe_model import Observation, ServerView, StreamView
from penstock.transforms.reports import TransformView

NOW_MS = 1_767_268_800_000


def server(**fields: object) -> ServerView:
    usual: dict[str, object] = {
        "version": "1.2.3",
        "process_id": 4,
        "started_time": NOW_MS - 60_000,
        "server_time": NOW_MS,
        "data_dir": "/data",
        "connections": 5,
        "disk_free_bytes": 250,
        "disk_total_bytes": 1000,
    }
    return ServerView(**{**usual, **fields})  # type: ignore[arg-type]


def stream(name: str = "s", **fields: object) -> StreamView:
    usual: dict[str, object] = {
        "id": name,
        "persistence": Persistence.File,
        "strategy_on_full": StrategyOnFull.RejectNewData,
        "flush_on_write": False,
        "max_size": 4096,
    }
    return StreamView(name, **{**usual, **fields})  # type: ignore[arg-type]


def export(stream_name: str = "s", identifier: str = "e", **fields: object) -> ExportView:
    usual: dict[str, object] = {"destination": "Kinesis", "target": "t", "state": "idle"}
    return ExportView(stream_name, identifier, **{**usual, **fields})  # type: ignore[arg-type]


def transform(name: str = "t", **fields: object) -> TransformView:
    usual: dict[str, object] = {"source": "s", "target": "stream u", "state": "running"}
    return TransformView(name, **{**usual, **fields})  # type: ignore[arg-type]


def observation(
    *things: StreamView | ExportView | TransformView,
    process: ServerView | None = None,
    pipeline: PipelineView | None = None,
) -> Observation:
    return Observation(
        process or server(),
        pipeline or PipelineView("running"),
        [each for each in things if isinstance(each, StreamView)],
        [each for each in things if isinstance(each, ExportView)],
        [each for each in things if isinstance(each, TransformView)],
    )


def everything() -> Observation:
    """Nothing is None, so that every metric has a value."""
    return observation(
        stream("s", time_to_live_millis=1000, oldest_time=NOW_MS, newest_time=NOW_MS),
        export("s", "e", last_attempt_time=NOW_MS, next_retry_time=NOW_MS),
        transform("t", lag_messages=1, next_retry_time=NOW_MS),
        pipeline=PipelineView("restarting", next_start_time=NOW_MS),
    )


def large(count: int) -> Observation:
    return observation(
        *(
            stream(
                f"stream-{number}",
                newest_sequence_number=number * 1_000_000,
                total_bytes=number * 4096,
                oldest_time=NOW_MS - 3_600_000,
                newest_time=NOW_MS,
                appended_messages=number,
            )
            for number in range(count)
        ),
        *(export(f"stream-{number}", "kinesis", lag_age_millis=1234) for number in range(count)),
    )
