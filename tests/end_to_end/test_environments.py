"""The environments of the other tests: complete or not there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from environments import InstallationFailed, ready, run

TESTS = Path(__file__).parent.parent
BUILD_ONE = """
import sys, time
from pathlib import Path
from environments import ready

def install(folder, requirement):
    folder.mkdir()
    with open(sys.argv[2], "a") as log:
        log.write("begin\\n")
        log.flush()
        time.sleep(0.3)
        log.write("end\\n")

assert ready(Path(sys.argv[1]), "thing", "runtime", install).is_dir()
"""


def install_marker(folder: Path, requirement: str) -> None:
    folder.mkdir()
    (folder / "marker").write_text(requirement)


def refuse(folder: Path, requirement: str) -> None:
    raise AssertionError("it was installed already")


def interrupt(folder: Path, requirement: str) -> None:
    folder.mkdir()
    (folder / "half").touch()
    raise KeyboardInterrupt


def test_an_environment_is_made_once(tmp_path: Path) -> None:
    made = ready(tmp_path, "thing==1", "runtime", install_marker)
    assert ready(tmp_path, "thing==1", "runtime", refuse) == made
    assert (made / "marker").read_text() == "thing==1"


def test_another_version_or_runtime_is_another_environment(tmp_path: Path) -> None:
    asked_for = [("thing==1", "3.11"), ("thing==2", "3.11"), ("thing==1", "3.12")]
    folders = {ready(tmp_path, *each, install_marker) for each in asked_for}
    assert len(folders) == 3


def test_a_half_made_environment_is_made_again(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        ready(tmp_path, "thing", "runtime", interrupt)
    made = ready(tmp_path, "thing", "runtime", install_marker)
    assert [file.name for file in made.iterdir()] == ["marker"]


def test_two_test_runs_make_an_environment_once_between_them(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-c", BUILD_ONE, str(tmp_path / "root"), str(log)]
    both = [subprocess.Popen(command, cwd=TESTS) for _ in range(2)]
    assert [process.wait(30) for process in both] == [0, 0]
    assert log.read_text() == "begin\nend\n"


def test_an_installer_that_fails_is_an_error_with_its_words() -> None:
    failing = "import sys; sys.exit('no such package')"
    with pytest.raises(InstallationFailed, match="ended with status 1:\nno such package"):
        run([sys.executable, "-c", failing])


def test_an_installer_that_is_missing_is_an_error_with_its_name() -> None:
    with pytest.raises(InstallationFailed, match="no-such-installer"):
        run(["no-such-installer"])
