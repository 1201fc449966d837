"""Appends that name their origin, through failing disks, killed processes and power cuts."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from log.faulty_disk import FaultyDisk
from log.power_cut import PowerCutDisk
from penstock.errors import DiskFailed, RequestPayloadTooLargeException
from penstock.log.disk import Storage
from penstock.model import KIB, MessageStreamDefinition, StrategyOnFull
from penstock.streams import origins as origins_module
from penstock.streams.origins import Origin
from penstock.streams.stream import Stream
from streams.helpers import contents, definition

OVERWRITE = StrategyOnFull.OverwriteOldestData
# What somebody else appends, again and again: it takes the numbers of what was refused, and must
# not be mistaken for it.
OTHER = b"other"


def described(*, flushed: bool, overwrite: bool) -> MessageStreamDefinition:
    options = {"max_size": 16 * KIB, "strategy_on_full": OVERWRITE} if overwrite else {}
    return definition(**({"max_size": 1 << 20} | options), flush_on_write=flushed)


@pytest.fixture(autouse=True)
def small_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is rewritten in the middle of everything."""
    monkeypatch.setattr(origins_module, "JOURNAL_BYTES_MAX", 400)


class Sender:
    """Sends batches in chunks, and after an error the whole batch again, until all is answered."""

    def __init__(
        self, storage: Storage, folder: str, definition: MessageStreamDefinition, batch_count: int
    ) -> None:
        self.storage = storage
        self.folder = folder
        self.definition = definition
        self.seen: dict[int, bytes] = {}
        self.refused_count = 0
        self.batch = 0
        self.batch_count = batch_count
        self.stream = self.opened()

    def opened(self, *, power_lost: bool = False) -> Stream:
        return Stream(self.storage, self.folder, self.definition, power_lost=power_lost)

    def chunks(self, batch: int) -> Iterator[tuple[Origin, list[bytes]]]:
        """Of two writers, one after another; small ones, and some larger than a segment."""
        for writer in "ab":
            for number in range(2 + batch % 2):
                name = b"%s/%d/%d/" % (writer.encode(), batch, number)
                sizes = (30, 500, 3)[: 1 + (batch + number) % 3]
                yield (
                    Origin(writer, batch, number),
                    [name + b"%d " % at + b"." * size for at, size in enumerate(sizes)],
                )

    def payloads(self) -> list[bytes]:
        """All that is sent, once each."""
        batches = range(self.batch_count)
        return [p for batch in batches for _, payloads in self.chunks(batch) for p in payloads]

    def run(self) -> None:
        """Until everything is answered. Raises what refuses a chunk; call it again."""
        while self.batch < self.batch_count:
            for origin, payloads in self.chunks(self.batch):
                self.send(origin, payloads)
            self.batch += 1

    def send(self, origin: Origin, payloads: list[bytes]) -> None:
        end = self.stream.log.end()
        data, sizes = b"".join(payloads), list(map(len, payloads))
        self.stream.append_once(origin, data, sizes, 1)
        self.tell(end)

    def append_other(self) -> None:
        end = self.stream.log.end()
        self.stream.append(OTHER * 2, [len(OTHER)] * 2, 1)
        self.tell(end)

    def tell(self, end: object) -> None:
        """Sync, and let everybody see it."""
        if self.definition.flush_on_write:
            try:
                self.stream.log.begin_sync()()
            except OSError as error:
                self.stream.take_back_hidden(end)
                raise DiskFailed(str(error)) from error
        self.stream.show_appended(self.stream.log.next_sequence)
        self.look()

    def look(self) -> None:
        self.seen.update(contents(self.stream))

    def check(self) -> None:
        """Each message of the sender was seen once."""
        counts = Counter(payload for payload in self.seen.values() if payload != OTHER)
        assert counts == Counter(self.payloads())


