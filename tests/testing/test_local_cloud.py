"""The local cloud as a whole: routing, order, threads, life and death."""

from __future__ import annotations

import gc
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from urllib.parse import urlsplit

import pytest
from botocore.exceptions import ConnectionClosedError
from cloud_clients import (
    Clients,
    entry,
    messages,
    property_value,
    records,
    refused,
    send,
    send_signed,
)

from penstock.testing import KinesisRecord, LocalCloud, LocalCloudError, SinkRequest, Stored
from penstock.testing.server import own_environment

THREADS = 8


def prepared(cloud: LocalCloud) -> None:
    cloud.kinesis.create_stream("target")
    cloud.s3.create_bucket("target")
    cloud.iot_analytics.create_channel("target")


def send_to_all(cloud: LocalCloud, clients: Clients, mark: str) -> None:
    """One request to each service, all with the same mark."""
    content = mark.encode()
    clients.kinesis.put_records(StreamName="target", Records=records(content))
    clients.s3.put_object(Bucket="target", Key=mark, Body=content)
    clients.sitewise.batch_put_asset_property_value(
        entries=[entry("1", property_value(), alias=f"/{mark}")]
    )
    clients.iot_analytics.batch_put_message(channelName="target", messages=messages(content))
    send(cloud.sink("target").url, content)


def marks(cloud: LocalCloud) -> list[list[str]]:
    """The marks that each service took."""
    return [
        [record.data.decode() for record in cloud.kinesis.records("target")],
        cloud.s3.keys("target"),
        [taken.property_name.strip("/") for taken in cloud.sitewise.entries()],
        [message.payload.decode() for message in cloud.iot_analytics.messages("target")],
        [body.decode() for body in cloud.sink("target").bodies()],
    ]


def test_one_address_serves_every_service_and_keeps_the_order_over_all(
    cloud: LocalCloud, clients: Clients
) -> None:
    prepared(cloud)
    for mark in ("one", "two"):
        send_to_all(cloud, clients, mark)

    assert marks(cloud) == [["one", "two"]] * 5
    taken = cloud.received()
    assert [item.order for item in taken] == list(range(10))
    assert [type(item) for item in taken[::5]] == [KinesisRecord] * 2
    assert isinstance(taken[1], Stored)
    assert isinstance(taken[4], SinkRequest)
    assert [request.service for request in cloud.requests()] == [
        "kinesis",
        "s3",
        "iotsitewise",
        "iotanalytics",
        "sink",
    ] * 2
    assert [request.number for request in cloud.requests()] == list(range(1, 11))
    assert cloud.request_count("kinesis", "PutRecords", "target") == 2


SDK_PROGRAM = """
import boto3, json
kinesis, s3, sitewise = (boto3.client(name) for name in ("kinesis", "s3", "iotsitewise"))
kinesis.put_records(StreamName="target", Records=[{"Data": b"x", "PartitionKey": "k"}])
s3.put_object(Bucket="target", Key="x", Body=b"x")
print(json.dumps(sitewise.batch_put_asset_property_value(entries=[])["errorEntries"]))
"""


