"""HTTP sinks of the local cloud."""

from __future__ import annotations

import base64
import json

import pytest
from cloud_clients import send

from penstock.testing import CloseWhen, LocalCloud


def batch(*payloads: bytes) -> bytes:
    """A body as JSON_BATCHED makes it."""
    return json.dumps(
        [
            {
                "streamName": "S",
                "sequenceNumber": number,
                "ingestTime": 1_700_000_000_000,
                "payload": base64.b64encode(payload).decode(),
            }
            for number, payload in enumerate(payloads)
        ]
    ).encode()


def test_raw_bodies_are_kept_in_order(cloud: LocalCloud) -> None:
    sink = cloud.sink("raw")
    bodies = [b"", b"\x00\xff", b"[1, 2]", b'[{"no": "message"}]', b"[{broken", b"x" * 100_000]
    for body in bodies:
        assert send(sink.url, body).status == 200

    assert sink.bodies() == bodies
    assert sink.messages() == bodies
    assert sink.message_count == len(bodies)
    assert sink.totals.size_bytes == sum(map(len, bodies))
    assert all(request.batch is None for request in sink.requests())


def test_json_batches_are_taken_apart(cloud: LocalCloud) -> None:
    sink = cloud.sink("json")
    send(sink.url, batch(b"a", b"\xff"))
    send(sink.url, batch(b"c"))

    assert sink.messages() == [b"a", b"\xff", b"c"]
    assert (len(sink.bodies()), sink.message_count) == (2, 3)
    first = sink.requests()[0].batch
    assert first is not None
    assert [(message.stream_name, message.sequence_number) for message in first] == [
        ("S", 0),
        ("S", 1),
    ]


def test_a_sink_takes_every_path_below_it_and_knows_what_was_asked(cloud: LocalCloud) -> None:
    sink = cloud.sink("deep")
    send(f"{sink.url}/v1/data?x=1", b"b", "PUT", {"Content-Type": "text/plain"})
    request = sink.requests()[0]
    assert (request.method, request.path, request.content_type, request.body) == (
        "PUT",
        "/sink/deep/v1/data",
        "text/plain",
        b"b",
    )


def test_sinks_do_not_mix(cloud: LocalCloud) -> None:
    send(cloud.sink("a").url, b"1")
    send(cloud.sink("b").url, b"2")
    assert (cloud.sink("a").bodies(), cloud.sink("b").bodies()) == ([b"1"], [b"2"])


def test_looking_at_a_sink_stores_nothing(cloud: LocalCloud) -> None:
    sink = cloud.sink("s")
    assert send(sink.url, None, "GET").status == 204
    assert send(sink.url, None, "HEAD").status == 204
    assert sink.requests() == []


def test_a_sink_needs_a_name(cloud: LocalCloud) -> None:
    assert send(f"{cloud.endpoint}/sink/", b"x").status == 404


@pytest.mark.parametrize(
    ("knob", "status"),
    [
        ("throttle", 429),
        ("fail", 500),
        ("expire", 401),
        ("deny", 403),
        ("missing", 404),
    ],
)
def test_a_sink_says_no_with_the_status_that_fits(
    cloud: LocalCloud, knob: str, status: int
) -> None:
    sink = cloud.sink("s")
    getattr(sink, knob)(times=1)
    assert send(sink.url, b"x").status == status
    assert sink.bodies() == []
    assert send(sink.url, b"x").status == 200


def test_a_failing_sink_can_use_any_status(cloud: LocalCloud) -> None:
    cloud.sink("s").fail(status=418)
    assert send(cloud.sink("s").url, b"x").status == 418


def test_a_throttling_sink_can_say_when_to_come_back(cloud: LocalCloud) -> None:
    cloud.sink("s").throttle(retry_after_s=7)
    assert send(cloud.sink("s").url, b"x").headers["retry-after"] == "7"


def test_a_poison_message_is_refused_for_good_raw_or_batched(cloud: LocalCloud) -> None:
    sink = cloud.sink("s")
    sink.refuse(b"poi\xffson")
    for body in (b"a poi\xffson pill", batch(b"fine", b"poi\xffson")):
        for _ in range(2):
            assert send(sink.url, body).status == 400
    assert send(sink.url, batch(b"fine", b"poison")).status == 200
    assert sink.messages() == [b"fine", b"poison"]


def test_a_message_that_fails_fails_the_whole_request(cloud: LocalCloud) -> None:
    sink = cloud.sink("s")
    sink.fail_records(indexes=[1], times=1)
    assert send(sink.url, batch(b"a")).status == 200
    assert send(sink.url, batch(b"b", b"c")).status == 500
    assert sink.messages() == [b"a"]


def test_a_knob_of_one_sink_leaves_the_others_alone(cloud: LocalCloud) -> None:
    cloud.sink("a").fail()
    assert send(cloud.sink("a").url, b"x").status == 500
    assert send(cloud.sink("b").url, b"x").status == 200
    with cloud.sinks.fail():
        assert send(cloud.sink("b").url, b"x").status == 500


def test_an_answer_can_be_lost_after_the_message_was_taken(cloud: LocalCloud) -> None:
    sink = cloud.sink("s")
    sink.close(CloseWhen.BEFORE_ANSWER, times=1)
    with pytest.raises(ConnectionError):
        send(sink.url, b"x")
    assert sink.bodies() == [b"x"]
    assert cloud.requests()[-1].status is None


def test_a_test_can_wait_for_messages(cloud: LocalCloud) -> None:
    sink = cloud.sink("s")
    send(sink.url, batch(b"a", b"b"))
    sink.wait_for_messages(2, timeout_s=1)
    with pytest.raises(TimeoutError, match="3 messages in s"):
        sink.wait_for_messages(3, timeout_s=0.01)
