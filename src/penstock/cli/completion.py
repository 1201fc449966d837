"""`penstock completion`: the script that makes a shell complete commands, options and streams."""

from __future__ import annotations

import os

import click
from click.shell_completion import get_completion_class, shell_complete

from penstock.cli import COMPLETION_VARIABLE
from penstock.cli.output import say

SHELLS = ("bash", "zsh", "fish")


@click.command(short_help="Print a script for completion in a shell.")
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the script that makes SHELL complete commands, options and the names of streams.

    \b
      bash   echo 'eval "$(penstock completion bash)"' >> ~/.bashrc
      zsh    echo 'eval "$(penstock completion zsh)"' >> ~/.zshrc
      fish   penstock completion fish > ~/.config/fish/completions/penstock.fish

    Names of streams are asked of the server that the variables name, if it answers at once.
    """
    found = get_completion_class(shell)
    assert found is not None, "click knows these three"
    root = click.get_current_context().find_root()
    say(found(root.command, {}, "penstock", COMPLETION_VARIABLE).source().strip())


def answer_shell(command: click.Command) -> int:
    """Answer the script of a shell; the variable says which shell asks for what."""
    instruction = os.environ[COMPLETION_VARIABLE]
    return shell_complete(command, {}, "penstock", COMPLETION_VARIABLE, instruction)
