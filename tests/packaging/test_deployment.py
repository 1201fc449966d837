"""The files below deploy/: checked by the tools that read them, and run."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from recipe import BadRecipe, interpolated, read_recipe

from penstock import StreamManagerClient
from penstock.settings import SETTINGS, Settings
from penstock.testing import PenstockServer
from penstock.version import __version__
from server_process import clean_environment

PROJECT = Path(__file__).parent.parent.parent
SYSTEMD = PROJECT / "deploy" / "systemd"
DOCKER = PROJECT / "deploy" / "docker"
RECIPE = PROJECT / "deploy" / "greengrass" / "recipe.yaml"
TOOLS = Path(sys.executable).parent
VARIABLES = {name: setting for setting in SETTINGS.values() for name in setting.variables}
# Of `systemd-analyze security`: 10 is everything allowed. A network and Java cost 1.3.
EXPOSURE_MAX = 1.5


def assert_known(names: set[str]) -> None:
    """Variables that look like settings are settings."""
    unknown = {name for name in names if name not in VARIABLES and not name.startswith("XDG_")}
    assert unknown <= {"HOME", "PATH", "PYTHONDONTWRITEBYTECODE"}


# --- systemd ------------------------------------------------------------------------------------


def unit(name: str) -> dict[str, list[str]]:
    """Keys of a unit file; sections have none in common."""
    found: dict[str, list[str]] = {}
    for line in (SYSTEMD / name).read_text().splitlines():
        if line and line[0] not in "#[":
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


def test_the_unit_shuts_the_server_in_but_lets_java_run():
    service = unit("penstock.service")
    for key in (
        *("NoNewPrivileges", "DynamicUser", "PrivateTmp", "PrivateDevices", "PrivateUsers"),
        *("ProtectHome", "ProtectClock", "ProtectHostname", "ProtectKernelModules"),
        *("RestrictNamespaces", "RestrictRealtime", "RestrictSUIDSGID", "LockPersonality"),
    ):
        assert service[key] == ["yes"], key
    assert service["ProtectSystem"] == ["strict"]
    assert service["CapabilityBoundingSet"] == [""]
    assert service["SystemCallFilter"][0] == "@system-service"
    assert service["StateDirectory"] == ["penstock"]
    assert "MemoryDenyWriteExecute" not in service
    # boot_id, by which a power cut is noticed, is not in the subset.
    assert "ProcSubset" not in service
    without_java = unit("without-java.conf")
    assert without_java["MemoryDenyWriteExecute"] == ["yes"]
    assert without_java["Environment"] == ["PENSTOCK_PIPELINE=off"]


def test_the_unit_waits_for_what_the_server_says():
    service = unit("penstock.service")
    assert (service["Type"], service["NotifyAccess"]) == (["notify"], ["main"])
    assert int(service["WatchdogSec"][0]) >= 10
    assert service["KillMode"] == ["mixed"]


def test_the_variables_of_the_unit_lead_to_its_own_folders():
    (text,) = unit("penstock.service")["Environment"]
    variables = dict(each.split("=") for each in shlex.split(text))
    assert_known(set(variables))
    folders = {name: value.replace("%S", "/var/lib") for name, value in variables.items()}
    assert Settings.load({}, folders, config_search=()).settings.data_dir == "/var/lib/penstock"


def test_systemd_itself_has_nothing_against_the_unit(tmp_path: Path):
    command = unit("penstock.service")["ExecStart"][0].split()
    assert command == ["/opt/penstock/bin/penstock", "serve"]
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        # Then at least every line is a section, a comment, or a key with a value.
        for name in ("penstock.service", "without-java.conf"):
            for line in (SYSTEMD / name).read_text().splitlines():
                assert re.fullmatch(r"(\[[A-Z][a-z]+\]|#.*|[A-Z][A-Za-z]+=.*|)", line), line
        return
    installed = (SYSTEMD / "penstock.service").read_text()
    installed = installed.replace(command[0], str(TOOLS / "penstock"))
    (tmp_path / "penstock.service").write_text(installed)
    drop_ins = tmp_path / "penstock.service.d"
    for with_drop_in in (False, True):
        if with_drop_in:
            drop_ins.mkdir()
            shutil.copy(SYSTEMD / "without-java.conf", drop_ins)
        verified = run(analyze, "verify", str(tmp_path / "penstock.service"))
        assert (verified.returncode, verified.stdout + verified.stderr) == (0, "")
    judged = run(
        *(
            analyze,
            "security",
            "--offline=yes",
            "--no-pager",
            f"--threshold={EXPOSURE_MAX * 10:.0f}",
        ),
        str(SYSTEMD / "penstock.service"),
    )
    assert judged.returncode == 0, judged.stdout


# --- Docker -------------------------------------------------------------------------------------


def instructions(name: str) -> list[tuple[str, str]]:
    """(instruction, arguments) of a Dockerfile, in order."""
    text = re.sub(r"^#.*\n", "", (DOCKER / name).read_text(), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [(line.split()[0], line.partition(" ")[2].strip()) for line in lines if line.strip()]


@pytest.mark.parametrize("name", ["Dockerfile", "Dockerfile.spark"])
def test_hadolint_has_nothing_against_the_images(name: str):
    done = run(str(TOOLS / "hadolint"), str(DOCKER / name))
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("name", ["Dockerfile", "Dockerfile.spark"])
def test_images_copy_what_is_there_and_what_docker_is_shown(name: str):
    shown = (PROJECT / ".dockerignore").read_text().splitlines()
    for instruction, arguments in instructions(name):
        if instruction == "COPY" and not arguments.startswith("--from"):
            for source in arguments.split()[:-1]:
                assert (PROJECT / source).exists()
                assert f"!{source}" in shown


@pytest.mark.parametrize("name", ["Dockerfile", "Dockerfile.spark"])
def test_images_run_a_user_without_rights_with_variables_that_are_known(name: str):
    found = instructions(name)
    (user,) = (arguments for instruction, arguments in found if instruction == "USER")
    (made,) = (arguments for instruction, arguments in found if "useradd" in arguments)
    assert user != "0"
    assert f"--uid {user} " in made
    (environment,) = (arguments for instruction, arguments in found if instruction == "ENV")
    variables = dict(each.split("=", 1) for each in environment.split())
    assert_known(set(variables))
    (volume,) = (arguments for instruction, arguments in found if instruction == "VOLUME")
    assert variables["PENSTOCK_DATA_DIR"] == volume
    entry = [
        json.loads(arguments)
        for instruction, arguments in found
        if instruction in ("CMD", "ENTRYPOINT")
    ]
    assert entry == [["penstock"], ["serve"]]


@pytest.fixture(scope="module")
def console_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the console of a healthy server listens."""
    folder = tmp_path_factory.mktemp("console")
    with PenstockServer(folder, environment={"PENSTOCK_PIPELINE": "off"}, console=True) as server:
        yield server.console_url.rpartition(":")[2]


