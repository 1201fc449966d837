"""Who may import whom: the picture of the architecture as a table, checked file by file."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import penstock
from penstock.model import MessageStreamDefinition, StrategyOnFull
from server_process import ServerProcess

SOURCE = Path(penstock.__file__).parent

# Each package or module under src/penstock, and what it may import besides itself. An entry with a
# dot allows only that part of a package.
LAYERS: dict[str, set[str]] = {
    "__init__": {"client", "util", "block", "model", "errors", "version"},
    "__main__": {"cli"},
    "cli": {
        "demo",
        "doctor",
        "fleet",
        "survey_model",
        "observe_model",
        "server",
        "streams",
        "client",
        "console",
        "pipeline.app",
        "pipeline.task",
        "pipeline.transform_tools",
        "transforms",
        "testing",
        "export_model",
        "protocol",
        "settings",
        "logs",
        "units",
        "util",
        "block",
        "model",
        "errors",
        "version",
    },
    "server": {
        "survey_model",
        "observe_model",
        "version",
        "exporting",
        "transforms",
        "streams",
        "protocol",
        "settings",
        "logs",
        "block",
        "export_model",
        "model",
        "errors",
    },
    "exporting": {"streams", "util", "block", "export_model", "model", "errors"},
    "streams": {"survey_model", "checksum", "log", "block", "model", "errors"},
    "log": {"checksum", "block", "model", "errors"},
    "protocol": {"survey_model", "transforms", "block", "export_model", "model", "errors"},
    "client": {
        "survey_model",
        "observe_model",
        "protocol",
        "transforms",
        "util",
        "block",
        "export_model",
        "model",
        "errors",
        "version",
    },
    "doctor": {
        "pipeline.jvm",
        "destinations",
        "streams",
        "log",
        "settings",
        "units",
        "model",
        "errors",
    },
    "fleet": {"client", "streams", "log", "block", "survey_model", "model", "errors"},
    "console": {
        "client",
        "observe_model",
        "export_model",
        "transforms.reports",
        "model",
        "errors",
        "units",
        "version",
    },
    "spark": {"client", "streams", "log", "block", "model", "errors"},
    "pipeline": {
        "spark",
        "transforms",
        "client",
        "learned",
        "log",
        "destinations",
        "settings",
        "block",
        "export_model",
        "model",
        "errors",
    },
    "destinations": {"util", "model", "errors"},
    "testing": {"client", "learned", "model", "errors", "util"},
    "demo": {"__init__", "testing", "observe_model", "export_model", "errors"},
    "settings": {"transforms", "units", "errors"},
    "transforms": {"log", "model", "errors"},
    "logs": {"units"},
    "util": {"model", "errors"},
    "block": {"checksum", "model"},
    "export_model": {"model"},
    "observe_model": {"export_model", "transforms.reports", "model"},
    "survey_model": {"model"},
    "model": {"learned"},
    "learned": set(),
    "checksum": set(),
    "errors": set(),
    "units": set(),
    "version": set(),
}

# Libraries that only some may know: Spark is the pipeline's, the terminal the command line's.
DOORS: dict[str, set[str]] = {
    "pyspark": {"pipeline", "spark"},
    "pyarrow": {"pipeline", "spark", "demo"},
    "numpy": {"pipeline", "spark"},
    "click": {"cli"},
    "rich": {"cli"},
    "starlette": {"console"},
    "uvicorn": {"console"},
    "opentelemetry": {"console"},
}

# What turns bytes into objects and back must not know where the bytes come from.
WITHOUT_IO = {"protocol", "block", "model", "errors"}
IO_MODULES = {"asyncio", "socket", "select", "selectors", "ssl", "threading", "subprocess", "os"}


def modules() -> dict[str, Path]:
    """Dotted name without `penstock.` -> file. A package goes by its own name."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        name = parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts
        found[".".join(name)] = path
    return found


MODULES = modules()
UNITS = sorted({name.partition(".")[0] for name in MODULES})


