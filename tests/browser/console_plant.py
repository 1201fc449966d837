"""A server with its console, and data that flows: what the pages are looked at with.

No Spark: the plant's own worker takes the leases that a pipeline would take, and its rules say
what becomes of each export. So every state can be had, at once and for as long as it is needed.
"""

from __future__ import annotations

import json
import math
import os
import random
import re
import signal
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from penstock import StreamManagerClient
from penstock.client.worker import WorkerClient
from penstock.export_model import ExportReport, Lease, Refusal
from penstock.model import (
    ExportDefinition,
    HTTPConfig,
    IoTSiteWiseConfig,
    KinesisConfig,
    MessageStreamDefinition,
    Persistence,
    S3ExportTaskExecutorConfig,
    StrategyOnFull,
)
from penstock.transforms.reports import TransformReport
from server_process import ServerProcess

TOKEN = "the token of the pipeline"
CONSOLE = re.compile(r"^Console on (?P<url>http://\S+)", re.MULTILINE)
CONSOLE_WITHIN_S = 20
MIB = 1024 * 1024

TRANSFORMS = """
[transforms.minutes]
source = "press-7-vibration"
schema = "at TIMESTAMP, rms DOUBLE, machine STRING"
sql = "SELECT machine, rms FROM source WHERE rms > 2"
target = { stream = "press-7-alerts" }

[transforms.archive]
source = "oven-2-temperature"
schema = "at TIMESTAMP, celsius DOUBLE"
sql = "SELECT * FROM source"
target = { table = "ovens" }
"""

Rule = Callable[[Lease], ExportReport]


def delivers(lease: Lease) -> ExportReport:
    """Everything goes through."""
    sent = ExportReport(
        lease.lease_id, replayed_ids=lease.dead_letter_ids, messages=len(lease.dead_letter_ids)
    )
    if not lease.dead_letter_ids:
        count = lease.stop - lease.start
        sent = ExportReport(lease.lease_id, lease.stop, messages=count, sent_bytes=count * 96)
    sent.done = True
    return sent


def fails(error: str, again_after_s: float, *, is_blocked: bool = False) -> Rule:
    """Nothing goes through; it is tried again later."""
    return lambda lease: ExportReport(
        lease.lease_id,
        error=error,
        blocked=is_blocked,
        retry_after_millis=int(again_after_s * 1000),
        done=True,
    )


def refuses(reason: str, least: int, every: int) -> Rule:
    """One message in so many is refused for good, the first one being `least`."""

    def report(lease: Lease) -> ExportReport:
        refused = lease.dead_letter_ids or [
            number for number in range(lease.start, lease.stop) if number % every == least
        ]
        sent = delivers(lease)
        sent.replayed_ids = []
        sent.refused = [Refusal(number, reason) for number in refused]
        return sent

    return report


