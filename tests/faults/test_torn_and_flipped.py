"""More ways to cut and to flip, on streams in memory, where a try costs less than a millisecond.

test_truncation.py and test_flipped_bits.py do it to the files of a killed server. Here data and
index are cut independently of each other, streams were closed in order or not, and data had been
overwritten before.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from failure_logs import show_on_failure
from faults.ledger import read_from
from log.helpers import every_bit, flip
from penstock import StreamManagerClient
from penstock.log.memory import Memory
from penstock.model import KIB, MessageStreamDefinition, StrategyOnFull
from penstock.streams.exports import ExportProgress
from penstock.streams.manager import StreamManager
from penstock.streams.stream import Stream
from penstock.streams.verify import verify_store
from server_process import ServerProcess
from streams.helpers import append, contents, contents_and_damage, definition, exporting, kinesis

REJECT = StrategyOnFull.RejectNewData
OVERWRITE = StrategyOnFull.OverwriteOldestData
FOLDER = "/s"
# Four segments of 256 bytes: SDKs' default segment is larger than such a stream.
SMALL = {"max_size": KIB, "stream_segment_size": 16 * KIB}


class StoredStream:
    """The files of a stream, and what was acknowledged."""

    def __init__(self, made: MessageStreamDefinition, message_count: int, *, orderly: bool) -> None:
        self.definition = made
        memory = Memory()
        stream = Stream(memory, FOLDER, made)
        for number in range(message_count):
            payload = b"m%d" % number + b"." * (number % 5)
            append(stream, [payload])
        stream.exports.save(ExportProgress("k", "KinesisConfig", 0, 2))
        self.told = contents(stream)
        if orderly:
            stream.close()
        else:
            stream.abandon()
        self.files = {
            name: memory.open(f"{FOLDER}/{name}").read_at(1 << 20, 0)
            for name in memory.list_folder(FOLDER)
        }

    def opened(self, changes: dict[str, bytes]) -> tuple[Memory, Stream]:
        memory = Memory()
        for name, content in (self.files | changes).items():
            memory.open(f"{FOLDER}/{name}").write_at(content, 0)
        return memory, Stream(memory, FOLDER, self.definition)

    def check(self, changes: dict[str, bytes]) -> Stream:
        """Open with changed files: nothing is lost silently, and everything goes on."""
        memory, stream = self.opened(changes)
        found, damaged = contents_and_damage(stream)
        assert found.items() <= self.told.items(), "an invented message"
        lost = self.told.keys() - found.keys()
        assert lost <= damaged or stream.notices, "a loss was not reported"
        number = append(stream, [b"next"])
        assert number > max(self.told), "a number was given twice"
        stream.abandon()
        again = Stream(memory, FOLDER, self.definition)
        assert again.notices == [], "the second start is clean"
        assert contents(again).items() >= ({number: b"next"}).items()
        assert append(again, [b"and on"]) == number + 1
        return stream


@pytest.mark.parametrize("orderly", [False, True])
def test_data_and_index_may_each_end_anywhere(orderly: bool) -> None:
    store = StoredStream(definition(**SMALL), 11, orderly=orderly)
    data_name, index_name = sorted(name for name in store.files if name[0] == "0")[-2:]
    data, index = store.files[data_name], store.files[index_name]
    assert len(data) > 8
    assert len(index) >= 3 * 32
    for data_end in range(len(data) + 1):
        for index_end in range(len(index) + 1):
            store.check({data_name: data[:data_end], index_name: index[:index_end]})


KINDS = {
    "killed": (definition(**SMALL, export_definition=exporting(kinesis())), 12, False),
    "closed": (definition(**SMALL, export_definition=exporting(kinesis())), 12, True),
    "overwritten": (
        definition(
            **SMALL,
            strategy_on_full=OVERWRITE,
            flush_on_write=True,
            export_definition=exporting(kinesis()),
        ),
        60,
        False,
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_bit_of_every_file_may_flip(kind: str) -> None:
    made, message_count, orderly = KINDS[kind]
    store = StoredStream(made, message_count, orderly=orderly)
    assert len([name for name in store.files if name.endswith(".index")]) > 1
    for name, content in store.files.items():
        for changed in every_bit(content):
            stream = store.check({name: changed})
            assert stream.exports.progress["k"].last_exported_sequence in (2, -1)


# --- many damaged streams, one real server -----------------------------------------------------

FILES = ("00.data", "00.index", "last.data", "last.index", "mark", "exports", "stream.json")
PARTS = (0.0, 0.35, 0.6, 0.99)
MESSAGES = {number: b"message %d" % number for number in range(12)}


def damaged_file(folder: Path, kind: str) -> Path:
    if kind.startswith(("00", "last")):
        found = sorted(folder.glob(f"0*.{kind.split('.')[1]}"))
        return found[0 if kind.startswith("00") else -1]
    return folder / kind


def cases() -> Iterator[tuple[str, str, float]]:
    for kind in FILES:
        for part in PARTS:
            yield f"{kind} {part}", kind, part


def test_a_server_starts_on_a_store_in_which_every_stream_is_damaged(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    server = ServerProcess(tmp_path)
    show_on_failure(request, server.log_path)
    manager = StreamManager(str(server.data_dir))
    folders = {}
    for name, _, _ in cases():
        stream = manager.create(definition(name, **SMALL, export_definition=exporting(kinesis())))
        for payload in MESSAGES.values():
            append(stream, [payload])
        stream.exports.save(ExportProgress("k", "KinesisConfig", 0, 2))
        folders[name] = Path(stream.folder)
        stream.abandon()
    for name, kind, part in cases():
        path = damaged_file(folders[name], kind)
        flip(path, int(path.stat().st_size * 8 * part))
    report = verify_store(str(server.data_dir))
    assert {stream.name for stream in report.streams if stream.findings} == set(folders)

    with server, StreamManagerClient(port=server.port) as client:
        assert client.list_streams() == sorted(folders)
        for name, folder in folders.items():
            found, damaged = read_from(client, name, 0)
            assert found.items() <= MESSAGES.items()
            lost = MESSAGES.keys() - found.keys() - damaged
            assert not lost or f"Stream {name}: " in server.log
            number = client.append_message(name, b"next")
            assert number > max(MESSAGES)
            assert os.path.isdir(folder)
        server.stop()
        assert "Traceback" not in server.log
