"""A real `penstock serve` for tests: start, kill, restart, stop."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

# Being ready takes half a second; the rest is for a machine that is busy with other tests.
START_TIMEOUT_S = 20
STOP_TIMEOUT_S = 20
READY = re.compile(r"^Penstock listens on (?P<host>\S+):(?P<port>\d+) ")
# What these say about the person at the keyboard must not reach a server or client under test.
FOREIGN_VARIABLES = ("STREAM_MANAGER_", "PENSTOCK_", "AWS_CONTAINER_AUTHORIZATION_TOKEN")


# Most tests are about neither exports nor pages, and their exports lead nowhere.
ALONE = {"PENSTOCK_PIPELINE": "off", "PENSTOCK_CONSOLE": "false"}


class ServerProcess:
    """One data folder and, most of the time, one server process on it.

    Everything the server prints is kept in `log_path`. As a context manager it starts, and stops
    in an orderly way if the test left it running.
    """

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.data_dir = folder / "data"
        self.log_path = folder / "server.log"
        self.arguments = arguments
        self.env = dict(env or {})
        self.port = 0
        self.process: subprocess.Popen[str] | None = None
        self._output: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.running:
            self.stop()

    @property
    def running(self) -> bool:
        return self.process is not None

    @property
    def log(self) -> str:
        return self.log_path.read_text() if self.log_path.exists() else ""

    def start(self, port: int = 0, env: Mapping[str, str] | None = None) -> None:
        """Return when the server said that it listens; `port` is then the real one."""
        assert not self.running, "one server at a time"
        command = [sys.executable, "-m", "penstock", "serve"]
        command += ["--port", str(port), "--data-dir", str(self.data_dir), *self.arguments]
        with open(self.log_path, "a") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=clean_environment() | ALONE | self.env | dict(env or {}),
            )
        self._wait_until_ready(self.process)

    def kill(self) -> None:
        """SIGKILL: no chance to tidy up."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM; the server must end by itself, and say that all went well."""
        status = self._end(signal.SIGTERM)
        assert status == 0, f"the server ended with status {status}:\n{self.log}"

    def restart(self) -> None:
        """Start again on the same port and data."""
        self.start(port=self.port)

    def _end(self, how: signal.Signals) -> int:
        process = self.process
        assert process is not None, "there is no server to end"
        process.send_signal(how)
        try:
            status = process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
            raise AssertionError(
                f"the server did not end within {STOP_TIMEOUT_S} s of {how.name}:\n{self.log}"
            ) from None
        finally:
            self._forget()
        return status

    def _wait_until_ready(self, process: subprocess.Popen[str]) -> None:
        ports: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._output = threading.Thread(target=self._keep_output, args=(process, ports))
        self._output.start()
        try:
            port = ports.get(timeout=START_TIMEOUT_S)
        except queue.Empty:
            process.kill()
            port = None
        if port is None:
            status = process.wait(STOP_TIMEOUT_S)
            self._forget()
            raise AssertionError(f"the server did not start (status {status}):\n{self.log}")
        self.port = port

    def _keep_output(
        self, process: subprocess.Popen[str], ports: queue.SimpleQueue[int | None]
    ) -> None:
        """Copy standard output to the log for as long as the process lives."""
        assert process.stdout is not None
        with process.stdout, open(self.log_path, "a") as log:
            for line in process.stdout:
                log.write(line)
                log.flush()
                if found := READY.match(line):
                    ports.put(int(found["port"]))
        ports.put(None)

    def _forget(self) -> None:
        if self._output is not None:
            self._output.join()
        self.process = self._output = None


def clean_environment() -> dict[str, str]:
    """This process's variables without those that servers and clients read."""
    return {
        name: value for name, value in os.environ.items() if not name.startswith(FOREIGN_VARIABLES)
    }