class OnFaultyDisk(Sender):
    """On a disk that refuses, in a process that is killed."""

    def __init__(self, folder: Path, *, flushed: bool, overwrite: bool) -> None:
        folder.mkdir()
        self.disk = FaultyDisk()
        kind = described(flushed=flushed, overwrite=overwrite)
        super().__init__(self.disk, str(folder), kind, 3)

    def look(self) -> None:
        """The disk may be broken, but not for reading."""
        fails, count = self.disk.faults._fails, self.disk.faults.count
        self.disk.faults.heal()
        super().look()
        self.disk.faults._fails, self.disk.faults.count = fails, count

    def restart(self) -> None:
        """The process is killed and started again."""
        self.stream.abandon()
        self.disk.faults.heal()
        self.stream = self.opened()
        self.look()

    def run_once(self) -> None:
        """Up to the first refusal."""
        try:
            self.run()
        except DiskFailed:
            self.refused_count += 1

    def try_other(self) -> None:
        try:
            self.append_other()
        except DiskFailed:
            self.refused_count += 1


KINDS = pytest.mark.parametrize(
    ("flushed", "overwrite"), [(False, False), (True, False), (False, True), (True, True)]
)


def operations(tmp_path: Path, *, flushed: bool, overwrite: bool) -> list[int]:
    """The numbers of all operations of a run without a fault."""
    sender = OnFaultyDisk(tmp_path / "sound", flushed=flushed, overwrite=overwrite)
    first = sender.disk.faults.count + 1
    sender.run()
    sender.check()
    last = sender.disk.faults.count
    sender.stream.close()
    return list(range(first, last + 1))


@KINDS
def test_a_process_may_be_killed_at_any_operation(
    tmp_path: Path, flushed: bool, overwrite: bool
) -> None:
    refused_count = 0
    for number in operations(tmp_path, flushed=flushed, overwrite=overwrite):
        sender = OnFaultyDisk(tmp_path / str(number), flushed=flushed, overwrite=overwrite)
        sender.disk.faults.fail_from(number)
        sender.run_once()
        sender.restart()
        if number % 2:
            sender.append_other()
        if number % 3:
            sender.restart()
        sender.run()
        sender.check()
        sender.stream.close()
        refused_count += sender.refused_count
    assert refused_count > 50


@KINDS
@pytest.mark.parametrize("lasting", [1, 3])
def test_any_operation_may_fail_and_others_append_meanwhile(
    tmp_path: Path, flushed: bool, overwrite: bool, lasting: int
) -> None:
    refused_count = 0
    for number in operations(tmp_path, flushed=flushed, overwrite=overwrite):
        sender = OnFaultyDisk(tmp_path / str(number), flushed=flushed, overwrite=overwrite)
        sender.disk.faults.fail_when(
            lambda count, operation, path, number=number: (
                number <= count < number + lasting and operation not in ("open", "read")
            )
        )
        for _ in range(4):
            sender.run_once()
            sender.try_other()
        sender.disk.faults.heal()
        if number % 2:
            sender.restart()
        sender.run()
        sender.check()
        sender.stream.close()
        refused_count += sender.refused_count
    assert refused_count > 50


# --- power cuts --------------------------------------------------------------------------------


class OnPowerCuts(Sender):
    """On a disk that loses its power in the middle of everything."""

    def __init__(self, chance: random.Random, *, flushed: bool, overwrite: bool) -> None:
        kind = described(flushed=flushed, overwrite=overwrite)
        super().__init__(PowerCutDisk(), "/s", kind, 5)
        self.chance = chance
        self.answered: set[bytes] = set()

    def send(self, origin: Origin, payloads: list[bytes]) -> None:
        """Now and then the power goes, before the answer or after it."""
        if self.chance.random() < 0.15:
            self.stream.append_once(origin, b"".join(payloads), list(map(len, payloads)), 1)
            raise ConnectionError
        super().send(origin, payloads)
        if not self.answered & set(payloads):
            present = set(contents(self.stream).values())
            if self.definition.strategy_on_full != OVERWRITE:
                assert set(payloads) <= present, "answered for the first time, and not stored"
            self.answered |= set(payloads)
        if self.chance.random() < 0.3:
            self.append_other()
        if self.chance.random() < 0.15:
            raise ConnectionError

    def cut_power(self) -> None:
        assert isinstance(self.storage, PowerCutDisk)
        self.storage = self.storage.cut(lambda most: self.chance.randint(0, most))
        self.stream = self.opened(power_lost=True)
        self.look()

    def live(self) -> int:
        """Until everything is answered; how often the power went."""
        cut_count = 0
        while True:
            try:
                self.run()
            except ConnectionError:
                self.cut_power()
                cut_count += 1
            else:
                return cut_count


