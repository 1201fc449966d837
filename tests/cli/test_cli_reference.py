"""docs/command-line.md says what the commands say."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from penstock.cli import COMMANDS, EXIT_STATUSES, penstock
from penstock.cli.output import Status
from penstock.cli.reference import page
from penstock.server.supervisor import EXIT_UNAVAILABLE

DOCS = Path(__file__).parents[2] / "docs" / "command-line.md"


def test_the_page_of_commands_is_up_to_date():
    assert DOCS.read_text() == page(), (
        "run `python -m penstock.cli.reference > docs/command-line.md`"
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_every_option_of_it_is_on_the_page(name: str):
    text = page()
    with click.Context(penstock, info_name="penstock") as root:
        command = penstock.get_command(root, name)
        assert command is not None
        below = command.commands.values() if isinstance(command, click.Group) else [command]
        for each in below:
            path = f"penstock {name}" + ("" if each is command else f" {each.name}")
            _, _, section = text.partition(f"# {path}\n")
            section = re.split(r"^##+ ", section, flags=re.MULTILINE)[0]
            assert (each.help or "").splitlines()[0] in section
            for option in each.params:
                if isinstance(option, click.Option) and not option.hidden:
                    assert option.opts[0] in section, f"{path} {option.opts[0]}"


def test_every_exit_status_is_documented():
    documented = {int(each) for each in re.findall(r"^  (\d+) ", EXIT_STATUSES, re.MULTILINE)}
    assert documented == {*map(int, Status), EXIT_UNAVAILABLE}
