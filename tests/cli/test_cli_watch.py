"""`penstock status --watch` on a terminal: what fits, what comes first, what changes."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from command_line import CommandLine, Terminal
from export_office import ExportOffice
from rich.console import Console

from failure_logs import show_on_failure
from penstock.cli.picture import PACE_WINDOW_S, Pace, countdown, numbers_of, picture
from penstock.export_model import ExportView, PipelineView
from penstock.model import Persistence, StrategyOnFull
from penstock.observe_model import Observation, ServerView, StreamView
from penstock.transforms.reports import TransformView
from server_process import ServerProcess

NOW_MS = 1_800_000_000_000
CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def server(**fields: Any) -> ServerView:
    values: dict[str, Any] = {
        "version": "0.1.0",
        "process_id": 7,
        "started_time": NOW_MS - 3_600_000,
        "server_time": NOW_MS,
        "data_dir": "/data",
        "connections": 2,
        "disk_free_bytes": 3 * 2**30,
        "disk_total_bytes": 12 * 2**30,
    }
    return ServerView(**(values | fields))


def export(stream: str, state: str, **fields: Any) -> ExportView:
    return ExportView(stream, "cloud", "Kinesis", "plant-7", state, **fields)


def stream(name: str, count: int, total_bytes: int) -> StreamView:
    return StreamView(
        name,
        "id",
        Persistence.File,
        StrategyOnFull.RejectNewData,
        False,
        2**28,
        newest_sequence_number=count - 1,
        total_bytes=total_bytes,
    )


def observed(*exports: ExportView, **fields: Any) -> Observation:
    return Observation(server(), PipelineView("running"), exports=list(exports), **fields)


def shown(
    observation: Observation, lines: int = 30, columns: int = 100, pace: Pace | None = None
) -> list[str]:
    """The picture as text."""
    console = Console(
        file=io.StringIO(), width=columns, height=lines, force_terminal=True, color_system=None
    )
    console.print(picture(observation, pace or Pace(), console.size, "127.0.0.1:8088"))
    assert isinstance(console.file, io.StringIO)
    return [CODES.sub("", line).rstrip() for line in console.file.getvalue().splitlines()]


def streams_in(lines: list[str]) -> list[str]:
    """The first words of the rows below the heading."""
    (start,) = (n for n, line in enumerate(lines) if line.startswith("Stream "))
    return [line.split()[0] for line in lines[start + 2 :] if " Kinesis " in line]


def test_the_head_tells_of_server_pipeline_and_all_streams():
    observation = observed(streams=[stream("a", 1000, 2**20), stream("b", 0, 0)])
    assert shown(observation)[:5] == [
        "Penstock 0.1.0 on 127.0.0.1:8088, up 1 h, 2 connections, disk free 3 GiB of 12 GiB",
        "Pipeline: running",
        "2 streams, 1,000 messages, 1 MiB",
        "",
        "No stream has an export.",
    ]


def test_trouble_comes_first_and_idleness_last():
    lines = shown(
        observed(
            export("idle", "idle"),
            export("paused", "paused", lag_messages=9),
            export("small", "sending", lag_messages=1, lag_age_millis=100),
            export("large", "due", lag_messages=9, lag_age_millis=900_000),
            export("refused", "sending", dead_letters=3),
            export("waits", "backing off", last_error="throttled", tries=1),
            export("stuck", "blocked", last_error="denied", tries=4),
        )
    )
    assert streams_in(lines) == ["stuck", "waits", "refused", "large", "small", "paused", "idle"]


def test_the_next_try_counts_down_by_the_clock_of_the_server():
    view = export(
        "s", "backing off", last_error="throttled", tries=2, next_retry_time=NOW_MS + 12_400
    )
    assert shown(observed(view))[-1] == "s, cloud: next in 12 s after 2 tries; throttled"
    assert countdown(NOW_MS, NOW_MS) == "now"
    assert countdown(NOW_MS + 90_000, NOW_MS) == "in 1 min"


def test_a_growing_lag_has_a_plus_and_a_shrinking_one_a_minus():
    pace = Pace()
    for second in range(3):
        growing = export("grows", "sending", lag_messages=100 + 20 * second)
        shrinking = export("shrinks", "sending", lag_messages=5000 - 1500 * second)
        latest = observed(growing, shrinking, export("rests", "idle"))
        pace.note(float(second), numbers_of(latest))
    changes = {line.split()[0]: line.split()[6] for line in shown(latest, pace=pace)[6:]}
    assert changes == {"grows": "+20", "shrinks": "-1,500", "rests": "0"}


def test_a_pace_forgets_what_is_long_past():
    pace = Pace()
    assert pace.per_second("x") is None
    for second in range(100):
        pace.note(float(second), {"x": 0 if second < 50 else second * 3})
    assert pace.per_second("x") == pytest.approx(3.0)
    assert PACE_WINDOW_S < 50


@pytest.mark.parametrize("lines", [9, 12, 24, 60])
def test_a_thousand_exports_take_no_more_than_the_window(lines: int):
    views = [export(f"s{number}", "idle") for number in range(990)]
    views += [export(f"t{number}", "blocked", last_error="denied", tries=1) for number in range(10)]
    text = shown(observed(*views), lines)
    assert len(text) <= lines
    assert streams_in(text)[0] == "t0"
    hidden = 1000 - len(streams_in(text))
    assert text[-1].startswith(f"... and {hidden:,} more exports: ")
    assert "idle" in text[-1]


@pytest.mark.parametrize("lines", [16, 24, 40])
def test_transforms_share_the_window_with_exports(lines: int):
    exports = [export(f"s{number}", "idle") for number in range(50)]
    transforms = [TransformView(f"t{number}", "in", "out", "running") for number in range(50)]
    transforms.append(TransformView("zz", "in", "out", "blocked", last_error="no such column"))
    text = shown(observed(*exports, transforms=transforms), lines)
    assert len(text) <= lines
    assert len(streams_in(text)) >= lines // 5
    (first,) = (text[n + 2] for n, line in enumerate(text) if line.startswith("Transform "))
    assert first.startswith("zz ")
    assert any("zz: no such column" in line for line in text)
    assert text[-1].startswith("... and ")


@pytest.mark.parametrize("columns", [40, 60, 80, 200])
def test_every_export_stays_on_one_line_however_narrow_the_window(columns: int):
    long = "a stream whose name goes on and on " * 5
    view = ExportView(long, "e" * 50, "Kinesis", "k" * 100, "backing off", last_error="x" * 500)
    text = shown(observed(view), columns=columns)
    assert all(len(line) <= columns for line in text)
    assert len(text) == 4 + 2 + 1 + 1  # head, heading, export, note


def test_names_are_data_and_neither_markup_nor_codes():
    view = export("[red]x[/red]", "blocked", last_error="\x1b[2Jgone")
    text = shown(observed(view))
    assert any(line.startswith("[red]x[/red] ") for line in text)
    assert text[-1].endswith("\\x1b[2Jgone")


# --- on a real terminal -------------------------------------------------------------------------


def test_a_window_that_changes_its_size_is_filled_again(
    office: ExportOffice, at_office: CommandLine
):
    for number in range(12):
        office.open(f"stream{number:02}")
    with Terminal(at_office, "status", "--watch") as terminal:
        terminal.wait_for("stream11")
        terminal.forget()
        terminal.resize(10, 80)
        terminal.wait_for("... and 9 more exports: 9 idle")
        terminal.forget()
        terminal.resize(40, 120)
        terminal.wait_for("stream11")
        terminal.press_ctrl_c()
        assert terminal.result().status == 130


def test_states_have_colours_unless_nobody_wants_any(office: ExportOffice, at_office: CommandLine):
    office.open("s", b"one")
    office.report(
        office.lease(), error="denied", blocked=True, retry_after_millis=600_000, done=True
    )
    red = "\x1b[1;31mblocked"
    with Terminal(at_office, "status", "--watch") as terminal:
        terminal.wait_for(red)
    at_office.variables["NO_COLOR"] = "1"
    with Terminal(at_office, "status", "--watch") as terminal:
        terminal.wait_for("blocked")
        terminal.wait_for("denied")
        terminal.press_ctrl_c()
        text = terminal.result().text
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", text)


def test_a_dumb_terminal_gets_one_report_after_another(
    office: ExportOffice, at_office: CommandLine
):
    office.open("s")
    at_office.variables["TERM"] = "dumb"
    with Terminal(at_office, "status", "--watch") as terminal:
        terminal.wait_for("Pipeline: external")
        terminal.forget()
        terminal.wait_for("Pipeline: external")
        terminal.press_ctrl_c()
        text = terminal.result().text
    assert "\x1b" not in text


def test_a_server_that_goes_away_is_told_and_waited_for(tmp_path, request):

    process = ServerProcess(tmp_path)
    show_on_failure(request, process.log_path)
    with process:
        penstock = CommandLine(tmp_path, STREAM_MANAGER_SERVER_PORT=str(process.port))
        with Terminal(penstock, "status", "--watch") as terminal:
            terminal.wait_for("Penstock 0.")
            process.stop()
            terminal.wait_for("does not answer")
            terminal.forget()
            process.restart()
            terminal.wait_for("up 0 s")
            terminal.press_ctrl_c()
            assert terminal.result().status == 130
