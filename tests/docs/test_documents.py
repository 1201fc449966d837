"""What the documents show works as it stands there."""

from __future__ import annotations

from pathlib import Path

import pytest
from fenced import Fenced, blocks_in, blocks_of, pages
from needs import NEEDS, Needs, World
from staying import open_shells
from walk import NOT_CODE, Walk, reader_environment

PAGES = [
    page
    for page in pages()
    if any(block.language not in NOT_CODE and not block.not_run for block in blocks_of(page))
]
# Each is a snippet that nobody has tried: a new one wants a second thought.
NOT_RUN_MAX = 18


@pytest.fixture
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    return World(request, tmp_path)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_can_be_followed_from_top_to_bottom(
    page: str, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs = NEEDS.get(page, Needs())
    if not needs.own_server:
        for name in world.client.list_streams():
            world.client.delete_message_stream(name)
    prepared = needs.before(world)
    environment = reader_environment(tmp_path) | prepared.variables
    with open_shells(tmp_path, environment) as shells:
        walk = Walk(shells, dict(prepared.names), dict(prepared.replaced), monkeypatch)
        walk.use_server(0 if needs.own_server else world.server.port)
        for block in blocks_of(page):
            if block.language not in NOT_CODE and not block.not_run:
                walk.follow(block)
        needs.after(world, walk)


def test_every_need_is_that_of_a_page() -> None:
    assert set(NEEDS) <= set(PAGES)


def test_every_block_says_what_it_is() -> None:
    nameless = [block.place for page in pages() for block in blocks_of(page) if not block.language]
    assert not nameless, "name the language; `text` is for output and pictures"


def test_blocks_that_are_not_run_say_why_and_are_few(
    record_property: pytest.RecordProperty,
) -> None:
    not_run = [block for page in pages() for block in blocks_of(page) if block.not_run]
    for block in not_run:
        record_property("not run", f"{block.place}: {block.not_run}")
        print(f"{block.place}: {block.not_run}")
    assert all(len(block.not_run or "") > len("needs a line") for block in not_run)
    assert len(not_run) <= NOT_RUN_MAX


def test_blocks_are_found_with_their_line_language_and_mark() -> None:
    text = (
        "# Page\n\n```sh\none\n```\n\n<!-- not run: no disk -->\n  ```python\n  two\n  ```\n"
        "<!-- file: a.py -->\n```python\nthree\n\nfour\n```\n"
    )

    assert blocks_in(text, "page.md") == [
        Fenced("page.md", 4, "sh", "one\n"),
        Fenced("page.md", 9, "python", "two\n", not_run="no disk"),
        Fenced("page.md", 13, "python", "three\n\nfour\n", file_name="a.py"),
    ]


def test_a_block_without_an_end_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"page.md:1: this block has no end"):
        blocks_in("```sh\nls\n", "page.md")