@pytest.mark.parametrize("name", ["Dockerfile", "Dockerfile.spark"])
def test_the_health_of_a_container_is_that_of_the_server(name: str, console_port: str):
    (check,) = (
        arguments for instruction, arguments in instructions(name) if instruction == "HEALTHCHECK"
    )
    command = json.loads(check.partition("CMD ")[2])
    command[0] = sys.executable
    variables = clean_environment()
    healthy = subprocess.run(
        command, env=variables | {"PENSTOCK_CONSOLE_PORT": console_port}, timeout=30
    )
    assert healthy.returncode == 0
    sick = subprocess.run(
        command, env=variables | {"PENSTOCK_CONSOLE_PORT": "9"}, capture_output=True, timeout=30
    )
    assert sick.returncode == 1


# --- Greengrass ---------------------------------------------------------------------------------


def manifest() -> dict[str, Any]:
    (found,) = read_recipe(RECIPE)["Manifests"]
    return dict(found)


def test_the_recipe_takes_the_place_of_aws_own():
    recipe = read_recipe(RECIPE)
    assert recipe["ComponentName"] == "aws.greengrass.StreamManager"
    assert recipe["ComponentVersion"].startswith("2.")
    assert "aws.greengrass.TokenExchangeService" in recipe["ComponentDependencies"]
    assert manifest()["Artifacts"][0]["URI"].endswith(f"/penstock-{__version__}-py3-none-any.whl")
    assert (
        f"penstock-{__version__}-py3-none-any.whl[" in manifest()["Lifecycle"]["Install"]["Script"]
    )