class ConsolePlant:
    """The server, its console at `url`, somebody who appends, and the worker of the exports."""

    def __init__(self, folder: Path, **environment: str) -> None:
        (folder / "penstock.toml").write_text(TRANSFORMS)
        self.server = ServerProcess(
            folder,
            *("--config", str(folder / "penstock.toml"), "--console-port", str(quiet_port())),
            env={
                "PENSTOCK_PIPELINE": "external",
                "PENSTOCK_PIPELINE_TOKEN": TOKEN,
                "PENSTOCK_CONSOLE": "true",
                **environment,
            },
        )
        self.token = environment.get("PENSTOCK_TOKENS")
        self.rules: dict[tuple[str, str], Rule] = {}
        self.transforms: dict[str, dict[str, Any]] = {}
        self._stopping = threading.Event()
        self._threads = ThreadPoolExecutor(2)
        self._flows: list[Future[None]] = []

    def __enter__(self) -> Self:
        self.server.start()
        self.url = self._console_url()
        self.user = self._connected()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._threads.shutdown()
        self.user.close()
        self.server.stop()
        for flow in self._flows:
            flow.result()

    def open(self, name: str, export: Any = None, **fields: Any) -> None:
        """A stream, with an export if one is given."""
        fields = {"strategy_on_full": StrategyOnFull.OverwriteOldestData, **fields}
        lists: dict[type, str] = {
            HTTPConfig: "http",
            KinesisConfig: "kinesis",
            IoTSiteWiseConfig: "iot_sitewise",
            S3ExportTaskExecutorConfig: "s3_task_executor",
        }
        exports = ExportDefinition(**({lists[type(export)]: [export]} if export else {}))
        self.user.create_message_stream(
            MessageStreamDefinition(name=name, export_definition=exports, **fields)
        )

    def open_many(self, count: int) -> list[str]:
        """Small streams with an export each, as a plant with many sensors has them."""
        names = [f"sensor-{number:04d}" for number in range(count)]
        for name in names:
            export = HTTPConfig("collector", "http://127.0.0.1:9/in")
            self.open(name, export, persistence=Persistence.Memory, max_size=MIB)
        return names

    def open_machines(self) -> None:
        """A few machines whose exports fare differently."""
        self.open("press-7-vibration", KinesisConfig("cloud", "plant-7"), max_size=4 * MIB)
        self.open("press-7-alerts", HTTPConfig("pager", "http://127.0.0.1:9/alerts"))
        self.open(
            "oven-2-temperature", IoTSiteWiseConfig("sitewise"), time_to_live_millis=604800000
        )
        self.open("oven-3-temperature", IoTSiteWiseConfig("sitewise"), flush_on_write=True)
        self.open("camera-files", S3ExportTaskExecutorConfig("s3"))
        self.open("conveyor-speed", KinesisConfig("cloud", "plant-7", disabled=True), max_size=MIB)
        self.open(
            "line-4-events", strategy_on_full=StrategyOnFull.RejectNewData, max_size=64 * 1024
        )
        self.open("scratch", persistence=Persistence.Memory, max_size=2 * MIB)
        self.user.append_messages("line-4-events", [b'{"event": "door opened"}' * 20] * 120)
        self.rules = {
            ("press-7-alerts", "pager"): fails(
                "http://127.0.0.1:9/alerts: connection refused; is something listening there?", 30
            ),
            ("camera-files", "s3"): fails(
                "bucket plant-7-pictures does not exist, or its name is misspelt; create it, or "
                "change the tasks",
                300,
                is_blocked=True,
            ),
            ("oven-3-temperature", "sitewise"): refuses(
                "SiteWise: ResourceNotFoundException: property oven/3/temperature does not exist",
                least=7,
                every=400,
            ),
        }
        self.transforms = {
            "minutes": {"state": "running", "rows_in": 18_204, "rows_out": 977, "batch_millis": 84},
            "archive": {
                "state": "backing off",
                "tries": 3,
                "error": "the folder ovens cannot be written: No space left on device",
                "next_retry_time": int(time.time() * 1000) + 600_000,
            },
        }

    def kill_console(self) -> None:
        """The process that serves the pages dies; the server starts another one."""
        assert self.server.process is not None
        server_id = self.server.process.pid
        for child in Path(f"/proc/{server_id}/task/{server_id}/children").read_text().split():
            if b"\0console\0" in Path(f"/proc/{child}/cmdline").read_bytes():
                os.kill(int(child), signal.SIGKILL)
                return
        raise AssertionError("the server has no console process")

    def start_flow(self) -> None:
        """Append to every machine and work on the exports, until the end."""
        self._flows += [self._threads.submit(self._feed), self._threads.submit(self._work)]

    def _feed(self) -> None:
        with self._connected() as client:
            turn = 0
            while not self._stopping.wait(0.1):
                turn += 1
                for name, period in (
                    ("press-7-vibration", 1),
                    ("oven-2-temperature", 2),
                    ("oven-3-temperature", 3),
                    ("conveyor-speed", 2),
                    ("camera-files", 10),
                    ("press-7-alerts", 9),
                    ("scratch", 1),
                ):
                    if turn % period == 0:
                        client.append_messages(name, [reading(name, turn)] * sway(name, turn))

    def _work(self) -> None:
        with WorkerClient("127.0.0.1", self.server.port, auth_token=TOKEN) as worker:
            while not self._stopping.is_set():
                for lease in worker.watch_exports(50, 250).leases:
                    rule = self.rules.get((lease.stream_name, lease.config["identifier"]), delivers)
                    worker.report_export(rule(lease))
                self._report_transforms(worker)

    def _report_transforms(self, worker: WorkerClient) -> None:
        orders = worker.report_transforms([]).orders
        reports = [
            TransformReport(order.transform.name, order.generation, **fields)
            for order in orders
            if (fields := self.transforms.get(order.transform.name))
        ]
        worker.report_transforms(reports)

    def _connected(self) -> StreamManagerClient:
        return StreamManagerClient(port=self.server.port, auth_token=self.token)

    def _console_url(self) -> str:
        deadline_s = time.monotonic() + CONSOLE_WITHIN_S
        while (found := CONSOLE.search(self.server.log)) is None:
            assert time.monotonic() < deadline_s, f"there is no console:\n{self.server.log}"
            time.sleep(0.02)
        return found["url"]


def quiet_port() -> int:
    """A port that is free now, and that the system gives to nobody by itself.

    A console that is started again must be found where it was, so 0 would not do.
    """
    while True:
        port = random.randrange(20_000, 30_000)
        with socket.socket() as listener:
            if listener.connect_ex(("127.0.0.1", port)) != 0:
                return port


def reading(name: str, turn: int) -> bytes:
    """What a machine says."""
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    machine, _, measure = name.rpartition("-")
    value = round(2 + math.sin(turn / 40) + (turn * 7919 % 100) / 300, 3)
    return json.dumps({"at": at, "machine": machine or name, measure or "value": value}).encode()


def sway(name: str, turn: int) -> int:
    """How many messages this time: machines are not always equally busy."""
    return 1 if name == "camera-files" else max(1, round(4 + 3 * math.sin(turn / 130 + len(name))))
