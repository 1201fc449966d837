"""`penstock` as a subprocess: with pipes, or on a terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

from server_process import clean_environment

TIMEOUT_S = 60
TERMINAL_COLUMNS = 100


class Result(NamedTuple):
    """What a command printed, and how it ended."""

    status: int
    output: bytes
    errors: str

    @property
    def text(self) -> str:
        return self.output.decode()

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def json(self) -> Any:
        return json.loads(self.output)


class CommandLine:
    """Runs commands in one folder, with one environment."""

    def __init__(self, folder: Path, **variables: str) -> None:
        self.folder = folder
        self.variables = variables
        self.environment = clean_environment() | {"HOME": str(folder), **variables}

    def __call__(
        self, *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None
    ) -> Result:
        """Run a command to its end, with pipes."""
        done = subprocess.run(
            command(*arguments),
            input=stdin,
            capture_output=True,
            cwd=self.folder,
            env=self.environment | dict(env or {}),
            timeout=TIMEOUT_S,
        )
        return Result(done.returncode, done.stdout, done.stderr.decode())

    def succeeds(self, *arguments: str, stdin: bytes = b"") -> Result:
        """Run a command that has nothing to complain about."""
        result = self(*arguments, stdin=stdin)
        assert (result.status, result.errors) == (0, ""), result
        return result

    def started(self, *arguments: str) -> subprocess.Popen[bytes]:
        """A command that runs on; standard output and errors are pipes."""
        return subprocess.Popen(
            command(*arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.folder,
            env=self.environment,
        )

    def on_terminal(self, *arguments: str) -> Result:
        """Run a command to its end on a terminal, where nobody types."""
        with Terminal(self, *arguments) as terminal:
            return terminal.result()


class Terminal:
    """A command on a terminal, with somebody who reads and types."""

    def __init__(self, penstock: CommandLine, *arguments: str) -> None:
        self._ours, theirs = pty.openpty()
        self.resize(30, TERMINAL_COLUMNS)
        self._output = b""
        self.process = subprocess.Popen(
            command(*arguments),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=penstock.folder,
            env=_without_size(penstock.environment)
            | {"TERM": "xterm-256color"}
            | penstock.variables,
            start_new_session=True,
        )
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)

    def resize(self, lines: int, columns: int) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def forget(self) -> None:
        """What was read so far is of no interest any more."""
        self._output = b""

    def wait_for(self, text: str) -> None:
        """Read until the text is there."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while text not in self._output.decode(errors="replace"):
            assert time.monotonic() < deadline_s, f"no {text!r} in {self._output[-4096:]!r}"
            assert self._read(), f"the command ended without {text!r}: {self._output!r}"

    def press_ctrl_c(self) -> None:
        """Once the command sleeps: before that, Python would keep the signal until a key comes."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while self._state() != "S" and time.monotonic() < deadline_s:
            time.sleep(0.01)
        self.process.send_signal(signal.SIGINT)

    def _state(self) -> str:
        """What Linux says the process does; the name before it may hold spaces."""
        stat = Path(f"/proc/{self.process.pid}/stat").read_text()
        return stat.rpartition(") ")[2][0]

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def result(self) -> Result:
        """Wait for the end of the command."""
        while self._read():
            pass
        return Result(self.process.wait(TIMEOUT_S), self._output, "")

    def _read(self) -> bool:
        """Linux reports it as an error that the last process has left the terminal."""
        ready, _, _ = select.select([self._ours], [], [], TIMEOUT_S)
        assert ready, f"nothing came for {TIMEOUT_S} s after {self._output!r}"
        try:
            piece = os.read(self._ours, 65536)
        except OSError:
            return False
        self._output += piece
        return bool(piece)


def _without_size(environment: dict[str, str]) -> dict[str, str]:
    """Variables without those that would be believed more than the terminal."""
    return {name: value for name, value in environment.items() if name not in ("LINES", "COLUMNS")}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "penstock", *arguments]
