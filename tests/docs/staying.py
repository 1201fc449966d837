"""Shell blocks: run to their end, or, if they hold a command that stays, in the background."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

# Commands that run until Ctrl-C, and what they say when they are ready.
STAYING = {
    "penstock serve": re.compile(r"^Penstock listens on \S+:(\d+) ", re.MULTILINE),
    "penstock local-cloud": re.compile(
        r"^The local cloud listens on http://\S+:(\d+)[\s\S]*Ctrl-C ends", re.MULTILINE
    ),
}
# A command takes a second or two, one that starts Spark ten; the rest is for busy cores.
COMMAND_TIMEOUT_S = 120
READY_TIMEOUT_S = 60
STOP_TIMEOUT_S = 60
POLL_S = 0.05


@dataclass
class Shells:
    """The shells that a reader has open in one folder."""

    folder: Path
    environment: dict[str, str]
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def run(self, text: str, place: str) -> str:
        """What the block prints. One that stays is left running when it is ready."""
        for command in STAYING:
            if re.search(rf"^{command}\b", text, re.MULTILINE):
                return self._start(command, text, place)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
        )
        assert done.returncode == 0, f"{place}: status {done.returncode}\n{done.stderr}"
        return done.stdout

    def log(self, command: str) -> str:
        return (self.folder / f"{command.replace(' ', '-')}.log").read_text()

    def port(self, command: str) -> int:
        ready = STAYING[command].search(self.log(command))
        assert ready is not None
        return int(ready[1])

    def stop(self, command: str) -> None:
        """As Ctrl-C does: the shell's command is the process itself, by `exec`."""
        process = self.running.pop(command)
        process.terminate()
        status = process.wait(STOP_TIMEOUT_S)
        assert status == 0, f"{command} ended with status {status}\n{self.log(command)}"

    def stop_all(self) -> None:
        for command in list(self.running):
            self.stop(command)

    def _start(self, command: str, text: str, place: str) -> str:
        if command in self.running:
            self.stop(command)
        log = self.folder / f"{command.replace(' ', '-')}.log"
        text = re.sub(rf"^{command}\b", f"exec {command}", text, flags=re.MULTILINE)
        with open(log, "wb") as output:
            process = subprocess.Popen(
                ["bash", "-euo", "pipefail", "-c", text],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self.running[command] = process
        deadline = time.monotonic() + READY_TIMEOUT_S
        while STAYING[command].search(log.read_text()) is None:
            assert process.poll() is None, f"{place}: it ended\n{log.read_text()}"
            assert time.monotonic() < deadline, f"{place}: not ready\n{log.read_text()}"
            time.sleep(POLL_S)
        return log.read_text()


@contextmanager
def open_shells(folder: Path, environment: Mapping[str, str]) -> Iterator[Shells]:
    shells = Shells(folder, dict(environment))
    try:
        yield shells
    finally:
        shells.stop_all()
