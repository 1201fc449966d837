"""Exports on a cluster are those of the embedded pipeline, and survive the death of its parts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cluster_rig import ClusterRig, running_on
from export_payloads import s3_export, s3_task, sitewise_entry, statuses
from exports_rig import (
    Rig,
    descendants,
    first_arrivals,
    kill,
    numbered,
    running_rig,
    wait_until,
)
from spark_cluster import START_S, SparkCluster

from failure_logs import show_on_failure
from penstock.model import (
    HTTPConfig,
    IoTSiteWiseConfig,
    KinesisConfig,
    ReadMessagesOptions,
    Status,
    StatusMessage,
)
from penstock.util import Util

MESSAGE_COUNT = 1234
SITEWISE_COUNT = 25
STREAMS = {"raw": MESSAGE_COUNT, "json": 1200, "kinesis": MESSAGE_COUNT, "sitewise": SITEWISE_COUNT}


@pytest.fixture(scope="module")
def cluster_rig(
    cluster: SparkCluster, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[ClusterRig]:
    folder = tmp_path_factory.mktemp("rig")
    show_on_failure(request, folder / "driver.log", folder / "server.log")
    with running_on(cluster, folder) as running:
        yield running


def test_a_cluster_delivers_what_the_embedded_pipeline_delivers(
    cluster: SparkCluster, cluster_rig: ClusterRig, tmp_path: Path
) -> None:
    file = tmp_path / "report.bin"
    file.write_bytes(b"seen by both " * 1000)
    entries = [sitewise_entry(number, "/pump/speed") for number in range(SITEWISE_COUNT)]
    fill(cluster_rig, entries, file)
    delivered_by_cluster = delivered(cluster_rig)

    with running_rig(tmp_path) as embedded:
        fill(embedded, entries, file)
        assert delivered(embedded) == delivered_by_cluster

    assert delivered_by_cluster["raw"] == numbered(MESSAGE_COUNT)
    assert delivered_by_cluster["kinesis"] == numbered(MESSAGE_COUNT)
    # It was the cluster: each node has an executor, and the driver has no Python worker.
    assert set(cluster.executors().values()) == set(cluster.nodes)
    assert not [
        line for line in descendants(cluster_rig.driver.pid).values() if "pyspark.daemon" in line
    ]


def fill(rig: Rig, entries: list[bytes], file: Path) -> None:
    """The same streams, exports and messages, wherever they are exported."""
    rig.cloud.kinesis.create_stream("telemetry")
    rig.cloud.s3.create_bucket("bucket")
    rig.create("raw", http=[HTTPConfig("export", rig.cloud.sink("raw").url)])
    rig.create("json", http=[rig.json_export("json", batch_size=100)])
    rig.create("kinesis", kinesis=[KinesisConfig("export", "telemetry")])
    rig.create("sitewise", iot_sitewise=[IoTSiteWiseConfig("export")])
    rig.create("statuses")
    rig.create("s3", s3_task_executor=[s3_export("statuses")])
    for name in ("raw", "json", "kinesis"):
        rig.append(name, numbered(STREAMS[name]))
    rig.append("sitewise", entries)
    rig.append("s3", [s3_task(file, "bucket", "report")])


def delivered(rig: Rig) -> dict[str, object]:
    """What arrived everywhere, and how the server counts it."""
    views = [
        rig.wait_until_exported(name, count, timeout_s=START_S)
        for name, count in (STREAMS | {"s3": 1}).items()
    ]
    requests = rig.cloud.sink("json").requests()
    return {
        "raw": rig.cloud.sink("raw").bodies(),
        "json": [
            (message.stream_name, message.sequence_number, message.payload)
            for request in requests
            for message in request.batch or ()
        ],
        "json requests": [request.message_count for request in requests],
        "kinesis": [record.data for record in rig.cloud.kinesis.records("telemetry")],
        "sitewise": [entry.values for entry in rig.cloud.sitewise.entries()],
        "s3": rig.cloud.s3.object("bucket", "report").body,
        "statuses": statuses(rig.client, "statuses"),
        "counts": [(view.delivered_messages, view.delivered_bytes) for view in views],
        "errors": [view.last_error for view in views],
    }


def test_an_s3_task_whose_file_no_executor_can_see_fails_with_that_reason(
    cluster_rig: ClusterRig,
) -> None:
    # The current folder is the driver's own: for an executor the same path leads elsewhere.
    file = Path("/proc/self/cwd/only-here.bin")
    (cluster_rig.driver_log.parent / file.name).write_bytes(b"content")
    assert os.path.exists(f"/proc/{cluster_rig.driver.pid}/cwd/{file.name}")
    cluster_rig.cloud.s3.create_bucket("elsewhere")
    cluster_rig.create("unseen-statuses")
    cluster_rig.create("unseen", s3_task_executor=[s3_export("unseen-statuses")])

    cluster_rig.append("unseen", [s3_task(file, "elsewhere", "key")])
    cluster_rig.wait_until_exported("unseen", 1, timeout_s=START_S)

    (message,) = cluster_rig.client.read_messages("unseen-statuses", ReadMessagesOptions())
    status = Util.deserialize_json_bytes_to_obj(message.payload, StatusMessage)
    assert status.status == Status.Failure
    assert status.message is not None
    assert f"{file} cannot be read" in status.message
    assert cluster_rig.cloud.s3.stored("elsewhere") == []


@pytest.mark.slow
def test_nothing_is_lost_when_a_node_and_another_executor_die_during_exports(
    cluster: SparkCluster, cluster_rig: ClusterRig
) -> None:
    payloads = numbered(600)
    batch_size = 10
    sinks = [cluster_rig.cloud.sink(name) for name in ("left", "right")]
    for sink in sinks:
        sink.slow(0.1)  # so that all of it takes 6 s
        export = cluster_rig.json_export(sink.name, batch_size=batch_size)
        cluster_rig.create(sink.name, http=[export])
        cluster_rig.append(sink.name, payloads)

    def wait_for(condition: Callable[[], bool], what: str) -> None:
        wait_until(condition, what, START_S, cluster_rig.driver_log.read_text)

    def arrived() -> int:
        return sum(sink.message_count for sink in sinks)

    wait_for(lambda: all(sink.message_count for sink in sinks), "both exports to begin")
    cluster.kill_node(cluster.nodes[0])
    count = arrived()
    wait_for(lambda: arrived() >= count + 2 * batch_size, "exports to go on")
    (executor,) = cluster.executors()
    assert arrived() < 2 * len(payloads)
    kill(executor)
    cluster.add_node()

    for sink in sinks:
        cluster_rig.wait_until_exported(sink.name, len(payloads), timeout_s=START_S)
        assert first_arrivals(sink.messages()) == payloads
        # Each death repeats no more than the request that was on its way.
        assert len(sink.messages()) <= len(payloads) + 2 * batch_size
