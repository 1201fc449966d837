"""What a running server looks like from outside: for the console, the metrics, the command line."""

from __future__ import annotations

from penstock.export_model import ExportView, PipelineView
from penstock.model import Model, Persistence, StrategyOnFull
from penstock.transforms.reports import TransformView


class StreamView(Model):
    """One stream in a line."""

    name: str
    id: str  # another one for a stream that was deleted and made again
    persistence: Persistence
    strategy_on_full: StrategyOnFull
    flush_on_write: bool
    max_size: int
    time_to_live_millis: int | None = None
    oldest_sequence_number: int = 0
    newest_sequence_number: int = -1  # below the oldest: the stream is empty
    total_bytes: int = 0
    oldest_time: int | None = None  # ingest times in milliseconds; None if it cannot be told
    newest_time: int | None = None
    # Since the server started, as all counters here.
    appended_messages: int = 0
    appended_bytes: int = 0
    refused_appends: int = 0


class ServerView(Model):
    """The process itself, and the disk it writes to."""

    version: str
    process_id: int
    started_time: int
    server_time: int
    data_dir: str
    connections: int
    disk_free_bytes: int
    disk_total_bytes: int
    appended_messages: int = 0  # of streams that are gone, too
    appended_bytes: int = 0
    refused_appends: int = 0
    uploaded_bytes_by_destination: dict[str, int] = {}  # keys as in ExportView.destination


class Observation(Model):
    """Everything at one moment."""

    server: ServerView
    pipeline: PipelineView
    streams: list[StreamView] = []
    exports: list[ExportView] = []
    transforms: list[TransformView] = []
