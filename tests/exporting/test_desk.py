"""Leases, positions, priorities, backoff and dead letters, with a clock that can be moved."""

from __future__ import annotations

import pytest

from penstock.export_model import ExportReport, Lease, Refusal
from penstock.exporting.bandwidth import Bandwidth
from penstock.exporting.dead_letters import DeadLetters
from penstock.exporting.desk import AGING_MS, FIRST_WORD_MS, LEASE_MS, ExportDesk
from penstock.log.memory import Memory
from penstock.model import (
    ExportDefinition,
    HTTPConfig,
    MessageStreamDefinition,
    Persistence,
    StrategyOnFull,
)
from penstock.streams.stream import Stream

WORKER = object()


class Office:
    """A desk with its streams and its clock."""

    def __init__(self, bandwidth_kbps: int | None = None) -> None:
        self.now_ms = 1_000_000
        self.calls = 0
        self.letters = DeadLetters(":memory:")
        self.streams: dict[str, Stream] = {}
        self.desk = ExportDesk(
            self.letters,
            DeadLetters(":memory:"),
            Bandwidth(bandwidth_kbps, self.now_ms),
            lambda: self.now_ms,
            self._due,
        )

    def _due(self) -> None:
        self.calls += 1

    def open(self, name: str, *configs: HTTPConfig, max_size: int = 1 << 20) -> Stream:
        definition = MessageStreamDefinition(
            name=name,
            max_size=max_size,
            strategy_on_full=StrategyOnFull.OverwriteOldestData,
            persistence=Persistence.File,
            export_definition=ExportDefinition(http=list(configs)),
        )
        stream = self.streams.get(name)
        if stream is None:
            stream = self.streams[name] = Stream(Memory(), "/m", definition)
        else:
            stream.apply_update(definition)
        self.desk.stream_changed(stream)
        return stream

    def append(self, name: str, count: int = 1, size: int = 10) -> None:
        stream = self.streams[name]
        stream.append(b"x" * size * count, [size] * count, self.now_ms)
        stream.show_appended(stream.log.next_sequence)
        self.desk.appended(stream)

    def take(self, count: int = 10) -> list[Lease]:
        return self.desk.take(WORKER, count)

    def report(self, report: ExportReport, worker: object = WORKER) -> bool:
        return self.desk.report(report, worker)

    def renew(self, lease_ids: list[int], worker: object = WORKER) -> list[int]:
        return self.desk.renew(lease_ids, worker)

    def state(self, name: str) -> str:
        return next(view.state for view in self.desk.views() if view.stream_name == name)


def export(identifier: str = "e", **fields: object) -> HTTPConfig:
    return HTTPConfig(identifier=identifier, uri="http://x/", **fields)  # type: ignore[arg-type]


def done(lease: Lease, next_sequence: int, count: int = 1, **fields: object) -> ExportReport:
    return ExportReport(
        lease.lease_id,
        next_sequence_number=next_sequence,
        messages=count,
        sent_bytes=10 * count,
        done=True,
        **fields,  # type: ignore[arg-type]
    )


def test_new_messages_make_an_export_due_once() -> None:
    office = Office()
    office.open("s", export())
    assert office.take() == []
    office.append("s", 3)
    (lease,) = office.take()
    assert (lease.stream_name, lease.start, lease.stop) == ("s", 0, 3)
    assert office.take() == []
    assert office.state("s") == "sending"


def test_a_report_moves_the_position_and_the_rest_is_due_again() -> None:
    office = Office()
    stream = office.open("s", export())
    office.append("s", 5)
    (lease,) = office.take()
    assert office.report(done(lease, 3, 3))
    (status,) = stream.exports.statuses()
    assert status.last_exported_sequence_number == 2
    assert status.exported_messages_count == 3
    assert status.exported_bytes_from_stream == 30
    (again,) = office.take()
    assert (again.start, again.stop) == (3, 5)


def test_a_report_under_a_lost_lease_counts_for_nothing() -> None:
    office = Office()
    stream = office.open("s", export())
    office.append("s")
    (lease,) = office.take()
    assert office.renew([lease.lease_id]) == []
    office.now_ms += LEASE_MS + 1
    (other,) = office.take()
    assert not office.report(done(lease, 1))
    assert stream.exports.statuses()[0].last_exported_sequence_number == -1
    assert office.report(done(other, 1))


