"""Exports to Kinesis: against the local cloud if all is well, against a script if it is not."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import botocore.session
import pytest
from scripted_service import Answer, Close, Hang, Request, ScriptedService
from surroundings import Surroundings, batch_of

from penstock.destinations.base import Blocked, Delivery, Timeouts, Transient
from penstock.destinations.batching import pieces
from penstock.destinations.kinesis import KinesisDestination, partition_keys, request_body
from penstock.model import MIB, KinesisConfig
from penstock.testing import LocalCloud

THROTTLED = "ProvisionedThroughputExceededException"


@contextmanager
def destination(
    stream_name: str = "plant", surroundings: Surroundings | None = None, **options: Timeouts
) -> Iterator[KinesisDestination]:
    context = (surroundings or Surroundings()).context()
    opened = KinesisDestination(KinesisConfig("k", stream_name), context, **options)
    try:
        yield opened
    finally:
        opened.close()


@pytest.fixture
def scripted(
    aws: None, service: ScriptedService, monkeypatch: pytest.MonkeyPatch
) -> ScriptedService:
    """Takes every record, unless told otherwise."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_KINESIS", service.url)
    service.answer = lambda request: results(*[None] * len(request.json()["Records"]))
    return service


def results(*errors: str | None) -> Answer:
    """The answer to PutRecords: for each record None, or the error that it met."""
    return Answer.json(
        {
            "FailedRecordCount": sum(error is not None for error in errors),
            "Records": [
                {"SequenceNumber": "1", "ShardId": "shardId-000000000000"}
                if error is None
                else {"ErrorCode": error, "ErrorMessage": "Because."}
                for error in errors
            ],
        }
    )


def error(code: str, status: int = 400) -> Answer:
    return Answer.json({"__type": code, "message": "Because."}, status)


def payloads_in(request: Request) -> list[bytes]:
    return [base64.b64decode(record["Data"]) for record in request.json()["Records"]]


# --- with the local cloud -----------------------------------------------------------------------


@pytest.fixture
def kinesis_client(cloud: LocalCloud) -> Iterator[Any]:
    cloud.kinesis.create_stream("plant")
    client = cloud.client("kinesis")
    yield client
    client.close()


