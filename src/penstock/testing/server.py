"""A `penstock serve` process for tests that want the real thing."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from penstock.client.sync import StreamManagerClient
from penstock.testing.errors import LocalCloudError

# A server is ready in half a second; the rest is for machines that are busy with other tests.
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0
READY = re.compile(r"Penstock listens on \S+:(?P<port>\d+) ")
CONSOLE_READY = re.compile(r"Console on (?P<url>\S+)")
END_OF_OUTPUT = ""  # every line has at least its end
# Settings, tokens and credentials of the person at the keyboard must not reach a test's server.
FOREIGN_VARIABLES = ("AWS_", "STREAM_MANAGER_", "PENSTOCK_")


class PenstockServer:
    """One data folder and a server on it, started and stopped as often as the test likes.

    With `console` it has its console too, on a free port: `console_url` says where.
    """

    def __init__(
        self,
        folder: Path,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        *,
        console: bool = False,
    ) -> None:
        self.data_dir = folder / "data"
        self.log_path = folder / "server.log"
        self.port = 0
        self.console_url = ""
        self._folder = folder
        self._has_console = console
        self._arguments = tuple(arguments)
        self._environment = dict(environment or {})
        self._process: subprocess.Popen[str] | None = None
        self._output: threading.Thread | None = None

    @property
    def log(self) -> str:
        """Everything that the server printed."""
        return self.log_path.read_text() if self.log_path.exists() else ""

    @property
    def process_id(self) -> int:
        if self._process is None:
            raise LocalCloudError("The server does not run")
        return self._process.pid

    def start(self) -> None:
        """Return when the server listens, on the same port as before if it ran before.

        With a console, when that listens too.
        """
        if self._process is not None:
            raise LocalCloudError("The server runs already")
        self._folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "penstock", "serve", "--port", str(self.port)]
        command += ["--data-dir", str(self.data_dir)]
        command += ["--console-port", "0"] if self._has_console else ["--no-console"]
        command += self._arguments
        with open(self.log_path, "a") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                # Not the test's folder, which may have a penstock.toml of its own.
                cwd=self._folder,
                env=own_environment() | self._environment,
            )
        self._wait_until_ready(self._process)

    def stop(self) -> None:
        """SIGTERM. LocalCloudError unless the server ends by itself, and well."""
        status = self._end(signal.SIGTERM)
        if status != 0:
            raise LocalCloudError(f"The server ended with status {status}:\n{self.log}")

    def kill(self) -> None:
        """SIGKILL: what was acknowledged must be there after the next start."""
        self._end(signal.SIGKILL)

    def client(self) -> StreamManagerClient:
        """A new client; close it, or use it in a `with` block."""
        return StreamManagerClient(port=self.port)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self.stop()

    def _end(self, how: signal.Signals) -> int:
        process = self._process
        if process is None:
            raise LocalCloudError("The server does not run")
        process.send_signal(how)
        try:
            return process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            process.kill()
            process.wait()
            raise LocalCloudError(
                f"The server did not end within {STOP_TIMEOUT_S} s of {how.name}:\n{self.log}"
            ) from error
        finally:
            self._forget()

    def _wait_until_ready(self, process: subprocess.Popen[str]) -> None:
        lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._output = threading.Thread(target=self._keep_output, args=(process, lines))
        self._output.start()
        try:
            self.port = int(_awaited(READY, lines)["port"])
            if self._has_console:
                self.console_url = _awaited(CONSOLE_READY, lines)["url"]
        except queue.Empty:
            process.kill()
            status = process.wait()
            self._forget()
            raise LocalCloudError(
                f"The server did not start (status {status}):\n{self.log}"
            ) from None

    def _keep_output(self, process: subprocess.Popen[str], lines: queue.SimpleQueue[str]) -> None:
        """Copy standard output to the log for as long as the process lives."""
        assert process.stdout is not None
        with process.stdout, open(self.log_path, "a") as log:
            for line in process.stdout:
                log.write(line)
                log.flush()
                lines.put(line)
        lines.put(END_OF_OUTPUT)

    def _forget(self) -> None:
        if self._output is not None:
            self._output.join()
        self._process = self._output = None


def _awaited(pattern: re.Pattern[str], lines: queue.SimpleQueue[str]) -> re.Match[str]:
    """The next line of that kind; queue.Empty if none comes, or none can come any more."""
    while line := lines.get(timeout=START_TIMEOUT_S):
        if found := pattern.match(line):
            return found
    raise queue.Empty


def own_environment() -> dict[str, str]:
    """This process's variables without those that servers and AWS's SDKs read."""
    return {
        name: value for name, value in os.environ.items() if not name.startswith(FOREIGN_VARIABLES)
    }
