"""One page, followed from top to bottom as a reader would."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fenced import Fenced
from staying import Shells

from environments import node_modules_with, python_with
from penstock.settings import Settings
from server_process import clean_environment

PROGRAM_TIMEOUT_S = 90
PORT_VARIABLE = "STREAM_MANAGER_SERVER_PORT"
# Our own bytecode caches and class-data archive are kept: a reader's second start is shown.
CACHE = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")


@dataclass
class Prepared:
    """What is there before a page begins."""

    # Names that the page's Python takes for granted.
    names: dict[str, Any] = field(default_factory=dict)
    # Addresses and folders of the page, and those of this run.
    replaced: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)


@dataclass
class Walk:
    """What the blocks of one page share."""

    shells: Shells
    namespace: dict[str, Any]
    replaced: dict[str, str]
    monkeypatch: pytest.MonkeyPatch
    output: str = ""

    @property
    def folder(self) -> Path:
        return self.shells.folder

    def follow(self, block: Fenced) -> None:
        """Run a block; AssertionError, or whatever it raises, if it does not work as it stands."""
        text = block.text
        for old, new in self.replaced.items():
            text = text.replace(old, new)
        runner = RUNNERS.get(block.language)
        assert runner is not None, f"{block.place}: nobody knows how to run {block.language!r}"
        runner(self, block, text)

    def python(self, block: Fenced, text: str) -> None:
        if block.file_name is not None:
            python = python_with("stream-manager==1.1.2")
            self.program(block, text, [str(python), block.file_name])
            return
        code = compile("\n" * (block.line - 1) + text, block.page, "exec")
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(code, self.namespace)
        self.output += printed.getvalue()

    def javascript(self, block: Fenced, text: str) -> None:
        assert block.file_name is not None, f"{block.place}: name the file"
        modules = node_modules_with("aws-greengrass-core-sdk@1.7.0")
        self.program(block, text, ["node", block.file_name], {"NODE_PATH": str(modules)})

    def program(
        self,
        block: Fenced,
        text: str,
        command: list[str],
        variables: dict[str, str] | None = None,
    ) -> None:
        assert block.file_name is not None
        (self.folder / block.file_name).write_text(text)
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.shells.environment | (variables or {}),
            capture_output=True,
            text=True,
            timeout=PROGRAM_TIMEOUT_S,
        )
        assert done.returncode == 0, f"{block.place}: {done.stderr}"
        self.output += done.stdout

    def shell(self, block: Fenced, text: str) -> None:
        if "penstock serve" in text:
            self.shells.environment[PORT_VARIABLE] = "0"
        self.output += self.shells.run(text, block.place)
        if "penstock serve" in self.shells.running:
            self.use_server(self.shells.port("penstock serve"))
        if "penstock local-cloud" in self.shells.running:
            port = self.shells.port("penstock local-cloud")
            self.replaced["127.0.0.1:4566"] = f"127.0.0.1:{port}"

    def toml(self, block: Fenced, text: str) -> None:
        """A settings file, which stays for the commands that follow."""
        path = self.folder / "penstock.toml"
        path.write_text(text)
        Settings.load({}, {}, str(path))

    def json(self, block: Fenced, text: str) -> None:
        json.loads(text)

    def use_server(self, port: int) -> None:
        """From here on, the page's address of a server means this one."""
        self.replaced["127.0.0.1:8088"] = f"127.0.0.1:{port}"
        self.shells.environment[PORT_VARIABLE] = str(port)
        self.monkeypatch.setenv(PORT_VARIABLE, str(port))


RUNNERS: dict[str, Callable[[Walk, Fenced, str], None]] = {
    "python": Walk.python,
    "javascript": Walk.javascript,
    "sh": Walk.shell,
    "toml": Walk.toml,
    "json": Walk.json,
}
# Shown, not run: output and pictures; bytes, which test_shown_bytes compares.
NOT_CODE = ("text", "hex")


def reader_environment(folder: Path) -> dict[str, str]:
    """A shell of somebody who has Penstock on the path, and has set nothing."""
    home = folder / "home"
    home.mkdir()
    return clean_environment() | {
        "HOME": str(home),
        "PATH": f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}",
        "XDG_CACHE_HOME": CACHE,
        "PENSTOCK_CONSOLE": "false",  # pages about it turn it on
    }