def records_of(client: Any) -> list[dict[str, Any]]:
    iterator = client.get_shard_iterator(
        StreamName="plant", ShardId="shardId-000000000000", ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    return list(client.get_records(ShardIterator=iterator)["Records"])


def test_records_arrive_whole_and_in_order_with_random_partition_keys(kinesis_client: Any) -> None:
    payloads = [b"", b"\x00\xff" * 7, *(b"%d" % n for n in range(498))]

    with destination() as kinesis:
        assert kinesis.send(batch_of(*payloads)) == Delivery()

    records = records_of(kinesis_client)
    assert [record["Data"] for record in records] == payloads
    keys = {record["PartitionKey"] for record in records}
    assert len(keys) == 500
    assert {uuid.UUID(key).version for key in keys} == {4}


def test_a_stream_that_does_not_exist_blocks_the_export(kinesis_client: Any) -> None:
    with (
        destination("nowhere") as kinesis,
        pytest.raises(Blocked, match="export stream nowhere doesn't exist"),
    ):
        kinesis.send(batch_of(b"a"))


def test_a_check_sends_nothing_and_finds_out_whether_the_stream_exists(
    kinesis_client: Any,
) -> None:
    with destination() as kinesis:
        kinesis.check()
    with destination("nowhere") as kinesis, pytest.raises(Blocked, match="doesn't exist"):
        kinesis.check()

    assert records_of(kinesis_client) == []


# --- partial failures ---------------------------------------------------------------------------


def test_the_records_of_a_partial_failure_are_named_one_by_one(scripted: ScriptedService) -> None:
    scripted.next.append(
        results(None, THROTTLED, None, "InternalFailure", "RecordTooOdd", "KMSThrottlingException")
    )

    with destination() as kinesis:
        delivery = kinesis.send(batch_of(*[b"x"] * 6))

    assert delivery.retry == {
        1: f"{THROTTLED}: Because.",
        3: "InternalFailure: Because.",
        5: "KMSThrottlingException: Because.",
    }
    assert delivery.refused == {4: "RecordTooOdd: Because."}
    assert delivery.error is None, "the first repetition is at once"


def test_calls_are_paced_only_after_a_repetition_was_throttled_too(
    scripted: ScriptedService,
) -> None:
    surroundings = Surroundings()
    surroundings.settings["kinesis_inter_call_delay_ms"] = 1500
    scripted.next += [
        results(None, THROTTLED),
        results(THROTTLED),
        results(THROTTLED),
        results(None),
        results(THROTTLED, None),
    ]

    with destination(surroundings=surroundings) as kinesis:
        first = kinesis.send(batch_of(b"a", b"b"))
        second = kinesis.send(batch_of(b"b"))
        third = kinesis.send(batch_of(b"b"))
        fourth = kinesis.send(batch_of(b"b"))
        fifth = kinesis.send(batch_of(b"c", b"d"))

    assert first.error is None
    for delivery in (second, third):
        assert isinstance(delivery.error, Transient)
        assert delivery.error.retry_after_s == 1.5
        assert set(delivery.retry) == {0}
    assert fourth == Delivery()
    assert fifth.error is None


def test_a_delay_of_zero_leaves_the_pace_to_the_usual_pauses(scripted: ScriptedService) -> None:
    surroundings = Surroundings()
    surroundings.settings["kinesis_inter_call_delay_ms"] = 0
    scripted.next += [results(THROTTLED), results(THROTTLED)]

    with destination(surroundings=surroundings) as kinesis:
        kinesis.send(batch_of(b"a"))
        delivery = kinesis.send(batch_of(b"a"))

    assert isinstance(delivery.error, Transient)
    assert delivery.error.retry_after_s is None


def test_nulls_in_place_of_errors_are_no_errors(scripted: ScriptedService) -> None:
    scripted.next.append(
        Answer.json({"Records": [{"SequenceNumber": "1", "ErrorCode": None, "ErrorMessage": None}]})
    )

    with destination() as kinesis:
        assert kinesis.send(batch_of(b"a")) == Delivery()


@pytest.mark.parametrize(
    "answer",
    [Answer(), Answer.json({}), Answer(200, b"<html>"), results(None), results(None, None, None)],
    ids=["empty", "no results", "no JSON", "too few", "too many"],
)
def test_an_answer_that_does_not_fit_the_request_is_no_delivery(
    scripted: ScriptedService, answer: Answer
) -> None:
    scripted.next.append(answer)

    with destination() as kinesis:
        with pytest.raises(Transient):
            kinesis.send(batch_of(b"a", b"b"))
        assert kinesis.send(batch_of(b"a", b"b")) == Delivery()


def test_an_answer_that_is_cut_off_anywhere_is_no_delivery(scripted: ScriptedService) -> None:
    whole = results(None, None)
    with destination() as kinesis:
        for after_bytes in (0, 10, 40, 90, 120, 150):
            scripted.next.append(Close(after_bytes, whole))
            with pytest.raises(Transient):
                kinesis.send(batch_of(b"a", b"b"))


# --- whole requests -----------------------------------------------------------------------------


def test_a_record_that_spoils_a_request_is_found_and_refused_alone(
    scripted: ScriptedService,
) -> None:
    def strict(request: Request) -> Answer:
        if max(map(len, payloads_in(request))) > 1000:
            return error("ValidationException")
        return results(*[None] * len(payloads_in(request)))

    scripted.answer = strict
    payloads = [b"a", b"b", b"x" * 2000, b"d", b"e"]

    with destination() as kinesis:
        delivery = kinesis.send(batch_of(*payloads))

    assert delivery == Delivery(refused={2: "ValidationException: Because."})
    taken = [
        payload
        for request in scripted.requests
        if max(map(len, payloads_in(request))) <= 1000
        for payload in payloads_in(request)
    ]
    assert taken == [b"a", b"b", b"d", b"e"]


@pytest.mark.parametrize("code", [THROTTLED, "LimitExceededException", "InternalFailureException"])
def test_a_throttled_call_is_tried_again(scripted: ScriptedService, code: str) -> None:
    scripted.next.append(error(code))

    with destination() as kinesis:
        with pytest.raises(Transient, match="Kinesis stream plant"):
            kinesis.send(batch_of(b"a"))
        assert kinesis.send(batch_of(b"a")) == Delivery()


def test_expired_credentials_are_tried_again_and_denied_access_blocks(
    scripted: ScriptedService,
) -> None:
    scripted.next += [error("ExpiredTokenException"), error("AccessDeniedException")]

    with destination() as kinesis:
        with pytest.raises(Transient, match="expired"):
            kinesis.send(batch_of(b"a"))
        with pytest.raises(Blocked, match="allow kinesis:PutRecords"):
            kinesis.send(batch_of(b"a"))
        assert kinesis.send(batch_of(b"a")) == Delivery()


def test_a_check_without_the_right_to_look_proves_nothing_and_passes(
    scripted: ScriptedService,
) -> None:
    scripted.next.append(error("AccessDeniedException"))

    with destination() as kinesis:
        kinesis.check()


def test_a_service_that_hangs_costs_the_timeout(scripted: ScriptedService) -> None:
    scripted.next.append(Hang())

    with destination(timeouts=Timeouts(2.0, 0.3)) as kinesis:
        with pytest.raises(Transient, match=r"no answer within 0\.3 s"):
            kinesis.send(batch_of(b"a"))
        assert kinesis.send(batch_of(b"a")) == Delivery()


@pytest.mark.parametrize("name", ["a b", "x" * 129, "stream/x"])
def test_a_name_that_no_stream_can_have_blocks_the_export(name: str) -> None:
    with pytest.raises(Blocked, match="change kinesisStreamName"):
        KinesisDestination(KinesisConfig("k", name), Surroundings().context())


# --- limits and encoding ------------------------------------------------------------------------


def test_requests_keep_to_the_service_s_limits() -> None:
    batch = batch_of(
        *[b"x" * 1024] * 1200, b"y" * MIB, *[b"z" * 3 * MIB] * 2, b"w" * 9 * MIB, b"v" * 10 * MIB
    )

    found = list(pieces(batch, KinesisDestination.limits))

    assert [len(piece.batch) for piece in found] == [500, 500, 202, 1, 1, 1]
    assert [piece.refusal is not None for piece in found] == [False] * 5 + [True]
    assert all(
        sum(map(len, piece.batch.payloads)) + 36 * len(piece.batch) <= 5 * MIB
        for piece in found[:4]
    )


def test_the_body_is_what_botocore_would_have_sent(scripted: ScriptedService) -> None:
    payloads = [b"", b"\x00\xff", b"text"]
    client = botocore.session.Session().create_client("kinesis")

    ours = json.loads(request_body("plant", payloads))
    records = [
        {"Data": payload, "PartitionKey": record["PartitionKey"]}
        for payload, record in zip(payloads, ours["Records"], strict=True)
    ]
    client.put_records(StreamName="plant", Records=records)
    client.close()

    assert scripted.requests[0].json() == ours


def test_partition_keys_are_uuids_that_differ() -> None:
    keys = partition_keys(5000)

    assert len(set(keys)) == 5000
    assert all(str(uuid.UUID(key)) == key for key in keys)
    assert {uuid.UUID(key).variant for key in keys} == {uuid.RFC_4122}
    assert {uuid.UUID(key).version for key in keys} == {4}
