"""Options of the processes that a server starts, and that can also be started by themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from penstock import logs

Command = Callable[..., Any]


def child_options(command: Command) -> Command:
    """How it logs, and whether it ends with its parent."""
    options = (
        click.option(
            "--log-level",
            default="INFO",
            type=click.Choice(list(logs.LEVELS), case_sensitive=False),
            show_default=True,
            help="How much is logged, on standard error.",
        ),
        click.option(
            "--log-format",
            default="text",
            type=click.Choice(list(logs.FORMATTERS)),
            show_default=True,
            help="How log lines look.",
        ),
        click.option("--follow-parent", is_flag=True, hidden=True),
    )
    for option in reversed(options):
        command = option(command)
    return command
