"""One batch in several requests: nothing settled is forgotten, nothing newer overtakes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from surroundings import Surroundings, batch_of

from penstock.destinations.base import Blocked, Delivery, LeaseLost, Transient
from penstock.destinations.parts import RequestRefused, one_by_one, send_in_parts


class Receiver:
    """Takes parts, and fails for the positions it was told to."""

    def __init__(self, poison: set[int] = frozenset(), errors: dict[int, Exception] = {}) -> None:  # noqa: B006
        self.poison = poison
        self.errors = errors
        self.delivered: list[int] = []
        self.request_count = 0

    def send(self, part: range) -> Delivery:
        self.request_count += 1
        for position in part:
            if position in self.errors:
                raise self.errors[position]
        if self.poison & set(part):
            raise RequestRefused("spoiled")
        self.delivered += part
        return Delivery()


def sent_in(
    parts: list[range],
    send: Callable[[range], Delivery],
    surroundings: Surroundings | None = None,
) -> Delivery:
    batch = batch_of(*[b"x"] * parts[-1].stop)
    return send_in_parts(batch, (surroundings or Surroundings()).context(), send, parts)


@given(st.integers(1, 70), st.sets(st.integers(0, 69), max_size=70))
def test_every_message_that_spoils_a_request_is_found_and_all_others_are_delivered_in_order(
    count: int, poison: set[int]
) -> None:
    receiver = Receiver(poison)

    delivery = send_in_parts(batch_of(*[b"x"] * count), Surroundings().context(), receiver.send)

    assert delivery == Delivery(refused={n: "spoiled" for n in sorted(poison) if n < count})
    assert receiver.delivered == [n for n in range(count) if n not in poison]


def test_one_message_that_spoils_a_request_of_500_costs_about_twice_the_halvings() -> None:
    receiver = Receiver({317})

    send_in_parts(batch_of(*[b"x"] * 500), Surroundings().context(), receiver.send)

    assert receiver.request_count <= 1 + 2 * 9


def test_an_error_before_anything_is_settled_is_raised() -> None:
    busy = Transient("busy")

    with pytest.raises(Transient) as raised:
        sent_in([range(3), range(3, 5)], Receiver(errors={0: busy}).send)

    assert raised.value is busy


@pytest.mark.parametrize("error", [Transient("busy", 5.0), Blocked("gone"), LeaseLost("paused")])
def test_an_error_half_way_keeps_what_is_settled_and_leaves_the_rest_for_later(
    error: Exception,
) -> None:
    receiver = Receiver({1}, {4: error})

    delivery = sent_in([range(3), range(3, 5), range(5, 6)], receiver.send)

    assert receiver.delivered == [0, 2]
    assert delivery.refused == {1: "spoiled"}
    assert delivery.retry == {3: str(error), 4: str(error), 5: str(error)}
    assert delivery.error is error


def test_nothing_is_sent_after_a_part_that_must_be_retried() -> None:
    sent = []
    busy = Transient("throttled", 1.0)

    def send(part: range) -> Delivery:
        sent.append(part)
        return Delivery(retry={1: "throttled"}, refused={0: "bad"}, error=busy)

    delivery = sent_in([range(3), range(3, 6)], send)

    assert sent == [range(3)]
    assert delivery.refused == {0: "bad"}
    assert delivery.retry == {
        1: "throttled",
        **dict.fromkeys((3, 4, 5), "waits for an older message"),
    }
    assert delivery.error is busy


def test_the_lease_is_looked_after_between_requests() -> None:
    surroundings = Surroundings()

    sent_in(list(one_by_one(batch_of(*[b"x"] * 4))), Receiver().send, surroundings)

    assert surroundings.keep_alive_count == 3


def test_a_lost_lease_stops_between_requests_and_keeps_what_is_settled() -> None:
    surroundings = Surroundings(lease_lost=LeaseLost("deleted"))
    receiver = Receiver()

    delivery = sent_in([range(1), range(1, 2)], receiver.send, surroundings)

    assert receiver.delivered == [0]
    assert delivery.retry == {1: "deleted"}
    assert delivery.error is surroundings.lease_lost
