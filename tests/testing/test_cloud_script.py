"""Scripts of knobs."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from penstock.testing.errors import LocalCloudError
from penstock.testing.knobs import Close, Knobs, Throttle
from penstock.testing.script import Step, Timeline, load_script, parsed_script

OUTAGE = """
[[knob]]
from_s = 20
until_s = 40.5
kind = "close"

[[knob]]
kind = "throttle"
service = "kinesis"
times = 3
"""


def test_a_script_says_which_knob_from_when_to_when() -> None:
    assert parsed_script(OUTAGE) == [
        Step(Close(), 20, 40.5),
        Step(Throttle(service="kinesis", times=3), 0, None),
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[[knob", "not TOML"),
        ("[settings]", r"\[\[knob\]\] tables"),
        ("[knob]", r"\[\[knob\]\] tables"),
        ('[[knob]]\nkind = "fail"\n[[knob]]\nkind = "explode"', "knob 2: .*explode"),
        ('[[knob]]\nkind = "fail"\nfrom_s = -1', "knob 1: -1 is no number of seconds"),
        ('[[knob]]\nkind = "fail"\nuntil_s = "later"', "knob 1: 'later' is no number"),
        ('[[knob]]\nkind = "fail"\nfrom_s = 5\nuntil_s = 5', "knob 1: until_s is not after"),
    ],
)
def test_a_wrong_script_names_the_knob_and_the_mistake(text: str, reason: str) -> None:
    with pytest.raises(LocalCloudError, match=reason):
        parsed_script(text)


def test_a_wrong_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "outage.toml"
    path.write_text("nonsense")
    with pytest.raises(LocalCloudError, match=r"outage\.toml: The script is not TOML"):
        load_script(str(path))


def test_knobs_come_and_go_at_their_times() -> None:
    knobs = Knobs()
    changed = {"set": threading.Event(), "released": threading.Event()}
    steps = [Step(Close(), 0, 0.05), Step(Throttle(), 3600, None)]
    before = set(threading.enumerate())
    with Timeline(steps, knobs, lambda what, step: changed[what].set()):
        assert changed["set"].wait(10)
        assert changed["released"].wait(10)
        assert knobs.active() == []
    assert set(threading.enumerate()) == before


def test_leaving_ends_knobs_that_would_have_come() -> None:
    knobs = Knobs()
    is_set = threading.Event()
    with Timeline([Step(Close(), 0, 3600)], knobs, lambda what, step: is_set.set()):
        assert is_set.wait(10)
    assert [active.kind for active in knobs.active()] == ["close"]
