"""The command `penstock`.

Output      tables for people, `--json` for programs, both on standard output.
Errors      one line on standard error, `penstock: what is wrong. Remedy.`, and an exit status.
Imports     each command is loaded when it is used, so that `serve` starts fast and stays small:
            neither the client nor `rich` is in its process.
Read in order   this file, output, then the command you look for.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

import click

from penstock.cli.output import Status, closing_output, complain, explained
from penstock.settings.sources import nearest
from penstock.version import __version__

COMMANDS = {
    "serve": "penstock.cli.serve:serve",
    "streams": "penstock.cli.streams:streams",
    "append": "penstock.cli.messages:append",
    "read": "penstock.cli.messages:read",
    "status": "penstock.cli.status:status",
    "dead-letters": "penstock.cli.dead_letters:dead_letters",
    "transforms": "penstock.cli.transforms:transforms",
    "config": "penstock.cli.config:config",
    "verify": "penstock.cli.verify:verify",
    "doctor": "penstock.cli.doctor:doctor",
    "pipeline": "penstock.cli.pipeline:pipeline",
    "console": "penstock.cli.console:console",
    "fleet": "penstock.cli.fleet:fleet",
    "local-cloud": "penstock.cli.local_cloud:local_cloud",
    "demo": "penstock.cli.demo:demo",
    "completion": "penstock.cli.completion:completion",
}

# What the scripts of `penstock completion` set when a shell asks what could come next.
COMPLETION_VARIABLE = "_PENSTOCK_COMPLETE"

EXIT_STATUSES = """\b
Exit status:
  0    done
  1    the operation was refused or failed; doctor, verify, fleet: something needs doing
  2    wrong usage or settings; verify: the store cannot be checked
  3    the server cannot be reached
  69   pipeline: something must be installed
  130  interrupted"""


class LazyGroup(click.Group):
    """A group that imports a command when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = COMMANDS.get(cmd_name)
        if place is None:
            return None
        module, _, name = place.partition(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS:
            ctx.fail(f'No such command "{args[0]}".{nearest(args[0], COMMANDS)}')
        return super().resolve_command(ctx, args)


@click.group(
    cls=LazyGroup,
    epilog=EXIT_STATUSES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="penstock", message="%(prog)s %(version)s")
def penstock() -> None:
    """Durable local streams, spoken to with AWS IoT Greengrass stream manager SDKs."""


def main() -> NoReturn:
    """Run the command line of this process, and end it."""
    if COMPLETION_VARIABLE in os.environ:
        from penstock.cli.completion import answer_shell

        sys.exit(answer_shell(penstock))
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command. Expected errors become a line on standard error and an exit status."""
    # click's own main() would print usage errors in three lines and turn Ctrl-C into "Aborted!".
    status: int = Status.DONE  # also when who read the output has had enough of it
    try:
        with closing_output(), penstock.make_context("penstock", list(arguments)) as context:
            result = penstock.invoke(context)
            if isinstance(result, int):
                status = result
    except click.exceptions.Exit as request:
        return request.exit_code
    except click.exceptions.NoArgsIsHelpError as request:
        click.echo(request.format_message(), err=True)
        return Status.WRONG_USAGE
    except (KeyboardInterrupt, click.Abort):
        return Status.INTERRUPTED
    except Exception as error:
        failure = explained(error)
        if failure is None:
            raise
        complain(failure.text)
        return failure.status
    return status
