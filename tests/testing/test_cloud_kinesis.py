"""Kinesis in the local cloud: moto's, plus checks, single failures and a memory."""

from __future__ import annotations

import pytest
from cloud_clients import Clients, records, refused, send, send_signed

from penstock.testing import LocalCloud, LocalCloudError


@pytest.fixture
def stream(cloud: LocalCloud) -> str:
    cloud.kinesis.create_stream("telemetry", shard_count=4)
    return "telemetry"


def test_records_are_kept_decoded_and_in_order(
    cloud: LocalCloud, clients: Clients, stream: str
) -> None:
    clients.kinesis.put_records(StreamName=stream, Records=records(b"\x00one", b"two"))
    clients.kinesis.put_record(StreamName=stream, Data=b"three", PartitionKey="key")

    taken = cloud.kinesis.records(stream)
    assert [record.data for record in taken] == [b"\x00one", b"two", b"three"]
    assert [record.partition_key for record in taken] == ["key"] * 3
    assert cloud.kinesis.totals(stream).count == 3


def test_records_can_be_asked_for_by_shard(
    cloud: LocalCloud, clients: Clients, stream: str
) -> None:
    sent = [{"Data": f"{number}".encode(), "PartitionKey": f"key {number}"} for number in range(64)]
    answer = clients.kinesis.put_records(StreamName=stream, Records=sent)

    shards = {result["ShardId"] for result in answer["Records"]}
    assert len(shards) == 4
    by_shard = [cloud.kinesis.records(stream, shard) for shard in sorted(shards)]
    assert sum(map(len, by_shard)) == 64
    for taken in by_shard:
        assert len({record.shard_id for record in taken}) == 1
        numbers = [int(record.sequence_number) for record in taken]
        assert numbers == sorted(set(numbers))


def test_what_was_put_can_be_read_back_with_the_services_own_calls(
    clients: Clients, cloud: LocalCloud
) -> None:
    cloud.kinesis.create_stream("one-shard")
    clients.kinesis.put_records(StreamName="one-shard", Records=records(b"a", b"b"))

    shard = clients.kinesis.list_shards(StreamName="one-shard")["Shards"][0]["ShardId"]
    iterator = clients.kinesis.get_shard_iterator(
        StreamName="one-shard", ShardId=shard, ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    got = clients.kinesis.get_records(ShardIterator=iterator)["Records"]
    assert [record["Data"] for record in got] == [b"a", b"b"]


def test_a_stream_can_be_named_by_its_arn(cloud: LocalCloud, clients: Clients, stream: str) -> None:
    arn = clients.kinesis.describe_stream_summary(StreamName=stream)["StreamDescriptionSummary"][
        "StreamARN"
    ]
    clients.kinesis.put_records(StreamARN=arn, Records=records(b"by arn"))
    assert [record.data for record in cloud.kinesis.records(stream)] == [b"by arn"]


def test_a_stream_that_was_never_made_is_not_found(clients: Clients) -> None:
    with refused("ResourceNotFoundException", 400) as caught:
        clients.kinesis.put_records(StreamName="nowhere", Records=records(b"x"))
    assert isinstance(caught.value, clients.kinesis.exceptions.ResourceNotFoundException)


def test_a_stream_is_made_only_once(cloud: LocalCloud, stream: str) -> None:
    with pytest.raises(LocalCloudError, match="telemetry"):
        cloud.kinesis.create_stream(stream)


def test_a_stream_lives_in_one_region(cloud: LocalCloud, stream: str) -> None:
    with LocalCloud(region="eu-central-1") as elsewhere, Clients(elsewhere) as clients:
        elsewhere.kinesis.create_stream("here")
        names = clients.kinesis.list_streams()["StreamNames"]
    assert names == ["here"]


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        ([], "records is 0, below 1"),
        (records(*[b"x"] * 501), "is 501, above 500"),
        ([{"Data": b"x", "PartitionKey": ""}], "is 0, below 1"),
        ([{"Data": b"x", "PartitionKey": "k" * 257}], "is 257, above 256"),
        ([{"Data": b"x"}], "partitionKey is required"),
    ],
)
def test_requests_that_break_the_services_limits_are_refused(
    cloud: LocalCloud, clients: Clients, stream: str, sent: list[dict[str, object]], reason: str
) -> None:
    unchecked = cloud.client("kinesis", parameter_validation=False)
    try:
        with refused("ValidationException", 400) as caught:
            unchecked.put_records(StreamName=stream, Records=sent)
    finally:
        unchecked.close()
    assert reason in caught.value.response["Error"]["Message"].lower().replace(
        "partitionkey", "partitionKey"
    )
    assert cloud.kinesis.records(stream) == []


