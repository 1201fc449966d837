"""What the figures were measured on, and what a process has used so far. Reads Linux's /proc."""

from __future__ import annotations

import os
import platform
import re
import sysconfig
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any


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
        "libraries": {name: version(name) for name in ("penstock", "cbor2", "msgspec", "uvloop")},
    }


def resident_bytes(pid: int) -> int:
    return int(_field(f"/proc/{pid}/status", "VmRSS").removesuffix(" kB")) * 1024


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Tree:
    """What a process and all its descendants use."""

    process_count: int
    pss_bytes: int  # what they share counts once
    cpu_seconds: float


def tree(pid: int) -> Tree:
    pids = [pid]
    for each in pids:  # grows on the way
        children = Path(f"/proc/{each}/task").glob("*/children")
        pids += [int(child) for path in children for child in path.read_text().split()]
    return Tree(len(pids), sum(map(pss_bytes, pids)), sum(map(cpu_seconds, pids)))


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
