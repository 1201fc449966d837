"""What a check says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """Whether somebody has to act."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Finding:
    """One sentence about one thing, and what to do about it."""

    check: str
    level: Level
    text: str
    remedy: str = ""

    @staticmethod
    def ok(check: str, text: str) -> Finding:
        return Finding(check, Level.OK, text)

    @staticmethod
    def note(check: str, text: str, remedy: str = "") -> Finding:
        return Finding(check, Level.NOTE, text, remedy)

    @staticmethod
    def problem(check: str, text: str, remedy: str) -> Finding:
        return Finding(check, Level.PROBLEM, text, remedy)

    @staticmethod
    def missing(check: str, text: str, remedy: str, *, matters: bool) -> Finding:
        """A problem if somebody needs it, otherwise good to know."""
        return Finding(check, Level.PROBLEM if matters else Level.NOTE, text, remedy)
