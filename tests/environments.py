"""Environments that hold other people's clients, installed once and kept.

Promise     what `python_with` and `node_modules_with` return is complete, or they raise.
Place       build/environments/<name>-<hash of what is asked for>; deleting it is always safe.
Always      a folder gets its final name when it is finished, so an interrupted installation is
            never mistaken for one; a lock file keeps two test runs from building the same one.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ENVIRONMENTS = Path(__file__).parent.parent / "build" / "environments"
# A cold installation takes 2-8 s; a registry that needs minutes is as good as none.
INSTALL_TIMEOUT_S = 180

Install = Callable[[Path, str], None]


class InstallationFailed(Exception):
    """A registry or a build tool is missing or broken; the text holds its output."""


def python_with(requirement: str) -> Path:
    """The interpreter of an environment of its own that has this PyPI requirement."""
    runtime = f"{sys.version} {sys.base_prefix}"
    return ready(ENVIRONMENTS, requirement, runtime, install_from_pypi) / "bin" / "python"


def node_modules_with(package: str) -> Path:
    """The modules folder of an environment of its own that has this npm package."""
    return ready(ENVIRONMENTS, package, "node", install_from_npm) / "node_modules"


def ready(root: Path, requirement: str, runtime: str, install: Install) -> Path:
    """The finished environment; made now unless an earlier run made it."""
    asked_for = json.dumps([requirement, runtime]).encode()
    name = "".join(letter if letter.isalnum() else "-" for letter in requirement)
    final = root / f"{name}-{hashlib.sha256(asked_for).hexdigest()[:12]}"
    root.mkdir(parents=True, exist_ok=True)
    with open(f"{final}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not final.exists():
            make(final, requirement, install)
    return final


def make(final: Path, requirement: str, install: Install) -> None:
    """Install under another name, and rename when it is done. The caller holds the lock."""
    partial = final.with_name(f"{final.name}.partial")
    if partial.exists():
        shutil.rmtree(partial)
    install(partial, requirement)
    os.rename(partial, final)


def install_from_pypi(folder: Path, requirement: str) -> None:
    """A virtual environment. Its scripts break when it is renamed; its interpreter does not."""
    run([sys.executable, "-m", "venv", str(folder)])
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--no-input"]
    run([*pip, "install", requirement])


def install_from_npm(folder: Path, package: str) -> None:
    folder.mkdir()
    run(["npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", package])


def run(command: list[str]) -> None:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=INSTALL_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InstallationFailed(f"{shlex.join(command)}: {error}") from error
    if done.returncode != 0:
        raise InstallationFailed(
            f"{shlex.join(command)} ended with status {done.returncode}:\n{done.stdout}"
        )
