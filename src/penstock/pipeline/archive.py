"""Make the class-data archive that halves the JVM's start: `python -m penstock.pipeline.archive`.

Runs once, after the first start, at low priority. A JVM that does one job lists the classes it
loads; a second one writes these to a file, which later JVMs map into memory instead of
reading and checking 400 jars. One JVM could do both, but only as a layer above the archive that
most Javas come with, and that of `penstock[java]` does not.
"""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import subprocess
import sys
import tempfile

from penstock.log.disk import locked_file
from penstock.pipeline.context import connect
from penstock.pipeline.jvm import (
    Gateway,
    Java,
    archive_path,
    find_java,
    java_command,
    spark_home,
    start_gateway,
)


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
    """Make the archive, unless it is there or somebody else is making it; where it is."""
    java, home = find_java(), spark_home()
    path = archive_path(java, home)
    if not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with contextlib.suppress(BlockingIOError), locked_file(f"{path}.lock", write=True):
            _make(java, home, path)
    return path


def _make(java: Java, home: str, path: str) -> None:
    for left_behind in glob.glob(f"{glob.escape(path)}-*"):
        shutil.rmtree(left_behind)
    prefix = f"{os.path.basename(path)}-"
    with tempfile.TemporaryDirectory(prefix=prefix, dir=os.path.dirname(path)) as folder:
        classes = os.path.join(folder, "classes")
        archive = os.path.join(folder, "archive")
        _do_one_job(start_gateway(java, home, [f"-XX:DumpLoadedClassList={classes}"]))
        flags = [
            *("-Xshare:dump", "-Xlog:disable"),
            *(f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={archive}"),
        ]
        subprocess.run(java_command(java, home, flags), check=True, stdout=subprocess.DEVNULL)
        os.rename(archive, path)


def _do_one_job(gateway: Gateway) -> None:
    """What exports need, and no SQL: with its classes the archive takes 100 MB more of memory."""
    try:
        context = connect(gateway, "local[1]")
        context.parallelize([1], 1).mapPartitions(list).collect()
        context.stop()
    finally:
        gateway.stop()


if __name__ == "__main__":
    with contextlib.suppress(OSError):
        os.nice(10)
    print(make())
