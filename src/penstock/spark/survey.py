"""What all places of a read hold at one moment, and which of them do not answer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from time import monotonic

from penstock.spark.folder_place import FolderPlace, find_folders
from penstock.spark.options import ServerAddress, SourceOptions
from penstock.spark.places import RESTART_S, Bounds, Place, Unreachable, patiently
from penstock.spark.server_place import ServerPlace
from penstock.spark.trouble import SourceError

log = logging.getLogger(__name__)

Address = ServerAddress | str
"""Where a place is: a server, or the path of a store folder."""

# A server that hangs costs its connect timeout of 5 s. All are asked at the same time.
ASKED_AT_ONCE = 32
# How long a server that does not answer is left alone; doubled each time, up to the second.
PAUSE_S_MIN = 1.0
PAUSE_S_MAX = 30.0
NAMES_SHOWN = 10


@dataclass(frozen=True)
class Survey:
    """Place -> stream -> what it holds; and what keeps the others from answering."""

    bounds: dict[str, dict[str, Bounds]]
    down: dict[str, str] = field(default_factory=dict)

    def first_of(self, place: str, stream: str) -> int:
        """The oldest number of a stream; 0 if nothing is known of it."""
        bounds = self.bounds.get(place, {}).get(stream)
        return 0 if bounds is None else bounds.first_sequence


@dataclass
class _Down:
    """A server that did not answer."""

    reason: str
    pause_s: float
    asked_again_s: float


def open_place(address: Address) -> Place:
    return FolderPlace(address) if isinstance(address, str) else ServerPlace(address)


def name_of(address: Address) -> str:
    return address if isinstance(address, str) else address.name


class Places:
    """All places that the options name."""

    def __init__(self, options: SourceOptions, *, now_s: Callable[[], float] = monotonic) -> None:
        self._options = options
        self._now_s = now_s
        self._open: dict[str, Place] = {}
        self._down: dict[str, _Down] = {}

    def addresses(self) -> dict[str, Address]:
        """By name; patterns of paths are looked up anew."""
        found: dict[str, Address] = {server.name: server for server in self._options.servers}
        for path in self._options.paths:
            folders = find_folders(path)
            found |= dict(zip(folders, folders, strict=True))
        return found

    def place(self, name: str) -> Place:
        """One that has answered in the last survey."""
        return self._open[name]

    def survey(self) -> Survey:
        """Ask all places at the same time."""
        addresses = self.addresses()
        due = [address for address in addresses.values() if self._is_due(name_of(address))]
        bounds = {
            name: found
            for name, found in zip(map(name_of, due), self._ask_all(due), strict=True)
            if found is not None
        }
        return Survey(
            dict(sorted(bounds.items())),
            {name: down.reason for name, down in sorted(self._down.items())},
        )

    def check_streams(self, survey: Survey, *, may_appear: bool) -> None:
        """Every name must be a stream somewhere; a pattern too, unless streams may appear later."""
        if not survey.bounds and not survey.down and not may_appear:
            raise SourceError(
                f"option path: {', '.join(self._options.paths)} matches no Penstock data directory"
            )
        if survey.down:
            return  # it may be there
        found = {stream for streams in survey.bounds.values() for stream in streams}
        streams = self._options.streams
        missing = [name for name in streams.exact if name not in found]
        if not found and not may_appear:
            missing += streams.patterns
        if missing:
            raise SourceError(
                f"option stream: there is no stream {missing[0]} at "
                f"{some(survey.bounds)}; there are {self._existing() or 'none at all'}"
            )

    def close(self) -> None:
        for place in self._open.values():
            place.close()
        self._open.clear()

    def _is_due(self, name: str) -> bool:
        return name not in self._down or self._now_s() >= self._down[name].asked_again_s

    def _ask_all(self, addresses: list[Address]) -> list[dict[str, Bounds] | None]:
        if len(addresses) == 1:
            return [self._ask(addresses[0])]
        with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
            return list(pool.map(self._ask, addresses))

    def _ask(self, address: Address) -> dict[str, Bounds] | None:
        """What the streams of one place hold; None if it does not answer and need not."""
        name = name_of(address)
        try:
            if name not in self._open:
                self._open[name] = open_place(address)
                found = self._bounds(self._open[name])
            else:
                found = self._asked_again(self._open[name])
        except Unreachable as error:
            if self._options.fail_on_unreachable:
                raise
            self._note_down(name, str(error))
            return None
        if self._down.pop(name, None) is not None:
            log.warning("Server %s answers again.", name)
        return found

    def _asked_again(self, place: Place) -> dict[str, Bounds]:
        """A server that answered before may be restarting."""
        if not self._options.fail_on_unreachable:
            return self._bounds(place)
        return patiently(lambda: self._bounds(place), RESTART_S)

    def _note_down(self, name: str, reason: str) -> None:
        last = self._down.get(name)
        if last is None:
            log.warning("%s. The query goes on without it until it answers.", reason)
        pause_s = min(PAUSE_S_MAX, last.pause_s * 2) if last else PAUSE_S_MIN
        self._down[name] = _Down(reason, pause_s, self._now_s() + pause_s)
        place = self._open.pop(name, None)
        if place is not None:
            place.close()

    def _bounds(self, place: Place) -> dict[str, Bounds]:
        streams = self._options.streams
        names = set(streams.exact)
        if streams.patterns:
            names |= {name for name in place.streams() if streams.match(name)}
        asked = {name: place.bounds(name) for name in sorted(names)}
        return {name: bounds for name, bounds in asked.items() if bounds is not None}

    def _existing(self) -> str:
        return some({name for place in self._open.values() for name in place.streams()})


def some(names: Iterable[str]) -> str:
    """A few names for a message."""
    ordered = sorted(names)
    shown = ", ".join(ordered[:NAMES_SHOWN])
    more = len(ordered) - NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
