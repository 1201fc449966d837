"""The supervisor with small programs in the place of the pipeline: their lives, and their ends."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from penstock.export_model import PipelineView
from penstock.server import supervisor
from penstock.server.app import _loop_factory
from penstock.server.supervisor import Command, Supervisor

Result = TypeVar("Result")

PATIENCE_S = 20
HEAD = "2026-01-01T12:00:00.000Z"
# Says that it is ready, and lives until it is told to end or its standard input does.
GOOD = f"""
import sys
print("{HEAD} INFO  penstock.pipeline.app  The pipeline is ready: local[5]", file=sys.stderr)
sys.stderr.flush()
sys.stdin.read()
"""
# The same, but with a child that ignores SIGTERM, as it does itself.
STUBBORN = f"""
import signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
with open(sys.argv[1], "w") as file:
    file.write(str(child.pid))
print("{HEAD} INFO  penstock.pipeline.app  The pipeline is ready: local[5]", file=sys.stderr)
sys.stderr.flush()
child.wait()
"""


def program(text: str, *arguments: str) -> Command:
    return Command((sys.executable, "-c", text, *arguments), dict(os.environ))


def ends_with(status: int, sentence: str) -> Command:
    line = f"{HEAD} ERROR penstock.pipeline.app  {sentence}"
    return program(f"import sys; print({line!r}, file=sys.stderr); sys.exit({status})")


def run(scenario: Coroutine[Any, Any, Result]) -> Result:
    """On the loop that the server runs on."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(scenario)


def is_alive(process_id: int) -> bool:
    """A process that only waits for its parent to notice its end is not."""
    try:
        stat = Path(f"/proc/{process_id}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(") ")[2][0] != "Z"