def test_a_worker_that_renews_keeps_its_lease() -> None:
    office = Office()
    office.open("s", export())
    office.append("s")
    (lease,) = office.take()
    for _ in range(5):
        office.now_ms += LEASE_MS - 1
        assert office.renew([lease.lease_id, 999]) == [999]
        assert office.take() == []
    assert office.report(done(lease, 1))


def test_a_worker_has_time_to_start_before_its_first_word() -> None:
    office = Office()
    office.open("s", export())
    office.append("s")
    office.take()
    office.now_ms += FIRST_WORD_MS
    assert office.take() == []
    office.now_ms += 1
    assert len(office.take()) == 1


def test_the_leases_of_a_worker_that_is_gone_are_free_at_once() -> None:
    office = Office()
    office.open("s", export())
    office.append("s")
    office.take()
    office.desk.worker_gone(WORKER)
    assert len(office.take()) == 1


@pytest.mark.parametrize("speaks", ["reports", "renews"])
def test_a_lease_lives_with_the_connection_that_spoke_of_it_last(speaks: str) -> None:
    office = Office()
    office.open("s", export())
    office.append("s", 2)
    (lease,) = office.take()
    process = object()
    if speaks == "reports":
        progress = ExportReport(lease.lease_id, next_sequence_number=1, messages=1, sent_bytes=10)
        assert office.report(progress, process)
    else:
        assert office.renew([lease.lease_id], process) == []
    office.desk.worker_gone(WORKER)
    assert office.take() == []
    office.desk.worker_gone(process)
    (again,) = office.take()
    assert again.start == (1 if speaks == "reports" else 0)


def test_leases_are_given_back_unless_another_connection_has_spoken_of_them() -> None:
    office = Office()
    for name in ("unused", "used"):
        office.open(name, export())
        office.append(name)
    unused, used = office.take()
    assert office.renew([used.lease_id], "process") == []
    office.desk.give_back([unused.lease_id, used.lease_id, 999], WORKER)
    assert [lease.stream_name for lease in office.take()] == ["unused"]


def test_a_worker_with_a_new_connection_goes_on_if_nobody_else_has_its_lease() -> None:
    office = Office()
    stream = office.open("s", export())
    office.append("s", 2)
    (lease,) = office.take()
    office.desk.worker_gone(WORKER)
    assert office.renew([lease.lease_id], "new connection") == []
    assert office.take() == []
    assert office.state("s") == "sending"
    assert office.report(done(lease, 2, 2), "new connection")
    assert stream.exports.statuses()[0].last_exported_sequence_number == 1
    assert not office.report(done(lease, 2, 2), "new connection")


def test_a_worker_with_a_new_connection_has_lost_what_another_has_taken() -> None:
    office = Office()
    office.open("s", export())
    office.append("s", 2)
    (lease,) = office.take()
    office.desk.worker_gone(WORKER)
    (other,) = office.take()
    assert office.renew([lease.lease_id, other.lease_id], WORKER) == [lease.lease_id]


def test_a_worker_with_a_new_connection_has_lost_what_was_changed_or_deleted() -> None:
    office = Office()
    office.open("changed", export())
    deleted = office.open("deleted", export())
    office.append("changed")
    office.append("deleted")
    leases = office.take()
    office.desk.worker_gone(WORKER)
    office.open("changed", export(priority=3))
    office.desk.stream_removed(deleted)
    ids = [lease.lease_id for lease in leases]
    assert office.renew(ids) == ids


def test_what_a_file_takes_beyond_its_portion_is_owed_while_it_is_sent() -> None:
    office = Office(bandwidth_kbps=80)  # 10 kB/s: a portion is 5,000 bytes
    stream = office.open("files", export())
    office.open("other", export())
    office.append("files")
    office.now_ms += 500
    (lease,) = office.take()
    for _ in range(3):
        assert office.report(ExportReport(lease.lease_id, file_bytes=5000))
    office.append("other")
    office.now_ms += 999
    assert office.take() == []
    office.now_ms += 2
    (other,) = office.take()
    assert other.stream_name == "other"
    assert office.report(done(lease, 1))
    (status,) = stream.exports.statuses()
    assert status.exported_bytes_from_stream == 10
    (view,) = [view for view in office.desk.views() if view.stream_name == "files"]
    assert view.bytes_per_second == (15_000 + 10) / 10


