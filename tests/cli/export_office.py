"""A server whose exports the test itself works on, so that every state can be had without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock import StreamManagerClient
from penstock.client.worker import WorkerClient
from penstock.export_model import ExportReport, Lease, Refusal
from penstock.model import (
    ExportDefinition,
    KinesisConfig,
    MessageStreamDefinition,
    StrategyOnFull,
)
from server_process import ServerProcess

TOKEN = "the token of the pipeline"


class ExportOffice:
    """The server, somebody with streams, and the worker that a pipeline would be."""

    def __init__(self, folder: Path) -> None:
        self.server = ServerProcess(
            folder, env={"PENSTOCK_PIPELINE": "external", "PENSTOCK_PIPELINE_TOKEN": TOKEN}
        )
        self.server.start()
        self.user = StreamManagerClient(port=self.server.port)
        self.worker = WorkerClient("127.0.0.1", self.server.port, auth_token=TOKEN)

    def close(self) -> None:
        self.worker.close()
        self.user.close()
        self.server.stop()

    def forget_everything(self) -> None:
        self.user.purge_dead_letters()
        for name in self.user.list_streams():
            self.user.delete_message_stream(name)

    def open(self, name: str, *payloads: bytes, **fields: Any) -> None:
        """A stream with the export `cloud` and some messages."""
        export = KinesisConfig("cloud", "plant-7", **fields)
        definition = MessageStreamDefinition(
            name=name,
            strategy_on_full=StrategyOnFull.OverwriteOldestData,
            export_definition=ExportDefinition(kinesis=[export]),
        )
        self.user.create_message_stream(definition)
        for payload in payloads:
            self.user.append_message(name, payload)

    def lease(self) -> Lease:
        (lease,) = self.worker.watch_exports(10, 5_000).leases
        return lease

    def report(self, lease: Lease, **fields: Any) -> None:
        held, _ = self.worker.report_export(ExportReport(lease.lease_id, **fields))
        assert held

    def refuse(self, name: str, *reasons: str) -> None:
        """A stream with as many messages as reasons, each refused for its reason."""
        self.open(name, *(f"payload {number}".encode() for number in range(len(reasons))))
        refused = [Refusal(number, reason) for number, reason in enumerate(reasons)]
        self.report(self.lease(), next_sequence_number=len(reasons), refused=refused, done=True)
