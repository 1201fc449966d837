"""The disk is full under a real server: appends are refused, reads go on, and then all is well."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from failure_logs import show_on_failure
from faults.ledger import read_from
from log.test_log_faults import SMALL_FILE_SYSTEM_BYTES, small_file_system
from penstock import StreamManagerClient
from penstock.errors import UnknownFailureException
from penstock.model import MIB, MessageStreamDefinition, StrategyOnFull
from penstock.streams.verify import verify_store
from server_process import ServerProcess

NAMES = ("plain", "flushed")
FILE_BYTES_MAX = 300_000
Disk = tuple[ServerProcess, Callable[[], None], Callable[[], None]]


@pytest.fixture(params=["file system", "file size limit"])
def small_disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Disk]:
    """A server whose disk can be filled and freed again.

    A small file system, where one may be mounted. Everywhere, and instead where that is refused:
    the kernel's limit on the size of a file, which is also changed under the running server.
    """
    folder = tmp_path / "disk"
    folder.mkdir()
    server = ServerProcess(tmp_path)
    show_on_failure(request, server.log_path)
    server.data_dir = folder / "data"
    with small_file_system(folder) as is_mounted, server:
        if is_mounted and request.param == "file system":
            yield server, *filler(folder / "filler")
        else:
            yield server, *limit(server)


def filler(path: Path) -> tuple[Callable[[], None], Callable[[], None]]:
    """Take half of the file system, and give it back."""
    return lambda: path.write_bytes(b"x" * (SMALL_FILE_SYSTEM_BYTES // 2)) and None, path.unlink


def limit(server: ServerProcess) -> tuple[Callable[[], None], Callable[[], None]]:
    def set_to(byte_count: int) -> None:
        assert server.process is not None
        resource.prlimit(
            server.process.pid, resource.RLIMIT_FSIZE, (byte_count, resource.RLIM_INFINITY)
        )

    return lambda: set_to(FILE_BYTES_MAX), lambda: set_to(resource.RLIM_INFINITY)


def append_until_refused(
    client: StreamManagerClient, name: str, told: dict[int, bytes], payload_bytes: int
) -> UnknownFailureException:
    for count in range(100_000):
        payload = b"%s %d %d." % (name.encode(), payload_bytes, count)
        payload = payload.ljust(payload_bytes, b"x")
        try:
            number = client.append_message(name, payload)
        except UnknownFailureException as error:
            return error
        assert number not in told
        told[number] = payload
    raise AssertionError("the disk never got full")


def test_appends_are_refused_reads_go_on_and_appends_resume(small_disk: Disk) -> None:
    server, fill, make_room = small_disk
    told: dict[str, dict[int, bytes]] = {name: {} for name in NAMES}
    with StreamManagerClient(port=server.port) as client:
        for name in NAMES:
            client.create_message_stream(
                MessageStreamDefinition(
                    name,
                    64 * MIB,
                    16 * MIB,
                    None,
                    StrategyOnFull.RejectNewData,
                    flush_on_write=name == "flushed",
                )
            )
            told[name][client.append_message(name, b"the first one")] = b"the first one"
        fill()
        for name in NAMES:
            # Large ones until none fits any more, then small ones into what is left.
            for payload_bytes in (100_000, 3000, 50):
                error = append_until_refused(client, name, told[name], payload_bytes)
                assert "the disk refused to store it" in str(error)
                assert "nothing was stored, try again later" in str(error)
                assert ("No space left" in str(error)) or ("File too large" in str(error))
        for name in NAMES:
            assert read_from(client, name, 0) == (told[name], set())
            batch = [b"x" * 1000] * 500
            with pytest.raises(UnknownFailureException):
                client.append_messages(name, batch)
            assert read_from(client, name, 0) == (told[name], set())

        make_room()
        for name in NAMES:
            for count in range(50):
                payload = b"there is room again %d" % count
                number = client.append_message(name, payload)
                assert number == max(told[name]) + 1
                told[name][number] = payload
            assert read_from(client, name, 0) == (told[name], set())
    server.stop()
    assert "Traceback" not in server.log
    assert not verify_store(str(server.data_dir)).damaged

    server.start()
    with StreamManagerClient(port=server.port) as client:
        for name in NAMES:
            assert read_from(client, name, 0) == (told[name], set())
            assert client.append_message(name, b"on it goes") == max(told[name]) + 1


def test_a_server_killed_with_a_full_disk_starts_and_serves_reads(small_disk: Disk) -> None:
    server, fill, make_room = small_disk
    told: dict[int, bytes] = {}
    with StreamManagerClient(port=server.port) as client:
        client.create_message_stream(
            MessageStreamDefinition(
                "s", 64 * MIB, 16 * MIB, strategy_on_full=StrategyOnFull.RejectNewData
            )
        )
        fill()
        for payload_bytes in (100_000, 3000, 50):
            append_until_refused(client, "s", told, payload_bytes)
    server.kill()
    server.start()
    with StreamManagerClient(port=server.port) as client:
        assert read_from(client, "s", 0) == (told, set())
        make_room()
        assert client.append_message("s", b"room again") not in told
