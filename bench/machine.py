"""What the figures were measured on, and what a process has used so far. Reads Linux's /proc."""

from __future__ import annotations

import os
import platform
import re
import sysconfig
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

LIBRARIES = ("penstock", "cbor2", "msgspec", "uvloop", "pyarrow", "pyspark")


def describe(scratch: Path) -> dict[str, Any]:
    """The machine, for someone who wants to compare with another one."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "cpu": _field("/proc/cpuinfo", "model name") or platform.machine(),
        "memory": _field("/proc/meminfo", "MemTotal"),
        "kernel": platform.release(),
        "file_system": _file_system(scratch),
        "python": platform.python_version(),
        # A Python built without this is slower by a quarter and more, for ours and AWS's client.
        "python_is_optimised": "enable-optimizations" in str(sysconfig.get_config_vars()),
        "libraries": {name: version(name) for name in LIBRARIES},
    }


def resident_bytes(pid: int) -> int:
    return int(_field(f"/proc/{pid}/status", "VmRSS").removesuffix(" kB")) * 1024


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Usage:
    """What some processes use together."""

    process_count: int
    pss_bytes: int  # what they share counts once
    cpu_seconds: float
    thread_count: int


# Who is who below a server, by its command line.
ROLES = {
    "server": "penstock serve",
    "JVM": "PythonGatewayServer",
    "workers": "pyspark.worker",
    "driver": "penstock pipeline",
    "console": "penstock console",
}


def tree(pid: int) -> Usage:
    """What a process and all its descendants use."""
    return _usage(descendants(pid))


def by_role(pid: int) -> dict[str, Usage]:
    """The same for each kind of process below a server."""
    pids: dict[str, list[int]] = {}
    for each in descendants(pid):
        with suppress(OSError):  # it is gone meanwhile
            command = Path(f"/proc/{each}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            role = next(role for role, sign in ROLES.items() if sign in command)
            pids.setdefault(role, []).append(each)
    return {role: _usage(found) for role, found in pids.items()}


def descendants(pid: int) -> list[int]:
    """A process, its children, and theirs; without those that ended and wait to be buried."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it is gone meanwhile
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                children.setdefault(int(parent), []).append(int(path.parent.name))
    pids = [pid]
    for each in pids:  # grows on the way
        pids += children.get(each, [])
    return pids


def _usage(pids: list[int]) -> Usage:
    found = []
    for pid in pids:
        with suppress(OSError):  # it is gone meanwhile
            threads = int(_field(f"/proc/{pid}/status", "Threads"))
            found.append((1, pss_bytes(pid), cpu_seconds(pid), threads))
    return Usage(*map(sum, zip(*found, strict=True)))


def pss_bytes(pid: int) -> int:
    return int(_field(f"/proc/{pid}/smaps_rollup", "Pss").removesuffix(" kB")) * 1024


def bytes_read(pid: int) -> int:
    """What the process has asked the system to read, from the page cache or not."""
    return int(_field(f"/proc/{pid}/io", "rchar"))


def _field(path: str, name: str) -> str:
    found = re.search(rf"^{name}\s*:\s*(.+)$", Path(path).read_text(), re.MULTILINE)
    return found[1] if found else ""


def _file_system(folder: Path) -> str:
    """The type of the file system with the longest mount point above the folder."""
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    above = [mount for mount in mounts if folder.resolve().is_relative_to(mount[0])]
    return max(above, key=lambda mount: len(mount[0]))[1]
