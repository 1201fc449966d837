"""A real server with a real pipeline, and a cloud for it to export to."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from penstock.client.sync import StreamManagerClient
from penstock.export_model import ExportView, PipelineView
from penstock.model import (
    ExportDefinition,
    ExportFormat,
    HTTPConfig,
    MessageStreamDefinition,
    StrategyOnFull,
)
from penstock.testing import LocalCloud
from server_process import ServerProcess

# Spark is up in 4 to 8 s; the rest is for a machine that is busy with other tests.
PIPELINE_START_S = 60.0
DELIVERY_S = 30.0
POLL_S = 0.02
PIPELINE_TOKEN = "a-token-of-the-operator"


class Rig:
    """The three parts, and how to wait for what they do."""

    def __init__(self, cloud: LocalCloud, server: ServerProcess) -> None:
        self.cloud = cloud
        self.server = server
        self.client = StreamManagerClient(port=server.port)

    def create(self, name: str, **exports: Sequence[object]) -> None:
        """A stream with these exports, by the names of their lists."""
        self.client.create_message_stream(definition(name, **exports))

    def update(self, name: str, **exports: Sequence[object]) -> None:
        self.client.update_message_stream(definition(name, **exports))

    def json_export(self, sink: str, identifier: str = "export", **options: object) -> HTTPConfig:
        """An export in JSON batches to a sink of the cloud."""
        return HTTPConfig(
            identifier,
            self.cloud.sink(sink).url,
            export_format=ExportFormat.JSON_BATCHED,
            **options,  # type: ignore[arg-type]
        )

    def append(self, name: str, payloads: Sequence[bytes]) -> None:
        for at in range(0, len(payloads), 1000):
            self.client.append_messages(name, payloads[at : at + 1000])

    def export(self, name: str, identifier: str = "export") -> ExportView:
        for view in self.client.describe_exports().exports:
            if (view.stream_name, view.export_identifier) == (name, identifier):
                return view
        raise AssertionError(f"there is no export {identifier} of stream {name}")

    def pipeline(self) -> PipelineView:
        return self.client.describe_exports().pipeline

    def wait_for_state(self, name: str, state: str, timeout_s: float = DELIVERY_S) -> ExportView:
        wait_until(
            lambda: self.export(name).state == state,
            f"the export of {name} to be {state}",
            timeout_s,
            lambda: self.export(name),
        )
        return self.export(name)

    def wait_until_exported(
        self, name: str, count: int, identifier: str = "export", timeout_s: float = DELIVERY_S
    ) -> ExportView:
        """Until everything below number `count` is delivered or refused."""
        wait_until(
            lambda: self.export(name, identifier).last_exported_sequence_number >= count - 1,
            f"{count} messages of {name} to be exported",
            timeout_s,
            lambda: self.export(name, identifier),
        )
        return self.export(name, identifier)

    def wait_until_running(self) -> PipelineView:
        wait_until(
            lambda: self.pipeline().state == "running",
            "the pipeline to run",
            PIPELINE_START_S,
            self.pipeline,
        )
        return self.pipeline()


@contextmanager
def running_rig(folder: Path, env: Mapping[str, str] | None = None) -> Iterator[Rig]:
    """A cloud, and a server that exports to it."""
    with LocalCloud() as cloud:
        server = ServerProcess(
            folder, env={"PENSTOCK_PIPELINE": "embedded", **cloud.environment(), **(env or {})}
        )
        with server:
            rig = Rig(cloud, server)
            try:
                yield rig
            finally:
                rig.client.close()
                cloud.release()


def definition(name: str, **exports: Sequence[object]) -> MessageStreamDefinition:
    return MessageStreamDefinition(
        name=name,
        strategy_on_full=StrategyOnFull.OverwriteOldestData,
        export_definition=ExportDefinition(**exports),  # type: ignore[arg-type]
    )


def numbered(count: int, start: int = 0) -> list[bytes]:
    """Payloads that tell their place: '0', '1', ..."""
    return [b"%d" % number for number in range(start, start + count)]


def wait_until(
    condition: Callable[[], bool],
    what: str,
    timeout_s: float = DELIVERY_S,
    shown: Callable[[], object] = lambda: "",
) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout_s} s in vain for {what}: {shown()}")
        time.sleep(POLL_S)


def first_arrivals(payloads: Sequence[bytes]) -> list[bytes]:
    """Without repetitions."""
    return list(dict.fromkeys(payloads))


def descendants(process_id: int) -> dict[int, str]:
    """The processes below one, with their command lines."""
    found: dict[int, str] = {}
    for child in _children(process_id):
        try:
            with open(f"/proc/{child}/cmdline", "rb") as file:
                found[child] = file.read().replace(b"\0", b" ").decode()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile
        found |= descendants(child)
    return found


def _children(process_id: int) -> list[int]:
    """Children of every thread: Java's are those of the thread that started them."""
    children: list[int] = []
    for thread in os.listdir(f"/proc/{process_id}/task"):
        # Threads come and go meanwhile.
        with (
            suppress(FileNotFoundError),
            open(f"/proc/{process_id}/task/{thread}/children") as file,
        ):
            children += map(int, file.read().split())
    return children


def kill(process_id: int) -> None:
    os.kill(process_id, signal.SIGKILL)


def java_process(rig: Rig) -> int:
    return _only(rig, r"/java .*org\.apache\.spark")


def python_workers(rig: Rig) -> list[int]:
    """Those that pyspark's daemon forked; the daemon is the one whose parent is Java."""
    java = java_process(rig)
    workers = []
    for daemon in _children(java):
        workers += _children(daemon)
    return workers


def _only(rig: Rig, pattern: str) -> int:
    process_id = rig.wait_until_running().process_id
    assert process_id is not None
    found = [key for key, line in descendants(process_id).items() if re.search(pattern, line)]
    assert len(found) >= 1, descendants(process_id)
    return found[0]
