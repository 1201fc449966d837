"""`penstock demo`: a plant, a cloud and a server on this machine, to look at or to check."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.cli.output import (
    Column,
    CommandFailed,
    Status,
    output_is_screen,
    plural,
    say,
    show_table,
    terminal_console,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from penstock.demo.stage import Picture, Stage

KEPT_FOLDER = "penstock-demo"
GLANCE_S = 1.0
# Without a terminal, lines that stay: few of them.
LINE_INTERVAL_S = 10.0
SECONDS = 60
SECONDS_MIN = 10
# Of a check: the link is down for a sixth of it, beginning after a third.
OUTAGE_AFTER, OUTAGE_PART = 1 / 3, 1 / 6
COLUMNS = (
    Column("Stream"),
    Column("Appended", is_number=True),
    Column("To"),
    Column("Delivered", is_number=True),
    Column("Lag", is_number=True),
    Column("Dead letters", is_number=True),
    Column("State"),
)
FINDING_COLUMNS = (
    Column("Counted"),
    Column("Expected", is_number=True),
    Column("Found", is_number=True),
    Column(""),
)


@click.command()
@click.option("--keep", is_flag=True, help=f"Keep data, table and logs in ./{KEPT_FOLDER}.")
@click.option("--no-browser", is_flag=True, help="Do not open the console in a browser.")
@click.option("--any-ports", is_flag=True, help="Use free ports even where the usual ones are.")
@click.option("--check", is_flag=True, help="Without a person: run, count everything, and end.")
@click.option(
    "--seconds",
    type=click.IntRange(SECONDS_MIN),
    help=f"How long a check runs, from the first message in the cloud on.  [default: {SECONDS}]",
)
def demo(keep: bool, no_browser: bool, any_ports: bool, check: bool, seconds: int | None) -> int:
    """Show Penstock at work, with a simulated plant.

    Starts a server with its pipeline and console on the usual ports, or on others if these are
    taken, and ends everything with Ctrl-C. docs/demo.md tells what to look at and what to try.
    Needs the extras penstock[spark,aws,testing] and Java 17 or newer; no AWS account, no network.

    With --check nobody has to look: after an outage of the link and a message that is refused, each
    message is followed to its end. The exit status is 1 if one is missing, wrong or there twice.
    """
    if seconds is not None and not check:
        raise click.UsageError("--seconds is for --check; a demo runs until Ctrl-C.")
    _require_extras()
    from penstock.demo.errors import DemoEnded

    with _ended_by_signal() as ended, _folder(keep) as folder:
        say(f"Data, table and logs are in {folder}")
        try:
            if check:
                return _check(folder, ended, seconds or SECONDS)
            opens_browser = not no_browser and _has_desktop()
            return _show(folder, ended, keep=keep, opens=opens_browser, usual_ports=not any_ports)
        except DemoEnded:
            say("Ended before everything was up. Nothing is left running.")
            return Status.INTERRUPTED if check else Status.DONE


def _require_extras() -> None:
    """All that is missing, in one line, before anything is started."""
    from importlib.util import find_spec

    extras = {"pyspark": "spark", "pyarrow": "spark", "botocore": "aws", "moto": "testing"}
    missing = [library for library in extras if find_spec(library) is None]
    if missing:
        names = ",".join(dict.fromkeys(extras[library] for library in missing))
        raise CommandFailed(
            f"The demo needs {', '.join(missing)}, not installed here. "
            f"Run `pip install 'penstock[{names}]'`."
        )


@contextmanager
def _ended_by_signal() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets, and whoever else wants the demo to end."""
    ended = threading.Event()
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, lambda *_: ended.set()) for number in signals]
    try:
        yield ended
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)


@contextmanager
def _folder(keep: bool) -> Iterator[Path]:
    """Where everything is; a folder that is not to be kept survives only a failure."""
    if keep:
        yield Path(KEPT_FOLDER).resolve()
        return
    from penstock.demo.errors import DemoEnded

    folder = Path(tempfile.mkdtemp(prefix="penstock-demo-"))
    try:
        yield folder
    except DemoEnded:
        shutil.rmtree(folder)
        raise
    shutil.rmtree(folder)


def _has_desktop() -> bool:
    """Otherwise a browser in the terminal would take the place of the demo."""
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


# --- to look at ---------------------------------------------------------------------------------


def _show(
    folder: Path, ended: threading.Event, *, keep: bool, opens: bool, usual_ports: bool
) -> int:
    from penstock.demo.errors import DemoEnded
    from penstock.demo.stage import TO_LOOK_AT, Stage

    with Stage(folder, replace(TO_LOOK_AT, usual_ports=usual_ports), ended) as stage:
        _start(stage, opens_browser=opens)
        stage.start_outages()
        began_s = time.monotonic()
        say(f"Look at {stage.server.console_url} and end with Ctrl-C.")
        try:
            _watch(stage)
        except DemoEnded:
            say("Ending ...")
        last = stage.picture()
    _say_goodbye(last, time.monotonic() - began_s, folder, keep)
    return Status.DONE


