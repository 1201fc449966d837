"""Creating, updating and deleting streams on a disk that fails at any moment."""

from __future__ import annotations

import os
from pathlib import Path

from log.faulty_disk import FaultyDisk
from penstock.errors import (
    ResourceNotFoundException,
    UnknownFailureException,
    UpdateFailedException,
)
from penstock.streams.manager import StreamManager
from streams.helpers import append, definition


class Owner:
    """Somebody who creates, changes and deletes streams, and knows what was acknowledged."""

    def __init__(self, root: str, disk: FaultyDisk) -> None:
        self.manager = StreamManager(root, disk=disk)
        self.refused_count = 0
        self.made: dict[str, object] = {}

    def run(self) -> None:
        self.create("a")
        self.create("b")
        self.update("a", 60_000)
        self.delete("b")
        self.create("c")
        self.update("c", 70_000)
        self.delete("a")

    def create(self, name: str) -> None:
        try:
            self.manager.create(definition(name))
        except UnknownFailureException:
            self.refused_count += 1
        else:
            self.made[name] = definition(name)

    def update(self, name: str, time_to_live_ms: int) -> None:
        new = definition(name, time_to_live_millis=time_to_live_ms)
        try:
            self.manager.update(new)
        except (UpdateFailedException, ResourceNotFoundException):
            self.refused_count += 1
        else:
            self.made[name] = new

    def delete(self, name: str) -> None:
        try:
            self.manager.delete(name)
        except (UnknownFailureException, ResourceNotFoundException):
            self.refused_count += 1
        else:
            del self.made[name]


def test_any_single_operation_may_fail(tmp_path: Path) -> None:
    sound = FaultyDisk()
    owner = Owner(f"{tmp_path}/sound", sound)
    owner.run()
    assert owner.refused_count == 0
    refused_count = 0
    for number in range(2, sound.faults.count + 1):  # the first one makes the store's folder
        root = f"{tmp_path}/{number}"
        disk = FaultyDisk()
        disk.faults.fail_once(number)
        owner = Owner(root, disk)
        owner.run()
        refused_count += owner.refused_count
        disk.faults.heal()
        for manager in (owner.manager, StreamManager(root)):
            assert {stream.name: stream.definition for stream in manager} == owner.made
            for stream in manager:
                assert append(stream, [b"x"]) == stream.visible_next - 1
            assert manager.close() == []
        for name in os.listdir(f"{root}/streams"):
            assert name.endswith((".creating", ".deleting")) or len(name) == 16
    assert refused_count > 20