def imports_of(source: str, module: str) -> Iterator[str]:
    """Every module that a source imports, wherever in it, and those that it names as text.

    Lazy imports go through tables of text such as "penstock.cli.serve:serve".
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = absolute(node, module)
            yield from (
                f"{base}.{alias.name}" if own_name(f"{base}.{alias.name}") in MODULES else base
                for alias in node.names
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            name = node.value.partition(":")[0]
            if name != "penstock" and own_name(name) in MODULES:
                yield name


def absolute(node: ast.ImportFrom, module: str) -> str:
    if not node.level:
        return node.module or ""
    is_package = MODULES.get(module, Path()).name == "__init__.py"
    parts = ["penstock", *module.split("."), *([""] if is_package else [])]
    return ".".join([*parts[: -node.level], *([node.module] if node.module else [])])


def own_name(name: str) -> str | None:
    """`penstock.server.tcp` -> `server.tcp`; `penstock` -> `__init__`; None for foreign ones."""
    if name == "penstock":
        return "__init__"
    return name.removeprefix("penstock.") if name.startswith("penstock.") else None


def forbidden_imports(unit: str, source: str, module: str) -> Iterator[str]:
    """The imports of a source that the tables above do not allow for its unit."""
    banned = IO_MODULES if unit in WITHOUT_IO else set()
    for name in imports_of(source, module):
        own = own_name(name)
        library = name.partition(".")[0]
        if own is not None:
            allowed = {unit, *LAYERS[unit]}
            if not any(own == entry or own.startswith(f"{entry}.") for entry in allowed):
                yield name
        elif unit not in DOORS.get(library, {unit}) or library in banned:
            yield name


@pytest.mark.parametrize("unit", UNITS)
def test_imports_follow_the_arrows(unit: str) -> None:
    assert unit in LAYERS, (
        f"src/penstock/{unit} is new: add it to LAYERS in tests/test_layers.py with what it may "
        f"import, and to the picture in docs/architecture.md"
    )
    wrong = [
        f"{path.relative_to(SOURCE)} imports {name}"
        for module, path in MODULES.items()
        if module.partition(".")[0] == unit
        for name in forbidden_imports(unit, path.read_text(), module)
    ]
    assert not wrong, f"{unit} may import only itself and {', '.join(sorted(LAYERS[unit]))}"


def test_the_arrows_never_form_a_circle() -> None:
    graph = {
        unit: {entry.partition(".")[0] for entry in allowed} for unit, allowed in LAYERS.items()
    }

    assert graph.keys() >= set().union(*graph.values())
    assert list(TopologicalSorter(graph).static_order())


def test_the_check_sees_the_whole_package() -> None:
    assert {"cli", "client", "log", "protocol", "server", "settings", "streams"} <= set(UNITS)
    assert MODULES["server.app"] == SOURCE / "server" / "app.py"
    assert MODULES["protocol"] == SOURCE / "protocol" / "__init__.py"


@pytest.mark.parametrize(
    ("unit", "source", "expected"),
    [
        ("log", "from penstock.block import Block", []),
        ("log", "from penstock.log import disk", []),
        ("log", "from penstock.streams.stream import Stream", ["penstock.streams.stream"]),
        ("log", "import penstock.streams.stream", ["penstock.streams.stream"]),
        ("log", "from penstock import client, model", ["penstock.client"]),
        ("log", "from penstock import Message", ["penstock"]),
        ("log", "from ..server import tcp", ["penstock.server.tcp"]),
        ("log", "from .disk import Disk", []),
        ("log", "def f():\n    import penstock.cli", ["penstock.cli"]),
        ("log", "if TYPE_CHECKING:\n    import penstock.cli", ["penstock.cli"]),
        ("log", "import_module('penstock.cli')", ["penstock.cli"]),
        ("log", "text = 'penstock'", []),
        ("log", "TABLE = {'a': 'penstock.cli.serve:serve'}", ["penstock.cli.serve"]),
        ("server", "def f():\n    import numpy.linalg", ["numpy.linalg"]),
        ("server", "from rich.table import Table", ["rich.table"]),
        ("server", "import asyncio, os", []),
        ("protocol", "import asyncio, os", ["asyncio", "os"]),
        ("pipeline", "import pyspark", []),
        ("cli", "from penstock.server.app import run", []),
    ],
)
def test_the_check_finds_what_it_looks_for(unit: str, source: str, expected: list[str]) -> None:
    assert list(forbidden_imports(unit, source, f"{unit}.some")) == expected


# --- what a server process really loads ---------------------------------------------------------

NOT_IN_A_SERVER = {"pyspark", "pyarrow", "numpy", "pandas", "rich", "starlette", "uvicorn"}


def test_the_modules_of_the_server_load_neither_spark_nor_a_terminal() -> None:
    program = (
        "import sys, penstock.cli, penstock.cli.serve, penstock.server.app\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )

    loaded = set(done.stdout.split())
    assert "penstock" in loaded
    assert not loaded & NOT_IN_A_SERVER


def test_a_server_that_works_has_loaded_neither_spark_nor_a_terminal(tmp_path: Path) -> None:
    """Python tells every import statement, lazy ones too, while the server serves."""
    server = ServerProcess(tmp_path, env={"PYTHONPROFILEIMPORTTIME": "1"})
    with server, penstock.StreamManagerClient(port=server.port) as client:
        client.create_message_stream(
            MessageStreamDefinition("S", strategy_on_full=StrategyOnFull.OverwriteOldestData)
        )
        client.append_message("S", b"x")
        assert client.read_messages("S")[0].payload == b"x"

    loaded = re.findall(r"^import time:[^|]*\|[^|]*\| +(\S+)$", server.log, re.MULTILINE)
    assert {"penstock.cli", "penstock.server.app", "penstock.streams.stream"} <= set(loaded)
    assert not {name.partition(".")[0] for name in loaded} & NOT_IN_A_SERVER
    assert not [name for name in loaded if name.startswith("penstock.client")]
