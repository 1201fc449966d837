"""The log beside a plain dictionary of what it must hold, whatever happens to it."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from log.faulty_disk import FaultyDisk
from log.helpers import EVERYTHING, append, contents_and_damage, messages
from log.power_cut import PowerCutDisk
from penstock.block import ENTRY_BYTES, Block
from penstock.errors import DataDamaged
from penstock.log.disk import Storage
from penstock.log.log import Log
from penstock.log.memory import Memory

SEGMENT_BYTES = 300
SIZES = st.lists(
    st.one_of(st.integers(1, 60), st.integers(SEGMENT_BYTES - 40, SEGMENT_BYTES + 200)),
    min_size=1,
    max_size=12,
)
LIMITS = st.one_of(st.integers(1, 400), st.just(EVERYTHING))


class LogMachine(RuleBasedStateMachine):
    """What every log does, on any storage."""

    def __init__(self) -> None:
        super().__init__()
        self.storage: Storage = self.make_storage()
        self.time_ms = 0
        self.payload_count = 0
        self.present: dict[int, bytes] = {}
        self.damaged: set[int] = set()
        self.ever: dict[int, bytes] = {}
        self.safe: set[int] = set()  # synced
        self.told_next = 0  # numbers below it were seen by somebody
        self.reads: list[tuple[Callable[[], list[Block]], dict[int, bytes] | None]] = []
        self.syncs: list[tuple[Callable[[], None], int]] = []
        self.unsynced: set[int] = set()

    def make_storage(self) -> Storage:
        raise NotImplementedError

    def folder(self) -> str:
        return "/log"

    @initialize(synced=st.booleans())
    def open(self, synced: bool, power_lost: bool = False) -> None:
        self.synced = synced
        self.log = Log(
            self.storage,
            self.folder(),
            segment_bytes_max=SEGMENT_BYTES,
            synced=synced,
            power_lost=power_lost,
        )

    @rule(sizes=SIZES)
    def append(self, sizes: list[int]) -> None:
        payloads = [self.new_payload(size) for size in sizes]
        self.time_ms += 1
        first = append(self.log, payloads, self.time_ms)
        assert first >= self.told_next, "a number was given twice"
        assert self.log.next_sequence == first + len(sizes)
        for number, payload in enumerate(payloads, first):
            self.present[number] = self.ever[number] = payload
        if self.synced:
            self.unsynced.update(range(first, self.log.next_sequence))
        else:
            self.told_next = self.log.next_sequence

    @rule(position=st.floats(0, 1), count_max=LIMITS, bytes_max=LIMITS, later=st.booleans())
    def read(self, position: float, count_max: int, bytes_max: int, later: bool) -> None:
        start = round(position * self.log.next_sequence)
        arguments = (start, self.log.next_sequence, count_max, bytes_max)
        expected = self.expected(*arguments)
        if later:
            self.reads.append((self.log.begin_read(*arguments), expected))
        else:
            self.check_read(lambda: self.log.read(*arguments), expected)

    @rule(count=st.integers(0, 4))
    def drop_oldest(self, count: int) -> None:
        firsts = [segment.first_sequence for segment in self.log.segments]
        self.log.drop_oldest(count)
        oldest = firsts[count] if count < len(firsts) else self.log.next_sequence
        self.present = {n: payload for n, payload in self.present.items() if n >= oldest}
        self.damaged = {n for n in self.damaged if n >= oldest}
        self.safe &= self.present.keys()

    @rule(later=st.booleans())
    def sync(self, later: bool) -> None:
        if self.syncs:
            return  # the server has one at a time
        self.syncs.append((self.log.begin_sync(), self.log.next_sequence))
        if not later:
            self.finish_syncs()

    @rule()
    def finish_syncs(self) -> None:
        for work, next_sequence in self.syncs:
            work()
            self.told_next = max(self.told_next, next_sequence)
            done = {n for n in self.unsynced if n < next_sequence}
            self.unsynced -= done
            self.safe |= done & self.present.keys()
        self.syncs.clear()

    @rule()
    def finish_reads(self) -> None:
        for work, expected in self.reads:
            self.check_read(work, expected)
        self.reads.clear()

    @rule(orderly=st.booleans())
    def stop_and_start(self, orderly: bool) -> None:
        self.finish_reads()
        self.finish_syncs()
        before = self.log.next_sequence
        if orderly:
            self.log.close()
            self.safe = set(self.present)
        else:
            self.log.abandon()
        self.unsynced.clear()
        self.open(self.synced)
        assert self.log.notices == [], self.log.notices
        assert self.log.next_sequence == before
        self.told_next = before  # readers see everything now

    @rule()
    def toggle_sync(self) -> None:
        """flushOnWrite was changed; the server finishes what waits for a sync."""
        self.sync(later=False)
        self.finish_syncs()
        self.synced = self.log.synced = not self.log.synced

    @invariant()
    def numbers_and_sizes_agree(self) -> None:
        known = self.present.keys() | self.damaged
        assert self.log.first_sequence == min(known, default=self.log.next_sequence)
        assert self.log.count_from(0, self.log.next_sequence) == len(known)
        if not self.damaged:
            stored = sum(len(payload) + ENTRY_BYTES for payload in self.present.values())
            assert self.log.total_bytes == stored
        for segment in self.log.segments:
            assert segment.stored_bytes <= SEGMENT_BYTES or segment.count == 1

    def teardown(self) -> None:
        for work, _ in self.reads:
            work()
        self.finish_syncs()
        found, damaged = contents_and_damage(self.log)
        assert found == self.present
        assert damaged == self.damaged
        self.log.close()

    def new_payload(self, size: int) -> bytes:
        self.payload_count += 1
        return f"{self.payload_count}.".encode().ljust(size, b"x")[:size]

    def expected(
        self, start: int, stop: int, count_max: int, bytes_max: int
    ) -> dict[int, bytes] | None:
        """What a read must return; None stands for damage at its start."""
        chosen: dict[int, bytes] = {}
        byte_count = 0
        for number in sorted(self.present.keys() | self.damaged):
            if not start <= number < stop:
                continue
            if number in self.damaged:
                return chosen or None
            byte_count += len(self.present[number])
            if len(chosen) == count_max or (chosen and byte_count > bytes_max):
                break
            chosen[number] = self.present[number]
        return chosen

    def check_read(
        self, read: Callable[[], list[Block]], expected: dict[int, bytes] | None
    ) -> None:
        if expected is None:
            with pytest.raises(DataDamaged):
                read()
        else:
            assert messages(read()) == expected


class MemoryMachine(LogMachine):
    """Without a disk."""

    def make_storage(self) -> Storage:
        return Memory()


class DiskMachine(LogMachine):
    """On the file system, with fewer open files allowed than a few segments have."""

    def make_storage(self) -> Storage:
        self.temporary = tempfile.mkdtemp()
        disk = FaultyDisk()
        disk._open_files_max = 3
        return disk

    def folder(self) -> str:
        return self.temporary

    def teardown(self) -> None:
        super().teardown()
        shutil.rmtree(self.temporary)


class PowerCutMachine(LogMachine):
    """On a disk whose power is cut from time to time."""

    def make_storage(self) -> Storage:
        return PowerCutDisk()

    @rule(chance=st.randoms(use_true_random=False))
    def cut_power(self, chance: random.Random) -> None:
        self.reads.clear()
        self.syncs.clear()
        assert isinstance(self.storage, PowerCutDisk)
        self.storage = self.storage.cut(lambda most: chance.randint(0, most))
        self.open(self.synced, power_lost=True)

        found, damaged = contents_and_damage(self.log)
        for number, payload in found.items():
            assert payload == self.ever[number], "an invented message"
        assert self.safe <= found.keys(), "a synced message is lost"
        lost = {n for n in self.present if n < self.told_next} - found.keys()
        assert self.log.notices or lost <= damaged, "a loss was not reported"
        assert self.log.next_sequence >= self.told_next, "a number would be given twice"
        self.present, self.damaged = found, damaged
        self.safe, self.unsynced = set(found), set()
        self.told_next = self.log.next_sequence  # readers see everything now


SETTINGS = settings(deadline=None, stateful_step_count=40)


@pytest.mark.parametrize(
    ("machine", "example_count"), [(MemoryMachine, 100), (DiskMachine, 60), (PowerCutMachine, 200)]
)
def test_a_log_holds_what_a_plain_dictionary_holds(
    machine: type[LogMachine], example_count: int
) -> None:
    run_state_machine_as_test(machine, settings=settings(SETTINGS, max_examples=example_count))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("machine", "example_count"), [(DiskMachine, 2000), (PowerCutMachine, 20_000)]
)
def test_a_log_holds_what_a_plain_dictionary_holds_for_long(
    machine: type[LogMachine], example_count: int
) -> None:
    run_state_machine_as_test(machine, settings=settings(SETTINGS, max_examples=example_count))
