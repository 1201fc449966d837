"""`penstock status`: every state, in words and as JSON, once and again."""

from __future__ import annotations

import json
import signal

import pytest
from command_line import CommandLine, Terminal
from export_office import ExportOffice

from penstock.cli.status import COLUMNS, notes, shown_age
from penstock.export_model import ExportView

ALTERNATE_SCREEN, NORMAL_SCREEN = "\x1b[?1049h", "\x1b[?1049l"


def row(text: str, stream: str) -> list[str]:
    """The words of a stream's line in the table."""
    (line,) = (line for line in text.splitlines() if line.startswith(f"{stream} "))
    return line.split()


def test_without_exports_it_says_so(at_office: CommandLine):
    assert at_office.succeeds("status").lines == ["Pipeline: external", "No stream has an export."]


def test_a_server_without_a_pipeline_says_so(connected: CommandLine):
    assert connected.succeeds("status").lines[0] == "Pipeline: off"


def test_every_export_has_a_line_with_its_state_and_its_lag(
    office: ExportOffice, at_office: CommandLine
):
    office.open("busy", b"1234567890")
    office.lease()
    office.open("due", b"1234567890", b"1234567890")
    office.open("idle")
    office.open("paused", b"x" * 2048, disabled=True)
    office.open("waiting", b"1", batch_size=3)
    text = at_office.succeeds("status").text
    assert text.splitlines()[1].split() == " ".join(each.title for each in COLUMNS).upper().split()
    shown = {name: row(text, name)[4:8] for name in ("busy", "due", "idle", "paused", "waiting")}
    assert shown == {
        "busy": ["sending", "1", "10", "B"],
        "due": ["due", "2", "20", "B"],
        "idle": ["idle", "0", "0", "B"],
        "paused": ["paused", "1", "2", "KiB"],
        "waiting": ["waiting", "1", "1", "B"],
    }
    assert row(text, "due")[1:4] == ["cloud", "Kinesis", "plant-7"]
    last = text.splitlines()[-1]
    assert last == "waiting, export cloud: waiting for 2 more messages for a batch of 3"


@pytest.mark.parametrize(("blocked", "state"), [(True, "blocked"), (False, "backing off")])
def test_trouble_is_told_whole_with_the_next_try(
    office: ExportOffice, at_office: CommandLine, blocked: bool, state: str
):
    office.open("s", b"one")
    error = "export stream plant-7 doesn't exist; " + "a long story, " * 20 + "the end"
    for _ in range(2):
        # The first pause is over at once, the second is long.
        pause_ms = 600_000 if office.user.describe_exports().exports[0].tries else 0
        office.report(
            office.lease(), error=error, blocked=blocked, retry_after_millis=pause_ms, done=True
        )
    text = at_office.succeeds("status").text
    assert f" {state} " in text.splitlines()[2]
    note = text.splitlines()[-1]
    assert note.startswith(f"s, export cloud: {state} until ")
    assert note.endswith(f"Z after 2 tries: {error}")


def test_refused_messages_are_counted_and_the_last_reason_is_told(
    office: ExportOffice, at_office: CommandLine
):
    office.refuse("s", "too large", "too old")
    text = at_office.succeeds("status").text
    assert row(text, "s")[-1] == "2"
    expected = "s, export cloud: message 1 was refused and is a dead letter: too old"
    assert text.splitlines()[-1] == expected


def test_json_has_everything(office: ExportOffice, at_office: CommandLine):
    office.open("s", b"one", b"two")
    office.report(office.lease(), next_sequence_number=1, messages=1, sent_bytes=3, done=True)
    document = at_office.succeeds("status", "--json").json
    assert document["pipeline"] == {"state": "external", "restarts": 0}
    (export,) = document["exports"]
    assert export["streamName"] == "s"
    assert export["state"] == "due"
    assert (export["lagMessages"], export["lagBytes"]) == (1, 3)
    assert (export["deliveredMessages"], export["deliveredBytes"]) == (1, 3)
    assert export["lastExportedSequenceNumber"] == 0
    assert export["messagesPerSecond"] > 0


def test_a_terminal_gets_a_table_in_which_everything_is_on_one_line(
    office: ExportOffice, at_office: CommandLine
):
    office.open("Turbine7", b"1234567890")
    result = at_office.on_terminal("status")
    assert result.status == 0
    (line,) = (line for line in result.lines if "Turbine7" in line)
    assert all(word in line for word in ("cloud", "plant-7", "due", "10 B"))


def test_watching_on_a_terminal_shows_what_changes_until_ctrl_c(
    office: ExportOffice, at_office: CommandLine
):
    office.open("s")
    with Terminal(at_office, "status", "--watch") as terminal:
        terminal.wait_for("idle")
        office.user.append_message("s", b"one")
        terminal.wait_for("due")
        terminal.press_ctrl_c()
        result = terminal.result()
    assert result.status == 130
    assert result.text.count(ALTERNATE_SCREEN) == 1
    assert result.text.rindex(NORMAL_SCREEN) > result.text.index(ALTERNATE_SCREEN)
    assert "Traceback" not in result.text


def test_watching_as_json_is_a_line_each_time(office: ExportOffice, at_office: CommandLine):
    office.open("s")
    process = at_office.started("status", "--watch", "--json")
    assert process.stdout is not None
    first = json.loads(process.stdout.readline())
    office.user.append_message("s", b"one")
    second = json.loads(process.stdout.readline())
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert [each["exports"][0]["lagMessages"] for each in (first, second)] == [0, 1]
    assert (process.returncode, errors) == (130, b"")


def test_names_that_steer_a_terminal_are_made_harmless(
    office: ExportOffice, at_office: CommandLine
):
    office.open("s", b"one")
    office.report(office.lease(), error="\x1b[2Jgone", retry_after_millis=60_000, done=True)
    assert at_office.succeeds("status").lines[-1].endswith("\\x1b[2Jgone")


def test_a_server_that_is_not_there_is_named(penstock: CommandLine, unused_port: int):
    result = penstock("status", "--port", str(unused_port))
    assert result.status == 3
    assert str(unused_port) in result.errors


def test_lost_messages_are_told():
    view = ExportView("s", "e", "Kinesis", "k", "idle", lost_messages=1200)
    assert list(notes(view)) == [
        "1,200 messages had been removed from the stream before they could be sent"
    ]


@pytest.mark.parametrize(
    ("age_ms", "expected"),
    [
        (0, "0 s"),
        (59_999, "59 s"),
        (60_000, "1 min"),
        (3_599_999, "59 min"),
        (3_600_000, "1 h"),
        (47 * 3_600_000, "47 h"),
        (48 * 3_600_000, "2 d"),
    ],
)
def test_ages_are_shown_in_one_unit(age_ms: int, expected: str):
    assert shown_age(age_ms) == expected
