"""A strict reader of Greengrass v2 component recipes, after AWS's recipe reference.

`read_recipe` refuses what the nucleus would refuse, and what it would quietly ignore: a key that
nobody knows is a slip of the pen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

FORMAT_VERSION = "2020-01-25"
KEYS = {
    "recipe": {
        *("RecipeFormatVersion", "ComponentName", "ComponentVersion", "ComponentDescription"),
        *("ComponentPublisher", "ComponentConfiguration", "ComponentDependencies"),
        *("ComponentType", "ComponentSource", "Manifests", "Lifecycle"),
    },
    "manifest": {"Name", "Platform", "Lifecycle", "Selections", "Artifacts"},
    "platform": {"os", "architecture", "architecture.detail", "runtime"},
    "artifact": {"URI", "Unarchive", "Permission", "Digest", "Algorithm"},
    "dependency": {"VersionRequirement", "DependencyType"},
    "lifecycle": {
        *("Setenv", "Bootstrap", "Install", "Run", "Startup", "Shutdown", "Recover"),
    },
    "step": {"Script", "RequiresPrivilege", "Skipif", "Timeout", "Setenv", "BootstrapOnRollback"},
}
REQUIRED = {"RecipeFormatVersion", "ComponentName", "ComponentVersion", "Manifests"}
# What the nucleus puts in itself, for the component or one that it depends on.
OWN_VARIABLES = {
    *("artifacts:path", "artifacts:decompressedPath", "work:path"),
    *("kernel:rootPath", "iot:thingName"),
}
VARIABLE = re.compile(r"\{([A-Za-z][A-Za-z.]*(?::[^{}\s]+)+)\}")


class BadRecipe(Exception):
    """The text says where and what."""


def read_recipe(path: Path) -> dict[str, Any]:
    """The recipe, if all of it is allowed."""
    recipe = yaml.safe_load(path.read_text())
    _known(recipe, "recipe", path.name)
    missing = REQUIRED - set(recipe)
    _refuse_if(bool(missing), path.name, f"{sorted(missing)} missing")
    _refuse_if(recipe["RecipeFormatVersion"] != FORMAT_VERSION, "RecipeFormatVersion", "unknown")
    name, version = recipe["ComponentName"], recipe["ComponentVersion"]
    _refuse_if(not re.fullmatch(r"[a-zA-Z0-9\-_.]{1,128}", name), "ComponentName", name)
    _refuse_if(
        not isinstance(version, str)
        or not re.fullmatch(r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}", version),
        "ComponentVersion",
        version,
    )
    for dependency, about in recipe.get("ComponentDependencies", {}).items():
        _known(about, "dependency", dependency)
        _refuse_if(about["DependencyType"] not in ("HARD", "SOFT"), dependency, "type")
    _refuse_if(
        set(recipe.get("ComponentConfiguration", {})) - {"DefaultConfiguration"} != set(),
        "ComponentConfiguration",
        "only DefaultConfiguration",
    )
    _refuse_if(not recipe["Manifests"], "Manifests", "empty")
    for manifest in recipe["Manifests"]:
        _check_manifest(manifest)
    for text in texts(recipe["Manifests"]):
        for variable in VARIABLE.findall(text):
            resolved(variable, recipe, {})
    return dict(recipe)


def _check_manifest(manifest: dict[str, Any]) -> None:
    _known(manifest, "manifest", "Manifests")
    _known(manifest.get("Platform", {}), "platform", "Platform")
    for artifact in manifest.get("Artifacts", []):
        _known(artifact, "artifact", "Artifacts")
        _refuse_if(not artifact["URI"].startswith(("s3://", "docker:")), "URI", artifact["URI"])
    lifecycle = manifest["Lifecycle"]
    _known(lifecycle, "lifecycle", "Lifecycle")
    _refuse_if({"Run", "Startup"} <= set(lifecycle), "Lifecycle", "both Run and Startup")
    for step in set(lifecycle) - {"Setenv"}:
        if not isinstance(lifecycle[step], str):
            _known(lifecycle[step], "step", step)
            _refuse_if("Script" not in lifecycle[step], step, "no Script")
    for name, value in lifecycle.get("Setenv", {}).items():
        _refuse_if(not isinstance(value, str), f"Setenv {name}", "not text")


def interpolated(text: str, recipe: dict[str, Any], paths: dict[str, str]) -> str:
    """The text as the nucleus hands it to the shell, with the default configuration."""
    return VARIABLE.sub(lambda found: resolved(found[1], recipe, paths), text)


def resolved(variable: str, recipe: dict[str, Any], paths: dict[str, str]) -> str:
    """The value of {configuration:/a/b}, or a path."""
    kind, _, pointer = variable.partition(":")
    if kind != "configuration":
        _refuse_if(variable not in OWN_VARIABLES, variable, "unknown")
        return paths.get(variable, variable)
    _refuse_if(not pointer.startswith("/"), variable, "not a JSON pointer")
    value = recipe["ComponentConfiguration"]["DefaultConfiguration"]
    for part in pointer[1:].split("/"):
        _refuse_if(not isinstance(value, dict) or part not in value, variable, "no such key")
        value = value[part]
    return value if isinstance(value, str) else yaml.safe_dump(value).strip()


def texts(value: Any) -> Iterator[str]:
    """Every text in a document."""
    if isinstance(value, dict):
        for each in value.values():
            yield from texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from texts(each)
    elif isinstance(value, str):
        yield value


def _known(given: Any, kind: str, where: str) -> None:
    _refuse_if(not isinstance(given, dict), where, "not a map")
    unknown = set(given) - KEYS[kind]
    _refuse_if(bool(unknown), where, f"unknown {sorted(unknown)}")


def _refuse_if(is_wrong: bool, where: str, what: object) -> None:
    if is_wrong:
        raise BadRecipe(f"{where}: {what}")
