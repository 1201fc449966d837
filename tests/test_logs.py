"""Log lines: their form, and which of them are shown."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import logs
from penstock.settings import SETTINGS


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """Where the log goes; the loggers are put back afterwards."""
    root, ours = logging.getLogger(), logging.getLogger("penstock")
    before = (root.handlers[:], root.level, ours.level)
    yield io.StringIO()
    root.handlers = before[0]
    ours.setLevel(before[2])
    root.setLevel(before[1])


def test_a_line_has_time_level_logger_and_sentence(lines):
    logs.configure("INFO", lines)
    record = logging.makeLogRecord(
        {"name": "penstock.server", "levelno": 30, "levelname": "WARNING", "msg": "%d is %s."}
        | {"args": (1, "one"), "created": 1_767_268_800.0079}
    )
    logging.getLogger("penstock.server").handle(record)
    assert lines.getvalue() == "2026-01-01T12:00:00.007Z WARN  penstock.server  1 is one.\n"


def test_an_exception_follows_its_line(lines):
    logs.configure("INFO", lines)
    try:
        raise OSError("the disk is gone")
    except OSError:
        logging.getLogger("penstock.log").exception("Not closed.")
    first, *rest = lines.getvalue().splitlines()
    assert re.fullmatch(r"\S+Z ERROR penstock\.log  Not closed\.", first)
    assert rest[0].startswith("Traceback")
    assert rest[-1] == "OSError: the disk is gone"


@pytest.mark.parametrize(
    ("level", "shown"),
    [
        ("TRACE", ["TRACE", "DEBUG", "INFO", "WARN", "ERROR"]),
        ("DEBUG", ["DEBUG", "INFO", "WARN", "ERROR"]),
        ("INFO", ["INFO", "WARN", "ERROR"]),
        ("WARN", ["WARN", "ERROR"]),
        ("ERROR", ["ERROR"]),
    ],
)
def test_each_level_shows_itself_and_what_is_worse(lines, level, shown):
    logs.configure(level, lines)
    for number in logs.LEVELS.values():
        logging.getLogger("penstock.streams").log(number, "x")
    assert [line.split()[1] for line in lines.getvalue().splitlines()] == shown


def test_other_libraries_are_heard_only_when_they_warn(lines):
    logs.configure("DEBUG", lines)
    logging.getLogger("asyncio").debug("Using selector.")
    logging.getLogger("asyncio").warning("Something is slow.")
    assert [line.split("  ")[-1] for line in lines.getvalue().splitlines()] == [
        "Something is slow."
    ]


def test_configuring_twice_prints_once(lines):
    logs.configure("INFO", lines)
    logs.configure("INFO", lines)
    logging.getLogger("penstock").info("Once.")
    assert lines.getvalue().count("Once.") == 1


def test_the_settings_offer_exactly_these_levels_and_formats():
    assert SETTINGS["log_level"].about.choices == tuple(logs.LEVELS)
    assert SETTINGS["log_format"].about.choices == tuple(logs.FORMATTERS)


# --- JSON ---------------------------------------------------------------------------------------


def test_in_json_each_record_is_one_line_with_its_fields(lines):
    logs.configure("INFO", lines, log_format="json")
    logging.getLogger("penstock.exporting").warning(
        "Export %s\nfails.", "\u00e9", extra={"stream": "s", "tries": 3, "path": Path("/x")}
    )
    (line,) = lines.getvalue().splitlines()
    entry = json.loads(line)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", entry.pop("time"))
    assert entry == {
        "level": "WARN",
        "logger": "penstock.exporting",
        "message": "Export \u00e9\nfails.",
        "stream": "s",
        "tries": 3,
        "path": "/x",
    }


def test_in_json_an_exception_is_a_field_of_the_same_line(lines):
    logs.configure("INFO", lines, log_format="json")
    try:
        raise OSError("the disk is gone")
    except OSError:
        logging.getLogger("penstock.log").exception("Not closed.")
    (line,) = lines.getvalue().splitlines()
    exception = json.loads(line)["exception"].splitlines()
    assert exception[0].startswith("Traceback")
    assert exception[-1] == "OSError: the disk is gone"


def test_in_json_no_field_hides_what_every_line_has(lines):
    logs.configure("INFO", lines, log_format="json")
    logging.getLogger("penstock").info("Real.", extra={"level": "none", "time": 0, "logger": 1})
    entry = json.loads(lines.getvalue())
    assert (entry["level"], entry["logger"], entry["message"]) == ("INFO", "penstock", "Real.")
    assert entry["time"].endswith("Z")


def test_in_json_a_message_that_is_not_unicode_is_still_one_line(lines):
    logs.configure("INFO", lines, log_format="json")
    logging.getLogger("penstock").info("File %s.", "\udcff")
    assert json.loads(lines.getvalue())["message"] == "File \udcff."


@pytest.mark.parametrize("log_format", logs.FORMATTERS)
def test_a_line_is_read_back_in_either_format(lines, log_format):
    logs.configure("INFO", lines, log_format=log_format)
    logging.getLogger("penstock.pipeline").error("It failed:  %d", 3, extra={"stream": "s"})
    line = logs.read_back(lines.getvalue().rstrip())
    assert line is not None
    assert line[1:] == ("ERROR", "penstock.pipeline", "It failed:  3")


@pytest.mark.parametrize(
    "text",
    [
        *("", "Traceback (most recent call last):", "WARNING: Using incubator modules"),
        *("{}", "{not json", '{"time": 1}', "[1]", '{"a":' * 10_000),
    ],
)
def test_what_is_not_a_log_line_is_not_taken_for_one(text):
    assert logs.read_back(text) is None


def test_lines_of_other_processes_pass_unchanged_as_text(lines):
    logs.configure("INFO", lines)
    assert logs.passed_on("  at java.lang.Thread.run", "java") == "  at java.lang.Thread.run"


def test_lines_of_other_processes_become_json_where_json_is_wanted(lines):
    logs.configure("INFO", lines, log_format="json")
    theirs = '{"time": "t", "level": "INFO", "logger": "a", "message": "m", "stream": "s"}'
    assert logs.passed_on(theirs, "java") == theirs

    spark = "2026-01-01T12:00:00.000Z ERROR spark.Executor  Lost."
    assert json.loads(logs.passed_on(spark, "java")) == {
        "time": "2026-01-01T12:00:00.000Z",
        "level": "ERROR",
        "logger": "spark.Executor",
        "message": "Lost.",
    }

    other = json.loads(logs.passed_on("  at java.lang.Thread.run", "penstock.pipeline"))
    assert (other["level"], other["logger"]) == ("INFO", "penstock.pipeline")
    assert other["message"] == "  at java.lang.Thread.run"
