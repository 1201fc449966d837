"""Logging set-up: lines for people, on standard error.

2026-01-01T12:00:00.000Z INFO  penstock.server  A sentence.
"""

from __future__ import annotations

import logging
import sys
from typing import TextIO

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


class LineFormatter(logging.Formatter):
    """Time in UTC with milliseconds, level, logger, sentence."""

    def format(self, record: logging.LogRecord) -> str:
        level = NAMES.get(record.levelno, record.levelname)
        line = (
            f"{shown_time(int(record.created * 1000))} {level:<5} {record.name}  "
            f"{record.getMessage()}"
        )
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def configure(level: str, stream: TextIO | None = None) -> None:
    """Send every log line to `stream`, standard error if none is given.

    `level` counts for Penstock; of other libraries only warnings and errors are shown.
    """
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(LineFormatter())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(max(LEVELS[level], logging.WARNING))
    logging.getLogger("penstock").setLevel(LEVELS[level])
