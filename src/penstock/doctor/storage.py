"""The data directory: space, rights, and whether a sync works and how long it takes."""

from __future__ import annotations

import os
import statistics
import time

from penstock.doctor.finding import Finding
from penstock.log.disk import Disk
from penstock.units import MIB, rounded_bytes

# What a stream of the default size may take.
FREE_BYTES_MIN = 256 * MIB
# Each stream has some ten files.
FREE_FILES_MIN = 1000
SYNC_COUNT = 5
SYNC_BYTES = 4096
SYNC_SLOW_MS = 50.0
VOLATILE = ("tmpfs", "ramfs")


def check_storage(folder: str, mounts: str = "/proc/mounts") -> list[Finding]:
    """The folder that a server would use; one that does not exist yet is judged by its parent."""
    place = existing(folder)
    if not os.access(place, os.W_OK | os.X_OK):
        return [
            Finding.problem(
                "disk",
                f"{place} cannot be written by this user ({os.geteuid()}).",
                "Run this as the server's user, or choose another folder with --data-dir.",
            )
        ]
    return [_space(folder, place), _kind(folder, place, mounts), *_sync(folder, place)]


def existing(folder: str) -> str:
    """The folder itself, or the nearest one above it that exists."""
    folder = os.path.abspath(folder)
    while not os.path.isdir(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    return folder


def _space(folder: str, place: str) -> Finding:
    found = os.statvfs(place)
    free, total = found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
    text = f"{rounded_bytes(free)} of {rounded_bytes(total)} are free for {folder}."
    if free < FREE_BYTES_MIN:
        return Finding.problem("disk", text, "Make room, or lower the sizes of streams.")
    # Some file systems have no fixed number of files, and say 0.
    if found.f_files and found.f_favail < FREE_FILES_MIN:
        return Finding.problem(
            "disk",
            f"only {found.f_favail} more files can be made for {folder}.",
            "Remove files, or use a file system with more inodes.",
        )
    return Finding.ok("disk", text)


def _kind(folder: str, place: str, mounts: str) -> Finding:
    kind = file_system(place, mounts)
    if kind in VOLATILE:
        return Finding.note(
            "disk",
            f"{folder} is in memory ({kind}): it is empty after a restart of the machine.",
            "For data that must survive choose another folder with --data-dir.",
        )
    return Finding.ok("disk", f"the file system is {kind}.")


def file_system(place: str, mounts: str = "/proc/mounts") -> str:
    """Its kind, by the longest mount point that holds the place; "unknown" if nobody tells."""
    try:
        with open(mounts, encoding="utf-8", errors="surrogateescape") as file:
            rows = [line.split(" ") for line in file]
    except OSError:
        return "unknown"
    found = [
        (len(point), kind)
        for point, kind in ((_unescaped(row[1]), row[2]) for row in rows)
        if os.path.commonpath([os.path.realpath(place), point]) == point
    ]
    # Of several at one point, the last one is on top.
    return max(reversed(found), default=(0, "unknown"), key=lambda each: each[0])[1]


def _unescaped(point: str) -> str:
    """The kernel writes a space as \\040."""
    return point.encode(errors="surrogateescape").decode("unicode_escape")


def _sync(folder: str, place: str) -> list[Finding]:
    path = os.path.join(place, f".penstock-doctor-{os.getpid()}")
    disk = Disk()
    try:
        times_ms = [_synced_ms(disk, path) for _ in range(SYNC_COUNT)]
    except OSError as error:
        text = f"a file in {place} cannot be written and synced: {error.strerror}."
        remedy = "Look at the file system (`dmesg`), or choose another folder with --data-dir."
        return [Finding.problem("disk", text, remedy)]
    finally:
        disk.remove(path)
    median_ms = statistics.median(times_ms)
    text = f"a sync takes {median_ms:.1f} ms (median of {SYNC_COUNT})."
    if median_ms > SYNC_SLOW_MS:
        return [
            Finding.note("disk", text, "Appends to streams with flushOnWrite wait that long each.")
        ]
    return [Finding.ok("disk", text)]


def _synced_ms(disk: Disk, path: str) -> float:
    file = disk.open(path)
    started_s = time.perf_counter()
    try:
        file.write_at(os.urandom(SYNC_BYTES), 0)
        file.sync()
    finally:
        file.close()
    return (time.perf_counter() - started_s) * 1000
