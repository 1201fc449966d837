"""One lease at work, without Spark around it: what it says when its task is gone, what it keeps."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from export_payloads import s3_export, s3_task, statuses
from exports_rig import PIPELINE_TOKEN, definition, wait_until

from penstock.client.worker import WorkerClient
from penstock.destinations.base import Batch
from penstock.errors import NotEnoughMessagesException
from penstock.export_model import Lease
from penstock.model import HTTPConfig, Status, to_wire
from penstock.pipeline.export import DESTINATIONS_KEPT_MAX, Destinations, ExportRun
from penstock.testing import LocalCloud
from server_process import ServerProcess

SETTINGS = {"s3_part_bytes_min": 5 * 1024 * 1024, "read_only_dirs": ()}
WAIT_MS = 10_000


@pytest.fixture
def worker(lone_server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerClient]:
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    with WorkerClient("127.0.0.1", lone_server.port, auth_token=PIPELINE_TOKEN) as client:
        yield client


@pytest.fixture
def lease(worker: WorkerClient, tmp_path: Path) -> Lease:
    """On a stream of three S3 tasks, whose statuses go to another stream."""
    worker.create_message_stream(definition("statuses"))
    worker.create_message_stream(definition("tasks", s3_task_executor=[s3_export("statuses")]))
    worker.append_messages("tasks", [s3_task(tmp_path / "file", "bucket", "key")] * 3)
    (granted,) = worker.watch_exports(10, WAIT_MS).leases
    return granted


def run_of(lease: Lease, worker: WorkerClient) -> ExportRun:
    return ExportRun(lease, SETTINGS, worker, Destinations())


def test_a_task_whose_stream_is_deleted_before_it_is_read_is_canceled_once(
    worker: WorkerClient, lease: Lease
) -> None:
    worker.delete_message_stream("tasks")

    run_of(lease, worker).run()

    assert sorted(statuses(worker, "statuses")) == [
        (number, Status.Canceled) for number in range(3)
    ]


def test_a_task_whose_export_is_gone_before_it_is_sent_is_canceled(
    worker: WorkerClient, lease: Lease
) -> None:
    run = run_of(lease, worker)
    run.canceled = True
    run.lost.set()

    run.run()

    assert statuses(worker, "statuses") == [(0, Status.Canceled)]


def test_a_task_that_is_paused_before_it_is_sent_has_no_status_yet(
    worker: WorkerClient, lease: Lease
) -> None:
    run = run_of(lease, worker)
    run.lost.set()

    run.run()

    with pytest.raises(NotEnoughMessagesException):
        statuses(worker, "statuses")


def test_a_task_that_another_worker_has_taken_over_is_not_canceled_by_the_first(
    lone_server: ServerProcess, worker: WorkerClient, lease: Lease
) -> None:
    worker.give_back_leases([lease.lease_id])
    (other,) = worker.watch_exports(10, WAIT_MS).leases
    worker.delete_message_stream("tasks")

    run_of(lease, worker).run()
    told = [number for number, _ in statuses(worker, "statuses")]
    run_of(other, worker).run()

    assert told == [1, 2]
    assert sorted(statuses(worker, "statuses")) == [
        (number, Status.Canceled) for number in range(3)
    ]


def http_lease(number: int, url: str) -> Lease:
    config = to_wire(HTTPConfig("export", url))
    return Lease(number, f"stream-{number}", HTTPConfig.__name__, config, 0, 1)


def socket_count() -> int:
    folder = "/proc/self/fd"
    targets = [os.path.realpath(f"{folder}/{name}") for name in os.listdir(folder)]
    return sum("socket:" in target for target in targets)


def test_a_worker_keeps_so_many_destinations_and_closes_the_one_unused_for_longest(
    worker: WorkerClient, local_cloud: LocalCloud
) -> None:
    leases = [http_lease(at, local_cloud.sink("kept").url) for at in range(DESTINATIONS_KEPT_MAX)]
    destinations = Destinations()
    runs = [ExportRun(each, SETTINGS, worker, destinations) for each in leases]
    seats = [destinations.take(run.lease, SETTINGS, run) for run in runs]
    batch = Batch("stream-0", [0], [0], [b"message"])
    seats[0].destination.send(batch)
    for each, seat in zip(leases, seats, strict=True):
        destinations.give_back(each, seat)
    again = [destinations.take(run.lease, SETTINGS, run) for run in runs]
    assert [seat.destination for seat in again] == [seat.destination for seat in seats]
    for each, seat in zip(leases, again, strict=True):
        destinations.give_back(each, seat)

    sockets_before = socket_count()
    one_more = http_lease(DESTINATIONS_KEPT_MAX, local_cloud.sink("kept").url)
    run = ExportRun(one_more, SETTINGS, worker, destinations)
    destinations.give_back(one_more, destinations.take(one_more, SETTINGS, run))

    wait_until(lambda: socket_count() < sockets_before, "its connection to be closed")
    assert destinations.take(leases[1], SETTINGS, runs[1]).destination is seats[1].destination
    first = destinations.take(leases[0], SETTINGS, runs[0]).destination
    assert first is not seats[0].destination
    first.send(batch)
    assert local_cloud.sink("kept").message_count == 2
    first.close()