def test_the_bandwidth_of_a_lease_that_is_taken_up_again_is_counted_once() -> None:
    office = Office(bandwidth_kbps=80)  # 10 kB/s: a portion is 5,000 bytes
    office.open("s", export())
    office.open("other", export())
    office.append("s", 20, size=1000)
    office.append("other", 20, size=1000)
    office.now_ms += 500
    (lease,) = office.take()
    office.desk.worker_gone(WORKER)
    assert office.renew([lease.lease_id]) == []
    assert office.take() == []
    sent = ExportReport(lease.lease_id, next_sequence_number=5, sent_bytes=5000, done=True)
    assert office.report(sent)
    assert office.take() == []
    office.now_ms += 1
    assert len(office.take()) == 1


def test_trouble_lets_an_export_rest_and_success_forgets_it() -> None:
    office = Office()
    office.open("s", export())
    office.append("s")
    (lease,) = office.take()
    office.report(
        ExportReport(lease.lease_id, error="throttled", retry_after_millis=5_000, done=True)
    )
    assert office.state("s") == "backing off"
    assert office.take() == []
    view = office.desk.views()[0]
    assert (view.tries, view.last_error, view.next_retry_time) == (
        1,
        "throttled",
        office.now_ms + 5_000,
    )
    office.append("s")  # more messages do not cut the pause short
    assert office.take() == []
    assert office.desk.next_time_ms() == office.now_ms + 5_000
    office.now_ms += 5_000
    (again,) = office.take()
    assert again.tries == 1
    office.report(done(again, 2, 2))
    view = office.desk.views()[0]
    assert (view.tries, view.last_error, view.state) == (0, None, "idle")


def test_a_blocked_export_says_so() -> None:
    office = Office()
    office.open("s", export())
    office.append("s")
    (lease,) = office.take()
    office.report(
        ExportReport(
            lease.lease_id, error="no such target", blocked=True, retry_after_millis=9, done=True
        )
    )
    assert office.state("s") == "blocked"


def test_higher_priority_goes_first_then_who_waited_longest() -> None:
    office = Office()
    for name, priority in (("none", None), ("ten", 10), ("one-b", 1), ("one-a", 1)):
        office.open(name, export(priority=priority))
    for name in ("none", "ten", "one-a"):
        office.append(name)
    office.now_ms += 5
    office.append("one-b")
    names = [lease.stream_name for lease in office.take(3)]
    assert names == ["one-a", "one-b", "ten"]


def test_who_waited_very_long_is_not_starved_by_higher_priority() -> None:
    office = Office()
    office.open("low", export(priority=10))
    office.open("high", export(priority=1))
    office.append("low")
    office.now_ms += AGING_MS + 1
    office.append("high")
    assert [lease.stream_name for lease in office.take(1)] == ["low"]


def test_a_paused_export_takes_no_lease_and_goes_on_where_it_was() -> None:
    office = Office()
    office.open("s", export(disabled=True))
    office.append("s", 2)
    assert office.take() == []
    assert office.state("s") == "paused"
    assert not office.desk.wants_worker()
    office.open("s", export())
    assert office.desk.wants_worker()
    (lease,) = office.take()
    assert (lease.start, lease.stop) == (0, 2)


def test_pausing_takes_the_lease_back() -> None:
    office = Office()
    office.open("s", export())
    office.append("s")
    (lease,) = office.take()
    office.open("s", export(disabled=True))
    assert office.renew([lease.lease_id]) == [lease.lease_id]
    assert not office.report(done(lease, 1))


def test_a_changed_start_moves_the_position() -> None:
    office = Office()
    office.open("s", export())
    office.append("s", 10)
    (lease,) = office.take()
    office.report(done(lease, 10, 10))
    office.open("s", export(start_sequence_number=4))
    (again,) = office.take()
    assert (again.start, again.stop) == (4, 10)


def test_an_export_that_is_removed_or_whose_stream_is_deleted_is_forgotten() -> None:
    office = Office()
    office.open("s", export("a"), export("b"))
    office.append("s")
    assert len(office.take()) == 2
    office.open("s", export("a"))
    assert [view.export_identifier for view in office.desk.views()] == ["a"]
    office.desk.stream_removed(office.streams["s"])
    assert office.desk.views() == []
    assert office.take() == []


