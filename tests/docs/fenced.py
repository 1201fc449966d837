"""The fenced blocks of the README and of every page in docs/.

A comment on the line before a block says what is special about it:

    <!-- not run: needs a Docker engine -->     the block is shown only, for this reason
    <!-- file: kinesis_flow.py -->              the block is a program of its own, under this name
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\S*)\s*$")
COMMENT = re.compile(r"^ *<!-- (?P<kind>not run|file): (?P<text>.+) -->\s*$")


@dataclass(frozen=True)
class Fenced:
    """One block, and where it stands."""

    page: str
    line: int  # of its first line of text, counted from 1
    language: str
    text: str
    not_run: str | None = None
    file_name: str | None = None

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[str]:
    """Every document, by its path in the repository."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [str(path.relative_to(ROOT)) for path in found]


def blocks_of(page: str) -> list[Fenced]:
    """The blocks of one document, in order."""
    return blocks_in((ROOT / page).read_text(), page)


def blocks_in(text: str, page: str) -> list[Fenced]:
    lines = text.splitlines()
    found: list[Fenced] = []
    start: int | None = None
    for at, line in enumerate(lines):
        fence = FENCE.match(line)
        if fence is None:
            continue
        if start is None:
            start = at
            continue
        found.append(_block(lines, start, at, page))
        start = None
    if start is not None:
        raise ValueError(f"{page}:{start + 1}: this block has no end")
    return found


def _block(lines: list[str], start: int, end: int, page: str) -> Fenced:
    opening = FENCE.match(lines[start])
    assert opening is not None
    indent = len(opening["indent"])
    text = "".join(f"{line[indent:]}\n" for line in lines[start + 1 : end])
    comment = COMMENT.match(lines[start - 1]) if start else None
    special = {comment["kind"]: comment["text"]} if comment else {}
    return Fenced(
        page,
        start + 2,
        opening["language"],
        text,
        not_run=special.get("not run"),
        file_name=special.get("file"),
    )