def test_a_request_above_motos_size_is_refused(clients: Clients, stream: str) -> None:
    with refused("InvalidArgumentException", 400):
        clients.kinesis.put_records(StreamName=stream, Records=records(*[b"x" * 1_000_000] * 6))


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/x-amz-json-1.1", b"\xff{"),
        ("application/x-amz-json-1.1", b"[]"),
        ("application/x-amz-cbor-1.1", b"\xa0"),
    ],
)
def test_a_body_that_is_no_json_object_is_a_serialization_error(
    cloud: LocalCloud, content_type: str, body: bytes
) -> None:
    headers = {"X-Amz-Target": "Kinesis_20131202.PutRecords", "Content-Type": content_type}
    answer = send_signed(cloud, "kinesis", "/", body, headers=headers)
    assert (answer.status, answer.json["__type"]) == (400, "SerializationException")


@pytest.mark.parametrize(
    "how",
    [
        {"indexes": [1, 3]},
        {"containing": b"odd"},
        {"containing": "odd"},
        {"matching": lambda index, data: data.endswith(b"odd")},
    ],
    ids=["by index", "by bytes", "by text", "by predicate"],
)
def test_single_records_fail_and_the_others_are_taken(
    cloud: LocalCloud, clients: Clients, stream: str, how: dict[str, object]
) -> None:
    code = "ProvisionedThroughputExceededException"
    cloud.kinesis.fail_records(**how, code=code, message="slower", times=1)  # type: ignore[arg-type]
    sent = records(b"0 even", b"1 odd", b"2 even", b"3 odd")

    answer = clients.kinesis.put_records(StreamName=stream, Records=sent)

    assert answer["FailedRecordCount"] == 2
    assert [result.get("ErrorCode") for result in answer["Records"]] == [None, code, None, code]
    assert answer["Records"][1]["ErrorMessage"] == "slower"
    assert all("SequenceNumber" in answer["Records"][index] for index in (0, 2))
    assert [record.data for record in cloud.kinesis.records(stream)] == [b"0 even", b"2 even"]

    assert clients.kinesis.put_records(StreamName=stream, Records=sent)["FailedRecordCount"] == 0


def test_all_records_of_a_request_can_fail(
    cloud: LocalCloud, clients: Clients, stream: str
) -> None:
    cloud.kinesis.fail_records()
    answer = clients.kinesis.put_records(StreamName=stream, Records=records(b"a", b"b"))
    assert answer["FailedRecordCount"] == 2
    assert answer["Records"][0] == {
        "ErrorCode": "InternalFailure",
        "ErrorMessage": "Internal Service Failure",
    }
    assert cloud.kinesis.records(stream) == []


def test_a_single_put_that_fails_is_an_error_of_the_request(
    cloud: LocalCloud, clients: Clients, stream: str
) -> None:
    with cloud.kinesis.fail_records(), refused("InternalFailure", 500):
        clients.kinesis.put_record(StreamName=stream, Data=b"x", PartitionKey="k")
    assert cloud.kinesis.records(stream) == []


def test_an_unsigned_request_is_refused(cloud: LocalCloud) -> None:
    answer = send(cloud.endpoint, b"{}", headers={"X-Amz-Target": "Kinesis_20131202.ListStreams"})
    assert answer.status == 400
    assert answer.json["__type"] == "MissingAuthenticationTokenException"
