"""Completion by a real shell, with the script that `penstock completion` prints."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import CommandLine

# What readline does: the words, the number of the last one, then the function of `complete -F`.
ASK = """
eval "$(penstock completion bash)"
COMP_WORDS=({words})
COMP_CWORD={last}
_penstock_completion penstock
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A PATH whose `penstock` is the one under test."""
    script = tmp_path / "bin" / "penstock"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m penstock "$@"\n')
    script.chmod(0o755)
    return f"{script.parent}:{os.environ['PATH']}"


def completed(line: CommandLine, path: str, *words: str) -> list[str]:
    """What bash offers for the last word."""
    quoted = " ".join(f"'{word}'" for word in ("penstock", *words))
    done = subprocess.run(
        ["bash", "--norc", "-c", ASK.format(words=quoted, last=len(words))],
        capture_output=True,
        text=True,
        env=line.environment | {"PATH": path},
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split("\n")[:-1]


def test_bash_completes_commands_and_options(penstock: CommandLine, path: str):
    assert completed(penstock, path, "stat") == ["status"]
    assert completed(penstock, path, "streams", "d") == ["delete", "describe"]
    assert completed(penstock, path, "status", "--w") == ["--watch"]


def test_bash_completes_streams_from_the_server(connected: CommandLine, path: str):
    for name in ("Turbine1", "Turbine2", "Boiler"):
        connected.succeeds("streams", "create", name)
    assert completed(connected, path, "streams", "describe", "Tu") == ["Turbine1", "Turbine2"]
    assert completed(connected, path, "read", "B") == ["Boiler"]
    assert completed(connected, path, "append", "B") == ["Boiler"]
    assert completed(connected, path, "dead-letters", "list", "--stream", "B") == ["Boiler"]


def test_an_option_that_was_typed_leads_to_the_server(
    penstock: CommandLine, connected: CommandLine, path: str
):
    connected.succeeds("streams", "create", "Option")
    port = connected.variables["STREAM_MANAGER_SERVER_PORT"]
    assert completed(penstock, path, "streams", "delete", "--port", port, "Opt") == ["Option"]


@pytest.mark.parametrize("port", ["nobody", "0", "not a port"])
def test_without_a_server_there_are_no_names_and_no_error(
    penstock: CommandLine, path: str, unused_port: int, port: str
):
    penstock.environment["STREAM_MANAGER_SERVER_PORT"] = (
        str(unused_port) if port == "nobody" else port
    )
    assert completed(penstock, path, "read", "T") == [""]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_gets_its_script(penstock: CommandLine, shell: str):
    text = penstock.succeeds("completion", shell).text
    assert f"_PENSTOCK_COMPLETE={shell}_complete" in text
    if shutil.which(shell):
        done = subprocess.run([shell, "-n"], input=text, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")


def test_another_shell_is_refused(penstock: CommandLine):
    result = penstock("completion", "tcsh")
    assert result.status == 2
    assert "'bash', 'zsh', 'fish'" in result.errors
