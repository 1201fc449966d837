"""`penstock serve` in a process of its own, for as long as the demo lives."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

from penstock.demo.errors import DemoFailed

LISTENS = re.compile(r"Penstock listens on \S+:(?P<port>\d+) ")
CONSOLE = re.compile(r"Console on (?P<url>http://\S+)")
# The server gives its pipeline 20 s to end, and its clients 10 s.
STOP_WITHIN_S = 40.0
# Settings and credentials of the person at the keyboard are not for the demo.
FOREIGN_VARIABLES = ("AWS_", "STREAM_MANAGER_", "PENSTOCK_")


class ServerProcess:
    """The process, and what it says about itself."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.log_path = folder / "server.log"
        self.port: int | None = None  # as soon as it listens
        self.console_url: str | None = None  # as soon as there is one
        self._folder = folder
        self._environment = _own_environment() | environment
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None

    def start(self, port: int, console_port: int) -> None:
        """Return at once; `port` and `console_url` are set when it says where it listens."""
        command = [sys.executable, "-m", "penstock.demo.following", "serve"]
        command += ["--config", str(self._folder / "penstock.toml"), "--port", str(port)]
        command += ["--data-dir", str(self._folder / "data")]
        command += ["--console-port", str(console_port)]
        with open(self.log_path, "a") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=self._environment,
                # Ctrl-C is for the demo, which ends its parts in order.
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()

    def raise_if_ended(self) -> None:
        if self._process is not None and self._process.poll() is not None:
            status = self._process.returncode
            raise DemoFailed(f"the server ended with status {status}: {self._last_words()}")

    def stop(self) -> None:
        """As by Ctrl-C; by force if that is of no use."""
        process, self._process = self._process, None
        if process is None or self._reader is None or process.stdin is None:
            return
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired as error:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise DemoFailed(
                f"the server did not end within {STOP_WITHIN_S:.0f} s and was killed: "
                f"{self._last_words()}"
            ) from error
        finally:
            process.stdin.close()
            self._reader.join()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                if found := LISTENS.match(line):
                    self.port = int(found["port"])
                elif found := CONSOLE.match(line):
                    self.console_url = found["url"]

    def _last_words(self) -> str:
        lines = self.log_path.read_text(errors="replace").split("\n")
        said = [line for line in lines if line.strip()]
        return said[-1] if said else "it said nothing"


def _own_environment() -> dict[str, str]:
    return {
        name: value for name, value in os.environ.items() if not name.startswith(FOREIGN_VARIABLES)
    }
