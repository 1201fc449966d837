"""Everything that runs, started in order and ended in the opposite one."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from penstock import StreamManagerClient
from penstock.demo.errors import DemoEnded, DemoFailed
from penstock.demo.link import Link
from penstock.demo.plant import (
    BUCKET,
    KINESIS_STREAM,
    Plant,
    ReportWatcher,
    create_streams,
)
from penstock.demo.server import ServerProcess
from penstock.demo.table import Table
from penstock.observe_model import Observation
from penstock.testing import LocalCloud

SETTINGS = Path(__file__).with_name("penstock.toml")
USUAL_PORT, USUAL_CONSOLE_PORT, USUAL_CLOUD_PORT = 8088, 8089, 4566
HOST = "127.0.0.1"
POLL_S = 0.1
# Half a second on a quiet machine, Spark ten; the rest is for busy ones.
SERVER_WITHIN_S = 60.0
CONSOLE_WITHIN_S = 30.0
SPARK_WITHIN_S = 180.0
# What the cloud remembers of each target, so that a demo of days does not fill the memory.
REMEMBERED_BYTES_MAX = 16 * 1024 * 1024


@dataclass(frozen=True)
class Settings:
    """What differs between a demo to look at and one that is checked."""

    usual_ports: bool
    report_interval_s: int
    remembered_bytes_max: int | None


TO_LOOK_AT = Settings(True, 60, REMEMBERED_BYTES_MAX)
# Files often, so that several are checked; ports that nobody has to know.
TO_CHECK = Settings(False, 10, None)


@dataclass(frozen=True)
class Picture:
    """What there is to see at one moment."""

    observation: Observation
    table_rows: int


class Stage:
    """The parts. Each `start_...` returns a sentence on what is there now.

    `ended` is the wish of the person at the keyboard; whatever waits here raises DemoEnded then.
    `connected` makes the plant's client.
    """

    def __init__(
        self,
        folder: Path,
        settings: Settings,
        ended: threading.Event,
        connected: Callable[[int], StreamManagerClient] = lambda port: StreamManagerClient(
            port=port
        ),
    ) -> None:
        self.folder = folder
        self.table = Table(folder / "table")
        self._settings = settings
        self._ended = ended
        self._connected = connected
        self._stack = ExitStack()
        self._stopped = threading.Event()
        self._plant_stopped = threading.Event()
        self._plant_thread: threading.Thread | None = None
        self._trouble: Exception | None = None  # of a thread

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopped.set()
        self._plant_stopped.set()
        self._stack.close()

    # --- start ----------------------------------------------------------------------------------

    def start_cloud(self) -> str:
        self.cloud = LocalCloud(
            port=self._port(USUAL_CLOUD_PORT),
            recorded_bytes_max=self._settings.remembered_bytes_max,
        )
        self._stack.enter_context(self.cloud)
        self.cloud.kinesis.create_stream(KINESIS_STREAM)
        self.cloud.s3.create_bucket(BUCKET)
        self.link = Link(self.cloud)
        return f"Kinesis, SiteWise and S3 of this machine on {self.cloud.endpoint}"

    def start_server(self) -> str:
        for folder in (self.folder, self.folder / "reports"):
            folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(SETTINGS, self.folder / SETTINGS.name)
        self.server = ServerProcess(self.folder, self.cloud.environment())
        self._stack.callback(self.server.stop)
        self.server.start(self._port(USUAL_PORT), self._port(USUAL_CONSOLE_PORT))
        self.wait_until(lambda: self.server.port is not None, SERVER_WITHIN_S, "the server")
        assert self.server.port is not None
        self.client = self._stack.enter_context(StreamManagerClient(port=self.server.port))
        return f"listens on {HOST}:{self.server.port}"

    def start_console(self) -> str:
        self.wait_until(
            lambda: self.server.console_url is not None, CONSOLE_WITHIN_S, "the console"
        )
        return str(self.server.console_url)

    def start_plant(self) -> str:
        assert self.server.port is not None
        client = self._stack.enter_context(self._connected(self.server.port))
        create_streams(client)
        plant = Plant(client, self.folder / "reports", self._settings.report_interval_s)
        self.reports = ReportWatcher(client)
        self._in_thread(self.reports.run, self._stopped)
        self._plant_thread = self._in_thread(plant.run, self._plant_stopped)
        return "four machines write to three streams"

    def start_spark(self) -> str:
        def is_running() -> bool:
            view = self.client.describe_exports().pipeline
            if view.state == "unavailable":
                raise DemoFailed(f"the pipeline cannot run: {view.text}")
            return view.state == "running"

        self.wait_until(is_running, SPARK_WITHIN_S, "the pipeline")
        return "Spark is up"

    def start_exports(self) -> str:
        def have_arrived() -> bool:
            kinesis, sitewise = self.cloud.kinesis, self.cloud.sitewise
            return kinesis.totals(KINESIS_STREAM).count > 0 and sitewise.totals(None).count > 0

        self.wait_until(have_arrived, SPARK_WITHIN_S, "the first messages in the cloud")
        return "the first messages have arrived in the cloud"

    def start_outages(self) -> None:
        """From now on the link fails at random."""
        self._in_thread(self.link.run, self._stopped)

    # --- while it runs --------------------------------------------------------------------------

    def stop_plant(self) -> None:
        """Let the plant finish its last message, and write no more."""
        self._plant_stopped.set()
        assert self._plant_thread is not None
        self._plant_thread.join()

    def wait_until(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Return when it holds. DemoFailed if that takes too long, or a part has failed."""
        if not self.holds_within(condition, timeout_s):
            raise DemoFailed(
                f"{timeout_s:.0f} s have passed without {what}; {self.server.log_path} may tell why"
            )

    def holds_within(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Whether it holds, at the latest after this time."""
        deadline_s = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline_s:
                return False
            self.wait(POLL_S)
        return True

    def wait(self, seconds: float) -> None:
        """Look whether all parts are well, and let time pass."""
        self.raise_if_failed()
        if self._ended.wait(seconds):
            raise DemoEnded

    def raise_if_failed(self) -> None:
        self.server.raise_if_ended()
        if self._trouble is not None:
            raise DemoFailed(f"the plant has stopped: {self._trouble}") from self._trouble

    def picture(self) -> Picture:
        """What the server says of itself, and the table."""
        return Picture(self.client.observe_server(), self.table.row_count())

    def _in_thread(
        self, run: Callable[[threading.Event], None], stopped: threading.Event
    ) -> threading.Thread:
        def guarded() -> None:
            try:
                run(stopped)
            except Exception as error:  # noqa: BLE001
                self._trouble = error  # raised by wait(), in the main thread

        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        self._stack.callback(thread.join)
        return thread

    def _port(self, usual: int) -> int:
        """The usual port if nobody has it; otherwise 0, any other one."""
        if not self._settings.usual_ports:
            return 0
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, usual))
            except OSError:
                return 0
        return usual
