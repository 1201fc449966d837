"""What the README shows works as it stands there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from server_process import ServerProcess, clean_environment

README = (Path(__file__).parents[1] / "README.md").read_text()
PENSTOCK = [sys.executable, "-m", "penstock"]


def block(language: str, containing: str) -> str:
    """The code block with these words."""
    blocks = re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)
    (found,) = (text for text in blocks if containing in text)
    return str(found)


def variables(server: ServerProcess) -> dict[str, str]:
    return clean_environment() | {"STREAM_MANAGER_SERVER_PORT": str(server.port)}


def test_the_ten_lines_of_python_run(server: ServerProcess) -> None:
    done = subprocess.run(
        [sys.executable, "-c", block("python", "StreamManagerClient()")],
        env=variables(server),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "0 b'{\"rpm\": 14.2}'",
        "1 b'{\"rpm\": 14.3}'",
        "2 b'{\"rpm\": 14.1}'",
    ]


def test_the_commands_run(server: ServerProcess) -> None:
    output = ""
    for line in block("sh", "streams create").splitlines():
        program, *arguments = shlex.split(line, comments=True)
        assert os.path.basename(program) == "penstock"
        done = subprocess.run(
            [*PENSTOCK, *arguments],
            env=variables(server),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        output += done.stdout
    assert "first message" in output
    assert "Boiler" in output