def test_the_environment_leads_aws_sdk_to_the_cloud(cloud: LocalCloud) -> None:
    prepared(cloud)
    program = SDK_PROGRAM.replace("entries=[]", f"entries=[{entry('1', alias='/x')!r}]")
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=own_environment() | cloud.environment() | {"HTTP_PROXY": "http://127.0.0.1:9"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []
    assert marks(cloud)[:3] == [["x"]] * 3


def test_a_service_that_the_cloud_does_not_have_is_refused_by_name(cloud: LocalCloud) -> None:
    answer = send_signed(cloud, "sqs", "/queue", b"{}")
    assert answer.status == 400
    assert b"the local cloud has no sqs, but kinesis, s3" in answer.body


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Threads that change places after every few instructions, so that races show."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before_s)


@pytest.mark.usefixtures("hasty_threads")
def test_eight_threads_at_once_lose_nothing_and_mix_nothing(cloud: LocalCloud) -> None:
    prepared(cloud)

    def work(thread: int) -> None:
        with Clients(cloud) as clients:
            for number in range(10):
                send_to_all(cloud, clients, f"{thread}-{number}")

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(THREADS)))

    sent = {f"{thread}-{number}" for thread in range(THREADS) for number in range(10)}
    for taken in marks(cloud):
        assert len(taken) == len(sent)
        assert set(taken) == sent
        for thread in range(THREADS):
            own = [mark for mark in taken if mark.startswith(f"{thread}-")]
            assert own == [f"{thread}-{number}" for number in range(10)]
    numbers = [int(record.sequence_number) for record in cloud.kinesis.records("target")]
    assert numbers == sorted(set(numbers))
    assert cloud.request_count() == THREADS * 10 * 5


def test_two_clouds_side_by_side_do_not_see_each_other() -> None:
    with (
        LocalCloud() as one,
        LocalCloud() as other,
        Clients(one) as first,
        Clients(other) as second,
    ):
        for cloud in (one, other):
            prepared(cloud)
        one.kinesis.throttle()
        send_to_all(other, second, "other")
        with refused("ProvisionedThroughputExceededException", 400):
            first.kinesis.list_streams()
        assert marks(one) == [[]] * 5
        assert marks(other) == [["other"]] * 5

        second.s3.delete_object(Bucket="target", Key="other")
        second.s3.delete_bucket(Bucket="target")
        first.s3.put_object(Bucket="target", Key="mine", Body=b"still there")
    with LocalCloud() as later, Clients(later) as clients:
        assert clients.kinesis.list_streams()["StreamNames"] == []
        assert clients.s3.list_buckets()["Buckets"] == []


def test_the_end_of_one_cloud_leaves_the_objects_of_another() -> None:
    with LocalCloud() as lasting, Clients(lasting) as clients:
        lasting.s3.create_bucket("target")
        clients.s3.put_object(Bucket="target", Key="k", Body=b"x" * 100)
        with LocalCloud() as brief, Clients(brief) as others:
            brief.s3.create_bucket("target")
            others.s3.put_object(Bucket="target", Key="k", Body=b"y")
        assert lasting.s3.object("target", "k").body == b"x" * 100


def descriptors() -> list[str]:
    """What this process has open: files, sockets and pipes."""
    found = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    # The descriptor that listed the folder is in the list, and closed.
    return sorted(os.readlink(path) for path in found if os.path.lexists(path))


def test_a_stopped_cloud_leaves_no_thread_and_no_descriptor() -> None:
    with LocalCloud() as cloud, Clients(cloud) as clients:  # what is loaded once, stays
        prepared(cloud)
        send_to_all(cloud, clients, "warm")
    gc.collect()
    threads, open_before = set(threading.enumerate()), descriptors()

    with LocalCloud() as cloud, Clients(cloud) as clients:
        prepared(cloud)
        send_to_all(cloud, clients, "x")
        upload = clients.s3.create_multipart_upload(Bucket="target", Key="open")["UploadId"]
        large = bytes(20 * 1024 * 1024)  # so large that moto keeps it in a file
        clients.s3.upload_part(
            Bucket="target", Key="open", UploadId=upload, PartNumber=1, Body=large
        )
        clients.s3.put_object(Bucket="target", Key="large", Body=large)
        clients.s3.put_object(Bucket="target", Key="large", Body=large)
        idle = socket.create_connection(("127.0.0.1", urlsplit(cloud.endpoint).port))
    idle.close()

    gc.collect()
    assert set(threading.enumerate()) == threads
    assert descriptors() == open_before


