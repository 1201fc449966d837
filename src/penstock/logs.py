"""Logging set-up: on standard error, as lines for people or as one JSON object per line.

2026-01-01T12:00:00.000Z INFO  penstock.server  A sentence.
{"time": "2026-01-01T12:00:00.000Z", "level": "INFO", "logger": "penstock.server", "message": ...}

The lines of other processes, the pipeline's and the console's, are read back and passed on in the
format of this one.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from typing import NamedTuple, TextIO

from penstock.units import shown_time

TRACE = 5  # below DEBUG, as LOG_LEVEL=TRACE means it
LEVELS = {
    "TRACE": TRACE,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
}
NAMES = {number: name for name, number in LEVELS.items()}
TEXT_LINE = re.compile(r"(?P<time>\d\S+Z) (?P<level>[A-Z]+) +(?P<logger>\S+)  (?P<message>.*)")
# What every record has; whatever else it carries came with `extra=`.
USUAL_FIELDS = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}


class LineFormatter(logging.Formatter):
    """Time in UTC with milliseconds, level, logger, sentence."""

    def format(self, record: logging.LogRecord) -> str:
        line = (
            f"{shown_time(int(record.created * 1000))} {_level(record):<5} {record.name}  "
            f"{record.getMessage()}"
        )
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class JsonFormatter(logging.Formatter):
    """The same as an object, with the fields that a record carries and the whole exception."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {key: value for key, value in vars(record).items() if key not in USUAL_FIELDS}
        entry = {
            "time": shown_time(int(record.created * 1000)),
            "level": _level(record),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        # Our own keys come first, and no field replaces one of them.
        return json.dumps({**entry, **fields, **entry}, default=str)


FORMATTERS: dict[str, type[logging.Formatter]] = {"text": LineFormatter, "json": JsonFormatter}


def configure(level: str, stream: TextIO | None = None, *, log_format: str = "text") -> None:
    """Send every log line to `stream`, standard error if none is given.

    `level` counts for Penstock; of other libraries only warnings and errors are shown.
    """
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(FORMATTERS[log_format]())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(max(LEVELS[level], logging.WARNING))
    logging.getLogger("penstock").setLevel(LEVELS[level])


class Line(NamedTuple):
    """A line that a process of ours has logged, in either format."""

    time: str
    level: str
    logger: str
    message: str


def read_back(text: str) -> Line | None:
    """What a line says. None: it is not of our making."""
    if found := TEXT_LINE.fullmatch(text):
        return Line(**found.groupdict())
    return _read_json(text)


def passed_on(text: str, logger: str) -> str:
    """A line of another process in the format of this one.

    `logger` is who says it if the line does not tell: Java, or Python on its way down.
    """
    handlers = logging.getLogger().handlers
    if not any(isinstance(handler.formatter, JsonFormatter) for handler in handlers):
        return text
    if _read_json(text) is not None:
        return text
    line = read_back(text) or Line(shown_time(int(time.time() * 1000)), "INFO", logger, text)
    return json.dumps(line._asdict())


def _read_json(text: str) -> Line | None:
    if not text.startswith("{"):
        return None
    try:
        entry = json.loads(text)
        return Line(*(str(entry[key]) for key in Line._fields))
    except (ValueError, KeyError, RecursionError):
        return None


def _level(record: logging.LogRecord) -> str:
    return NAMES.get(record.levelno, record.levelname)
