"""Starts and watches a process beside the server: the pipeline, the console."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from penstock import logs
from penstock.export_model import PipelineView

log = logging.getLogger(__name__)

EXIT_UNAVAILABLE = 69  # what it ends with when something must be installed
EXIT_NOT_STARTED = 127  # what a shell says of a command that is not there
RESTART_PAUSE_S_MIN = 1.0
RESTART_PAUSE_S_MAX = 60.0
# One that had come up was ended by something else than its own start: exports go on within 20 s.
RESTART_PAUSE_S_MAX_IF_READY = 5.0
# Nobody installs Java within seconds, but nobody wants to restart the server for it either.
UNAVAILABLE_PAUSE_S = 60.0
# A process that lived this long was healthy: the next pause begins small again.
HEALTHY_AFTER_S = 60.0
# Exports come and go when streams are updated; starting Spark again takes longer than this.
IDLE_S_MAX = 30.0
STOP_WITHIN_S = 20.0
# Whoever is left of its children may hold standard error; they are not waited for.
LAST_WORDS_WITHIN_S = 1.0
LINE_BYTES_MAX = 64 * 1024
STANDARD_ERROR = 2


@dataclass(frozen=True)
class Command:
    """How a process is started."""

    arguments: tuple[str, ...]
    environment: dict[str, str]

    @staticmethod
    def embedded(
        name: str, server: str, options: Sequence[str], variables: Mapping[str, str]
    ) -> Command:
        """One of our own commands. Secrets are variables: everybody can see arguments."""
        return Command(
            (
                *(sys.executable, "-m", "penstock", name),
                *("--server", server, "--follow-parent"),
                *options,
            ),
            {**os.environ, **variables},
        )


class Life(asyncio.SubprocessProtocol):
    """What asyncio tells of a process: lines on standard error, and its end.

    Not asyncio's streams: they wait for whoever inherited standard error, and for ends of lines.
    """

    def __init__(self, heard: Callable[[str], None], on_exit: Callable[[], None]) -> None:
        self.exited = asyncio.Event()
        self.silent = asyncio.Event()  # nobody can say anything any more
        self._heard = heard
        self._on_exit = on_exit
        self._rest = b""

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LINE_BYTES_MAX:
            lines, self._rest = [*lines, self._rest], b""
        for line in lines:
            self._heard(line.decode(errors="replace").rstrip())

    def pipe_connection_lost(self, fd: int, error: Exception | None) -> None:
        if fd == STANDARD_ERROR:
            self.silent.set()

    def process_exited(self) -> None:
        self.exited.set()
        self._on_exit()


class Supervisor:
    """Keeps one process running while it is wanted. Its death hurts nobody else.

    When it is ready it logs `The NAME is ready: TEXT`, and `on_ready` gets the text.
    """

    def __init__(
        self,
        view: PipelineView,
        wanted: Callable[[], bool],
        now_ms: Callable[[], int],
        name: str = "pipeline",
        on_ready: Callable[[str], None] | None = None,
    ) -> None:
        self._view = view
        self._wanted = wanted
        self._now_ms = now_ms
        self._name = name
        self._on_ready = on_ready
        self._changed = asyncio.Event()
        self._stopping = False
        self._last_error = ""  # of the process that runs, or ran last
        self._task: asyncio.Task[None] | None = None

    def start(self, command: Command) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(command))

    def look(self) -> None:
        """It may be wanted now, or not any more."""
        self._changed.set()

    async def stop(self) -> None:
        if self._task is not None:
            self._stopping = True
            self._changed.set()
            await self._task

    async def _run(self, command: Command) -> None:
        pause_s = RESTART_PAUSE_S_MIN
        while not self._stopping:
            if not self._wanted():
                self._say("not needed")
                await self._wait(None)
                continue
            started = asyncio.get_running_loop().time()
            status = await self._run_once(command)
            if self._stopping or status is None:
                continue
            if self._view.state == "running":
                pause_s = min(pause_s, RESTART_PAUSE_S_MAX_IF_READY)
            lived_s = asyncio.get_running_loop().time() - started
            if lived_s > HEALTHY_AFTER_S:
                pause_s = RESTART_PAUSE_S_MIN
            unavailable = status == EXIT_UNAVAILABLE
            wait_s = UNAVAILABLE_PAUSE_S if unavailable else pause_s
            self._view.restarts += 1
            self._view.next_start_time = self._now_ms() + int(wait_s * 1000)
            text = self._last_error.rstrip(".")
            if not unavailable:
                text = f"ended {_how(status)}" + (f": {text}" if text else "")
                log.warning("The %s %s; it is started again in %g s.", self._name, text, wait_s)
            self._say("unavailable" if unavailable else "restarting", text or None)
            pause_s = min(pause_s * 2, RESTART_PAUSE_S_MAX)
            await self._pause(wait_s)

    async def _run_once(self, command: Command) -> int | None:
        """One life of the process: its exit status, None if it was stopped on purpose."""
        self._say("starting")
        self._last_error = ""
        self._view.next_start_time = None
        loop = asyncio.get_running_loop()
        try:
            transport, life = await loop.subprocess_exec(
                lambda: Life(self._heard, self._changed.set),
                *command.arguments,
                env=command.environment,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,  # so that all of it can be ended at once
            )
        except OSError as error:
            self._last_error = f"{command.arguments[0]}: {error.strerror}"
            return EXIT_NOT_STARTED
        self._view.process_id = transport.get_pid()
        try:
            while await self._still_wanted(life):
                await self._wait(None)
            if life.exited.is_set():
                return transport.get_returncode()
            transport.terminate()  # it ends Java and the workers, in order
            await _within(STOP_WITHIN_S, life.exited)
            return None
        finally:
            self._view.process_id = None
            _kill_group(transport.get_pid())
            await life.exited.wait()
            await _within(LAST_WORDS_WITHIN_S, life.silent)
            transport.close()

    async def _still_wanted(self, life: Life) -> bool:
        """False when it has ended, or nobody has wanted it for a while."""
        deadline = asyncio.get_running_loop().time() + IDLE_S_MAX
        while not self._stopping and not life.exited.is_set():
            if self._wanted():
                return True
            left_s = deadline - asyncio.get_running_loop().time()
            if left_s <= 0:
                return False
            await self._wait(left_s)
        return False

    def _heard(self, text: str) -> None:
        """Pass on what the process says, and keep its last error for the status."""
        sys.stderr.write(f"{logs.passed_on(text, f'penstock.{self._name}')}\n")
        line = logs.read_back(text)
        if line is None:
            return
        ready_text = f"The {self._name} is ready"
        if line.message.startswith(ready_text):
            found = line.message.removeprefix(ready_text).strip(": ")
            self._say("running", found or None)
            if self._on_ready is not None:
                self._on_ready(found)
        if line.level == "ERROR":
            self._last_error = line.message

    async def _pause(self, pause_s: float) -> None:
        """Wait, but not longer than the process is wanted."""
        deadline = asyncio.get_running_loop().time() + pause_s
        while not self._stopping and self._wanted():
            left_s = deadline - asyncio.get_running_loop().time()
            if left_s <= 0:
                return
            await self._wait(left_s)

    async def _wait(self, seconds: float | None) -> None:
        if seconds is None:
            await self._changed.wait()
        else:
            await _within(seconds, self._changed)
        self._changed.clear()

    def _say(self, state: str, text: str | None = None) -> None:
        self._view.state = state
        self._view.text = text


def _how(status: int) -> str:
    return f"with status {status}" if status >= 0 else f"by {signal.Signals(-status).name}"


async def _within(seconds: float, event: asyncio.Event) -> None:
    """Wait for something, but no longer than this."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def _kill_group(process_id: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process_id, signal.SIGKILL)
