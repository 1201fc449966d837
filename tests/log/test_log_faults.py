"""A disk that fails at any moment: nothing acknowledged is lost, and the log goes on by itself."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from log.faulty_disk import FaultyDisk
from log.helpers import append, contents, contents_and_damage, numbered
from log.test_disk import file_size_limit
from penstock.block import ENTRY_BYTES
from penstock.errors import DiskFailed
from penstock.log.disk import Disk
from penstock.log.log import Log

SEGMENT_BYTES = 150
SMALL_FILE_SYSTEM_BYTES = 2 << 20


class Witness:
    """Somebody who uses a log, remembers what it acknowledged, and looks after each step."""

    def __init__(self, disk: FaultyDisk, folder: Path, *, synced: bool) -> None:
        self.disk = disk
        self.folder = folder
        self.synced = synced
        self.told: dict[int, bytes] = {}
        self.ever_told: dict[int, bytes] = {}
        self.dropped: dict[int, bytes] = {}  # and perhaps still on disk
        self.refused: list[bytes] = []
        self.refused_count = 0
        self.log = self.opened()

    def opened(self) -> Log:
        """Opening fails only if the files cannot be read; then it works the next time."""
        options = {"segment_bytes_max": SEGMENT_BYTES, "synced": self.synced}
        try:
            return Log(self.disk, str(self.folder), **options)
        except OSError:
            assert set(self.disk.faults.failed) <= {"open", "read"}
            self.disk.faults.heal()
            return Log(self.disk, str(self.folder), **options)

    def run(self) -> None:
        """A bit of everything, whatever the disk says."""
        for step, payloads in enumerate(
            (
                [b"first"],
                numbered(3, 10),
                [b"larger than a segment " * 20],
                [b"small"],
                numbered(12, 20),
                [b"x"],
                numbered(2, 40),
            )
        ):
            self.append(payloads)
            if step == 3:
                self.drop_oldest()
            if step == 4:
                self.restart()

    def append(self, payloads: list[bytes]) -> bool:
        next_sequence, end = self.log.next_sequence, self.log.end()
        try:
            first = append(self.log, payloads)
            if self.synced:
                self.sync()
        except DiskFailed as error:
            if os.strerror(self.disk.faults.error) not in str(error):
                raise
            self.refused += payloads
            self.refused_count += 1
            if self.log.next_sequence != next_sequence:
                self.log.return_to(end)  # the sync failed: nobody is told
            assert self.log.next_sequence == next_sequence
            self.look()
            return False
        assert first == next_sequence
        for number, payload in enumerate(payloads, first):
            assert number not in self.ever_told, "a number was given twice"
            self.told[number] = self.ever_told[number] = payload
        self.look()
        return True

    def sync(self) -> None:
        try:
            self.log.begin_sync()()
        except OSError as error:
            raise DiskFailed(f"{error.strerror}") from error

    def drop_oldest(self) -> None:
        firsts = [segment.first_sequence for segment in self.log.segments]
        firsts += [self.log.next_sequence] * 2
        try:
            self.log.drop_oldest(2)
        except DiskFailed:
            assert self.log.first_sequence in (firsts[0], firsts[2])
            self.dropped |= {n: p for n, p in self.told.items() if n < self.log.first_sequence}
        else:
            assert self.log.first_sequence == firsts[2]
        self.told = {n: p for n, p in self.told.items() if n >= self.log.first_sequence}
        self.look()

    def restart(self) -> None:
        """The process is killed and started again."""
        in_order = self.log._in_order
        self.log.abandon()
        self.log = self.opened()
        if not in_order:
            self.accept_untold()
        self.look()

    def accept_untold(self) -> None:
        """If the disk failed until the end, it may hold what it refused: nobody was told a number.

        Now that readers see it, it counts. What retention could not remove may be there again.
        """
        found = self.contents()
        self.told |= {n: p for n, p in self.dropped.items() if found.get(n) == p}
        untold = {n: payload for n, payload in found.items() if n not in self.told}
        assert all(n > max(self.ever_told, default=-1) for n in untold)
        assert all(payload in self.refused for payload in untold.values())
        self.told |= untold
        self.ever_told |= untold

    def look(self) -> None:
        assert self.contents() == self.told
        if not self.told:
            assert self.log.first_sequence == self.log.next_sequence

    def contents(self) -> dict[int, bytes]:
        """What can be read; the disk may be broken, but not for reading."""
        fails, self.disk.faults._fails = self.disk.faults._fails, lambda *_: False
        count = self.disk.faults.count
        try:
            found, damaged = contents_and_damage(self.log)
        finally:
            self.disk.faults._fails = fails
            self.disk.faults.count = count
        assert not damaged
        return found

    def finish(self) -> None:
        """The fault is gone: everything works again, by itself, and stays."""
        self.disk.faults.heal()
        assert self.append([b"after the fault"])
        self.restart()
        assert self.log.notices == []
        assert self.append(numbered(5, 90))
        self.log.close()
        self.log = self.opened()
        assert self.log.notices == []
        self.look()
        self.log.close()


def operation_count(folder: Path, *, synced: bool) -> int:
    """How many operations the whole run takes without a fault."""
    witness = Witness(FaultyDisk(), folder, synced=synced)
    witness.run()
    assert witness.refused_count == 0
    witness.finish()
    return witness.disk.faults.count


@pytest.mark.parametrize("synced", [False, True])
def test_any_single_operation_may_fail(tmp_path: Path, synced: bool) -> None:
    (tmp_path / "sound").mkdir()
    refused_count = 0
    for number in range(1, operation_count(tmp_path / "sound", synced=synced) + 1):
        folder = tmp_path / str(number)
        folder.mkdir()
        disk = FaultyDisk()
        disk.faults.error = (errno.ENOSPC, errno.EIO, errno.EROFS)[number % 3]
        disk.faults.fail_once(number)
        witness = Witness(disk, folder, synced=synced)
        witness.run()
        witness.finish()
        refused_count += witness.refused_count
    assert refused_count > 30, "most of these operations are part of an append"


@pytest.mark.parametrize("lasting", [2, 6])
@pytest.mark.parametrize("synced", [False, True])
def test_the_fault_may_last_and_hit_the_tidying_up_too(
    tmp_path: Path, synced: bool, lasting: int
) -> None:
    (tmp_path / "sound").mkdir()
    for number in range(1, operation_count(tmp_path / "sound", synced=synced) + 1):
        folder = tmp_path / str(number)
        folder.mkdir()
        disk = FaultyDisk()
        disk.faults.fail_when(
            lambda count, operation, path, number=number: (
                number <= count < number + lasting and operation not in ("open", "read")
            )
        )
        witness = Witness(disk, folder, synced=synced)
        witness.run()
        witness.finish()


@pytest.mark.parametrize("synced", [False, True])
def test_from_some_moment_on_everything_may_fail(tmp_path: Path, synced: bool) -> None:
    """And the process is killed before the disk is good again."""
    (tmp_path / "sound").mkdir()
    for number in range(1, operation_count(tmp_path / "sound", synced=synced) + 1):
        folder = tmp_path / str(number)
        folder.mkdir()
        disk = FaultyDisk()
        disk.faults.fail_when(
            lambda count, operation, path, number=number: (
                count >= number and operation not in ("open", "read")
            )
        )
        witness = Witness(disk, folder, synced=synced)
        witness.run()
        witness.restart()
        witness.finish()


# --- real ones ---------------------------------------------------------------------------------


@contextmanager
def small_file_system(folder: Path) -> Iterator[bool]:
    """Mount a file system of 2 MiB on a folder; False where nothing may be mounted."""
    options = ["-t", "tmpfs", "-o", f"size={SMALL_FILE_SYSTEM_BYTES}"]
    try:
        made = subprocess.run(
            ["mount", *options, "penstock-test", str(folder)], capture_output=True, check=False
        )
        is_mounted = made.returncode == 0
    except FileNotFoundError:
        is_mounted = False
    try:
        yield is_mounted
    finally:
        if is_mounted:
            # Lazily: a failed test may have left files open.
            subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[tuple[Path, Callable[[], object]]]:
    """A folder on a disk that is nearly full, and the way to make room.

    Where nothing may be mounted, the kernel's limit on file sizes stands in: also a refusal in the
    middle of a write, by the operating system itself.
    """
    folder = tmp_path / "log"
    with small_file_system(tmp_path) as is_mounted, ExitStack() as limit:
        if is_mounted:
            filler = tmp_path / "filler"
            filler.write_bytes(b"x" * (SMALL_FILE_SYSTEM_BYTES // 2))
            make_room = filler.unlink
        else:
            limit.enter_context(file_size_limit(200_000))
            make_room = limit.close
        folder.mkdir()
        yield folder, make_room


@pytest.mark.parametrize("payload_bytes", [100, 5000, 70_000])
@pytest.mark.parametrize("synced", [False, True])
def test_on_a_disk_that_is_really_full_appends_are_refused_until_there_is_room(
    full_disk: tuple[Path, Callable[[], object]], payload_bytes: int, synced: bool
) -> None:
    folder, make_room = full_disk
    options = {"segment_bytes_max": 1 << 20, "synced": synced}
    log = Log(Disk(), str(folder), **options)
    told: dict[int, bytes] = {}
    refused_count = 0
    while refused_count < 20:
        payload = os.urandom(payload_bytes)
        try:
            told[append(log, [payload])] = payload
        except DiskFailed as error:
            if not str(error).endswith(("No space left on device", "File too large")):
                raise
            refused_count += 1
    assert contents(log) == told
    assert log.total_bytes == len(told) * (payload_bytes + ENTRY_BYTES)

    log.abandon()
    log = Log(Disk(), str(folder), **options)
    assert contents(log) == told, "a full disk can be opened and read"
    make_room()
    for _ in range(5):
        payload = os.urandom(payload_bytes)
        number = append(log, [payload])
        assert number not in told
        told[number] = payload
    log.close()
    log = Log(Disk(), str(folder), **options)
    assert log.notices == []
    assert contents(log) == told
    log.close()