def test_an_update_that_does_not_touch_an_export_does_not_disturb_it() -> None:
    office = Office()
    office.open("s", export("a"))
    office.append("s")
    (lease,) = office.take()
    office.open("s", export("a"), export("b"))
    assert office.report(done(lease, 1))


def test_a_refused_message_is_a_dead_letter_before_the_position_passes_it() -> None:
    office = Office()
    stream = office.open("s", export())
    office.append("s", 3)
    (lease,) = office.take()
    office.report(done(lease, 3, 2, refused=[Refusal(1, "not JSON")]))
    (letter,) = office.letters.find()
    assert (letter.sequence_number, letter.reason, letter.payload) == (1, "not JSON", b"x" * 10)
    status = stream.exports.statuses()[0]
    assert "message 1" in (status.error_message or "")
    assert "not JSON" in (status.error_message or "")
    view = office.desk.views()[0]
    assert (view.refused_messages, view.dead_letters, view.delivered_messages) == (1, 1, 2)


def test_a_replay_sends_letters_and_forgets_those_that_went_through() -> None:
    office = Office()
    office.open("s", export())
    office.append("s", 3)
    (lease,) = office.take()
    office.report(done(lease, 3, 1, refused=[Refusal(0, "bad"), Refusal(2, "bad")]))
    office.desk.replay(office.letters.ask_for_replay("s", "e"))
    (replay,) = office.take()
    assert replay.dead_letter_ids == [1, 2]
    report = ExportReport(
        replay.lease_id, messages=1, replayed_ids=[1], refused=[Refusal(2, "bad still")], done=True
    )
    office.report(report)
    (left,) = office.letters.find()
    assert (left.id, left.reason) == (2, "bad still")
    office.take()
    assert office.state("s") in ("idle", "sending")


def test_what_retention_removed_is_skipped_and_counted() -> None:
    office = Office()
    office.open("s", export(), max_size=2048)
    for _ in range(200):
        office.append("s")
    (lease,) = office.take()
    assert lease.start > 0
    view = office.desk.views()[0]
    assert view.lost_messages == lease.start


def test_without_bandwidth_nobody_gets_a_lease_until_there_is_some() -> None:
    office = Office(bandwidth_kbps=80)  # ten bytes per millisecond
    office.open("a", export(priority=1))
    office.open("b", export(priority=2))
    office.append("a", 1000, size=100)
    office.append("b", 1000, size=100)
    office.now_ms += 100
    (lease,) = office.take()
    assert lease.stream_name == "a"
    assert lease.bytes_max is not None
    office.report(
        ExportReport(
            lease.lease_id, next_sequence_number=60, messages=60, sent_bytes=6000, done=True
        )
    )
    assert office.take() == []
    at_ms = office.desk.next_time_ms()
    assert at_ms is not None
    assert at_ms > office.now_ms
    office.now_ms = at_ms
    (again,) = office.take()
    assert again.stream_name == "a"


def test_while_an_urgent_backlog_is_being_sent_the_bandwidth_is_kept_for_it() -> None:
    office = Office(bandwidth_kbps=80)
    office.open("low", export(priority=10))
    office.open("high", export(priority=1))
    office.append("high", 1000, size=100)
    office.now_ms += 100
    (lease,) = office.take()
    office.append("low")
    office.now_ms += 2_000  # enough has gathered for another portion
    assert office.take() == []
    at_ms = office.desk.next_time_ms()
    assert at_ms is not None
    assert at_ms > office.now_ms + 1_000, "nothing to do until a report comes"
    office.report(done(lease, 1000, 1000))
    assert [each.stream_name for each in office.take()] == ["low"]


def test_an_urgent_export_that_hangs_does_not_keep_the_bandwidth() -> None:
    office = Office(bandwidth_kbps=80)
    office.open("low", export(priority=10))
    office.open("high", export(priority=1))
    office.append("high", 1000, size=100)
    office.now_ms += 100
    office.take()
    office.append("low")
    office.now_ms += 4_000
    assert [each.stream_name for each in office.take()] == ["low"]
