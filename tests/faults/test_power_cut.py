"""The power goes: what was synced is there, what is lost is said, no number is given twice."""

from __future__ import annotations

import json
import os
import random
import struct
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import pytest

from failure_logs import show_on_failure
from faults.ledger import read_from
from log.helpers import files
from log.power_cut import PowerCutDisk
from penstock import StreamManagerClient
from penstock.block import ENTRY_BYTES
from penstock.log.disk import Disk
from penstock.log.mark import Mark
from penstock.model import KIB, MessageStreamDefinition, StrategyOnFull
from penstock.streams.exports import ExportProgress
from penstock.streams.manager import StreamManager, read_definition
from penstock.streams.store import LOCK_NAME
from penstock.streams.stream import Stream
from server_process import ServerProcess
from streams.helpers import contents_and_damage, definition, exporting, kinesis

OVERWRITE = StrategyOnFull.OverwriteOldestData
REJECT = StrategyOnFull.RejectNewData


# --- a disk that can lose its power ------------------------------------------------------------


class Life:
    """A stream on a disk whose power is cut, and what people were told about it."""

    def __init__(self, chance: random.Random, *, flushed: bool, overwrite: bool) -> None:
        self.chance = chance
        self.definition = definition(
            strategy_on_full=OVERWRITE if overwrite else REJECT,
            max_size=16 * KIB if overwrite else 1 << 20,
            flush_on_write=flushed,
            export_definition=exporting(kinesis()),
        )
        self.flushed = flushed
        self.disk = PowerCutDisk()
        self.stream = Stream(self.disk, "/s", self.definition)
        self.told: dict[int, bytes] = {}
        self.kept: set[int] = set()  # told, and not yet overwritten
        self.written: dict[int, bytes] = {}
        self.payload_count = 0

    def work(self) -> None:
        for _ in range(self.chance.randint(1, 12)):
            self.append()
            if self.chance.random() < 0.3:
                self.export()
            if self.chance.random() < 0.1:
                self.stream.close()
                self.stream = Stream(self.disk, "/s", self.definition)
        if self.flushed and self.chance.random() < 0.5:
            self.append(told=False)

    def append(self, *, told: bool = True) -> None:
        payloads = [self.payload() for _ in range(self.chance.randint(1, 8))]
        first = self.stream.append(b"".join(payloads), list(map(len, payloads)), 1)
        self.written.update(enumerate(payloads, first))
        oldest = self.stream.log.first_sequence
        self.kept = {n for n in self.kept if n >= oldest}
        if not told:
            return
        if self.flushed:
            self.stream.log.begin_sync()()
        self.stream.show_appended(self.stream.log.next_sequence)
        for number, payload in enumerate(payloads, first):
            assert number not in self.told, "a number was given twice"
            self.told[number] = payload
            self.kept.add(number)

    def export(self) -> None:
        """Everything that is visible goes out."""
        last = self.stream.visible_next - 1
        self.stream.exports.save(ExportProgress("k", "KinesisConfig", 0, last))

    def payload(self) -> bytes:
        self.payload_count += 1
        size = self.chance.choice((1, 40, 40, 40, 1500))
        return b"%d." % self.payload_count + b"p" * size

    def cut_power(self) -> None:
        self.disk = self.disk.cut(lambda most: self.chance.randint(0, most))
        self.stream = Stream(self.disk, "/s", self.definition, power_lost=True)
        found, damaged = contents_and_damage(self.stream)
        assert all(self.written[n] == payload for n, payload in found.items())
        lost = self.kept - found.keys()
        if self.flushed:
            assert not lost, "it was synced before anybody was told"
        assert lost <= damaged or self.stream.notices, "a loss was not reported"
        assert self.stream.visible_next > max(self.told, default=-1)
        position = self.stream.exports.progress["k"].last_exported_sequence
        assert position < self.stream.visible_next, "new messages would count as exported"
        self.told.update(found)  # readers see it now
        self.kept = set(found)


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("flushed", [False, True])
def test_a_stream_survives_power_cuts(flushed: bool, overwrite: bool) -> None:
    for seed in range(60):
        life = Life(random.Random(seed), flushed=flushed, overwrite=overwrite)
        for _ in range(5):
            life.work()
            life.cut_power()


@pytest.mark.slow
@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("flushed", [False, True])
def test_a_stream_survives_thousands_of_power_cuts(flushed: bool, overwrite: bool) -> None:
    for seed in range(100, 3000):
        life = Life(random.Random(seed), flushed=flushed, overwrite=overwrite)
        for _ in range(8):
            life.work()
            life.cut_power()


