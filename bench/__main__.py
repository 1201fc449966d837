"""The command line: which cases to run, the table, the file."""

from __future__ import annotations

import json
import os
import shlex
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import click

from bench import machine
from bench.cases import CASES, NOT_SHOWN, QUICK, SLOW_CASES, THOROUGH
from bench.figures import Figure, show

ALL_CASES = CASES | SLOW_CASES
BUILD = Path(__file__).parent.parent / "build"


@click.command()
@click.option("--only", multiple=True, type=click.Choice(list(ALL_CASES)), help="Only these cases.")
@click.option("--quick", is_flag=True, help="Fewer repeats and messages; the figures are rougher.")
@click.option("--output", type=click.Path(dir_okay=False), default=BUILD / "bench.json")
def main(only: tuple[str, ...], quick: bool, output: str) -> None:
    """Measure, print a table, write it as JSON; status 1 if a demand is missed."""
    BUILD.mkdir(exist_ok=True)
    load_before = os.getloadavg()
    figures: list[tuple[str, Figure]] = []
    for case in only or CASES:
        click.echo(f"{case} ...", err=True)
        # Not below /tmp, which may be memory: a flush there costs nothing.
        with tempfile.TemporaryDirectory(prefix="bench-", dir=BUILD) as folder:
            found = ALL_CASES[case](Path(folder), QUICK if quick else THOROUGH)
        figures += [(case, figure) for figure in found]
    report = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["python", "-m", "bench", *sys.argv[1:]]),
        "machine": machine.describe(BUILD),
        "load_average": {"before": load_before, "after": os.getloadavg()},
        "figures": [figure.as_json(case) for case, figure in figures],
        "not_shown": NOT_SHOWN,
    }
    Path(output).write_text(json.dumps(report, indent=2) + "\n")
    show(figures)
    click.echo("\n".join(["", "Not shown:", *(f"- {text}" for text in NOT_SHOWN)]))
    sys.exit(any(figure.met is False for _, figure in figures))


if __name__ == "__main__":
    main()
