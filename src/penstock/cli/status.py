"""`penstock status`: what exports and transforms are doing."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.connection import Server, connection_options
from penstock.cli.output import (
    Column,
    output_is_screen,
    plural,
    printable,
    say,
    show_json,
    show_table,
)
from penstock.cli.streams import json_option
from penstock.cli.transforms import show_transforms, shown_clock
from penstock.export_model import ExportView, PipelineView
from penstock.transforms.reports import TransformView
from penstock.units import rounded_bytes

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
)
DESTINATIONS = {
    "IoTAnalytics": "IoT Analytics",
    "IoTSiteWise": "SiteWise",
    "S3ExportTaskExecutor": "S3 tasks",
}
WATCH_INTERVAL_S = 1.0


@click.command()
@click.option("--watch", is_flag=True, help="Follow it every second, until Ctrl-C.")
@json_option
@connection_options
def status(server: Server, watch: bool, as_json: bool) -> None:
    """Show what every export and every transform is doing.

    State, lag, rate, last error and next try of each, and the pipeline that does the work. With
    --watch a terminal shows one picture that follows the server, the troubled first; elsewhere, and
    with --json, one report comes after another.
    """
    with server.connected() as client:
        if not watch:
            _show(client.describe_exports(), client.describe_transforms(), as_json)
            return
        if output_is_screen() and not as_json:
            from penstock.cli.watch import watch as follow

            follow(client, f"{server.host}:{server.port}")
        while True:
            _show_again(client.describe_exports(), client.describe_transforms(), as_json)
            time.sleep(WATCH_INTERVAL_S)


def _show(info: ExportsInfo, transforms: list[TransformView], as_json: bool) -> None:
    if as_json:
        show_json(_as_json(info, transforms))
        return
    say(_pipeline_line(info.pipeline))
    if info.exports:
        _show_exports(info)
    else:
        say("No stream has an export.")
    if transforms:
        say("")
        show_transforms(transforms)


def _show_exports(info: ExportsInfo) -> None:
    show_table(COLUMNS, [_row(view) for view in info.exports])
    for view in info.exports:
        for note in notes(view):
            say(printable(f"{view.stream_name}, export {view.export_identifier}: {note}"))


def _show_again(info: ExportsInfo, transforms: list[TransformView], as_json: bool) -> None:
    """One after another, in JSON a line each."""
    if as_json:
        say(json.dumps(_as_json(info, transforms), ensure_ascii=False))
        return
    _show(info, transforms, as_json)
    say("")


def _as_json(info: ExportsInfo, transforms: list[TransformView]) -> dict[str, Any]:
    return {
        "pipeline": info.pipeline.as_dict(),
        "exports": [view.as_dict() for view in info.exports],
        "transforms": [view.as_dict() for view in transforms],
    }


def _pipeline_line(pipeline: PipelineView) -> str:
    parts = [f"Pipeline: {pipeline.state}"]
    if pipeline.process_id is not None:
        parts.append(f"process {pipeline.process_id}")
    if pipeline.restarts:
        parts.append(plural(pipeline.restarts, "restart"))
    if pipeline.next_start_time is not None:
        parts.append(f"next start at {shown_clock(pipeline.next_start_time)}")
    line = ", ".join(parts)
    return printable(f"{line}: {pipeline.text}" if pipeline.text else line)


def _row(view: ExportView) -> list[str]:
    return [
        view.stream_name,
        view.export_identifier,
        f"{DESTINATIONS.get(view.destination, view.destination)} {view.target}".strip(),
        view.state,
        f"{view.lag_messages:,}",
        rounded_bytes(view.lag_bytes),
        shown_age(view.lag_age_millis),
        f"{view.delivered_messages:,}",
        f"{view.messages_per_second:,.0f}",
        f"{view.dead_letters:,}",
    ]


def notes(view: ExportView) -> Iterator[str]:
    """What does not fit a table: why it is so, and until when."""
    if view.state == "waiting" and view.waiting_for:
        yield f"waiting for {view.waiting_for}"
    trouble = view.last_error or ""
    if view.next_retry_time is not None:
        until = shown_clock(view.next_retry_time)
        tries = "try" if view.tries == 1 else "tries"
        yield f"{view.state} until {until} after {view.tries} {tries}: {trouble}"
    elif trouble:
        yield trouble
    if view.lost_messages:
        count = plural(view.lost_messages, "message")
        yield f"{count} had been removed from the stream before they could be sent"


def shown_age(age_ms: int) -> str:
    """12 s, 3 min, 5 h, 2 d."""
    seconds = age_ms // 1000
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min"
    if seconds < 48 * 3600:
        return f"{seconds // 3600} h"
    return f"{seconds // 86400} d"
