"""The files of the console: from nowhere else, and free of what could run a payload."""

from __future__ import annotations

import re
from pathlib import Path

import penstock

STATIC = Path(penstock.__file__).parent / "console" / "static"
TEXTS = {
    path.relative_to(STATIC).as_posix(): path.read_text()
    for path in sorted(STATIC.rglob("*"))
    if path.is_file()
}
# Ways from a text to something that the browser runs or parses.
DOORS = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc"
)
ADDRESS = re.compile(r"(?:https?:|[\"'(])//[\w.:-]+[\w/]*")
# A name that every SVG carries, and an example in a form.
HARMLESS = {"http://www.w3.org/2000/svg", "http://127.0.0.1:9000/in"}


def test_no_text_can_become_markup_or_code() -> None:
    assert {name: DOORS.findall(text) for name, text in TEXTS.items() if DOORS.search(text)} == {}


def test_nothing_comes_from_elsewhere() -> None:
    found = {address for text in TEXTS.values() for address in ADDRESS.findall(text)}
    assert found == HARMLESS


def test_what_the_page_names_is_there() -> None:
    named = re.findall(r'(?:src|href)="/static/([^"]+)"', TEXTS["index.html"])
    assert "app.js" in named
    assert set(named) <= set(TEXTS)
