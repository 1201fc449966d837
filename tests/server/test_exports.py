"""Exports over the wire: who may work on them, how long one waits, and what becomes of the work."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from in_process import ServerInThread
from raw_client import RawClient

from failure_logs import show_on_failure
from penstock import StreamManagerClient
from penstock.client.worker import WorkerClient
from penstock.export_model import ExportReport, ExportView, Lease, Refusal
from penstock.model import (
    ExportDefinition,
    HTTPConfig,
    IoTAnalyticsConfig,
    KinesisConfig,
    MessageStreamDefinition,
    Persistence,
    StrategyOnFull,
)
from penstock.protocol.operations import Extension, Operation
from server_process import ServerProcess

TOKEN = "the token of the pipeline"
EXTERNAL = {"PENSTOCK_PIPELINE": "external", "PENSTOCK_PIPELINE_TOKEN": TOKEN}


@pytest.fixture(scope="module")
def shared_server(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[ServerProcess]:
    """A server whose pipeline is the test."""
    process = ServerProcess(tmp_path_factory.mktemp("exports"), env=EXTERNAL)
    show_on_failure(request, process.log_path)
    with process:
        yield process
    assert "Traceback" not in process.log


@pytest.fixture
def user(shared_server: ServerProcess) -> Iterator[StreamManagerClient]:
    """Somebody with streams; all of them are gone afterwards, so that nothing else is due."""
    with StreamManagerClient(port=shared_server.port) as client:
        yield client
        client.purge_dead_letters()
        for name in client.list_streams():
            client.delete_message_stream(name)


@pytest.fixture
def worker(shared_server: ServerProcess) -> Iterator[WorkerClient]:
    with worker_of(shared_server.port) as client:
        yield client


@contextmanager
def worker_of(port: int) -> Iterator[WorkerClient]:
    client = WorkerClient("127.0.0.1", port, auth_token=TOKEN)
    try:
        yield client
    finally:
        client.close()


def export(identifier: str = "e", **fields: Any) -> HTTPConfig:
    return HTTPConfig(identifier, "http://127.0.0.1:9/", **fields)


def definition(name: str, *exports: HTTPConfig, **fields: Any) -> MessageStreamDefinition:
    return MessageStreamDefinition(
        name=name,
        strategy_on_full=StrategyOnFull.OverwriteOldestData,
        export_definition=ExportDefinition(http=list(exports)),
        **fields,
    )


def create(user: StreamManagerClient, name: str, *payloads: bytes, **fields: Any) -> None:
    """A stream with one export and some messages."""
    user.create_message_stream(definition(name, export(**fields)))
    for payload in payloads:
        user.append_message(name, payload)


def one_lease(worker: WorkerClient, wait_ms: int = 5_000) -> Lease:
    (lease,) = worker.watch_exports(10, wait_ms).leases
    return lease


def finished(lease: Lease, next_sequence: int, **fields: Any) -> ExportReport:
    return ExportReport(
        lease.lease_id, next_sequence_number=next_sequence, done=True, **{"messages": 1, **fields}
    )


def view(client: StreamManagerClient, name: str) -> ExportView:
    (found,) = (each for each in client.describe_exports().exports if each.stream_name == name)
    return found


def in_background(function: Callable[[], Any]) -> tuple[Thread, list[Any]]:
    """Start a call that waits; its result is in the list when the thread has ended."""
    results: list[Any] = []
    thread = Thread(target=lambda: results.append(function()))
    thread.start()
    return thread, results


# --- rights -------------------------------------------------------------------------------------


@pytest.mark.parametrize("token", ["", "wrong"])
def test_without_the_token_of_the_pipeline_nobody_works_on_exports(
    shared_server: ServerProcess, token: str
) -> None:
    extensions = (Extension.EXPORT_WORK, Extension.EXPORT_STATUS)
    with RawClient(shared_server.port, extensions=extensions, authToken=token) as client:
        assert client.connected.values["penstock"] == [Extension.EXPORT_STATUS]
        for operation in (Operation.WatchExports, Operation.ReportExport, Operation.RenewLeases):
            answer = client.call(operation)
            assert (answer.operation, answer.status) == (Operation.UnknownOperationError, 18)
        assert client.done(Operation.DescribeExports).values["exports"] == []


def test_the_token_of_the_pipeline_opens_everything(shared_server: ServerProcess) -> None:
    with RawClient(shared_server.port, extensions=Extension.ALL, authToken=TOKEN) as client:
        assert set(client.connected.values["penstock"]) == set(Extension.ALL)
        assert client.done(Operation.WatchExports).values["leases"] == []


def test_aws_clients_see_nothing_of_it(shared_server: ServerProcess) -> None:
    with RawClient(shared_server.port, authToken=TOKEN) as client:
        assert "penstock" not in client.connected.values
        answer = client.call(Operation.DescribeExports)
        assert answer.operation == Operation.UnknownOperationError


def test_where_tokens_are_required_that_of_the_pipeline_will_do(
    serve: Callable[..., ServerInThread],
) -> None:
    server = serve(
        authenticate_client=True, tokens=("for users",), pipeline="external", pipeline_token=TOKEN
    )
    with worker_of(server.port) as worker:
        assert worker.watch_exports(1, 0).leases == []
    with RawClient(server.port, extensions=Extension.ALL, authToken="for users") as client:
        assert Extension.EXPORT_WORK not in client.connected.values["penstock"]


# --- watching -----------------------------------------------------------------------------------


def test_a_watch_is_answered_as_soon_as_something_is_due(
    user: StreamManagerClient, worker: WorkerClient
) -> None:
    create(user, "s")
    thread, results = in_background(lambda: worker.watch_exports(10, 20_000))
    begun = time.monotonic()
    user.append_message("s", b"now")
    thread.join()
    assert time.monotonic() - begun < 5
    (lease,) = results[0].leases
    assert (lease.stream_name, lease.start, lease.stop) == ("s", 0, 1)
    assert lease.config["uri"] == "http://127.0.0.1:9/"


def test_a_batch_that_is_not_full_waits_for_the_rest(
    user: StreamManagerClient, worker: WorkerClient
) -> None:
    create(user, "s", b"one", batch_size=2)
    assert worker.watch_exports(10, 50).leases == []
    seen = view(user, "s")
    assert (seen.state, seen.waiting_for) == ("waiting", "1 more messages for a batch of 2")
    user.append_message("s", b"two")
    assert one_lease(worker).stop == 2


def test_a_watch_for_nothing_ends_with_its_time(worker: WorkerClient) -> None:
    begun = time.monotonic()
    assert worker.watch_exports(10, 300).leases == []
    assert 0.29 < time.monotonic() - begun < 5


def test_who_does_not_want_to_wait_gets_what_is_due_already(
    user: StreamManagerClient, worker: WorkerClient
) -> None:
    create(user, "s", b"due")
    assert one_lease(worker, 0).stop == 1


def test_the_settings_of_destinations_come_with_the_leases(
    user: StreamManagerClient, worker: WorkerClient
) -> None:
    create(user, "s", b"due")
    settings = worker.watch_exports(1, 5_000).settings
    assert settings["kinesis_inter_call_delay_ms"] == 1000
    assert settings["s3_part_bytes_min"] == 5 * 1024 * 1024


def test_several_watchers_share_the_work(
    user: StreamManagerClient, worker: WorkerClient, shared_server: ServerProcess
) -> None:
    for name in ("one", "two"):
        create(user, name)
    with worker_of(shared_server.port) as other:
        first, first_results = in_background(lambda: worker.watch_exports(1, 20_000))
        second, second_results = in_background(lambda: other.watch_exports(1, 20_000))
        for name in ("one", "two"):
            user.append_message(name, b"x")
        first.join()
        second.join()
        leases = first_results[0].leases + second_results[0].leases
        assert sorted(lease.stream_name for lease in leases) == ["one", "two"]


def test_a_due_export_that_nobody_takes_does_not_keep_the_server_busy(
    server: ServerProcess,
) -> None:
    with StreamManagerClient(port=server.port) as user:
        create(user, "s", b"due")
        assert view(user, "s").state == "due"
        assert server.process is not None
        stat = Path(f"/proc/{server.process.pid}/stat")
        before = cpu_ticks(stat)
        time.sleep(1)
        assert cpu_ticks(stat) - before <= 5, "hundredths of a second"


def cpu_ticks(stat: Path) -> int:
    """User and system time of a process."""
    fields = stat.read_text().rpartition(") ")[2].split()
    return int(fields[11]) + int(fields[12])


def test_a_redirected_channel_is_shown_with_both_names_and_told_to_the_pipeline(
    serve: Callable[..., ServerInThread],
) -> None:
    server = serve(
        pipeline="external",
        pipeline_token=TOKEN,
        iot_analytics_redirects=("turbines=kinesis:plant-7",),
    )
    with StreamManagerClient(port=server.port) as user, worker_of(server.port) as worker:
        redirected = definition("s")
        redirected.export_definition.iot_analytics = [IoTAnalyticsConfig("e", "turbines")]
        user.create_message_stream(redirected)
        user.append_message("s", b"one")
        assert view(user, "s").target == "turbines -> Kinesis plant-7"
        settings = worker.watch_exports(1, 5_000).settings
        assert settings["kinesis_streams_by_channel"] == {"turbines": "plant-7"}


# --- reports ------------------------------------------------------------------------------------


def test_what_is_reported_is_what_everybody_sees(
    user: StreamManagerClient, worker: WorkerClient
) -> None:
    create(user, "s", b"one", b"two", b"three")
    lease = one_lease(worker)
    assert view(user, "s").state == "sending"
    assert worker.report_export(finished(lease, 2, messages=2, sent_bytes=6)) == (True, False)
    seen = view(user, "s")
    assert (seen.state, seen.lag_messages, seen.delivered_messages) == ("due", 1, 2)
    assert (seen.delivered_bytes, seen.last_exported_sequence_number) == (6, 1)
    (status,) = user.describe_message_stream("s").export_statuses
    assert status.last_exported_sequence_number == 1
    assert status.exported_messages_count == 2
    assert status.exported_bytes_from_stream == 6
    assert worker.report_export(finished(lease, 3)) == (False, False), "the lease is over"


def test_trouble_is_seen_and_waited_out(user: StreamManagerClient, worker: WorkerClient) -> None:
    create(user, "s", b"one")
    lease = one_lease(worker)
    trouble = ExportReport(lease.lease_id, error="nobody home", retry_after_millis=400, done=True)
    assert worker.report_export(trouble) == (True, False)
    seen = view(user, "s")
    assert (seen.state, seen.tries, seen.last_error) == ("backing off", 1, "nobody home")
    assert seen.next_retry_time is not None
    again = one_lease(worker)
    assert again.tries == 1
    assert worker.report_export(finished(again, 1)) == (True, False)
    assert (view(user, "s").state, view(user, "s").tries, view(user, "s").last_error) == (
        "idle",
        0,
        None,
    )


def test_a_blocked_export_is_called_so(user: StreamManagerClient, worker: WorkerClient) -> None:
    create(user, "s", b"one")
    report = ExportReport(
        one_lease(worker).lease_id,
        error="no such bucket",
        blocked=True,
        retry_after_millis=60_000,
        done=True,
    )
    worker.report_export(report)
    assert view(user, "s").state == "blocked"


def test_a_pause_is_seen_and_a_resumed_export_goes_on_where_it_was(
    user: StreamManagerClient, worker: WorkerClient
) -> None:
    create(user, "s", b"one", b"two")
    worker.report_export(finished(one_lease(worker), 1))
    user.update_message_stream(definition("s", export(disabled=True)))
    assert view(user, "s").state == "paused"
    assert worker.watch_exports(1, 50).leases == []
    user.update_message_stream(definition("s", export()))
    assert one_lease(worker).start == 1


def test_a_change_while_an_export_is_due_counts_for_the_next_lease(
    user: StreamManagerClient, worker: WorkerClient
) -> None:
    create(user, "s", b"one")
    assert view(user, "s").state == "due"
    changed = HTTPConfig("e", "http://127.0.0.1:9/elsewhere")
    user.update_message_stream(definition("s", changed))
    assert one_lease(worker).config["uri"] == "http://127.0.0.1:9/elsewhere"


# --- leases that are lost -----------------------------------------------------------------------


def test_renewed_leases_are_kept_and_unknown_ones_named(
    user: StreamManagerClient, worker: WorkerClient
) -> None:
    create(user, "s", b"one")
    lease = one_lease(worker)
    assert worker.renew_leases([lease.lease_id, 999_999]) == ([999_999], [])


def test_a_change_takes_the_lease_away_and_a_removal_says_that_it_is_for_good(
    user: StreamManagerClient, worker: WorkerClient
) -> None:
    create(user, "changed", b"one")
    changed = one_lease(worker).lease_id
    create(user, "removed", b"one")
    removed = one_lease(worker).lease_id
    create(user, "deleted", b"one")
    deleted = one_lease(worker).lease_id
    create(user, "moved", b"one")
    moved = one_lease(worker).lease_id
    user.update_message_stream(definition("changed", export(priority=3)))
    user.update_message_stream(definition("removed"))
    user.delete_message_stream("deleted")
    elsewhere = definition("moved")
    elsewhere.export_definition.kinesis = [KinesisConfig("e", "k")]
    user.update_message_stream(elsewhere)
    lost = worker.renew_leases([changed, removed, deleted, moved])
    assert lost.ids == [changed, removed, deleted, moved]
    assert lost.canceled_ids == [removed, deleted, moved]
    assert worker.report_export(ExportReport(deleted, next_sequence_number=1)) == (False, True)


def test_the_leases_of_a_worker_that_is_gone_are_free_at_once(
    user: StreamManagerClient, worker: WorkerClient, shared_server: ServerProcess
) -> None:
    create(user, "s", b"one")
    with worker_of(shared_server.port) as doomed:
        lost = one_lease(doomed)
        assert worker.watch_exports(1, 0).leases == []
        thread, results = in_background(lambda: worker.watch_exports(1, 20_000))
        begun = time.monotonic()
    thread.join()
    assert time.monotonic() - begun < 5
    (lease,) = results[0].leases
    assert (lease.start, lease.stop) == (lost.start, lost.stop)
    assert worker.report_export(finished(lost, 1)) == (False, False)


def test_a_watcher_that_is_gone_takes_no_lease(
    user: StreamManagerClient, worker: WorkerClient, shared_server: ServerProcess
) -> None:
    create(user, "s")
    with RawClient(shared_server.port, extensions=Extension.ALL, authToken=TOKEN) as gone:
        gone.ask(Operation.WatchExports, waitMillis=20_000)
        gone.done(Operation.ListStreams)  # so the watch has arrived
    user.append_message("s", b"one")
    assert one_lease(worker).stream_name == "s"


# --- dead letters -------------------------------------------------------------------------------


def refuse(user: StreamManagerClient, worker: WorkerClient, name: str, **fields: Any) -> None:
    """A stream whose messages 0 and 2 of three are refused."""
    user.create_message_stream(definition(name, export(), **fields))
    for payload in (b"bad", b"good", b"worse"):
        user.append_message(name, payload)
    refused = [Refusal(0, "too bad"), Refusal(2, "even worse")]
    worker.report_export(finished(one_lease(worker), 3, refused=refused))


def test_refused_messages_are_kept_with_their_reason(
    user: StreamManagerClient, worker: WorkerClient
) -> None:
    refuse(user, worker, "s")
    letters = user.find_dead_letters()
    assert [(each.sequence_number, each.payload, each.reason) for each in letters] == [
        (0, b"bad", "too bad"),
        (2, b"worse", "even worse"),
    ]
    seen = view(user, "s")
    assert (seen.dead_letters, seen.refused_messages, seen.delivered_messages) == (2, 2, 1)
    assert seen.last_error == "message 2 was refused and is a dead letter: even worse"


def test_a_replay_is_a_lease_of_its_own_and_what_goes_through_is_forgotten(
    user: StreamManagerClient, worker: WorkerClient
) -> None:
    refuse(user, worker, "s")
    first, second = (letter.id for letter in user.find_dead_letters())
    assert user.replay_dead_letters("s") == 2
    lease = one_lease(worker)
    assert lease.dead_letter_ids == [first, second]
    worker.report_export(
        ExportReport(
            lease.lease_id,
            messages=1,
            replayed_ids=[first],
            refused=[Refusal(second, "still")],
            done=True,
        )
    )
    (left,) = user.find_dead_letters()
    assert (left.id, left.reason, left.replay) == (second, "still", False)


def test_letters_of_file_and_memory_streams_never_share_a_number(
    user: StreamManagerClient, worker: WorkerClient
) -> None:
    refuse(user, worker, "in memory", persistence=Persistence.Memory)
    refuse(user, worker, "on disk")
    found = []
    while page := user.find_dead_letters(after_id=found[-1].id if found else 0, count_max=1):
        found += page
    assert [letter.stream_name for letter in found] == ["on disk"] * 2 + ["in memory"] * 2
    assert len({letter.id for letter in found}) == 4
    assert user.purge_dead_letters(ids=[found[0].id]) == 1
    assert user.purge_dead_letters("in memory") == 2
    assert [letter.id for letter in user.find_dead_letters()] == [found[1].id]


def test_a_replay_that_was_asked_for_survives_a_restart(server: ServerProcess) -> None:
    server.stop()
    server.env = EXTERNAL
    server.restart()
    with StreamManagerClient(port=server.port) as user, worker_of(server.port) as worker:
        refuse(user, worker, "s")
        user.replay_dead_letters()
    server.kill()
    server.restart()
    with worker_of(server.port) as worker:
        assert len(one_lease(worker).dead_letter_ids) == 2


# --- the end ------------------------------------------------------------------------------------


def test_an_orderly_stop_answers_those_who_watch(serve: Callable[..., ServerInThread]) -> None:
    server = serve(pipeline="external", pipeline_token=TOKEN)
    with RawClient(server.port, extensions=Extension.ALL, authToken=TOKEN) as worker:
        worker.ask(Operation.WatchExports, waitMillis=50_000)
        worker.done(Operation.ListStreams)  # so the watch has arrived
        begun = time.monotonic()
        server.begin_stop()
        answer = worker.next_answer()
        assert (answer.operation, answer.status) == (Operation.WatchExportsResponse, 0)
        assert answer.values["leases"] == []
        assert worker.at_end()
    assert server.join(10)
    assert time.monotonic() - begun < 5


def test_positions_survive_the_death_of_the_server(server: ServerProcess) -> None:
    server.stop()
    server.env = EXTERNAL
    server.restart()
    with StreamManagerClient(port=server.port) as user, worker_of(server.port) as worker:
        create(user, "s", b"one", b"two")
        worker.report_export(finished(one_lease(worker), 1))
    server.kill()
    server.restart()
    with worker_of(server.port) as worker:
        lease = one_lease(worker)
        assert (lease.start, lease.stop) == (1, 2)
