"""`penstock verify`: a sound store, a damaged one, one that cannot be checked."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import TIMEOUT_S, CommandLine

from server_process import ServerProcess


@pytest.fixture
def store(penstock: CommandLine, server: ServerProcess) -> Path:
    """A data folder with two streams, whose server has stopped."""
    port = ("--port", str(server.port))
    for name in ("one", "two"):
        penstock.succeeds("streams", "create", name, *port)
        penstock.succeeds("append", name, *(f"{name} {n}" for n in range(10)), *port)
    server.stop()
    return server.data_dir


def damage(store: Path, content: bytes) -> None:
    """Flip a bit in the payload of a stored message."""
    for path in store.rglob("*.data"):
        stored = path.read_bytes()
        if content in stored:
            at = stored.index(content)
            path.write_bytes(stored[:at] + bytes([stored[at] ^ 1]) + stored[at + 1 :])
            return
    raise AssertionError(f"no file holds {content!r}")


def test_a_sound_store_is_reported_as_such(penstock: CommandLine, store: Path):
    result = penstock.succeeds("verify", str(store))
    assert result.lines[0].split() == ["STREAM", "MESSAGES", "SIZE", "FIRST", "NEXT", "RESULT"]
    rows = sorted(line.split() for line in result.lines[1:3])
    assert [[row[0], row[1], row[-3], row[-2], row[-1]] for row in rows] == [
        [name, "10", "0", "10", "sound"] for name in ("one", "two")
    ]
    assert result.lines[-1] == "2 streams, 20 messages: sound."


def test_damage_is_reported_with_stream_and_message(penstock: CommandLine, store: Path):
    damage(store, b"two 7")
    result = penstock("verify", str(store))
    assert (result.status, result.errors) == (1, "")
    assert "Damage: two: messages 7 to 7 are damaged" in result.text
    assert result.lines[-1] == "2 streams, 19 messages: 1 finding."


def test_damage_is_in_the_exit_status_even_if_nobody_reads_the_report(
    penstock: CommandLine, store: Path
):
    damage(store, b"one 1")
    process = penstock.started("verify", str(store))
    assert process.stdout is not None
    process.stdout.close()
    assert process.communicate(timeout=TIMEOUT_S)[1] == b""
    assert process.returncode == 1


def test_json_has_everything_for_programs(penstock: CommandLine, store: Path):
    sound = penstock.succeeds("verify", "--json", str(store)).json
    assert sound["damaged"] is False
    streams = sorted(sound["streams"], key=lambda stream: stream["name"])
    assert streams[0] == {
        "name": "one",
        "folder": streams[0]["folder"],
        "messageCount": 10,
        "totalBytes": 10 * (5 + 32),
        "firstSequenceNumber": 0,
        "nextSequenceNumber": 10,
        "findings": [],
        "notes": [],
    }
    assert Path(streams[0]["folder"]).is_dir()

    damage(store, b"one 0")
    damaged = penstock("verify", "--json", str(store))
    assert damaged.status == 1
    assert damaged.json["damaged"] is True
    assert any("messages 0 to 0" in text for s in damaged.json["streams"] for text in s["findings"])


def test_a_store_that_a_server_uses_is_refused(penstock: CommandLine, server: ServerProcess):
    result = penstock("verify", str(server.data_dir))
    assert (result.status, result.output) == (2, b"")
    assert "is in use by process" in result.errors
    assert result.errors.count("\n") == 1


def test_a_folder_that_is_no_store_is_refused(penstock: CommandLine):
    for path in ("missing", str(penstock.folder)):
        result = penstock("verify", path)
        assert (result.status, result.output) == (2, b"")
        assert path in result.errors
        assert result.errors.count("\n") == 1