async def until(condition: Callable[[], bool]) -> None:
    """Somebody else's process does it, so there is no event to wait for."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


class Office:
    """A supervisor, and those who may want a pipeline."""

    def __init__(self) -> None:
        self.view = PipelineView(state="not needed")
        self.is_wanted = True
        self.supervisor = Supervisor(self.view, lambda: self.is_wanted, lambda: 5_000)

    def want(self, wanted: bool) -> None:
        self.is_wanted = wanted
        self.supervisor.look()

    async def until(self, state: str) -> None:
        await until(lambda: self.view.state == state)


@asynccontextmanager
async def watching(command: Command, *, wanted: bool = True) -> AsyncIterator[Office]:
    office = Office()
    office.is_wanted = wanted
    office.supervisor.start(command)
    yield office
    async with asyncio.timeout(PATIENCE_S):
        await office.supervisor.stop()


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "RESTART_PAUSE_S_MIN", 0.05)
    monkeypatch.setattr(supervisor, "RESTART_PAUSE_S_MAX", 0.4)
    monkeypatch.setattr(supervisor, "STOP_WITHIN_S", 0.5)


def test_nothing_is_started_before_it_is_wanted() -> None:
    async def scenario() -> None:
        async with watching(program(GOOD), wanted=False) as office:
            office.supervisor.look()
            await asyncio.sleep(0.05)
            assert (office.view.state, office.view.process_id) == ("not needed", None)
            office.want(True)
            await office.until("running")
            assert office.view.text == "local[5]"
            assert office.view.process_id is not None
            assert office.view.restarts == 0

    run(scenario())


def test_a_process_that_dies_is_started_again_after_pauses_that_grow(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with watching(ends_with(3, "The server is gone: nobody answers")) as office:
            await until(lambda: office.view.restarts >= 5)
            await office.until("restarting")
            expected = "ended with status 3: The server is gone: nobody answers"
            assert office.view.text == expected
            assert office.view.next_start_time == 5_000 + 400
            assert office.view.process_id is None

    run(scenario())
    pauses = [re.findall(r"again in ([\d.]+) s", line) for line in caplog.messages]
    assert [float(found[0]) for found in pauses if found][:5] == [0.05, 0.1, 0.2, 0.4, 0.4]


def test_after_a_long_life_the_pauses_begin_small_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(supervisor, "HEALTHY_AFTER_S", 0.0)

    async def scenario() -> None:
        async with watching(ends_with(3, "x")) as office:
            await until(lambda: office.view.restarts >= 3)

    run(scenario())
    assert len([line for line in caplog.messages if "again in 0.05 s" in line]) >= 3


def test_a_process_that_is_killed_says_by_what(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with watching(program(GOOD)) as office:
            await office.until("running")
            first = office.view.process_id
            assert first is not None
            os.kill(first, 9)
            await until(lambda: office.view.process_id not in (first, None))
            await office.until("running")

    run(scenario())
    assert "The pipeline ended by SIGKILL; it is started again in 0.05 s." in caplog.messages


def test_what_is_missing_is_said_and_tried_again_later() -> None:
    async def scenario() -> None:
        async with watching(ends_with(69, "pyspark is not installed: run this")) as office:
            await office.until("unavailable")
            assert office.view.text == "pyspark is not installed: run this"
            assert office.view.next_start_time == 5_000 + 60_000
            office.want(False)
            await office.until("not needed")
            office.want(True)
            await until(lambda: office.view.restarts == 2)

    run(scenario())


def test_a_command_that_is_not_there_is_reported_like_a_death() -> None:
    async def scenario() -> None:
        async with watching(Command(("/nowhere/at/all",), {})) as office:
            await office.until("restarting")
            assert office.view.text is not None
            assert "/nowhere/at/all" in office.view.text

    run(scenario())


def test_it_ends_when_nobody_has_wanted_it_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "IDLE_S_MAX", 0.2)

    async def scenario() -> None:
        async with watching(program(GOOD)) as office:
            await office.until("running")
            process_id = office.view.process_id
            assert process_id is not None
            office.want(False)
            begun = time.monotonic()
            await office.until("not needed")
            assert time.monotonic() - begun >= 0.2
            assert not is_alive(process_id)
            assert office.view.restarts == 0, "it did not die, it was sent home"

    run(scenario())


def test_who_wants_it_back_in_time_keeps_the_same_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "IDLE_S_MAX", 0.2)

    async def scenario() -> None:
        async with watching(program(GOOD)) as office:
            await office.until("running")
            process_id = office.view.process_id
            office.want(False)
            await asyncio.sleep(0.05)
            office.want(True)
            await asyncio.sleep(0.3)
            assert (office.view.state, office.view.process_id) == ("running", process_id)

    run(scenario())


def test_a_death_is_noticed_while_nobody_wants_it() -> None:
    async def scenario() -> None:
        async with watching(program(GOOD)) as office:
            await office.until("running")
            process_id = office.view.process_id
            assert process_id is not None
            office.want(False)
            await asyncio.sleep(0.02)
            os.kill(process_id, 9)
            await office.until("not needed")
            assert office.view.process_id is None

    run(scenario())


def test_a_stop_ends_the_process_and_all_its_children_even_if_they_do_not_listen(
    tmp_path: Path,
) -> None:
    async def scenario() -> tuple[int, int]:
        note = tmp_path / "child"
        async with watching(program(STUBBORN, str(note))) as office:
            await office.until("running")
            assert office.view.process_id is not None
            ids = office.view.process_id, int(note.read_text())
            assert all(map(is_alive, ids))
        await until(lambda: not any(map(is_alive, ids)))
        return ids

    ids = run(scenario())
    assert not any(map(is_alive, ids))


def test_the_children_of_a_process_that_died_are_ended_too(tmp_path: Path) -> None:
    async def scenario() -> None:
        note = tmp_path / "child"
        async with watching(program(STUBBORN, str(note))) as office:
            await office.until("running")
            assert office.view.process_id is not None
            child = int(note.read_text())
            os.kill(office.view.process_id, 9)
            await until(lambda: not is_alive(child))

    run(scenario())


def test_a_process_without_a_server_finds_its_standard_input_closed() -> None:
    """However the server ends, kill -9 included, the kernel closes the pipe."""
    outer = f"""
import asyncio, os, sys
from penstock.export_model import PipelineView
from penstock.server.supervisor import Command, Supervisor

async def main():
    view = PipelineView(state="")
    command = Command((sys.executable, "-c", {GOOD!r}), dict(os.environ))
    Supervisor(view, lambda: True, lambda: 0).start(command)
    while view.state != "running":
        await asyncio.sleep(0.01)
    print(view.process_id, flush=True)
    os.kill(os.getpid(), 9)

asyncio.run(main())
"""

    async def scenario() -> None:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", outer),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        output, _ = await process.communicate()
        await until(lambda: not is_alive(int(output)))

    run(scenario())


def test_what_the_process_says_is_passed_on_even_in_endless_lines(
    capfd: pytest.CaptureFixture[str],
) -> None:
    talkative = f"import sys; sys.stderr.write('x' * 1_000_000); sys.stderr.write('\\n')\n{GOOD}"

    async def scenario() -> None:
        async with watching(program(talkative)) as office:
            await office.until("running")

    run(scenario())
    assert capfd.readouterr().err.count("x") >= 1_000_000
