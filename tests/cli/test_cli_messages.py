"""`penstock append` and `penstock read`, with every kind of input and output."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import time

import pytest
from command_line import TIMEOUT_S, CommandLine, command

from server_process import ServerProcess


def read(penstock: CommandLine, stream: str, *options: str) -> list[str]:
    return penstock.succeeds("read", stream, *options).lines


# --- append -------------------------------------------------------------------------------------


def test_messages_on_the_command_line_are_appended_in_order(connected: CommandLine, stream: str):
    result = connected.succeeds("append", stream, "one", "zwei ü", "three")
    assert result.text == f"Appended 3 messages to {stream}: numbers 0 to 2 (15 B).\n"
    assert read(connected, stream) == ["one", "zwei ü", "three"]
    assert "number 3 (1 B)" in connected.succeeds("append", stream, "x").text


def test_each_line_of_standard_input_is_a_message(connected: CommandLine, stream: str):
    result = connected.succeeds("append", stream, stdin=b"one\r\n\ntwo\n\xff\xfe\n\n last ")
    assert result.text == (
        f"Appended 4 messages to {stream}: numbers 0 to 3 (14 B). 2 empty lines skipped.\n"
    )
    raw = connected.succeeds("read", stream, "--format", "raw").output
    assert raw == b"onetwo\xff\xfe last "


@pytest.mark.parametrize("how", [["-"], ["--file", "-"], []])
def test_standard_input_can_be_named_or_not(connected: CommandLine, stream: str, how):
    connected.succeeds("append", stream, *how, stdin=b"a\nb\n")
    assert read(connected, stream) == ["a", "b"]


def test_a_file_can_be_one_message(connected: CommandLine, stream: str):
    content = bytes(range(256)) * 4000
    (connected.folder / "blob").write_bytes(content)
    connected.succeeds("append", stream, "--file", "blob", "--whole")
    assert connected.succeeds("read", stream, "--format", "raw").output == content


def test_a_large_file_is_appended_completely_and_reported_as_json(
    connected: CommandLine, stream: str
):
    lines = [f"line {number} " + "x" * (number % 200) for number in range(50_000)]
    text = "\n".join(lines).encode()
    (connected.folder / "lines.txt").write_bytes(text)
    report = connected.succeeds("append", stream, "--file", "lines.txt", "--json").json
    assert report["messageCount"] == 50_000
    assert (report["firstSequenceNumber"], report["lastSequenceNumber"]) == (0, 49_999)
    assert report["totalBytes"] == len(text) - 49_999
    assert report["seconds"] > 0
    assert read(connected, stream) == lines


def test_an_empty_input_appends_nothing(connected: CommandLine, stream: str):
    result = connected.succeeds("append", stream, stdin=b"\n\n")
    assert result.text == f"Appended nothing to {stream}: the input holds no message.\n"
    report = connected.succeeds("append", stream, "--json").json
    assert (report["messageCount"], report["firstSequenceNumber"]) == (0, None)


def test_lines_of_a_slow_pipe_are_appended_as_they_come(connected: CommandLine, stream: str):
    follower = connected.started("read", stream, "--follow")
    writer = connected.started("append", stream, "-")
    assert follower.stdout is not None
    assert writer.stdin is not None
    for line in (b"first\n", b"second\n"):
        writer.stdin.write(line)
        writer.stdin.flush()
        assert follower.stdout.readline() == line
    interrupt(follower)
    output, errors = writer.communicate(timeout=TIMEOUT_S)
    assert b"Appended 2 messages" in output
    assert (writer.returncode, errors) == (0, b"")


def test_a_file_that_is_missing_is_an_error(connected: CommandLine, stream: str):
    result = connected("append", stream, "--file", "missing.txt")
    assert (result.status, result.output) == (1, b"")
    assert result.errors == "penstock: missing.txt: No such file or directory.\n"


def test_an_empty_message_on_the_command_line_is_refused(connected: CommandLine, stream: str):
    result = connected("append", stream, "one", "", "two")
    assert result.status == 2
    assert "a message has at least one byte" in result.errors
    assert connected("read", stream).output == b""


def test_an_append_that_fails_midway_says_how_many_were_stored(connected: CommandLine):
    connected.succeeds("streams", "create", "small", "--max-size", "2MiB", "--segment-size", "1MiB")
    text = "".join(f"{number:0100}\n" for number in range(30_000)).encode()
    result = connected("append", "small", stdin=text)
    assert (result.status, result.output) == (1, b"")
    match = re.fullmatch(
        r"penstock: .*full.* Stored before that: ([\d,]+) messages, numbers 0 to (\d+)\.\n",
        result.errors,
    )
    assert match, result.errors
    stored = int(match[1].replace(",", ""))
    assert stored == int(match[2]) + 1
    assert 5000 < stored < 2 * 1024 * 1024 / 132 + 1
    assert len(read(connected, "small")) == stored


def test_a_server_that_dies_midway_leaves_no_doubt_about_what_is_certain(
    penstock: CommandLine, server: ServerProcess
):
    port = ("--port", str(server.port))
    penstock.succeeds("streams", "create", "s", *port)
    writer = penstock.started("append", "s", "-", *port)
    follower = penstock.started("read", "s", "--follow", "--count", "1", *port)
    assert writer.stdin is not None
    writer.stdin.write(b"one\n")
    writer.stdin.flush()
    assert follower.communicate(timeout=TIMEOUT_S)[0] == b"one\n"
    server.kill()
    output, errors = writer.communicate(b"two\n", timeout=TIMEOUT_S)
    assert (writer.returncode, output) == (3, b"")
    assert b"Stored before that: 1 message, number 0." in errors
    assert errors.count(b"\n") == 1


def test_ctrl_c_during_an_append_says_what_was_stored(connected: CommandLine, stream: str):
    follower = connected.started("read", stream, "--follow", "--count", "2")
    writer = connected.started("append", stream, "-")
    assert writer.stdin is not None
    writer.stdin.write(b"one\ntwo\nunfinished")
    writer.stdin.flush()
    assert follower.communicate(timeout=TIMEOUT_S)[0] == b"one\ntwo\n"
    status, output, errors = interrupt(writer)
    assert (status, output) == (130, b"")
    assert errors == b"penstock: interrupted. Stored before that: 2 messages, numbers 0 to 1.\n"


def test_a_pipe_that_another_program_made_non_blocking_is_read_to_its_end(
    connected: CommandLine, stream: str
):
    source, sink = os.pipe()
    os.set_blocking(source, False)
    writer = subprocess.Popen(
        command("append", stream, "-"),
        stdin=source,
        stdout=subprocess.PIPE,
        cwd=connected.folder,
        env=connected.environment,
    )
    os.close(source)
    for message in (b"one\n", b"two\n"):
        follower = connected.started("read", stream, "--follow", "--count", "1", "--start", "-1")
        os.write(sink, message)
        assert follower.communicate(timeout=TIMEOUT_S)[0]
    os.close(sink)
    assert b"Appended 2 messages" in writer.communicate(timeout=TIMEOUT_S)[0]
    assert writer.returncode == 0


def test_on_a_terminal_a_bar_shows_the_progress_and_then_goes(connected: CommandLine, stream: str):
    (connected.folder / "lines.txt").write_bytes(b"a line of some length\n" * 200_000)
    result = connected.on_terminal("append", stream, "--file", "lines.txt")
    assert result.status == 0
    assert "━" in result.text
    assert re.search(r"[\d,]+ messages, [\d,]+/s", result.text)
    assert result.text.rstrip().splitlines()[-1].startswith("\x1b[1A\x1b[2KAppended 200,000 ")


def test_on_a_terminal_without_input_nothing_waits(connected: CommandLine, stream: str):
    result = connected.on_terminal("append", stream)
    assert result.status == 2
    assert "Nothing to append: give messages, --file, or -" in result.text


# --- read ---------------------------------------------------------------------------------------


@pytest.fixture
def ten(connected: CommandLine, stream: str) -> str:
    """A stream with the messages m0 to m9."""
    connected.succeeds("append", stream, *(f"m{number}" for number in range(10)))
    return stream


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", range(10)),
        ("--start oldest", range(10)),
        ("--start newest", range(9, 10)),
        ("--start 7", range(7, 10)),
        ("--start -3", range(7, 10)),
        ("--start -30", range(10)),
        ("--count 2", range(2)),
        ("--start 8 --count 5", range(8, 10)),
        ("--start -4 --count 2", range(6, 8)),
        ("--start 2 --count 3 --follow", range(2, 5)),
    ],
)
def test_start_and_count_choose_the_messages(connected: CommandLine, ten: str, options, expected):
    assert read(connected, ten, *options.split()) == [f"m{number}" for number in expected]


def test_json_is_an_object_per_line_with_wire_names(connected: CommandLine, ten: str):
    before_ms = time.time() * 1000 - 3_600_000
    for option in (["--json"], ["--format", "json"]):
        found = [json.loads(line) for line in read(connected, ten, *option, "--start", "8")]
        assert [message["sequenceNumber"] for message in found] == [8, 9]
        assert found[0].keys() == {"streamName", "sequenceNumber", "ingestTime", "payload"}
        assert found[0]["streamName"] == ten
        assert base64.b64decode(found[0]["payload"]) == b"m8"
        assert found[0]["ingestTime"] > before_ms


def test_hex_and_raw_show_any_bytes(connected: CommandLine, stream: str):
    connected.succeeds("append", stream, "--whole", stdin=b"\x00\n\xff")
    assert read(connected, stream, "--format", "hex") == ["000aff"]
    assert connected.succeeds("read", stream, "--format", "raw").output == b"\x00\n\xff"
    assert connected.succeeds("read", stream).output == b"\x00\n\xff\n"


@pytest.mark.parametrize(("start", "number"), [("oldest", 0), ("newest", 0), ("5", 5)])
def test_a_stream_without_messages_says_so_and_is_no_error(
    connected: CommandLine, stream: str, start, number
):
    result = connected("read", stream, "--start", start)
    assert (result.status, result.output) == (0, b"")
    assert result.errors == f"penstock: stream {stream} holds no message from number {number} on.\n"


def test_a_start_that_is_no_number_is_wrong_usage(connected: CommandLine, ten: str):
    result = connected("read", ten, "--start", "middle")
    assert (result.status, result.output) == (2, b"")
    assert '"middle" is not a number, oldest or newest' in result.errors


def test_following_shows_what_is_there_then_what_comes_until_ctrl_c(
    connected: CommandLine, ten: str
):
    follower = connected.started("read", ten, "--follow", "--start", "8")
    assert follower.stdout is not None
    assert [follower.stdout.readline() for _ in range(2)] == [b"m8\n", b"m9\n"]
    connected.succeeds("append", ten, "m10")
    assert follower.stdout.readline() == b"m10\n"
    assert interrupt(follower) == (130, b"", b"")


def test_following_from_the_newest_shows_only_what_comes(connected: CommandLine, ten: str):
    follower = connected.started("read", ten, "--follow", "--start", "newest")
    assert follower.stdout is not None
    os.set_blocking(follower.stdout.fileno(), False)
    number, line = 10, b""
    deadline = time.monotonic() + TIMEOUT_S
    while not line and time.monotonic() < deadline:
        connected.succeeds("append", ten, f"new {number}")  # until it has begun to follow
        number += 1
        line = follower.stdout.readline() or b""
    assert line.startswith(b"new ")
    os.set_blocking(follower.stdout.fileno(), True)
    status, _, errors = interrupt(follower)
    assert (status, errors) == (130, b"")


def test_a_follower_survives_a_restart_of_the_server(penstock: CommandLine, server: ServerProcess):
    port = ("--port", str(server.port))
    penstock.succeeds("streams", "create", "s", *port)
    penstock.succeeds("append", "s", "before", *port)
    follower = penstock.started("read", "s", "--follow", *port)
    assert follower.stdout is not None
    assert follower.stdout.readline() == b"before\n"
    server.kill()
    server.restart()
    penstock.succeeds("append", "s", "after", *port)
    assert follower.stdout.readline() == b"after\n"
    status, _, errors = interrupt(follower)
    assert status == 130
    assert all(line.startswith(b"penstock: ") for line in errors.splitlines())


def test_a_closed_pipe_ends_a_read_quietly(connected: CommandLine, stream: str):
    connected.succeeds("append", stream, stdin=b"some text in a line\n" * 50_000)
    reader = connected.started("read", stream)
    assert reader.stdout is not None
    assert reader.stdout.readline() == b"some text in a line\n"
    reader.stdout.close()
    assert reader.communicate(timeout=TIMEOUT_S)[1] == b""
    assert reader.returncode == 0


def test_a_closed_pipe_ends_a_follower_at_the_next_message(connected: CommandLine, ten: str):
    follower = connected.started("read", ten, "--follow")
    assert follower.stdout is not None
    assert follower.stdout.readline() == b"m0\n"
    follower.stdout.close()
    connected.succeeds("append", ten, "one more")
    assert follower.communicate(timeout=TIMEOUT_S)[1] == b""
    assert follower.returncode == 0


def test_on_a_terminal_messages_have_number_and_time_and_cannot_steer_it(
    connected: CommandLine, stream: str
):
    connected.succeeds("append", stream, "--whole", stdin=b"\x1b[31mred\x07\xff\xc3\xa9")
    text = connected.on_terminal("read", stream).text
    assert r"\x1b[31mred\x07\xffé" in text
    assert "\x1b[31m" not in text
    assert re.search(r" 0  \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", text)
    assert "1b 5b 33 31" in connected.on_terminal("read", stream, "--format", "hex").text


def interrupt(process: subprocess.Popen[bytes]) -> tuple[int, bytes, bytes]:
    """Ctrl-C: exit status, and what was still printed."""
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=TIMEOUT_S)
    return process.returncode, output, errors
