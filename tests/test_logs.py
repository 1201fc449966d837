"""Log lines: their form, and which of them are shown."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterator

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


def test_the_setting_offers_exactly_these_levels():
    assert SETTINGS["log_level"].about.choices == tuple(logs.LEVELS)
