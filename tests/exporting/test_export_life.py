"""What the log tells of an export: each change once, with fields for machines."""

from __future__ import annotations

import logging

import pytest
from test_desk import Office, done, export

from penstock.export_model import ExportReport, Refusal
from penstock.exporting.life import REFUSALS_TOLD_EVERY_MS


@pytest.fixture(autouse=True)
def _everything_is_heard(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock.exporting")


def fail(office: Office, *, blocked: bool = False, error: str = "throttled") -> None:
    """One try that ends with an error, and the pause after it."""
    (lease,) = office.take()
    report = ExportReport(
        lease.lease_id, error=error, blocked=blocked, retry_after_millis=2000, done=True
    )
    assert office.report(report)
    office.now_ms += 2001


def succeed(office: Office) -> None:
    (lease,) = office.take()
    assert office.report(done(lease, lease.start + 1))


def refuse(office: Office, *numbers: int) -> None:
    (lease,) = office.take()
    refused = [Refusal(number, "too large") for number in numbers]
    report = ExportReport(
        lease.lease_id, next_sequence_number=numbers[-1] + 1, refused=refused, done=True
    )
    assert office.report(report)


def test_a_failure_is_told_once_and_so_is_the_recovery(caplog: pytest.LogCaptureFixture) -> None:
    office = Office()
    office.open("s", export())
    office.append("s", 5)
    for _ in range(3):
        fail(office)
    succeed(office)
    succeed(office)

    assert caplog.messages == [
        "Export e of stream s fails; the next try is in 2 s: throttled",
        "Export e of stream s works again after 3 failed tries.",
    ]
    failed = vars(caplog.records[0])
    assert (failed["stream"], failed["export"], failed["error"]) == ("s", "e", "throttled")
    assert failed["destination"] == "HTTP"
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


def test_a_failure_that_needs_a_person_is_another_state(caplog: pytest.LogCaptureFixture) -> None:
    office = Office()
    office.open("s", export())
    office.append("s", 1)
    fail(office)
    fail(office, blocked=True, error="access denied")
    fail(office, blocked=True, error="access denied")

    assert caplog.messages[1:] == [
        "Export e of stream s is blocked until somebody acts; the next try is in 2 s: access denied"
    ]


def test_pausing_and_going_on_are_told(caplog: pytest.LogCaptureFixture) -> None:
    office = Office()
    office.open("s", export())
    office.open("s", export(disabled=True))
    office.open("s", export(disabled=True, priority=3))
    office.open("s", export())

    assert caplog.messages == [
        "Export e of stream s is paused.",
        "Export e of stream s goes on after a pause.",
    ]


def test_dead_letters_are_told_at_most_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    office = Office()
    office.open("s", export(batch_size=1))
    office.append("s", 10)
    refuse(office, 0)
    refuse(office, 1, 2)
    refuse(office, 3)
    office.now_ms += REFUSALS_TOLD_EVERY_MS
    refuse(office, 4)

    start = "Export e of stream s: "
    assert caplog.messages == [
        f"{start}1 messages were refused and are dead letters; the last, number 0: too large",
        f"{start}4 messages were refused and are dead letters; the last, number 4: too large",
    ]
