"""`penstock status`: what the exports are doing."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from penstock.cli.connection import Server, connection_options
from penstock.cli.output import Column, output_is_terminal, say, show_json, show_table, write
from penstock.cli.streams import json_option
from penstock.export_model import ExportView, PipelineView
from penstock.units import rounded_bytes, shown_time

if TYPE_CHECKING:
    from penstock.client.calls import ExportsInfo

COLUMNS = (
    Column("Stream"),
    Column("Export"),
    Column("To"),
    Column("State"),
    Column("Lag", is_number=True),
    Column("Bytes", is_number=True),
    Column("Age", is_number=True),
    Column("Sent", is_number=True),
    Column("Per s", is_number=True),
    Column("Dead", is_number=True),
    Column("Last error"),
)
# Enough of an error for a table; the whole text is in --json and in `streams describe`.
ERROR_WIDTH = 60
CLEAR_SCREEN = b"\x1b[H\x1b[2J"


@click.command()
@click.option("--watch", is_flag=True, help="Show it again every second, until Ctrl-C.")
@json_option
@connection_options
def status(server: Server, watch: bool, as_json: bool) -> None:
    """Show what the exports are doing.

    For each: state, lag, rate, dead letters, last error, next retry; and the pipeline's health.
    """
    with server.connected() as client:
        while True:
            info = client.describe_exports()
            if watch and output_is_terminal():
                write(CLEAR_SCREEN)
            _show(info, as_json)
            if not watch:
                return
            time.sleep(1)


def _show(info: ExportsInfo, as_json: bool) -> None:
    if as_json:
        show_json(
            {
                "pipeline": info.pipeline.as_dict(),
                "exports": [view.as_dict() for view in info.exports],
            }
        )
        return
    say(_pipeline_line(info.pipeline))
    if info.exports:
        show_table(COLUMNS, [_row(view) for view in info.exports])
    else:
        say("No stream has an export.")


def _pipeline_line(pipeline: PipelineView) -> str:
    parts = [f"Pipeline: {pipeline.state}"]
    if pipeline.process_id is not None:
        parts.append(f"process {pipeline.process_id}")
    if pipeline.restarts:
        parts.append(f"{pipeline.restarts} restarts")
    if pipeline.next_start_time is not None:
        parts.append(f"next start {shown_time(pipeline.next_start_time)}")
    line = ", ".join(parts)
    return f"{line}: {pipeline.text}" if pipeline.text else line


def _row(view: ExportView) -> list[str]:
    target = f"{view.destination} {view.target}".strip()
    error = view.last_error or ""
    if len(error) > ERROR_WIDTH:
        error = f"{error[: ERROR_WIDTH - 1]}…"
    return [
        view.stream_name,
        view.export_identifier,
        target,
        shown_state(view),
        f"{view.lag_messages:,}",
        rounded_bytes(view.lag_bytes),
        shown_age(view.lag_age_millis),
        f"{view.delivered_messages:,}",
        f"{view.messages_per_second:,.0f}",
        str(view.dead_letters),
        error,
    ]


def shown_state(view: ExportView) -> str:
    """The state and what ends it."""
    if view.next_retry_time is not None:
        until = shown_time(view.next_retry_time).rpartition("T")[2] or ""
        return f"{view.state} until {until}, try {view.tries}"
    if view.state == "waiting" and view.waiting_for:
        return f"waiting for {view.waiting_for}"
    return view.state


def shown_age(age_ms: int) -> str:
    seconds = age_ms // 1000
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min"
    if seconds < 48 * 3600:
        return f"{seconds // 3600} h"
    return f"{seconds // 86400} d"
