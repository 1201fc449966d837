"""One batch in several requests: in order, remembering what is settled when one of them fails."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from penstock.destinations.base import Batch, Context, Delivery, DestinationError


class RequestRefused(DestinationError):
    """The service refuses a request for what is in it. Never leaves a destination."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


def send_in_parts(
    batch: Batch,
    context: Context,
    send: Callable[[range], Delivery],
    parts: Iterable[range] | None = None,
) -> Delivery:
    """Send a batch, whole or in the given parts of positions, one request after another.

    `send` does one request; the positions in its Delivery count from the start of its part.

    A part that is refused as a whole is halved until the message is alone that spoils it: that one
    is refused, the others are delivered, for about twice as many requests as there are halvings.
    A part that must be retried, in whole or in part, is the last one: nothing newer overtakes it.
    """
    waiting = deque([range(len(batch))] if parts is None else parts)
    settled = Settled()
    while waiting:
        part = waiting.popleft()
        try:
            if settled.some:
                context.keep_alive()
            delivery = send(part)
        except RequestRefused as error:
            if len(part) == 1:
                settled.add(part, Delivery(refused={0: str(error)}))
            else:
                middle = (part.start + part.stop) // 2
                waiting.extendleft((range(middle, part.stop), range(part.start, middle)))
            continue
        except DestinationError as error:
            if not settled.some:
                raise
            return settled.stopped([part, *waiting], str(error), error)
        settled.add(part, delivery)
        if delivery.retry:
            return settled.stopped(waiting, "waits for an older message", delivery.error)
    return Delivery({}, settled.refused)


def one_by_one(batch: Batch) -> Iterator[range]:
    """Parts of one message each."""
    return (range(position, position + 1) for position in range(len(batch)))


class Settled:
    """What is known of the messages of a batch, by position."""

    def __init__(self) -> None:
        self.retry: dict[int, str] = {}
        self.refused: dict[int, str] = {}
        # Whether anything was delivered or refused: then an error must not make it forgotten.
        self.some = False

    def add(self, part: range, delivery: Delivery) -> None:
        self.retry.update((part[at], reason) for at, reason in delivery.retry.items())
        self.refused.update((part[at], reason) for at, reason in delivery.refused.items())
        self.some = self.some or len(delivery.retry) < len(part)

    def stopped(
        self, rest: Iterable[range], reason: str, error: DestinationError | None
    ) -> Delivery:
        """The end of a batch whose rest has to be sent again."""
        later = {position: reason for part in rest for position in part}
        return Delivery(self.retry | later, self.refused, error)