def _start(stage: Stage, opens_browser: bool) -> None:
    """Every part, with a line for each."""
    _step("Cloud", "loading moto", stage.start_cloud)
    _step("Server", "starting", stage.start_server)
    _step("Plant", "creating streams", stage.start_plant)
    _step("Console", "starting", stage.start_console)
    if opens_browser and stage.server.console_url is not None:
        webbrowser.open(stage.server.console_url)
    _step("Pipeline", "starting Spark, which takes some seconds", stage.start_spark)
    _step("Exports", "waiting for the first messages", stage.start_exports)


def _step(part: str, doing: str, action: Callable[[], str]) -> None:
    """Say what is being done on a terminal, and everywhere what came of it."""
    began_s = time.monotonic()
    if output_is_screen():
        with terminal_console().status(f"{part}: {doing} ..."):
            done = action()
    else:
        done = action()
    say(f"{part + ':':10}{done} ({time.monotonic() - began_s:.1f} s)")


def _watch(stage: Stage) -> None:
    """Show how it goes, until DemoEnded."""
    if not output_is_screen():
        while True:
            say(_line(stage, stage.picture()))
            stage.wait(LINE_INTERVAL_S)
    from rich.live import Live

    with Live(console=terminal_console(), auto_refresh=False) as live:
        while True:
            live.update(_drawn(stage, stage.picture()), refresh=True)
            stage.wait(GLANCE_S)


def _line(stage: Stage, picture: Picture) -> str:
    exports = ", ".join(
        f"{view.stream_name} {view.delivered_messages:,} delivered, lag {view.lag_messages:,}"
        for view in picture.observation.exports
    )
    return f"{exports}; {plural(picture.table_rows, 'row')} in the table; {_link(stage)}"


def _link(stage: Stage) -> str:
    return "link down" if stage.link.is_down() else "link up"


def _drawn(stage: Stage, picture: Picture) -> RenderableType:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in COLUMNS:
        table.add_column(column.title, justify="right" if column.is_number else "left")
    for row in _rows(picture):
        table.add_row(*row)
    return Group(
        Text(),
        table,
        Text(),
        Text(f"Table      {plural(picture.table_rows, 'row')} of averages in {stage.folder}/table"),
        Text(f"Cloud      {_link(stage)}", style="red" if stage.link.is_down() else ""),
        Text(f"Pipeline   {picture.observation.pipeline.state}"),
        Text(f"Console    {stage.server.console_url}   Ctrl-C ends the demo", style="bold"),
    )


def _rows(picture: Picture) -> Iterator[list[str]]:
    appended = _appended(picture)
    for view in picture.observation.exports:
        yield [
            view.stream_name,
            f"{appended[view.stream_name]:,}",
            view.export_identifier,
            f"{view.delivered_messages:,}",
            f"{view.lag_messages:,}",
            f"{view.dead_letters:,}",
            view.state,
        ]


def _appended(picture: Picture) -> dict[str, int]:
    """Messages by stream, with those of earlier runs, as delivered ones are counted too."""
    return {view.name: view.newest_sequence_number + 1 for view in picture.observation.streams}


def _say_goodbye(last: Picture, seconds: float, folder: Path, keep: bool) -> None:
    """What was done, and where it is."""
    exports = last.observation.exports
    appended = sum(_appended(last)[view.stream_name] for view in exports)
    delivered = sum(view.delivered_messages for view in exports)
    letters = sum(view.dead_letters for view in exports)
    say(
        f"After {seconds:.0f} s: {plural(appended, 'message')} appended, {delivered:,} delivered, "
        f"{plural(letters, 'dead letter')}, {plural(last.table_rows, 'row')} in the table. "
        f"Nothing is left running."
    )
    if keep:
        say(f"Data, table and logs are in {folder}; `penstock demo --keep` goes on with them.")
    else:
        say("Its folder is removed; `penstock demo --keep` keeps it.")


# --- to check -----------------------------------------------------------------------------------


def _check(folder: Path, ended: threading.Event, seconds: int) -> int:
    from penstock.demo.check import Check, Ledger
    from penstock.demo.stage import TO_CHECK, Stage

    ledger = Ledger()
    with Stage(folder, TO_CHECK, ended, ledger.client) as stage:
        _start(stage, opens_browser=False)
        say(f"Running for {seconds} s, with an outage of {seconds * OUTAGE_PART:.0f} s ...")
        stage.wait(seconds * OUTAGE_AFTER)
        stage.link.cut(seconds * OUTAGE_PART, ended)
        stage.wait(seconds * (1 - OUTAGE_AFTER - OUTAGE_PART))
        stage.stop_plant()
        say("The plant has stopped; waiting until everything has gone its way ...")
        check = Check(stage, ledger)
        check.wait_until_drained()
        findings = check.findings()
    show_table(
        FINDING_COLUMNS,
        [
            [found.what, f"{found.expected:,}", f"{found.found:,}", _verdict(found.difference)]
            for found in findings
        ],
    )
    wrong = [f"{found.what}: {found.difference}" for found in findings if found.difference]
    if wrong:
        raise CommandFailed("\n".join(wrong))
    say(f"All {len(findings)} counts agree.")
    return Status.DONE


def _verdict(difference: str) -> str:
    return "differs" if difference else "ok"