def test_stopping_ends_requests_that_hang_or_are_slow() -> None:
    cloud = LocalCloud()
    cloud.start()
    hanging = cloud.kinesis.hang()
    slow = cloud.s3.slow(3600)
    errors: list[BaseException] = []

    def call(service: str) -> None:
        with Clients(cloud) as own, pytest.raises(ConnectionClosedError) as caught:
            getattr(own[service], {"kinesis": "list_streams", "s3": "list_buckets"}[service])()
        errors.append(caught.value)

    callers = [threading.Thread(target=call, args=(name,)) for name in ("kinesis", "s3")]
    for caller in callers:
        caller.start()
    hanging.wait_used()
    slow.wait_used()
    cloud.stop()
    for caller in callers:
        caller.join()
    assert len(errors) == 2


def test_counts_stay_right_when_nothing_is_kept() -> None:
    metrics_before = counted_by_moto()
    with LocalCloud(recorded_bytes_max=0) as cloud, Clients(cloud) as clients:
        prepared(cloud)
        for number in range(5):
            send_to_all(cloud, clients, str(number))
        batch = clients.kinesis.put_records(StreamName="target", Records=records(*[b"x"] * 100))

        assert marks(cloud) == [[]] * 5
        assert cloud.kinesis.totals("target").count == 105
        assert int(batch["Records"][-1]["SequenceNumber"]) == 105
        assert cloud.s3.totals("target").count == 5
        assert cloud.sitewise.totals().count == 5
        assert cloud.iot_analytics.totals("target").count == 5
        assert cloud.sink("target").message_count == 5
        with pytest.raises(KeyError):
            cloud.s3.object("target", "4")
        assert counted_by_moto() == metrics_before


def counted_by_moto() -> int:
    """moto counts every request in its CloudWatch; other clouds may have left some there."""
    watches = import_module("moto.cloudwatch.models").cloudwatch_backends.values()
    return sum(len(watch["us-east-1"].metric_data) for watch in watches)


def test_a_limit_keeps_the_newest_objects_and_uploads_that_are_open() -> None:
    part = bytes(5 * 1024 * 1024)
    # moto's own list of all objects it ever made; other tests may have left some there.
    objects = import_module("moto.s3.models").FakeKey.instances_tracked
    count_before = len(objects)
    with LocalCloud(recorded_bytes_max=250) as cloud, Clients(cloud) as clients:
        cloud.s3.create_bucket("target")
        upload = clients.s3.create_multipart_upload(Bucket="target", Key="big")["UploadId"]
        etag = clients.s3.upload_part(
            Bucket="target", Key="big", UploadId=upload, PartNumber=1, Body=part
        )["ETag"]
        for number in range(5):
            clients.s3.put_object(Bucket="target", Key=str(number), Body=b"x" * 100)
        with pytest.raises(KeyError):
            cloud.s3.object("target", "2")
        assert cloud.s3.object("target", "4").body == b"x" * 100
        assert cloud.s3.keys("target") == ["3", "4"]
        assert len(objects) - count_before == 3  # two objects and the part
        clients.s3.complete_multipart_upload(
            Bucket="target",
            Key="big",
            UploadId=upload,
            MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]},
        )
        assert cloud.s3.totals("target").count == 6


MEMORY_PROGRAM = """
from pathlib import Path
from penstock.testing import LocalCloud
def resident_pages(): return int(Path("/proc/self/statm").read_text().split()[1])
with LocalCloud(recorded_bytes_max=0) as cloud:
    cloud.kinesis.create_stream("s"); cloud.s3.create_bucket("bucket")
    kinesis, s3 = cloud.client("kinesis"), cloud.client("s3")
    sent = [{"Data": b"x" * 10_000, "PartitionKey": "k"}] * 100
    def round():
        kinesis.put_records(StreamName="s", Records=sent)
        s3.put_object(Bucket="bucket", Key="k", Body=bytes(1_000_000))
    for _ in range(10): round()
    before = resident_pages()
    for _ in range(80): round()
    print((resident_pages() - before) * 4)
    kinesis.close(); s3.close()
"""


