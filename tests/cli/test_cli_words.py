"""Errors in one line, in words, with a remedy."""

from __future__ import annotations

import pytest
from command_line import CommandLine

from penstock.cli.definition import in_words


def complaint(result) -> str:
    """The one line on standard error."""
    assert result.output == b""
    (line,) = result.errors.splitlines()
    return line


def test_a_stream_that_is_there_already_can_be_updated(connected: CommandLine, stream: str):
    line = complaint(connected("streams", "create", stream))
    assert line.endswith("already exists. `penstock streams update` changes it.")


def test_choices_are_listed_in_one_line(penstock: CommandLine):
    result = penstock("completion")
    assert result.status == 2
    assert "Choose from: bash, zsh, fish." in complaint(result)


def test_a_server_that_is_not_there_is_told_without_numbers_of_the_system(
    penstock: CommandLine, unused_port: int
):
    line = complaint(penstock("status", "--port", str(unused_port)))
    assert "Errno" not in line
    assert "Connection refused. Start a server with `penstock serve`" in line


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["a/b"], "name: may have letters, digits, spaces and _ - . , only."),
        ([""], "name: must not be empty."),
        (["n" * 300], "name: must have at most 255 characters."),
        (["s", "--max-size", "10"], "maxSize: must be at least 1024."),
    ],
)
def test_a_definition_is_refused_in_words(penstock: CommandLine, arguments: list[str], words: str):
    result = penstock("streams", "create", *arguments)
    assert result.status == 2
    assert complaint(result) == f"penstock: {words}"


def test_what_has_no_words_stays_as_it_is():
    assert in_words("maxSize: Expected `int`, got `str`") == "maxSize: must be int, not str"
    assert in_words("something else") == "something else"
