"""Make the class-data archive that halves the JVM's start: `python -m penstock.pipeline.archive`.

Runs once, after the first start, at low priority. A JVM that has done one job writes the classes it
loaded to a file, which later JVMs map into memory instead of reading and checking 400 jars.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys

from penstock.pipeline.context import connect
from penstock.pipeline.jvm import archive_path, find_java, spark_home, start_gateway

log = logging.getLogger(__name__)


def make_in_background() -> subprocess.Popen[bytes] | None:
    """Start making the archive unless it is there or cannot be had."""
    if os.path.exists(archive_path(find_java(), spark_home())):
        return None
    return subprocess.Popen(
        [sys.executable, "-m", "penstock.pipeline.archive"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def make() -> str:
    """Make the archive; where it is."""
    java, home = find_java(), spark_home()
    path = archive_path(java, home)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    temporary = f"{path}.{os.getpid()}"
    gateway = start_gateway(java, home, [f"-XX:ArchiveClassesAtExit={temporary}", "-Xlog:cds=off"])
    try:
        context = connect(gateway, "local[1]")
        context.parallelize([1], 1).mapPartitions(list).collect()
        context.stop()
    finally:
        gateway.stop()
    os.rename(temporary, path)
    return path


if __name__ == "__main__":
    with contextlib.suppress(OSError):
        os.nice(10)
    print(make())
