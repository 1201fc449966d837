"""What was sent to a server and what it acknowledged, to be held against what it has later."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from penstock.client.sync import StreamManagerClient
from penstock.errors import MessageStoreReadErrorException, NotEnoughMessagesException
from penstock.model import MessageStreamDefinition, ReadMessagesOptions

READ_AT_ONCE = 20_000


class StreamLedger:
    """One stream: every payload that was sent, every number that was told."""

    def __init__(self, definition: MessageStreamDefinition) -> None:
        self.definition = definition
        self.sent: set[bytes] = set()
        self.told: dict[int, bytes] = {}
        self.checked_next = 0  # messages below it were found whole after an earlier crash
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def may_lose_old_data(self) -> bool:
        has_time_to_live = self.definition.time_to_live_millis is not None
        return has_time_to_live or bool(self.definition.strategy_on_full)

    def sending(self, payloads: Sequence[bytes]) -> None:
        with self._lock:
            self.sent.update(payloads)

    def acknowledged(self, first: int, payloads: Sequence[bytes]) -> None:
        with self._lock:
            for number, payload in enumerate(payloads, first):
                assert number not in self.told, f"{self.name}: number {number} was given twice"
                self.told[number] = payload

    def check(self, found: Mapping[int, bytes], oldest: int, newest: int, start: int) -> None:
        """Hold what was found from `start` on against what must be there."""
        assert oldest == 0 or self.may_lose_old_data, f"{self.name} lost messages before {oldest}"
        must_be_there = {n: p for n, p in self.told.items() if n >= max(oldest, start)}
        lost = [n for n, payload in must_be_there.items() if found.get(n) != payload]
        assert not lost, f"{self.name}: acknowledged and not there: {lost[:10]} of {len(lost)}"
        invented = [n for n, payload in found.items() if payload not in self.sent]
        assert not invented, f"{self.name}: nobody sent {invented[:10]}"
        assert len(set(found.values())) == len(found), f"{self.name}: a message is there twice"
        assert newest >= max(self.told, default=-1), f"{self.name}: numbers went back to {newest}"
        # What arrived and was never answered counts from now on: readers have seen it.
        self.told.update(found)
        self.checked_next = newest + 1


def read_from(
    client: StreamManagerClient, name: str, start: int
) -> tuple[dict[int, bytes], set[int]]:
    """Every message from a number on, and the numbers that the server calls damaged."""
    found: dict[int, bytes] = {}
    damaged: set[int] = set()
    newest = client.describe_message_stream(name).storage_status.newest_sequence_number
    while start <= newest:
        options = ReadMessagesOptions(start, 1, READ_AT_ONCE, 0)
        try:
            blocks = client.read_blocks(name, options)
        except NotEnoughMessagesException:
            break
        except MessageStoreReadErrorException as error:
            # Its last words are "read on from <number>".
            go_on = int(str(error.message).rsplit(" ", 1)[1])
            damaged.update(range(start, go_on))
            start = go_on
            continue
        for block in blocks:
            found.update(enumerate(block.payloads(), block.first_sequence))
        start = blocks[-1].next_sequence
    return found, damaged
