"""A real server whose pipeline runs real transforms, and a cloud for exports."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from penstock.client.sync import StreamManagerClient
from penstock.errors import NotEnoughMessagesException
from penstock.model import (
    ExportDefinition,
    MessageStreamDefinition,
    ReadMessagesOptions,
    StrategyOnFull,
)
from penstock.testing import LocalCloud
from penstock.transforms.reports import TransformView
from server_process import ServerProcess, clean_environment

# Java, a session, and a Python process for each query; the rest is for a busy machine.
START_S = 240.0
BATCH_S = 60.0
POLL_S = 0.05
COMMAND_S = 150.0


class Result(NamedTuple):
    """What a command printed, and how it ended."""

    status: int
    lines: list[str]
    errors: str


class TransformRig:
    """The parts, and how to wait for what they do."""

    def __init__(self, folder: Path, cloud: LocalCloud, server: ServerProcess) -> None:
        self.folder = folder
        self.cloud = cloud
        self.server = server
        self.client = StreamManagerClient(port=server.port)

    def create(self, name: str, exports: ExportDefinition | None = None) -> None:
        self.client.create_message_stream(
            MessageStreamDefinition(
                name,
                strategy_on_full=StrategyOnFull.OverwriteOldestData,
                export_definition=exports or ExportDefinition(),
            )
        )

    def append(self, stream: str, values: Sequence[object]) -> None:
        """Bytes as they are, anything else as JSON."""
        self.client.append_messages(
            stream,
            [each if isinstance(each, bytes) else json.dumps(each).encode() for each in values],
        )

    def payloads(self, stream: str) -> list[bytes]:
        try:
            found = self.client.read_messages(stream, ReadMessagesOptions(0, 1, 100_000))
        except NotEnoughMessagesException:
            return []
        return [message.payload for message in found]

    def rows(self, stream: str) -> list[Any]:
        return [json.loads(payload) for payload in self.payloads(stream)]

    def view(self, name: str) -> TransformView:
        (found,) = [each for each in self.client.describe_transforms() if each.name == name]
        return found

    def letters(self, name: str) -> dict[int, str]:
        """The reasons of a transform's dead letters, by sequence number."""
        found = self.client.find_dead_letters(export_identifier=f"transform {name}", count_max=1000)
        return {letter.sequence_number: letter.reason for letter in found}

    def wait_for_state(self, name: str, state: str) -> TransformView:
        self._wait(lambda: self.view(name).state == state, name, f"to be {state}", START_S)
        return self.view(name)

    def wait_until_read(self, name: str, count: int) -> TransformView:
        """Until everything below number `count` has gone through."""
        self._wait(
            lambda: (self.view(name).next_sequence_number or 0) >= count,
            name,
            f"to have read {count} messages",
            START_S,
        )
        return self.view(name)

    def wait_for_letters(self, name: str, count: int) -> dict[int, str]:
        self._wait(lambda: len(self.letters(name)) >= count, name, f"to have {count} letters")
        return self.letters(name)

    def kill_pipeline(self) -> None:
        """The driver, by SIGKILL; Java and the workers end with it."""
        process_id = self.client.describe_exports().pipeline.process_id
        assert process_id is not None, "there is no pipeline to kill"
        os.kill(process_id, signal.SIGKILL)

    def restart_with(self, config: str) -> None:
        self.server.stop()
        config_path(self.folder).write_text(config)
        self.server.restart()

    def command(self, *arguments: str) -> Result:
        return command(self.folder, *arguments)

    def _wait(
        self, condition: Callable[[], bool], name: str, what: str, timeout_s: float = BATCH_S
    ) -> None:
        wait_until(condition, f"transform {name} {what}", timeout_s, lambda: self.view(name))


@contextmanager
def running_transforms(folder: Path, config: str) -> Iterator[TransformRig]:
    config_path(folder).write_text(config)
    with LocalCloud() as cloud:
        server = ServerProcess(
            folder,
            "--config",
            str(config_path(folder)),
            env={"PENSTOCK_PIPELINE": "embedded", **cloud.environment()},
        )
        with server:
            rig = TransformRig(folder, cloud, server)
            try:
                yield rig
            finally:
                rig.client.close()


def config_path(folder: Path) -> Path:
    return folder / "penstock.toml"


def command(folder: Path, *arguments: str) -> Result:
    done = subprocess.run(
        [sys.executable, "-m", "penstock", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=folder,
        env=clean_environment(),
        timeout=COMMAND_S,
        text=True,
    )
    return Result(done.returncode, done.stdout.splitlines(), done.stderr)


def wait_until(
    condition: Callable[[], bool], what: str, timeout_s: float, shown: Callable[[], object]
) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout_s} s in vain for {what}: {shown()}")
        time.sleep(POLL_S)
