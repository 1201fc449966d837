"""Tables, words and the explanation of errors."""

from __future__ import annotations

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.output import (
    Column,
    CommandFailed,
    Failure,
    Status,
    explained,
    plain_table,
    plural,
    printable,
    sentence,
)
from penstock.errors import (
    ConnectFailedException,
    ConnectionLostException,
    RequestTimeoutException,
    ResourceNotFoundException,
    ResponseStatusCode,
    ServerUnreachableException,
    SettingsError,
    StoreInUse,
)


@pytest.mark.parametrize(
    ("error", "text", "status"),
    [
        (CommandFailed("said already.", Status.WRONG_USAGE), "said already.", 2),
        (click.UsageError("no"), "no. Try `penstock --help`.", 2),
        (SettingsError("port is wrong."), "port is wrong.", 2),
        (
            ResourceNotFoundException("no s"),
            "no s. `penstock streams list` shows what there is.",
            1,
        ),
        (StoreInUse("in use; stop it"), "in use; stop it.", 1),
        (ConnectFailedException("refused"), "refused.", 1),
        (
            ConnectFailedException("refused", ResponseStatusCode.Unauthorized),
            "refused. Give a token with --token or AWS_CONTAINER_AUTHORIZATION_TOKEN.",
            1,
        ),
        (
            ServerUnreachableException("nobody"),
            "nobody. Start a server with `penstock serve`, or name another with --host and --port.",
            3,
        ),
        (ConnectionLostException("lost"), "lost.", 3),
        (RequestTimeoutException("late"), "late.", 3),
        (FileNotFoundError(2, "No such file", "f.txt"), "f.txt: No such file.", 1),
        (OSError("without a number"), "without a number.", 1),
    ],
)
def test_every_expected_error_has_words_and_a_status(error, text, status):
    assert explained(error) == Failure(text, Status(status))


@pytest.mark.parametrize("error", [ValueError("x"), KeyError("x"), AssertionError("x")])
def test_a_mistake_of_ours_is_not_explained_away(error):
    assert explained(error) is None


def test_columns_are_aligned_numbers_to_the_right():
    columns = [Column("Name"), Column("Count", is_number=True), Column("Last")]
    assert list(plain_table(columns, [["a", "1", "x"], ["longer", "1,000,000", ""]])) == [
        "NAME        COUNT  LAST",
        "a               1  x",
        "longer  1,000,000",
    ]


@given(st.text())
def test_printable_text_cannot_steer_a_terminal(text):
    assert printable(text).isprintable()


def test_printable_keeps_what_people_write():
    assert printable("température 12 °C — ✓") == "température 12 °C — ✓"
    assert printable("\x1b[31m\t\x85\u202e") == r"\x1b[31m\t\x85\u202e"


def test_small_words():
    assert [plural(count, "message") for count in (0, 1, 2000)] == [
        "0 messages",
        "1 message",
        "2,000 messages",
    ]
    assert [sentence(text) for text in ("no", "no.", "no?")] == ["no.", "no.", "no?"]
