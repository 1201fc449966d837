"""`penstock demo` as a person runs it, and a way to find all that it has started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from server_process import clean_environment

MARK = "DEMO_TEST"
# Spark's start on two busy cores is most of it.
LINE_WITHIN_S = 180
POLL_S = 0.1


class DemoProcess:
    """One run. Everything it starts inherits a variable with a value of its own."""

    def __init__(self, folder: Path, *arguments: str, env: Mapping[str, str] | None = None) -> None:
        self._log_path = folder / "demo.log"
        self._mark = str(uuid.uuid4())
        environment = (
            clean_environment() | {MARK: self._mark, "TMPDIR": str(folder)} | dict(env or {})
        )
        with open(self._log_path, "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "penstock", "demo", *arguments],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Whatever the test has found: nothing survives it."""
        for number in self.running():
            os.kill(number, signal.SIGKILL)
        self.process.wait()

    @property
    def output(self) -> str:
        return self._log_path.read_text()

    def wait_for(self, text: str) -> None:
        """Return when the demo has said this."""
        deadline_s = time.monotonic() + LINE_WITHIN_S
        while text not in self.output:
            assert self.process.poll() is None, self.output
            assert time.monotonic() < deadline_s, self.output
            time.sleep(POLL_S)

    def wait_for_java(self) -> None:
        deadline_s = time.monotonic() + LINE_WITHIN_S
        while not any(b"java" in command for command in self.running().values()):
            assert time.monotonic() < deadline_s, self.output
            time.sleep(POLL_S)

    def wait_until_gone(self, seconds: float) -> None:
        """All of it, not only the demo itself."""
        deadline_s = time.monotonic() + seconds
        while running := self.running():
            assert time.monotonic() < deadline_s, running
            self.process.poll()  # a dead child is a process until somebody asks for it
            time.sleep(POLL_S)

    def running(self) -> dict[int, bytes]:
        """The commands of its processes, by number."""
        found = {}
        for place in Path("/proc").glob("[0-9]*"):
            try:
                if f"{MARK}={self._mark}".encode() in (place / "environ").read_bytes().split(b"\0"):
                    found[int(place.name)] = (place / "cmdline").read_bytes().replace(b"\0", b" ")
            except OSError:
                continue  # it has ended meanwhile, or is somebody else's
        return found