def test_memory_stays_flat_when_nothing_is_kept() -> None:
    """160 MB pass through; what stays is less than an eighth of that."""
    done = subprocess.run(
        [sys.executable, "-c", MEMORY_PROGRAM],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert int(done.stdout) < 20_000  # KiB


def test_forgetting_starts_the_memory_anew_and_keeps_targets(
    cloud: LocalCloud, clients: Clients
) -> None:
    prepared(cloud)
    send_to_all(cloud, clients, "before")
    uploads = [
        {"Bucket": "target", "Key": key}
        | {"UploadId": clients.s3.create_multipart_upload(Bucket="target", Key=key)["UploadId"]}
        for key in ("open", "aborted")
    ]
    clients.s3.abort_multipart_upload(**uploads[1])
    cloud.forget()
    assert marks(cloud) == [[]] * 5
    assert (cloud.requests(), cloud.request_count(), cloud.received()) == ([], 0, [])
    assert [upload.key for upload in cloud.s3.uploads("target")] == ["open"]
    assert cloud.sink("target").message_count == 0
    send_to_all(cloud, clients, "after")
    assert marks(cloud) == [["after"]] * 5
    assert cloud.s3.object("target", "before").body == b"before"


def test_everything_works_again_after_a_release(cloud: LocalCloud, clients: Clients) -> None:
    prepared(cloud)
    cloud.every_service.fail()
    cloud.kinesis.deny()
    cloud.release()
    send_to_all(cloud, clients, "x")
    assert marks(cloud) == [["x"]] * 5


def test_a_test_can_wait_for_any_condition(cloud: LocalCloud) -> None:
    sender = threading.Thread(target=send, args=(cloud.sink("s").url, b"x"))
    sender.start()
    cloud.wait_until(lambda: cloud.request_count("sink") == 1, timeout_s=10)
    sender.join()
    with pytest.raises(TimeoutError, match="pigs to fly"):
        cloud.wait_until(lambda: False, timeout_s=0.01, what="pigs to fly")


def test_a_cloud_that_was_not_started_has_no_address() -> None:
    with pytest.raises(LocalCloudError, match="not been started"):
        _ = LocalCloud().endpoint


def test_a_shared_moto_account_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOTO_ACCOUNT_ID", "123456789012")
    with pytest.raises(LocalCloudError, match="MOTO_ACCOUNT_ID"):
        LocalCloud()


def run_python(program: str, *flags: str) -> str:
    done = subprocess.run(
        [sys.executable, *flags, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


def test_moto_is_loaded_only_when_it_is_used() -> None:
    program = (
        "import sys\n"
        "from penstock.testing import LocalCloud\n"
        "with LocalCloud() as cloud: cloud.iot_analytics.create_channel('c')\n"
        "print(sorted({'moto', 'flask', 'botocore'} & set(sys.modules)))"
    )
    assert run_python(program) == "[]\n"


@pytest.mark.parametrize("library", ["moto", "botocore", "flask", "flask_cors"])
def test_a_missing_library_is_named_with_the_extra_that_brings_it(library: str) -> None:
    program = (
        "import importlib.util as util\n"
        "from penstock.testing import ExtraMissing, LocalCloud, errors\n"
        "find = util.find_spec\n"
        f"errors.find_spec = lambda name: None if name == {library!r} else find(name)\n"
        "try: LocalCloud()\n"
        "except ExtraMissing as error: print(error)\n"
    )
    assert run_python(program) == (
        f"The local cloud needs {library}, not installed here. "
        "Install what it needs with `pip install 'penstock[testing]'`\n"
    )


def test_the_server_does_not_load_it() -> None:
    program = (
        "import sys, penstock.cli, penstock.cli.serve, penstock.server.app\n"
        "print([name for name in sys.modules if name.startswith('penstock.testing')])"
    )
    assert run_python(program) == "[]\n"
