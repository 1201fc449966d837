"""docs/command-line.md, made from the commands: `python -m penstock.cli.reference`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from penstock.cli import COMMANDS, EXIT_STATUSES, penstock

INTRODUCTION = """\
# Command line

*Made by `python -m penstock.cli.reference` from the commands themselves; a test fails when this
page is out of date.*

Tables are for people and `--json` is for programs, both on standard output. Errors are one line on
standard error: `penstock:`, what is wrong, and what to do. Colours and rules are for terminals
only; `NO_COLOR=1` and `TERM=dumb` turn them off there, too. `penstock COMMAND --help` shows what is
here.

Commands that talk to a server take `--host`, `--port` and `--token`, otherwise the variables
`STREAM_MANAGER_SERVER_HOST`, `STREAM_MANAGER_SERVER_PORT` and `AWS_CONTAINER_AUTHORIZATION_TOKEN`.
"""


def page() -> str:
    """The whole page."""
    with click.Context(penstock, info_name="penstock") as context:
        parts = [INTRODUCTION, _exit_statuses(), *_all_commands(context)]
    return "\n".join(parts)


def _exit_statuses() -> str:
    rows = re.findall(r"^  (\d+) +(.+)$", EXIT_STATUSES, re.MULTILINE)
    lines = ["## Exit status", "", "| Status | Meaning |", "|---|---|"]
    return "\n".join([*lines, *(f"| {number} | {text} |" for number, text in rows), ""])


def _all_commands(root: click.Context) -> Iterator[str]:
    for name in COMMANDS:
        command = penstock.get_command(root, name)
        assert command is not None
        yield from _described(command, click.Context(command, root, name), depth=2)


def _described(command: click.Command, context: click.Context, depth: int) -> Iterator[str]:
    """A command, then those of its group."""
    if command.hidden:
        return
    yield f"{'#' * depth} {context.command_path}\n"
    if not isinstance(command, click.Group):
        usage = " ".join(command.collect_usage_pieces(context))
        yield f"```text\n{context.command_path} {usage}\n```\n"
    yield f"{_markdown(command.help or '')}\n"
    rows = [row for each in command.get_params(context) if (row := _row(each, context))]
    if rows:
        yield "\n".join(["| Option | |", "|---|---|", *rows, ""])
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _described(below, click.Context(below, context, name), depth + 1)


def _row(parameter: click.Parameter, context: click.Context) -> str | None:
    """An option, as --help has it; arguments are explained by the text."""
    record = parameter.get_help_record(context)
    if record is None or isinstance(parameter, click.Argument) or "--help" in parameter.opts:
        return None
    names, text = (" ".join(part.split()).replace("|", "\\|") for part in record)
    return f"| `{names}` | {text} |"


def _markdown(help_text: str) -> str:
    """The help: what click must not wrap is a block of its own."""
    paragraphs = inspect.cleandoc(help_text).split("\n\n")
    return "\n\n".join(
        f"```text\n{inspect.cleandoc(each.removeprefix(chr(8)))}\n```"
        if each.startswith("\b")
        else each
        for each in paragraphs
    )


if __name__ == "__main__":
    click.echo(page(), nl=False)