def test_every_key_of_the_configuration_reaches_a_setting():
    recipe = read_recipe(RECIPE)
    keys = set(recipe["ComponentConfiguration"]["DefaultConfiguration"])
    passed = manifest()["Lifecycle"]["Setenv"]
    assert_known(set(passed))
    assert keys == {name for name in passed if name in VARIABLES}
    assert all(passed[name] == f"{{configuration:/{name}}}" for name in keys)
    aws_own = {name for setting in SETTINGS.values() for name in setting.about.aws_variables}
    # The host is loopback on a device; the second name of the pool is of an old page; read-only
    # folders are Greengrass v1's.
    assert aws_own - keys == {
        "STREAM_MANAGER_SERVER_HOST",
        "STREAM_MANAGER_THREAD_POOL_SIZE",
        "STREAM_MANAGER_READ_ONLY_DIRS",
    }


def test_the_settings_take_the_default_configuration():
    recipe = read_recipe(RECIPE)
    environ = {
        name: interpolated(value, recipe, {"work:path": "/greengrass/work"})
        for name, value in manifest()["Lifecycle"]["Setenv"].items()
    }
    settings = Settings.load({}, environ, config_search=()).settings
    assert settings.warnings() == []
    assert (settings.port, settings.data_dir) == (8088, "/greengrass/work/penstock")
    defaults = Settings(data_dir=settings.data_dir, authenticate_client=False)
    assert settings == defaults


def test_the_run_script_starts_a_server(tmp_path: Path):
    """As the nucleus does it: variables and script interpolated, then sh."""
    recipe = read_recipe(RECIPE)
    configuration = recipe["ComponentConfiguration"]["DefaultConfiguration"]
    configuration |= {"STREAM_MANAGER_SERVER_PORT": "0", "PENSTOCK_CONSOLE": "false"}
    (tmp_path / "venv").symlink_to(sys.prefix)
    paths = {"work:path": str(tmp_path)}
    lifecycle = manifest()["Lifecycle"]
    environ = {
        name: interpolated(text, recipe, paths) for name, text in lifecycle["Setenv"].items()
    }
    with subprocess.Popen(
        ["sh", "-c", interpolated(lifecycle["Run"]["Script"], recipe, paths)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=clean_environment() | environ,
    ) as process:
        assert process.stdout is not None
        ready = process.stdout.readline()
        found = re.search(r":(\d+) \(data in (.+)\)$", ready)
        assert found, ready
        assert found[2] == str(tmp_path / "penstock")
        with StreamManagerClient(port=int(found[1])) as client:
            assert client.list_streams() == []
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "Stream Manager reporting the state: RUNNING" in errors


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda recipe: recipe.pop("ComponentVersion"), "ComponentVersion"),
        (lambda recipe: recipe.update(ComponentVersion="2.1"), "ComponentVersion"),
        (lambda recipe: recipe.update(Manifest=[]), "Manifest"),
        (lambda recipe: recipe.update(Manifests=[]), "empty"),
        (lambda recipe: recipe.update(RecipeFormatVersion="2021-01-01"), "RecipeFormatVersion"),
        (lambda recipe: recipe["Manifests"][0]["Lifecycle"].update(Start="x"), "Start"),
        (lambda recipe: recipe["Manifests"][0]["Lifecycle"].update(Startup="x"), "both"),
        (lambda recipe: recipe["Manifests"][0]["Lifecycle"]["Run"].pop("Script"), "no Script"),
        (
            lambda recipe: recipe["Manifests"][0]["Lifecycle"]["Setenv"].update(
                A="{configuration:/B}"
            ),
            "no such key",
        ),
        (
            lambda recipe: recipe["Manifests"][0]["Lifecycle"]["Run"].update(Script="{work:dir}"),
            "unknown",
        ),
    ],
)
def test_the_reader_of_recipes_refuses_what_is_wrong(tmp_path: Path, change: Any, words: str):
    recipe = yaml.safe_load(RECIPE.read_text())
    change(recipe)
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    with pytest.raises(BadRecipe, match=words):
        read_recipe(tmp_path / "recipe.yaml")


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, env=os.environ | {"LC_ALL": "C"}
    )