@pytest.mark.parametrize("overwrite", [False, True])
def test_with_flush_on_write_each_message_is_stored_once_through_power_cuts(
    overwrite: bool,
) -> None:
    cut_count = 0
    for seed in range(40):
        sender = OnPowerCuts(random.Random(seed), flushed=True, overwrite=overwrite)
        cut_count += sender.live()
        sender.check()
    assert cut_count > 100


def test_without_flush_on_write_nothing_is_called_stored_that_a_power_cut_took() -> None:
    """What was answered before a cut may be lost, or come twice; that is what the level says."""
    for seed in range(40):
        sender = OnPowerCuts(random.Random(seed), flushed=False, overwrite=False)
        assert sender.live() > 0


def test_after_a_kill_the_missed_answer_comes_after_a_sync() -> None:
    """The messages were written and never synced; who asks again must not be told before."""
    disk = PowerCutDisk()
    kind = described(flushed=True, overwrite=False)
    stream = Stream(disk, "/s", kind)
    stream.append_once(Origin("w", 0, 0), b"ab", [1, 1], 1)

    again = Stream(disk, "/s", kind)
    assert again.append_once(Origin("w", 0, 0), b"ab", [1, 1], 1)[1] == 0
    again.log.begin_sync()()

    cut = Stream(disk.cut(lambda _: 0), "/s", kind, power_lost=True)
    assert list(chain(contents(cut).values())) == [b"a", b"b"]


def test_what_was_refused_does_not_come_back_when_the_journal_has_forgotten_it() -> None:
    """A failed sync, an orderly journal, and then a power cut that undoes what was not synced."""
    kind = described(flushed=True, overwrite=False)
    too_large = [1 << 19] * 3
    for seed in range(100):
        chance = random.Random(seed)
        disk = PowerCutDisk()
        stream = Stream(disk, "/s", kind)
        end = stream.log.end()
        stream.append_once(Origin("w", 0, 0), b"ab", [1, 1], 1)
        stream.take_back_hidden(end)  # as if the sync had failed
        with pytest.raises(RequestPayloadTooLargeException):
            stream.append(bytes(sum(too_large)), too_large, 1)  # puts everything in order first

        cut = disk.cut(lambda most, chance=chance: chance.randint(0, most))
        again = Stream(cut, "/s", kind, power_lost=True)
        again.append_once(Origin("w", 0, 0), b"ab", [1, 1], 1)
        again.show_appended(again.log.next_sequence)
        assert list(contents(again).values()) == [b"a", b"b"]


def test_the_journal_forgets_nothing_that_is_still_in_the_files(tmp_path: Path) -> None:
    """What was refused could not be cut off; after a restart readers see it, so it is stored."""
    sender = OnFaultyDisk(tmp_path / "store", flushed=False, overwrite=False)
    sender.append_other()
    sender.disk.faults.fail_when(
        lambda _, operation, path: operation == "truncate" or path.endswith("mark")
    )
    origin, payloads = Origin("w", 0, 0), [b"a", b"b"]
    with pytest.raises(DiskFailed):
        sender.send(origin, payloads)
    sender.try_other()
    sender.restart()
    assert list(contents(sender.stream).values()) == [OTHER, OTHER, *payloads]

    sender.send(origin, payloads)
    assert list(contents(sender.stream).values()) == [OTHER, OTHER, *payloads]
    sender.stream.close()
