"""kill -9 while the server starts, too: recovery can be interrupted as often as you like.

test_killed_server.py kills a server that works. Here most of the deaths come during the start that
follows, streams run full, and some messages are larger than a segment.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from failure_logs import show_on_failure
from faults.ledger import StreamLedger, read_from
from penstock import StreamManagerClient
from penstock.errors import ClientException, InvalidRequestException
from penstock.model import KIB, MIB, MessageStreamDefinition, StrategyOnFull
from penstock.streams.manager import StreamManager
from penstock.streams.verify import verify_store
from server_process import ServerProcess, clean_environment
from streams.helpers import contents

REJECT = StrategyOnFull.RejectNewData
OVERWRITE = StrategyOnFull.OverwriteOldestData
RECOVERY_WITHIN_S = 2.0
# Of old, already checked messages this many are read again each time.
OVERLAP = 500

# Small segments, so that something is rolled or overwritten at nearly any moment.
DEFINITIONS = [
    MessageStreamDefinition("plain", 64 * MIB, 16 * KIB, None, REJECT),
    MessageStreamDefinition("flushed", 64 * MIB, 16 * KIB, None, REJECT, flush_on_write=True),
    MessageStreamDefinition("ring", 64 * KIB, 4 * KIB, None, OVERWRITE),
    MessageStreamDefinition(
        "flushed ring", 32 * KIB, 2 * KIB, None, OVERWRITE, flush_on_write=True
    ),
    MessageStreamDefinition("aging", 64 * MIB, 8 * KIB, 60_000, REJECT),
    MessageStreamDefinition("soon full", 64 * KIB, 8 * KIB, None, REJECT),
]


class Writers:
    """Threads that append in every way there is, until the server is gone."""

    def __init__(self, port: int, ledgers: dict[str, StreamLedger], chance: random.Random) -> None:
        self._port = port
        self._ledgers = ledgers
        self._chance = chance
        self._numbers = count()
        self._label = f"{chance.getrandbits(64):016x}"
        self.stop = threading.Event()
        self.errors: list[BaseException] = []
        self.acknowledged_count = 0
        shared = self._client()
        self._clients = [shared]
        self._threads = [
            self._thread(self._one_by_one, self._own_client(), ["plain", "ring", "soon full"]),
            self._thread(self._one_by_one, self._own_client(), ["flushed", "flushed ring"]),
            self._thread(self._batches, self._own_client(), ["plain", "flushed ring", "aging"]),
            self._thread(self._batches, self._own_client(), ["flushed", "ring", "soon full"]),
            # Several threads on one connection: their requests are pipelined.
            *(self._thread(self._one_by_one, shared, ["flushed", "aging"]) for _ in range(3)),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def finish(self) -> None:
        self.stop.set()
        for thread in self._threads:
            thread.join()
        for client in self._clients:
            client.close()
        if self.errors:
            raise self.errors[0]

    def _client(self) -> StreamManagerClient:
        return StreamManagerClient(port=self._port, request_timeout=30)

    def _own_client(self) -> StreamManagerClient:
        self._clients.append(self._client())
        return self._clients[-1]

    def _thread(
        self,
        work: Callable[[StreamManagerClient, StreamLedger], None],
        client: StreamManagerClient,
        names: list[str],
    ) -> threading.Thread:
        ledgers = [self._ledgers[name] for name in names]
        return threading.Thread(target=self._run, args=(work, client, ledgers))

    def _run(
        self,
        work: Callable[[StreamManagerClient, StreamLedger], None],
        client: StreamManagerClient,
        ledgers: list[StreamLedger],
    ) -> None:
        try:
            while not self.stop.is_set():
                for ledger in ledgers:
                    try:
                        work(client, ledger)
                    except InvalidRequestException as error:
                        if "is full" not in str(error):
                            raise
        except ClientException:
            return  # the server was killed
        except BaseException as error:  # noqa: BLE001  raised again by finish()
            self.errors.append(error)

    def _one_by_one(self, client: StreamManagerClient, ledger: StreamLedger) -> None:
        for _ in range(self._chance.randint(1, 20)):
            payload = self._payload()
            ledger.sending([payload])
            ledger.acknowledged(client.append_message(ledger.name, payload), [payload])
            self.acknowledged_count += 1

    def _batches(self, client: StreamManagerClient, ledger: StreamLedger) -> None:
        payloads = [self._payload() for _ in range(self._chance.randint(1, 60))]
        ledger.sending(payloads)
        appended = client.append_messages(ledger.name, payloads)
        ledger.acknowledged(appended.first_sequence_number, payloads)
        self.acknowledged_count += len(payloads)

    def _payload(self) -> bytes:
        """Unique, of any size up to more than a segment of the smallest stream."""
        size = self._chance.choice((0, 10, 100, 300, 3000)) if self._chance.random() < 0.1 else 40
        return f"{self._label}.{next(self._numbers)}.".encode().ljust(size, b"x")


@pytest.fixture
def crashing_server(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    process = ServerProcess(tmp_path)
    show_on_failure(request, process.log_path)
    yield process
    if process.running:
        process.kill()


def timed_start(server: ServerProcess) -> float:
    started = time.monotonic()
    server.start()
    return time.monotonic() - started


def kill_while_starting(server: ServerProcess, after_s: float) -> None:
    """Start on the same data and kill before or during recovery, or shortly after it."""
    command = [sys.executable, "-m", "penstock", "serve", "--port", "0", "--no-console"]
    process = subprocess.Popen(
        [*command, "--data-dir", str(server.data_dir)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=clean_environment(),
    )
    time.sleep(after_s)  # the moment is the point; nothing waits for it
    process.send_signal(signal.SIGKILL)
    process.wait()


def check_all(port: int, ledgers: dict[str, StreamLedger], *, everything: bool = False) -> None:
    with StreamManagerClient(port=port) as client:
        assert client.list_streams() == sorted(ledgers)
        for name, ledger in ledgers.items():
            info = client.describe_message_stream(name)
            assert info.definition == ledger.definition.validated()
            storage = info.storage_status
            start = 0 if everything else max(0, ledger.checked_next - OVERLAP)
            found, damaged = read_from(client, name, start)
            assert not damaged
            oldest, newest = storage.oldest_sequence_number, storage.newest_sequence_number
            ledger.check(found, oldest, newest, start)


def run_cycles(server: ServerProcess, cycle_count: int, seed: int) -> int:
    """Write, kill, start, look; again and again. The answer: how much was acknowledged."""
    chance = random.Random(seed)
    ledgers = {definition.name: StreamLedger(definition) for definition in DEFINITIONS}
    empty_start_s = timed_start(server)
    with StreamManagerClient(port=server.port) as client:
        for definition in DEFINITIONS:
            client.create_message_stream(definition)
    acknowledged_count = 0
    for _ in range(cycle_count):
        writers = Writers(server.port, ledgers, chance)
        writers.start()
        time.sleep(chance.uniform(0.02, 0.3))  # the moment is the point; nothing waits for it
        server.kill()
        writers.finish()
        acknowledged_count += writers.acknowledged_count
        for _ in range(chance.randint(1, 3)):
            kill_while_starting(server, chance.uniform(0.1, 0.5))
        assert timed_start(server) < empty_start_s + RECOVERY_WITHIN_S
        check_all(server.port, ledgers)
    check_all(server.port, ledgers, everything=True)
    server.stop()
    report = verify_store(str(server.data_dir))
    assert not report.damaged, report
    check_files(str(server.data_dir), ledgers)
    return acknowledged_count


def check_files(root: str, ledgers: dict[str, StreamLedger]) -> None:
    """The same once more, without a server."""
    manager = StreamManager(root)
    for name, ledger in ledgers.items():
        storage = manager.get(name).storage_status()
        oldest, newest = storage.oldest_sequence_number, storage.newest_sequence_number
        ledger.check(contents(manager.get(name)), oldest, newest, 0)
    assert manager.close() == []


def test_a_start_that_is_killed_loses_nothing(crashing_server: ServerProcess) -> None:
    assert run_cycles(crashing_server, 12, seed=1) > 1000


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", range(3))
def test_hundreds_of_killed_starts_lose_nothing(crashing_server: ServerProcess, seed: int) -> None:
    assert run_cycles(crashing_server, 300, seed) > 30_000
