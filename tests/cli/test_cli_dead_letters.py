"""`penstock dead-letters`: list, show, replay, purge."""

from __future__ import annotations

import base64

import pytest
from command_line import CommandLine, Terminal
from export_office import ExportOffice

from penstock.cli.dead_letters import COLUMNS


def ids(at_office: CommandLine, *arguments: str) -> list[int]:
    letters = at_office.succeeds("dead-letters", "list", "--json", *arguments).json
    return [letter["id"] for letter in letters]


def test_without_letters_it_says_so(at_office: CommandLine):
    assert at_office.succeeds("dead-letters", "list").text == "There are no dead letters.\n"
    assert at_office.succeeds("dead-letters", "list", "--json").json == []


def test_letters_are_listed_with_their_reasons(office: ExportOffice, at_office: CommandLine):
    office.refuse("s", "too large", "too old")
    header, first, second = at_office.succeeds("dead-letters", "list").lines
    assert header.split() == [column.title.upper() for column in COLUMNS]
    assert first.split()[1:6] == ["s", "cloud", "0", "9", "B"]
    assert first.endswith("too large")
    assert second.endswith("too old")


def test_letters_are_chosen_by_stream_and_export(office: ExportOffice, at_office: CommandLine):
    office.refuse("a", "x", "x")
    office.refuse("b", "x")
    assert len(ids(at_office)) == 3
    assert len(ids(at_office, "--stream", "a")) == 2
    assert len(ids(at_office, "--export", "cloud")) == 3
    assert ids(at_office, "--stream", "b", "--export", "other") == []


def test_more_letters_than_fit_an_answer_are_all_listed(
    office: ExportOffice, at_office: CommandLine
):
    office.refuse("many", *["x"] * 2500)
    found = ids(at_office)
    assert len(set(found)) == 2500
    assert found == sorted(found)


def test_one_letter_is_shown_whole(office: ExportOffice, at_office: CommandLine):
    office.refuse("s", "too large")
    (number,) = ids(at_office)
    lines = at_office.succeeds("dead-letters", "show", str(number)).lines
    shown = {name: value for name, _, value in (line.partition("  ") for line in lines)}
    facts = {name: value.strip() for name, value in shown.items()}
    assert facts["stream"] == "s"
    assert facts["reason"] == "too large"
    assert facts["payload"] == "payload 0"
    document = at_office.succeeds("dead-letters", "show", str(number), "--json").json
    assert base64.b64decode(document["payload"]) == b"payload 0"
    assert document["sequenceNumber"] == 0


def test_a_letter_that_is_not_there_is_refused_in_words(at_office: CommandLine):
    result = at_office("dead-letters", "show", "4711")
    assert (result.status, result.text) == (1, "")
    assert "There is no dead letter 4711." in result.errors


def test_a_replay_is_asked_for_and_seen(office: ExportOffice, at_office: CommandLine):
    office.refuse("s", "x", "x", "x")
    first, second, _ = ids(at_office)
    replayed = at_office.succeeds("dead-letters", "replay", str(first), str(second))
    assert replayed.text == "2 dead letters will be sent again.\n"
    assert at_office.succeeds("dead-letters", "list").text.count("asked for") == 2
    lease = office.lease()
    assert lease.dead_letter_ids == [first, second]
    office.report(lease, messages=2, replayed_ids=[first, second], done=True)
    assert len(ids(at_office)) == 1


def test_all_letters_of_a_stream_are_replayed_by_its_name(
    office: ExportOffice, at_office: CommandLine
):
    office.refuse("a", "x", "x")
    office.refuse("b", "x")
    said = at_office.succeeds("dead-letters", "replay", "--stream", "a").text
    assert said == "2 dead letters will be sent again.\n"
    assert office.lease().stream_name == "a"


def test_a_purge_takes_what_was_asked_for_and_no_more(office: ExportOffice, at_office: CommandLine):
    office.refuse("s", "x", "x", "x")
    first, second, third = ids(at_office)
    purged = at_office.succeeds("dead-letters", "purge", "--yes", str(second))
    assert purged.text == "1 dead letter purged.\n"
    assert ids(at_office) == [first, third]
    assert at_office.succeeds("dead-letters", "purge", "--yes", "--all").text.startswith("2 ")
    assert ids(at_office) == []


@pytest.mark.parametrize("command", ["replay", "purge"])
def test_nothing_is_touched_without_a_choice(
    office: ExportOffice, at_office: CommandLine, command: str
):
    office.refuse("s", "x")
    result = at_office("dead-letters", command)
    assert result.status == 2
    assert "Which dead letters?" in result.errors
    assert len(ids(at_office)) == 1


def test_a_purge_without_a_terminal_needs_yes(office: ExportOffice, at_office: CommandLine):
    office.refuse("s", "x")
    result = at_office("dead-letters", "purge", "--all")
    assert result.status == 2
    assert "give --yes" in result.errors
    assert len(ids(at_office)) == 1


@pytest.mark.parametrize(("key", "left", "status"), [("y", 0, 0), ("n", 1, 130)])
def test_a_purge_on_a_terminal_asks_first(
    office: ExportOffice, at_office: CommandLine, key: str, left: int, status: int
):
    office.refuse("s", "x")
    with Terminal(at_office, "dead-letters", "purge", "--all") as terminal:
        terminal.wait_for("for good?")
        terminal.type(f"{key}\n")
        assert terminal.result().status == status
    assert len(ids(at_office)) == left


def test_letters_are_no_stream_that_clients_see(office: ExportOffice, at_office: CommandLine):
    office.refuse("s", "x")
    assert at_office.succeeds("streams", "list", "--json").json[0]["definition"]["name"] == "s"
    assert office.user.list_streams() == ["s"]
