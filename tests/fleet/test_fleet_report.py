"""`penstock fleet report`: what many servers and stores hold, and what is wrong with them."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import CommandLine
from many_servers import STREAM, ManyServers, many_servers, payloads_of

from penstock.client.sync import StreamManagerClient
from penstock.survey_model import Run

SOUND, HOLED, REPEATING, FAST, SILENT = range(5)
# Nine messages of 80 bytes fill a segment of 1 KiB.
PER_SEGMENT = 9


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManyServers]:
    """Four servers that answer, three of them with something to find, and one that is down."""
    with many_servers(tmp_path_factory.mktemp("servers"), 5) as running:
        running.fill(SOUND, payloads_of(SOUND))
        make_hole(running)
        running.fill(REPEATING, [b"a", b"b", b"a", b"c", b"d", b"e", b"b"])
        running.set_clock(FAST, ahead_ms=3_600_000)
        running.fill(FAST, sized(0, PER_SEGMENT))
        running.set_clock(FAST, ahead_ms=1_800_000)
        running.fill(FAST, sized(PER_SEGMENT, 2 * PER_SEGMENT))
        running.stop(SILENT)
        yield running


def make_hole(servers: ManyServers) -> None:
    """Take the second of three segments away, as a lost file or a bad disk does."""
    servers.fill(HOLED, sized(0, 3 * PER_SEGMENT))
    servers.stop(HOLED)
    (folder,) = (servers.path(HOLED) / "streams").iterdir()
    for suffix in ("data", "index"):
        (folder / f"{PER_SEGMENT:020d}.{suffix}").unlink()
    servers.start(HOLED)


def sized(first: int, stop: int) -> list[bytes]:
    return [b"%080d" % number for number in range(first, stop)]


@pytest.fixture
def penstock(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path)


def asked(servers: ManyServers, *numbers: int) -> list[str]:
    return ["fleet", "report", "--servers", ",".join(servers.name(each) for each in numbers)]


def test_servers_that_are_well_are_listed_and_the_status_is_0(
    servers: ManyServers, penstock: CommandLine
) -> None:
    result = penstock.succeeds(*asked(servers, SOUND))
    assert result.lines[0].split() == (
        ["SERVER", "STREAM", "FIRST", "LAST", "MESSAGES", "MISSING", "NEWEST", "CLOCK", "MS"]
    )
    assert result.lines[1].split()[:6] == [servers.name(SOUND), STREAM, "0", "4", "5", "0"]
    assert result.lines[-1] == "1 of 1 place answered: 1 stream, 5 messages, 0 findings."


def test_everything_that_is_wrong_is_found(servers: ManyServers, penstock: CommandLine) -> None:
    result = penstock(*asked(servers, SOUND, HOLED, REPEATING, FAST), "--duplicates", "--json")
    assert (result.status, result.errors) == (1, "")
    found = {(each["name"], each["text"]) for each in result.json["findings"]}
    stream = f"stream {STREAM}:"
    assert (servers.name(HOLED), f"{stream} 9 numbers are missing: 9 to 17") in found
    repeated = "2 messages repeat a payload, the first of them 2 that of 0"
    assert (servers.name(REPEATING), f"{stream} {repeated}") in found
    fast = {text for name, text in found if name == servers.name(FAST)}
    assert f"{stream} ingest times run backwards 1 times" in fast
    assert any(text.startswith("its clock is 1,") and "ahead of ours" in text for text in fast)
    assert any("in the future" in text for text in fast)
    assert len(found) == 5
    places = {place["name"]: place for place in result.json["places"]}
    assert abs(places[servers.name(FAST)]["clockAheadMillis"] - 1_800_000) < 60_000
    (holed,) = places[servers.name(HOLED)]["streams"]
    assert holed["gaps"] == [{"first": 9, "last": 17}]
    assert (holed["messageCount"], holed["lastSequenceNumber"]) == (18, 26)


def test_duplicates_are_looked_for_only_on_demand_and_within_the_window(
    servers: ManyServers, penstock: CommandLine
) -> None:
    command = asked(servers, REPEATING)
    assert penstock(*command).status == 0
    near = penstock(*command, "--duplicates", "--window", "4", "--json")
    (stream,) = near.json["places"][0]["streams"]
    assert stream["duplicates"] == [{"sequenceNumber": 2, "earlier": 0}]
    assert penstock(*command, "--duplicates", "--window", "1").status == 0


def test_who_does_not_answer_is_named_with_the_reason_and_stops_nobody(
    servers: ManyServers, penstock: CommandLine
) -> None:
    result = penstock(*asked(servers, SILENT, SOUND))
    assert result.status == 3
    assert f"Not asked: {servers.name(SILENT)}: no stream manager " in result.text
    assert result.lines[-1] == "1 of 2 places answered: 1 stream, 5 messages, 0 findings."


def test_a_server_that_accepts_and_says_nothing_costs_no_more_than_the_timeout(
    servers: ManyServers, penstock: CommandLine
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        name = f"mute=127.0.0.1:{mute.getsockname()[1]}"
        result = penstock(*asked(servers, SOUND), "--servers", name, "--timeout", "0.5")
    assert result.status == 3
    assert "Not asked: mute: it did not answer within 0.5 s" in result.text


def test_a_file_can_name_the_servers(
    servers: ManyServers, penstock: CommandLine, tmp_path: Path
) -> None:
    lines = ["# our devices", f"pump-1={servers.name(SOUND)}  # in the cellar", ""]
    (tmp_path / "devices.txt").write_text("\n".join(lines))
    result = penstock.succeeds("fleet", "report", "--servers", "@devices.txt", "--json")
    assert [place["name"] for place in result.json["places"]] == ["pump-1"]


def test_copies_are_looked_at_like_servers_and_left_as_they_are(
    servers: ManyServers, penstock: CommandLine, tmp_path: Path
) -> None:
    for number in (SOUND, HOLED, SILENT):
        shutil.copytree(servers.path(number), tmp_path / "copies" / str(number))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    copies = str(tmp_path / "copies" / "*")

    result = penstock("fleet", "report", "--paths", copies, "--duplicates", "--json")

    assert result.status == 1
    assert [place["name"] for place in result.json["places"]] == sorted(
        str(tmp_path / "copies" / str(number)) for number in (SOUND, HOLED, SILENT)
    )
    (finding,) = result.json["findings"]
    assert finding["text"] == f"stream {STREAM}: 9 numbers are missing: 9 to 17"
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "Whom to ask is not said. Give --servers or --paths."),
        (["--servers", "here"], "--servers here is not HOST:PORT."),
        (["--servers", "here:70000"], "--servers here:70000 is not HOST:PORT."),
        (["--servers", "a=x:1,a=x:2"], "--servers names two different a."),
        (["--paths", "nothing-*"], "--paths nothing-* matches no folder."),
    ],
)
def test_wrong_usage_is_named(penstock: CommandLine, arguments: list[str], complaint: str) -> None:
    result = penstock("fleet", "report", *arguments)
    assert (result.status, result.errors) == (2, f"penstock: {complaint}\n")


def test_a_folder_that_is_no_store_is_named(penstock: CommandLine, tmp_path: Path) -> None:
    result = penstock("fleet", "report", "--paths", str(tmp_path))
    assert result.status == 3
    assert f"Not asked: {tmp_path}: it is not a Penstock data directory" in result.text


def test_a_survey_tells_numbers_bytes_and_times_without_a_payload(servers: ManyServers) -> None:
    port = int(servers.name(HOLED).rpartition(":")[2])
    with StreamManagerClient(port=port) as client:
        (stream,) = client.survey_streams().streams
        info = client.describe_message_stream(STREAM)
    assert stream.runs == [Run(0, PER_SEGMENT), Run(2 * PER_SEGMENT, 3 * PER_SEGMENT)]
    assert stream.total_bytes == info.storage_status.total_bytes
    assert stream.message_count == 2 * PER_SEGMENT
    assert stream.oldest_time is not None
    assert stream.newest_time is not None
    assert stream.oldest_time <= stream.newest_time
