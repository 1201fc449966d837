"""The local cloud's JSON interface for other processes."""

from __future__ import annotations

import threading

import pytest
from cloud_clients import Clients, control, entry, records, refused, send

from penstock.testing import LocalCloud


def test_knobs_are_set_listed_and_released(cloud: LocalCloud, clients: Clients) -> None:
    cloud.kinesis.create_stream("s")
    knob = {"kind": "throttle", "service": "kinesis", "target": "s", "times": 2}
    answer = control(cloud, "POST", "/knobs", knob)
    assert (answer.status, answer.json) == (200, {"number": 1, "used": 0, **knob})

    with refused("ProvisionedThroughputExceededException", 400):
        clients.kinesis.put_records(StreamName="s", Records=records(b"x"))
    assert control(cloud, "GET", "/knobs").json == [{"number": 1, "used": 1, **knob}]

    control(cloud, "POST", "/knobs", {"kind": "deny"})
    assert [released["number"] for released in control(cloud, "DELETE", "/knobs/1").json] == [1]
    assert [left["kind"] for left in control(cloud, "GET", "/knobs").json] == ["deny"]
    control(cloud, "DELETE", "/knobs")
    assert cloud.knobs.active() == []


def test_poison_is_plain_text(cloud: LocalCloud) -> None:
    control(cloud, "POST", "/knobs", {"kind": "refuse", "service": "sink", "containing": "pöison"})
    assert send(cloud.sink("s").url, "a pöison pill".encode()).status == 400
    assert send(cloud.sink("s").url, b"poison").status == 200
    assert control(cloud, "GET", "/knobs").json[0]["containing"] == "pöison"


def test_a_hang_is_released_from_outside(cloud: LocalCloud) -> None:
    number = control(cloud, "POST", "/knobs", {"kind": "hang", "times": 1}).json["number"]
    sender = threading.Thread(target=send, args=(cloud.sink("s").url, b"x"))
    sender.start()
    cloud.knobs.active()[0].wait_used()
    control(cloud, "DELETE", f"/knobs/{number}")
    sender.join()
    assert cloud.sink("s").bodies() == [b"x"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "reason"),
    [
        ("POST", "/knobs", {"kind": "explode"}, 400, "explode"),
        ("POST", "/knobs", [], 400, "JSON object"),
        ("DELETE", "/knobs/7", None, 404, "no knob 7"),
        ("GET", "/nonsense", None, 404, "GET /_local-cloud/knobs"),
        ("POST", "/targets", {"sqs": ["q"]}, 400, "kinesis, s3, iotanalytics"),
        ("POST", "/targets", {"s3": ["x"]}, 400, "InvalidBucketName"),
        ("GET", "/received", None, 400, "Name a service"),
    ],
)
def test_a_wrong_request_says_what_is_wrong(
    cloud: LocalCloud, method: str, path: str, body: object, status: int, reason: str
) -> None:
    answer = control(cloud, method, path, body)
    assert answer.status == status
    assert reason in answer.json["error"]


def test_a_body_that_is_not_json_is_refused(cloud: LocalCloud) -> None:
    answer = send(f"{cloud.endpoint}/_local-cloud/knobs", b"{")
    assert answer.status == 400
    assert "not JSON" in answer.json["error"]


def test_targets_are_made(cloud: LocalCloud, clients: Clients) -> None:
    targets = {"kinesis": ["s1", "s2"], "s3": ["bucket"], "iotanalytics": ["channel"]}
    assert control(cloud, "POST", "/targets", targets).json == targets
    assert clients.kinesis.list_streams()["StreamNames"] == ["s1", "s2"]
    clients.s3.head_bucket(Bucket="bucket")
    clients.iot_analytics.batch_put_message(
        channelName="channel", messages=[{"messageId": "1", "payload": b"x"}]
    )


def test_everything_received_can_be_read(cloud: LocalCloud, clients: Clients) -> None:
    cloud.kinesis.create_stream("s")
    clients.kinesis.put_records(StreamName="s", Records=records(b"\xff", b"b"))
    clients.sitewise.batch_put_asset_property_value(entries=[entry("1")])
    send(cloud.sink("deep sink").url.replace(" ", "%20"), b"x")

    taken = control(cloud, "GET", "/received/kinesis/s").json
    assert [(record["order"], record["data"]) for record in taken] == [(0, "/w=="), (1, "Yg==")]
    assert control(cloud, "GET", "/received/iotsitewise").json[0]["entry_id"] == "1"
    assert control(cloud, "GET", "/received/sink/deep%20sink").json[0]["body"] == "eA=="
    assert control(cloud, "GET", "/received/kinesis/unknown").json == []

    state = control(cloud, "GET", "").json
    assert state["endpoint"] == cloud.endpoint
    assert state["environment"] == cloud.environment()
    assert state["request_count"] == 3
    assert {"service": "kinesis", "target": "s", "count": 2, "size_bytes": 2} in state["received"]
    requests = control(cloud, "GET", "/requests").json
    assert [request["operation"] for request in requests] == [
        "PutRecords",
        "BatchPutAssetPropertyValue",
        "POST",
    ]

    control(cloud, "DELETE", "/received")
    assert control(cloud, "GET", "/requests").json == []
    assert cloud.kinesis.records("s") == []


def test_knobs_do_not_touch_the_interface_that_releases_them(cloud: LocalCloud) -> None:
    cloud.every_service.close()
    assert control(cloud, "DELETE", "/knobs").status == 200
