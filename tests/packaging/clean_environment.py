"""A virtual environment with a wheel and the packages that it declares, made without a network.

The declared packages are links into the environment of the tests, which has all of them. A package
that is used but not declared is not there.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from email import message_from_bytes
from email.message import Message
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from server_process import clean_environment

TIMEOUT_S = 60


def build(project: Path, folder: Path) -> None:
    """The wheel and the source archive, by the backend itself: no network is needed."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)],
        cwd=project,
        check=True,
        capture_output=True,
        timeout=TIMEOUT_S,
    )


def wheel_metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_bytes(archive.read(name))


def declared(
    requirement: Requirement, own: Sequence[str], known: dict[str, set[str]]
) -> Iterator[str]:
    """Names of the distributions that a requirement brings, with all that those bring.

    What penstock itself brings is `own`: the environment of the tests may have an older one.
    """
    name = canonicalize_name(requirement.name)
    extras = {"", *requirement.extras}
    if extras <= known.get(name, set()):
        return
    known[name] = known.get(name, set()) | extras
    yield name
    for text in own if name == "penstock" else metadata.requires(name) or ():
        below = Requirement(text)
        if below.marker is None or any(below.marker.evaluate({"extra": each}) for each in extras):
            yield from declared(below, own, known)


class CleanEnvironment:
    """A wheel, installed by pip, and links to what it declares."""

    def __init__(
        self, folder: Path, wheel: Path, extras: Sequence[str] = (), also: Sequence[str] = ()
    ) -> None:
        self.folder = folder
        self.python = str(folder / "venv" / "bin" / "python")
        self.penstock = str(folder / "venv" / "bin" / "penstock")
        self.variables = clean_environment() | {
            "HOME": str(folder),
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        _run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")])
        pip = [sys.executable, "-m", "pip", "--python", self.python, "--disable-pip-version-check"]
        _run([*pip, "install", "--quiet", "--no-deps", "--no-index", "--no-compile", str(wheel)])
        (self.packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
        wanted = [Requirement(f"penstock[{','.join(extras)}]"), *map(Requirement, also)]
        own = wheel_metadata(wheel).get_all("Requires-Dist", [])
        self.declared = sorted(
            {name for each in wanted for name in declared(each, own, {})} - {"penstock"}
        )
        for name in self.declared:
            self._link(metadata.distribution(name))

    def run(self, *command: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """A command to its end, in this environment."""
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            cwd=cwd or self.folder,
            env=self.variables,
            timeout=TIMEOUT_S,
        )

    def _link(self, distribution: metadata.Distribution) -> None:
        for top in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
            place = self.packages / top
            if not place.exists():
                place.symlink_to(Path(str(distribution.locate_file(top))).resolve())


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr
