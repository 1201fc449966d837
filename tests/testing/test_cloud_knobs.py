"""Which knob acts on which request, without any service."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from penstock.testing.errors import LocalCloudError
from penstock.testing.http_server import Request
from penstock.testing.knobs import (
    AnyKnob,
    Call,
    Close,
    CloseWhen,
    Deny,
    Expire,
    Fail,
    FailRecords,
    Hang,
    KnobPanel,
    Knobs,
    Missing,
    Plan,
    Refuse,
    Slow,
    Throttle,
    knob_from_json,
    knob_to_json,
)

REQUEST = Request("POST", "/", "", {}, b"")


def call(
    *contents: bytes,
    service: str = "kinesis",
    operation: str = "PutRecords",
    target: str | None = "s",
    access_key: str = "me",
) -> Call:
    return Call(service, operation, target, access_key, lambda: contents, REQUEST)


def kinds(knobs: Knobs, times: int) -> list[list[str]]:
    """The knobs that acted on so many equal requests."""
    return [knobs.plan(call()).kinds for _ in range(times)]


@pytest.fixture
def knobs() -> Knobs:
    return Knobs(seed=7)


def test_without_knobs_nothing_happens(knobs: Knobs) -> None:
    plan = knobs.plan(call(b"x"))
    assert plan == Plan()
    assert plan.is_processed


def test_a_knob_acts_as_often_as_it_was_told(knobs: Knobs) -> None:
    active = knobs.set(Throttle(times=2))
    assert kinds(knobs, 4) == [["throttle"], ["throttle"], [], []]
    assert active.used == 2
    assert knobs.active() == []


def test_a_knob_without_a_count_acts_until_it_is_released(knobs: Knobs) -> None:
    active = knobs.set(Fail())
    assert kinds(knobs, 3) == [["fail"]] * 3
    active.release()
    assert kinds(knobs, 1) == [[]]


def test_a_knob_lets_requests_pass_first(knobs: Knobs) -> None:
    knobs.set(Fail(after=2, times=1))
    assert kinds(knobs, 4) == [[], [], ["fail"], []]


def test_knobs_that_end_requests_act_one_after_another(knobs: Knobs) -> None:
    knobs.set(Throttle(times=2))
    knobs.set(Fail(times=1))
    knobs.set(Close(times=1))
    assert kinds(knobs, 5) == [["throttle"], ["throttle"], ["fail"], ["close"], []]


def test_a_slow_knob_adds_to_the_others(knobs: Knobs) -> None:
    knobs.set(Throttle(times=1))
    knobs.set(Slow(seconds=0.25))
    knobs.set(Slow(seconds=0.5))
    plan = knobs.plan(call())
    assert plan.kinds == ["throttle", "slow", "slow"]
    assert plan.delay_s == 0.75


def test_a_probability_is_repeatable_by_its_seed() -> None:
    def pattern(seed: int) -> list[list[str]]:
        knobs = Knobs(seed)
        knobs.set(Fail(probability=0.3))
        return kinds(knobs, 200)

    assert pattern(1) == pattern(1) != pattern(2)
    assert 30 < pattern(1).count(["fail"]) < 90


@pytest.mark.parametrize(
    ("knob", "acts"),
    [
        (Fail(), True),
        (Fail(service="kinesis"), True),
        (Fail(service="s3"), False),
        (Fail(target="s"), True),
        (Fail(target="other"), False),
        (Fail(operation="PutRecords"), True),
        (Fail(operation="PutRecord"), False),
        (Expire(), True),
        (Expire(access_key="me"), True),
        (Expire(access_key="you"), False),
        (Refuse(containing=b"two"), True),
        (Refuse(containing=b"three"), False),
        (FailRecords(indexes=(1,)), True),
        (FailRecords(indexes=(5,)), False),
    ],
)
def test_a_knob_acts_only_where_it_should(knobs: Knobs, knob: AnyKnob, acts: bool) -> None:
    knobs.set(knob)
    assert bool(knobs.plan(call(b"one", b"two")).kinds) == acts


@pytest.mark.parametrize(
    ("knob", "positions"),
    [
        (FailRecords(), [0, 1, 2]),
        (FailRecords(indexes=(2, 0)), [0, 2]),
        (FailRecords(containing=b"b"), [1, 2]),
        (FailRecords(indexes=(0, 1), containing=b"b"), [1]),
    ],
)
def test_records_are_chosen_by_place_and_content(
    knobs: Knobs, knob: FailRecords, positions: list[int]
) -> None:
    knobs.set(knob)
    assert sorted(knobs.plan(call(b"a", b"ab", b"b")).failing) == positions


def test_the_first_knob_that_fails_a_record_decides_how(knobs: Knobs) -> None:
    knobs.set(FailRecords(indexes=(0,), code="First"))
    knobs.set(FailRecords(code="Second"))
    failing = knobs.plan(call(b"a", b"b")).failing
    assert [failing[index].code for index in (0, 1)] == ["First", "Second"]


def test_single_records_are_not_counted_when_the_request_ends_before(knobs: Knobs) -> None:
    single = knobs.set(FailRecords(times=1))
    knobs.set(Throttle(times=1))
    knobs.set(Close(times=1))
    knobs.set(Close(when=CloseWhen.BEFORE_ANSWER, times=1))
    used = []
    for _ in range(3):
        knobs.plan(call(b"x"))
        used.append(single.used)
    assert used == [0, 0, 1]


def test_a_hang_holds_until_it_is_released_even_when_it_is_used_up(knobs: Knobs) -> None:
    active = knobs.set(Hang(times=1))
    held = knobs.plan(call()).hangs
    assert knobs.plan(call()).hangs == []
    assert held == [active] == knobs.active()

    holder = threading.Thread(target=held[0].hold)
    holder.start()
    knobs.release_all()
    holder.join(10)
    assert not holder.is_alive()
    assert knobs.active() == []


def test_a_test_can_wait_until_a_knob_acts(knobs: Knobs) -> None:
    active = knobs.set(Fail())
    threads = [threading.Thread(target=knobs.plan, args=(call(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    active.wait_used(2, timeout_s=10)
    for thread in threads:
        thread.join()
    with pytest.raises(TimeoutError, match="fail acted on 2 requests"):
        active.wait_used(3, timeout_s=0.01)


def test_a_knob_is_released_at_the_end_of_its_block(knobs: Knobs) -> None:
    with knobs.set(Deny()) as active:
        assert knobs.active() == [active]
    assert knobs.active() == []


EXAMPLES: list[AnyKnob] = [
    Slow(seconds=0.5),
    Hang(target="t"),
    Close(when=CloseWhen.WITHIN_ANSWER),
    Throttle(times=3, retry_after_s=2),
    Fail(status=503),
    Expire(access_key="k"),
    Deny(operation="PutObject"),
    Missing(service="s3", after=1),
    Refuse(containing=b"poison", status=422),
    FailRecords(indexes=(1, 2), containing=b"x", code="C", message="m", probability=0.5),
]


@pytest.mark.parametrize("knob", EXAMPLES, ids=lambda knob: type(knob).__name__)
def test_every_kind_travels_as_json(knob: AnyKnob) -> None:
    assert knob_from_json(knob_to_json(knob)) == knob


def test_the_examples_have_every_kind() -> None:
    assert {type(knob) for knob in EXAMPLES} == set(AnyKnob.__args__)


def test_every_kind_has_a_method_in_python(knobs: Knobs) -> None:
    panel = KnobPanel(knobs, "s3")
    arguments: dict[str, tuple[Any, ...]] = {"slow": (0.1,), "refuse": ("x",)}
    for example in EXAMPLES:
        kind = str(knob_to_json(example)["kind"])
        active = getattr(panel, kind)(*arguments.get(kind, ()), times=1, target="t")
        assert type(active.knob) is type(example)
        assert (active.knob.service, active.knob.target, active.knob.times) == ("s3", "t", 1)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "kind"),
        ({"kind": "explode"}, "explode"),
        ({"kind": "fail", "tims": 3}, "tims"),
        ({"kind": "fail", "times": 0}, "times"),
        ({"kind": "fail", "times": "3"}, "times"),
        ({"kind": "fail", "probability": 1.5}, "probability"),
        ({"kind": "fail", "status": 99}, "status"),
        ({"kind": "slow"}, "seconds"),
        ({"kind": "slow", "seconds": 0}, "seconds"),
        ({"kind": "close", "when": "later"}, "later"),
        ({"kind": "refuse", "containing": ""}, "containing"),
    ],
)
def test_a_knob_that_makes_no_sense_is_refused_by_name(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(LocalCloudError, match=reason):
        knob_from_json(fields)


def test_python_is_checked_as_json_is(knobs: Knobs) -> None:
    with pytest.raises(LocalCloudError, match="times"):
        KnobPanel(knobs, "s3").fail(times=0)
    assert knobs.active() == []
