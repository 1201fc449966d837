"""The programs in drivers/, run with the client they are written for."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from environments import node_modules_with, python_with
from server_process import ServerProcess, clean_environment

DRIVERS = Path(__file__).parent / "drivers"
# The longest scenario takes two seconds of its own and waits for two starts of the server.
LINE_TIMEOUT_S = 60


@dataclass(frozen=True)
class Client:
    """A client library that is installed, and the program that uses it."""

    command: list[str]
    # What a call raises while nobody listens: an exception class in Python, a code in Node.
    unreachable: str
    variables: dict[str, str] = field(default_factory=dict)

    def start(self, scenario: str, *arguments: str, server: ServerProcess, log: Path) -> Program:
        port = {"STREAM_MANAGER_SERVER_PORT": str(server.port)}
        env = clean_environment() | self.variables | port
        return Program([*self.command, scenario, *arguments], env, log)

    def run(
        self, scenario: str, *arguments: str, server: ServerProcess, log: Path
    ) -> dict[str, Any]:
        """The results of a scenario that needs nothing from the test."""
        with self.start(scenario, *arguments, server=server, log=log) as program:
            return program.expect("result")


def stream_manager_sdk(folder: Path) -> Client:
    python = python_with("stream-manager==1.1.2")
    return Client([str(python), str(DRIVERS / "program.py")], "ConnectionError")


def greengrass_sdk(folder: Path) -> Client:
    python = python_with("greengrasssdk==1.6.1")
    program = program_importing("greengrasssdk.stream_manager", folder)
    return Client([str(python), str(program)], "ConnectionError")


def node_core_sdk(folder: Path) -> Client:
    modules = node_modules_with("aws-greengrass-core-sdk@1.7.0")
    program = ["node", str(DRIVERS / "program.js")]
    return Client(program, "ECONNREFUSED", {"NODE_PATH": str(modules)})


def own_client(folder: Path) -> Client:
    program = program_importing("penstock", folder)
    return Client([sys.executable, "-W", "error", str(program)], "ConnectionError")


CLIENTS: dict[str, Callable[[Path], Client]] = {
    "stream-manager": stream_manager_sdk,
    "greengrasssdk": greengrass_sdk,
    "aws-greengrass-core-sdk": node_core_sdk,
    "penstock": own_client,
}


def program_importing(package: str, folder: Path) -> Path:
    """A copy of the Python program with the one line changed that names the package."""
    source = (DRIVERS / "program.py").read_text()
    assert source.count("\nfrom stream_manager import (\n") == 1
    copy = folder / "program.py"
    copy.write_text(source.replace("from stream_manager import (", f"from {package} import ("))
    return copy


class Program:
    """A running program: hear its lines of JSON, tell it words, and see it end well."""

    def __init__(self, command: list[str], env: dict[str, str], log_path: Path) -> None:
        with open(log_path, "a") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=env,
                cwd=log_path.parent,
            )
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._output = threading.Thread(target=self._keep_output)
        self._output.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self.process.stdin is not None
        try:
            if error is None:
                status = self.process.wait(LINE_TIMEOUT_S)
                assert status == 0, f"the program ended with status {status}"
        finally:
            self.process.kill()
            self.process.wait()
            self._output.join()
            self.process.stdin.close()

    def expect(self, event: str) -> dict[str, Any]:
        """The next line, which must be this event."""
        try:
            line = self._lines.get(timeout=LINE_TIMEOUT_S)
        except queue.Empty:
            line = None
        assert line is not None, f"the program did not come to {event!r}; see program.log"
        values: dict[str, Any] = json.loads(line)
        assert values.pop("event") == event
        return values

    def tell(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()

    def _keep_output(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout:
            for line in self.process.stdout:
                self._lines.put(line)
        self._lines.put(None)