# --- a real store, made to look like after a power cut -----------------------------------------

MESSAGE_COUNT = 3000


def cut(path: Path, share: float) -> None:
    os.truncate(path, int(path.stat().st_size * share))


def zero(path: Path, share: float) -> None:
    """The file has its size, and its end never arrived."""
    size = path.stat().st_size
    kept = path.read_bytes()[: int(size * share)]
    path.write_bytes(kept.ljust(size, b"\0"))


def grow(path: Path, byte_count: int) -> None:
    with open(path, "ab") as file:
        file.write(bytes(byte_count))


def last(folder: Path, ending: str) -> Path:
    return files(folder, ending)[-1]


def remove_last_segment(folder: Path) -> None:
    for ending in (".data", ".index"):
        last(folder, ending).unlink()


def cut_all_segments(folder: Path) -> None:
    for path in files(folder, ".data", ".index"):
        cut(path, 0.7)


SHAPES: dict[str, Callable[[Path], None]] = {
    "nothing lost": lambda folder: None,
    "data cut": lambda folder: cut(last(folder, ".data"), 0.6),
    "index cut": lambda folder: cut(last(folder, ".index"), 0.6),
    "data zero": lambda folder: zero(last(folder, ".data"), 0.3),
    "index zero": lambda folder: zero(last(folder, ".index"), 0.3),
    "index longer": lambda folder: grow(last(folder, ".index"), 5 * ENTRY_BYTES + 3),
    "data longer": lambda folder: grow(last(folder, ".data"), 1000),
    "last segment gone": remove_last_segment,
    "index gone": lambda folder: last(folder, ".index").unlink(),
    "data gone": lambda folder: last(folder, ".data").unlink(),
    "all segments cut": cut_all_segments,
}


def folders_by_name(root: Path) -> dict[str, Path]:
    return {
        read_definition(Disk(), str(folder))[0].name: folder
        for folder in (root / "streams").iterdir()
    }


def roll_back_mark(folder: Path) -> None:
    """The oldest content that can be on disk: only the reservation was ever synced."""
    reserved = Mark(Disk(), str(folder / "mark")).reserved_sequence
    body = struct.pack("<8sQQ", b"penmark1", 0, reserved)
    (folder / "mark").write_bytes(body + struct.pack("<I", crc32(body)))


def pretend_reboot(root: Path) -> None:
    (root / LOCK_NAME).write_text(json.dumps({"process": 1, "boot": "another one"}))


def test_after_a_power_cut_the_server_starts_and_gives_no_number_twice(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    server = ServerProcess(tmp_path)
    show_on_failure(request, server.log_path)
    payloads = [b"message %d" % number for number in range(MESSAGE_COUNT)]
    told = dict(enumerate(payloads))
    flushed = MessageStreamDefinition(
        "flushed", 1 << 20, 16 * KIB, None, REJECT, flush_on_write=True
    )
    with server:
        with StreamManagerClient(port=server.port) as client:
            client.create_message_stream(flushed)
            client.append_messages("flushed", payloads)
            for name in SHAPES:
                client.create_message_stream(
                    MessageStreamDefinition(name, 1 << 20, 16 * KIB, None, REJECT)
                )
                for start in range(0, MESSAGE_COUNT, 500):
                    client.append_messages(name, payloads[start : start + 500])
        server.kill()

        folders = folders_by_name(server.data_dir)
        for name, lose in SHAPES.items():
            lose(folders[name])
            roll_back_mark(folders[name])
        (folders["flushed"] / "mark").write_bytes(b"")
        pretend_reboot(server.data_dir)

        server.start()
        with StreamManagerClient(port=server.port) as client:
            assert client.list_streams() == sorted([*SHAPES, "flushed"])
            assert read_from(client, "flushed", 0) == (told, set())
            assert client.append_message("flushed", b"next") == MESSAGE_COUNT
            for name in SHAPES:
                found, damaged = read_from(client, name, 0)
                assert found.items() <= told.items(), f"{name}: invented"
                lost = told.keys() - found.keys() - damaged
                assert bool(lost) == (name not in ("nothing lost", "index longer", "data longer"))
                assert not lost or f"Stream {name}: " in server.log, f"{name}: not reported"
                assert client.append_message(name, b"next") >= MESSAGE_COUNT
        server.stop()
        assert "Traceback" not in server.log

    manager = StreamManager(str(server.data_dir))
    for stream in manager:
        assert stream.notices == [], "the second start is clean"
    assert manager.close() == []
