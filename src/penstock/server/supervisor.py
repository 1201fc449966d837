"""Starts and watches the pipeline process, as long as there are exports for it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass

from penstock.export_model import PipelineView

log = logging.getLogger(__name__)

READY_TEXT = "The pipeline is ready"  # what the process logs when it is
EXIT_UNAVAILABLE = 69  # what it ends with when something must be installed
RESTART_PAUSE_S_MIN = 1.0
RESTART_PAUSE_S_MAX = 60.0
# Nobody installs Java within seconds, but nobody wants to restart the server for it either.
UNAVAILABLE_PAUSE_S = 60.0
# A process that lived this long was healthy: the next pause begins small again.
HEALTHY_AFTER_S = 60.0
# Exports come and go when streams are updated; starting Spark again takes longer than this.
IDLE_S_MAX = 30.0
STOP_WITHIN_S = 20.0


@dataclass(frozen=True)
class Command:
    """How the pipeline is started."""

    arguments: tuple[str, ...]
    environment: dict[str, str]

    @staticmethod
    def embedded(host: str, port: int, token: str, options: tuple[str, ...]) -> Command:
        return Command(
            (
                *(sys.executable, "-m", "penstock", "pipeline"),
                *("--server", f"{host}:{port}", "--follow-parent"),
                *options,
            ),
            {**os.environ, "PENSTOCK_PIPELINE_TOKEN": token},
        )


class Supervisor:
    """Keeps one pipeline process running while it is wanted. Its death hurts nobody else."""

    def __init__(self, view: PipelineView, wanted: Callable[[], bool], now_ms: Callable[[], int]):
        self._view = view
        self._wanted = wanted
        self._now_ms = now_ms
        self._changed = asyncio.Event()
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    def start(self, command: Command) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(command))

    def look(self) -> None:
        """Exports may have come or gone."""
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
            lived_s = asyncio.get_running_loop().time() - started
            if lived_s > HEALTHY_AFTER_S:
                pause_s = RESTART_PAUSE_S_MIN
            unavailable = status == EXIT_UNAVAILABLE
            wait_s = UNAVAILABLE_PAUSE_S if unavailable else pause_s
            self._view.restarts += 1
            self._view.next_start_time = self._now_ms() + int(wait_s * 1000)
            text = self._view.text
            if not unavailable:
                text = f"ended with status {status}" + (f": {text}" if text else "")
                log.warning("The pipeline %s; it is started again in %g s.", text, wait_s)
            self._say("unavailable" if unavailable else "restarting", text)
            pause_s = min(pause_s * 2, RESTART_PAUSE_S_MAX)
            await self._pause(wait_s)

    async def _run_once(self, command: Command) -> int | None:
        """One life of the process: its exit status, None if it was stopped on purpose."""
        self._say("starting")
        self._view.next_start_time = None
        try:
            process = await asyncio.create_subprocess_exec(
                *command.arguments,
                env=command.environment,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,  # so that all of it can be ended at once
            )
        except OSError as error:
            self._view.text = str(error)
            return 1
        self._view.process_id = process.pid
        listening = asyncio.create_task(self._listen(process))
        ended = asyncio.create_task(process.wait())
        try:
            while not ended.done():
                if self._stopping or not await self._still_wanted(ended):
                    await self._end(process)
                    return None
                waiting = asyncio.create_task(self._changed.wait())
                await asyncio.wait([ended, waiting], return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                self._changed.clear()
            return ended.result()
        finally:
            self._view.process_id = None
            _kill_group(process.pid, signal.SIGKILL)
            await listening

    async def _still_wanted(self, ended: asyncio.Task[int]) -> bool:
        """False when nobody has wanted it for a while."""
        deadline = asyncio.get_running_loop().time() + IDLE_S_MAX
        while not self._wanted() and not self._stopping:
            left_s = deadline - asyncio.get_running_loop().time()
            if left_s <= 0 or ended.done():
                return False
            await self._wait(left_s)
        return True

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        """Pass on what the process says, and keep its last word for the status."""
        assert process.stderr is not None
        async for line in process.stderr:
            text = line.decode(errors="replace").rstrip()
            if READY_TEXT in text:
                self._say("running", text.partition(READY_TEXT)[2].strip(": ") or None)
            sys.stderr.write(f"{text}\n")
            if " ERROR " in text:
                self._view.text = text.partition("  ")[2].partition("  ")[2] or text

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        _kill_group(process.pid, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_WITHIN_S):
                await process.wait()

    async def _pause(self, pause_s: float) -> None:
        """Wait, but not longer than the pipeline is wanted."""
        deadline = asyncio.get_running_loop().time() + pause_s
        while not self._stopping and self._wanted():
            left_s = deadline - asyncio.get_running_loop().time()
            if left_s <= 0:
                return
            await self._wait(left_s)

    async def _wait(self, seconds: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        self._changed.clear()

    def _say(self, state: str, text: str | None = None) -> None:
        self._view.state = state
        self._view.text = text


def _kill_group(process_id: int, how: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process_id, how)
