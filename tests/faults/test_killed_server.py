"""kill -9 at any moment, again and again, with writers running."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock import (
    AsyncStreamManagerClient,
    MessageStreamDefinition,
    NotEnoughMessagesException,
    ReadMessagesOptions,
    StrategyOnFull,
    StreamManagerClient,
)
from penstock.streams.verify import verify_store
from server_process import ServerProcess

SEGMENT_BYTES = 16 * 1024
STREAMS = {
    "reject": MessageStreamDefinition(
        name="reject",
        stream_segment_size=SEGMENT_BYTES,
        strategy_on_full=StrategyOnFull.RejectNewData,
    ),
    "overwrite": MessageStreamDefinition(
        name="overwrite",
        max_size=10 * SEGMENT_BYTES,
        stream_segment_size=SEGMENT_BYTES,
        strategy_on_full=StrategyOnFull.OverwriteOldestData,
    ),
    "flush": MessageStreamDefinition(
        name="flush",
        stream_segment_size=SEGMENT_BYTES,
        strategy_on_full=StrategyOnFull.RejectNewData,
        flush_on_write=True,
    ),
    "flush-overwrite": MessageStreamDefinition(
        name="flush-overwrite",
        max_size=4 * SEGMENT_BYTES,
        stream_segment_size=SEGMENT_BYTES,
        strategy_on_full=StrategyOnFull.OverwriteOldestData,
        flush_on_write=True,
        time_to_live_millis=60_000,
    ),
}
START_S_MAX = 2.0


class Witness:
    """Remembers what was sent, what was acknowledged, and what was read, over all lives."""

    def __init__(self) -> None:
        self.sent: dict[str, set[bytes]] = {name: set() for name in STREAMS}
        self.acknowledged: dict[str, dict[int, bytes]] = {name: {} for name in STREAMS}
        self.checked_below = dict.fromkeys(STREAMS, 0)
        self._count = 0
        self._lock = threading.Lock()

    def payload(self, stream: str) -> bytes:
        with self._lock:
            self._count += 1
            payload = b"%s %d " % (stream.encode(), self._count) + b"." * (self._count % 90)
            self.sent[stream].add(payload)
            return payload

    def acknowledge(self, stream: str, first: int, payloads: list[bytes]) -> None:
        with self._lock:
            known = self.acknowledged[stream]
            for number, payload in enumerate(payloads, first):
                assert number not in known, f"{stream}: number {number} was given twice"
                known[number] = payload

    def check(self, client: StreamManagerClient, stream: str) -> None:
        """Read everything new since the last time, and compare."""
        storage = client.describe_message_stream(stream).storage_status
        position = max(storage.oldest_sequence_number, self.checked_below[stream])
        found: dict[int, bytes] = {}
        while position <= storage.newest_sequence_number:
            options = ReadMessagesOptions(position, 1, 10_000)
            try:
                messages = client.read_messages(stream, options)
            except NotEnoughMessagesException:
                break
            found.update({message.sequence_number or 0: message.payload for message in messages})
            position = (messages[-1].sequence_number or 0) + 1
        invented = set(found.values()) - self.sent[stream]
        assert not invented, f"{stream}: nobody sent {invented}"
        start = max(storage.oldest_sequence_number, self.checked_below[stream])
        for number, payload in self.acknowledged[stream].items():
            if number >= start:
                assert found.get(number) == payload, f"{stream}: message {number} is lost or wrong"
        self.acknowledged[stream].update(found)  # who read it knows it: it must stay so
        self.checked_below[stream] = max(
            self.checked_below[stream], storage.newest_sequence_number + 1 - 1000
        )


def append_one_by_one(witness: Witness, port: int, stream: str) -> None:
    with StreamManagerClient(port=port) as client:
        while True:
            payload = witness.payload(stream)
            witness.acknowledge(stream, client.append_message(stream, payload), [payload])


def append_batches(witness: Witness, port: int, stream: str) -> None:
    with StreamManagerClient(port=port) as client:
        while True:
            payloads = [witness.payload(stream) for _ in range(random.randint(1, 200))]
            first = client.append_messages(stream, payloads).first_sequence_number
            witness.acknowledge(stream, first, payloads)


def append_pipelined(witness: Witness, port: int, stream: str) -> None:
    async def run() -> None:
        async with AsyncStreamManagerClient(port=port) as client:
            while True:
                payloads = [witness.payload(stream) for _ in range(50)]
                answers = [client.append_message(stream, payload) for payload in payloads]
                results = await asyncio.gather(*answers, return_exceptions=True)
                for payload, result in zip(payloads, results, strict=True):
                    if isinstance(result, int):
                        witness.acknowledge(stream, result, [payload])
                for result in results:
                    if isinstance(result, BaseException):
                        raise result

    asyncio.run(run())


WRITERS: list[tuple[Callable[[Witness, int, str], None], str]] = [
    (append_one_by_one, "reject"),
    (append_pipelined, "reject"),
    (append_batches, "overwrite"),
    (append_pipelined, "overwrite"),
    (append_one_by_one, "flush"),
    (append_pipelined, "flush"),
    (append_one_by_one, "flush-overwrite"),
    (append_batches, "flush-overwrite"),
]


def run_writers(server: ServerProcess, witness: Witness, seconds: float) -> list[Exception]:
    """Let all writers run until the server is killed under them; what else stopped them."""
    unexpected: list[Exception] = []

    def write(writer: Callable[[Witness, int, str], None], stream: str) -> None:
        try:
            writer(witness, server.port, stream)
        except ConnectionError:
            return  # that is what a killed server looks like
        except Exception as error:  # noqa: BLE001  the test tells of whatever it was
            unexpected.append(error)

    threads = [threading.Thread(target=write, args=writer) for writer in WRITERS]
    for thread in threads:
        thread.start()
    time.sleep(seconds)  # the moment of death is what this test is about
    server.kill()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive(), "a writer did not notice that the server is gone"
    return unexpected


def kill_and_check(tmp_path: Path, cycles: int) -> None:
    server = ServerProcess(tmp_path)
    witness = Witness()
    server.start()
    with StreamManagerClient(port=server.port) as client:
        for definition in STREAMS.values():
            client.create_message_stream(definition)
    for _ in range(cycles):
        unexpected = run_writers(server, witness, random.uniform(0.02, 0.5))
        assert unexpected == []
        started = time.monotonic()
        server.start()
        assert time.monotonic() - started < START_S_MAX
        with StreamManagerClient(port=server.port) as client:
            for stream in STREAMS:
                witness.check(client, stream)
    with StreamManagerClient(port=server.port) as client:
        witness.checked_below = dict.fromkeys(STREAMS, 0)
        for stream in STREAMS:
            witness.check(client, stream)
            assert len(witness.acknowledged[stream]) > cycles, "the writers got nothing done"
    server.stop()
    report = verify_store(str(server.data_dir))
    assert not report.damaged, report
    assert "Traceback" not in server.log


def test_twenty_kills_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    kill_and_check(tmp_path, 20)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_thousand_kills_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    kill_and_check(tmp_path, 1000)
