"""What the local cloud was asked and what it took, in order, and a way to wait for more of it.

Every request leaves an `Entry`; everything that a service took (a record, a message, an object)
leaves an item on the shelf of its target. Items carry their place in the order over all services.
Counts are always complete; with a limit, the oldest items go and only the counts stay.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

# Enough for every test; a benchmark of hours must not fill the memory with its own history.
ENTRIES_MAX = 100_000


@dataclass(frozen=True)
class Item:
    """Something that a service took."""

    # Its place among everything that any service of the cloud took.
    order: int
    size_bytes: int


ItemT = TypeVar("ItemT", bound=Item)


@dataclass(frozen=True, slots=True)
class Entry:
    """One request, and what became of it."""

    # In the order of arrival, from 1; entries stand in the order of their answers.
    number: int
    time_s: float
    duration_s: float
    service: str
    operation: str
    target: str | None
    # None when the connection was closed before any answer.
    status: int | None
    taken_count: int
    failed_count: int
    # The knobs that acted on it.
    knobs: tuple[str, ...]

    def __str__(self) -> str:
        """One line for people, without any content of the request."""
        answer = "no answer" if self.status is None else str(self.status)
        counts = f"{self.taken_count} taken" if self.taken_count else ""
        failed = f"{self.failed_count} failed" if self.failed_count else ""
        knobs = f"[{', '.join(self.knobs)}]" if self.knobs else ""
        parts = (self.service, self.operation, self.target or "-", answer, counts, failed, knobs)
        return f"{' '.join(filter(None, parts))} {self.duration_s * 1000:.1f} ms"


@dataclass
class Totals:
    """How much a target took since the start, whether the items are still kept or not."""

    count: int = 0
    size_bytes: int = 0


class Shelf:
    """The items of one target, oldest first."""

    def __init__(self, bytes_max: int | None) -> None:
        self._bytes_max = bytes_max
        self._kept_bytes = 0
        self.items: deque[Item] = deque()
        self.totals = Totals()

    def add(self, item: Item) -> None:
        self.totals.count += 1
        self.totals.size_bytes += item.size_bytes
        if self._bytes_max == 0:
            return
        self.items.append(item)
        self._kept_bytes += item.size_bytes
        while self._bytes_max is not None and self._kept_bytes > self._bytes_max:
            self._kept_bytes -= self.items.popleft().size_bytes


class Recorder:
    """All that one cloud remembers. Every method may be called from every thread."""

    def __init__(self, bytes_max: int | None = None) -> None:
        self.bytes_max = bytes_max
        self._condition = threading.Condition()
        self._shelves: dict[tuple[str, str | None], Shelf] = {}
        self._entries: deque[Entry] = deque(maxlen=ENTRIES_MAX)
        self._counts: Counter[tuple[str, str, str | None]] = Counter()
        self._arrived = 0
        self._next_order = 0
        self._changes = 0

    def arrive(self) -> int:
        """The number of a request that has just arrived."""
        with self._condition:
            self._arrived += 1
            return self._arrived

    def finish(self, entry: Entry) -> None:
        with self._condition:
            self._entries.append(entry)
            self._counts[entry.service, entry.operation, entry.target] += 1
            self._changed()

    def take(self, service: str, target: str | None, make: Iterable[Callable[[int], Item]]) -> None:
        """Put items on a shelf, one after another; each is made with its place in the order."""
        with self._condition:
            shelf = self._shelf(service, target)
            for make_item in make:
                shelf.add(make_item(self._next_order))
                self._next_order += 1
            self._changed()

    def items(self, service: str, target: str | None, kind: type[ItemT]) -> list[ItemT]:
        with self._condition:
            shelf = self._shelves.get((service, target))
            kept = () if shelf is None else shelf.items
            return [item for item in kept if isinstance(item, kind)]

    def all_items(self) -> list[Item]:
        with self._condition:
            kept = [item for shelf in self._shelves.values() for item in shelf.items]
        return sorted(kept, key=lambda item: item.order)

    def totals(self, service: str, target: str | None) -> Totals:
        with self._condition:
            shelf = self._shelves.get((service, target))
            return Totals() if shelf is None else Totals(**vars(shelf.totals))

    def targets(self) -> dict[tuple[str, str | None], Totals]:
        with self._condition:
            return {key: Totals(**vars(shelf.totals)) for key, shelf in self._shelves.items()}

    def entries(self) -> list[Entry]:
        with self._condition:
            return list(self._entries)

    def request_count(
        self,
        service: str | None = None,
        operation: str | None = None,
        target: str | None = None,
    ) -> int:
        """Requests that were answered, or left without one on purpose."""
        wanted = (service, operation, target)
        with self._condition:
            return sum(
                count
                for key, count in self._counts.items()
                if all(want in (None, have) for want, have in zip(wanted, key, strict=True))
            )

    def wait_until(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Return when `condition` holds; it is asked again after every change."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            changes = self._changes
            # Asked without the lock: it may look into a service, and a service that holds its own
            # lock comes here to record.
            if condition():
                return
            with self._condition:
                if not self._condition.wait_for(
                    lambda seen=changes: self._changes != seen,  # type: ignore[misc]
                    deadline_s - time.monotonic(),
                ):
                    raise TimeoutError(f"the local cloud waited {timeout_s} s in vain for {what}")

    def forget(self) -> None:
        """Forget every item, entry and count."""
        with self._condition:
            self._shelves.clear()
            self._entries.clear()
            self._counts.clear()

    def _changed(self) -> None:
        self._changes += 1
        self._condition.notify_all()

    def _shelf(self, service: str, target: str | None) -> Shelf:
        return self._shelves.setdefault((service, target), Shelf(self.bytes_max))
