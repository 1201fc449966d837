"""What the documents say about the code and about each other is so."""

from __future__ import annotations

import re
from typing import Any

import client_reference
import yaml
from fenced import ROOT, blocks_of, pages

from penstock.block import make_entries
from penstock.protocol.codec import decode_request, encode, load_map
from penstock.protocol.framing import FrameDecoder
from penstock.protocol.operations import AppendMessagesRequest, Operation
from penstock.settings import SETTINGS

CONSOLE_FILES = ("api.py", "app.py")
# In Markdown, and as HTML has it.
PICTURE = r'(?:!\[[^\]]*\]\(|src="|srcset=")([^)"]+\.png)'


def test_every_page_is_in_the_navigation() -> None:
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert pages == set(named_pages(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]))


def named_pages(entry: Any) -> list[str]:
    """The pages below an entry of the navigation: a page, {title: entry}, or a list of both."""
    if isinstance(entry, str):
        return [entry]
    entries = entry.values() if isinstance(entry, dict) else entry
    return [page for each in entries for page in named_pages(each)]


def test_every_picture_is_there() -> None:
    """Links are checked when the pages are built; pictures, and the README, are not."""
    shown = [
        (ROOT / page).parent / path
        for page in pages()
        for path in re.findall(PICTURE, (ROOT / page).read_text())
    ]
    assert len(shown) >= 3
    assert not [path for path in shown if not path.is_file()]


def test_every_link_of_the_readme_leads_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", (ROOT / "README.md").read_text())

    assert len(links) > 20
    assert not [link for link in links if not (ROOT / link).exists()]


def test_every_test_that_the_page_on_reliability_names_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs/reliability.md").read_text()))
    sources = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    defined = set(re.findall(r"def (test_\w+)\(", sources))

    assert len(named) > 20
    assert named <= defined


def test_the_reference_of_the_client_is_up_to_date() -> None:
    text = (ROOT / "docs/client-api.md").read_text()
    assert text == client_reference.page(), (
        "run `python tests/docs/client_reference.py > docs/client-api.md`"
    )


def test_the_page_for_users_of_aws_has_every_variable_of_theirs() -> None:
    page = (ROOT / "docs/moving-from-aws.md").read_text()
    table = dict(re.findall(r"^\| `([A-Z0-9_]+)` \| `(\w+)` \|", page, re.MULTILINE))
    theirs = {
        name: key
        for key, setting in SETTINGS.items()
        for name in setting.variables
        if not name.startswith("PENSTOCK_")
    }
    # A name that AWS had once, and one that is the clients'.
    del theirs["STREAM_MANAGER_THREAD_POOL_SIZE"], theirs["STREAM_MANAGER_SERVER_HOST"]

    assert table == theirs


def test_the_page_on_the_console_s_interface_has_every_route() -> None:
    sources = "".join((ROOT / "src/penstock/console" / name).read_text() for name in CONSOLE_FILES)
    routes = {
        f"{method or 'GET'} {path}"
        for path, method in re.findall(
            r'Route\("(/[^"]*)", [\w.]+(?:, methods=\["(\w+)"\])?', sources
        )
    }
    page = (ROOT / "docs/http-api.md").read_text()

    assert len(routes) > 20, "the routes are written in another way: adapt this test"
    assert set(re.findall(r"^\| `([A-Z]+ /[^`]*)` \|", page, re.MULTILINE)) == routes


def shown_bytes(page: str) -> list[bytes]:
    blocks = [block.text for block in blocks_of(page) if block.language == "hex"]
    return [bytes.fromhex(re.sub(r"#.*", "", text)) for text in blocks]


def test_the_bytes_of_the_wire_protocol_are_what_is_sent() -> None:
    request, response, entries = shown_bytes("docs/wire-protocol.md")

    ((operation, payload),) = FrameDecoder().feed(request)
    decoded = decode_request(AppendMessagesRequest, load_map(payload))
    assert operation == Operation.AppendMessages
    assert (decoded.request_id, decoded.name, decoded.data) == ("7", "S", b"hellohi")
    assert encode(Operation.AppendMessages, decoded) == request
    ((operation, payload),) = FrameDecoder().feed(response)
    assert operation == Operation.AppendMessagesResponse
    assert load_map(payload)["lastSequenceNumber"] == 1
    stored, _ = make_entries(
        b"hellohi", [5, 2], end=0, time_ms=1_700_000_000_000, sequence=0, checksum=0
    )
    assert entries == stored
