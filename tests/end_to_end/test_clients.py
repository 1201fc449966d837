"""AWS's own SDKs, and our client with their programs, against a real server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from client_programs import CLIENTS, Client

from failure_logs import show_on_failure
from server_process import ServerProcess

MIB = 1024 * 1024
FULL = "Full, with all.log"
NO_EXPORTS: dict[str, list[Any]] = {
    "http": [],
    "iotAnalytics": [],
    "kinesis": [],
    "IotSitewise": [],
    "s3TaskExecutor": [],
}
DEFAULTS = {
    "maxSize": 256 * MIB,
    "streamSegmentSize": 16 * MIB,
    "strategyOnFull": 1,
    "persistence": 0,
    "flushOnWrite": False,
    "exportDefinition": NO_EXPORTS,
}
BATCH = {"batchIntervalMillis": 60000, "startSequenceNumber": 0, "disabled": True}


@pytest.fixture(scope="module", params=CLIENTS)
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Client:
    """Each library in turn, installed where that is needed."""
    return CLIENTS[request.param](tmp_path_factory.mktemp("program"))


@pytest.fixture
def program_log(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    log = tmp_path / "program.log"
    show_on_failure(request, log)
    return log


@pytest.fixture(scope="module")
def operations(
    client: Client, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Any]]:
    yield from results_of("operations", client, request, tmp_path_factory.mktemp("operations"))


@pytest.fixture(scope="module")
def errors(
    client: Client, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Any]]:
    yield from results_of("errors", client, request, tmp_path_factory.mktemp("errors"))


def results_of(
    scenario: str, client: Client, request: pytest.FixtureRequest, folder: Path
) -> Iterator[dict[str, Any]]:
    """One run of one program, for all the tests that look at what it found."""
    server = ServerProcess(folder)
    log = folder / "program.log"
    show_on_failure(request, server.log_path, log)
    with server:
        yield client.run(scenario, server=server, log=log)


def test_a_program_that_deletes_first_learns_that_there_is_nothing(
    operations: dict[str, Any],
) -> None:
    assert operations["nothing to delete"] is True


def test_every_created_stream_is_listed(operations: dict[str, Any]) -> None:
    assert sorted(operations["names"]) == [FULL, "Minimal", "Nones"]


def test_a_minimal_stream_is_described_with_its_defaults(operations: dict[str, Any]) -> None:
    assert operations["minimal"] == {
        "definition": {"name": "Minimal", **DEFAULTS},
        "storageStatus": {
            "oldestSequenceNumber": 0,
            "newestSequenceNumber": -1,
            "totalBytes": 0,
        },
        "exportStatuses": [],
    }


def test_a_full_definition_is_described_as_it_was_created(operations: dict[str, Any]) -> None:
    assert operations["full"]["definition"] == {
        "name": FULL,
        "maxSize": 64 * MIB,
        "streamSegmentSize": MIB,
        "timeToLiveMillis": 3600000,
        "strategyOnFull": 0,
        "persistence": 0,
        "flushOnWrite": True,
        "exportDefinition": {
            "http": [
                {
                    "identifier": "http",
                    "uri": "http://127.0.0.1:9/",
                    "batchSize": 20,
                    "priority": 1,
                    "exportFormat": 1,
                    **BATCH,
                }
            ],
            "iotAnalytics": [
                {
                    "identifier": "analytics",
                    "iotChannel": "channel",
                    "iotMsgIdPrefix": "prefix",
                    "batchSize": 30,
                    "priority": 2,
                    **BATCH,
                }
            ],
            "kinesis": [
                {
                    "identifier": "kinesis",
                    "kinesisStreamName": "target",
                    "batchSize": 40,
                    "priority": 3,
                    **BATCH,
                }
            ],
            "IotSitewise": [{"identifier": "sitewise", "batchSize": 5, "priority": 4, **BATCH}],
            "s3TaskExecutor": [
                {
                    "identifier": "s3",
                    "sizeThresholdForMultipartUploadBytes": 8 * MIB,
                    "priority": 10,
                    "disabled": True,
                    "statusConfig": {"statusLevel": 4, "statusStreamName": "Minimal"},
                }
            ],
        },
    }


def test_every_export_has_a_status_that_says_nothing_was_exported(
    operations: dict[str, Any],
) -> None:
    statuses = operations["full"]["exportStatuses"]
    assert [status["exportConfigIdentifier"] for status in statuses] == [
        "http",
        "analytics",
        "kinesis",
        "sitewise",
        "s3",
    ]
    assert {status["lastExportedSequenceNumber"] for status in statuses} == {-1}
    assert not any(status.get("errorMessage") for status in statuses)
    assert not any(status.get("exportedMessagesCount") for status in statuses)


def test_optional_values_written_as_none_are_absent(operations: dict[str, Any]) -> None:
    assert operations["nones"]["definition"] == {"name": "Nones", **DEFAULTS, "persistence": 1}


def test_appends_are_numbered_from_zero(operations: dict[str, Any]) -> None:
    assert operations["messages"]["numbers"] == [0, 1, 2]


def test_a_read_without_options_returns_the_first_message(operations: dict[str, Any]) -> None:
    assert operations["messages"]["without options"] == [[0, "one"]]


def test_a_read_returns_what_its_options_ask_for(operations: dict[str, Any]) -> None:
    messages = operations["messages"]
    assert messages["all"] == [[0, "one"], [1, "\x00\xff"], [2, "three"]]
    assert messages["one from the middle"] == [[1, "\x00\xff"]]
    assert messages["two and no maximum"] == [[0, "one"], [1, "\x00\xff"]]


def test_messages_know_their_stream_and_the_time_of_their_append(
    operations: dict[str, Any],
) -> None:
    assert operations["messages"]["stream names"] == ["Minimal"]
    assert operations["messages"]["ingest times are right"] is True


def test_the_storage_status_counts_payloads_and_32_bytes_for_each(
    operations: dict[str, Any],
) -> None:
    assert operations["messages"]["storage"] == {
        "oldestSequenceNumber": 0,
        "newestSequenceNumber": 2,
        "totalBytes": len("one" + "\x00\xff" + "three") + 3 * 32,
    }


def test_payloads_made_by_the_json_helpers_come_back_as_objects(
    operations: dict[str, Any],
) -> None:
    json_results = operations["json"]
    assert json_results["payloads"] == [
        {
            "inputUrl": "file:///tmp/input",
            "bucket": "bucket",
            "key": "key/!{timestamp:yyyy/MM}",
            "userMetadata": {"colour": "blue"},
        },
        {
            "entryId": "entry-1",
            "propertyAlias": "/a/b",
            "propertyValues": [
                {
                    "value": {"doubleValue": 1.5},
                    "timestamp": {"timeInSeconds": 1700000000, "offsetInNanos": 7},
                    "quality": "GOOD",
                }
            ],
        },
    ]
    assert json_results["key"] == "key/!{timestamp:yyyy/MM}"
    assert json_results["value"] == 1.5


def test_a_description_can_be_changed_and_sent_back_as_an_update(
    operations: dict[str, Any],
) -> None:
    added = {"identifier": "added", "kinesisStreamName": "target", "batchSize": 500}
    definition = operations["update"]["definition"]
    assert definition == {
        "name": "Minimal",
        "maxSize": 512 * MIB,
        "streamSegmentSize": 32 * MIB,
        "timeToLiveMillis": 3600000,
        "strategyOnFull": 0,
        "persistence": 0,
        "flushOnWrite": True,
        "exportDefinition": NO_EXPORTS
        | {"kinesis": [{**added, "startSequenceNumber": 0, "disabled": True}]},
    }
    (status,) = operations["update"]["exportStatuses"]
    assert status["exportConfigIdentifier"] == "added"


def test_a_deleted_stream_is_gone(operations: dict[str, Any]) -> None:
    assert sorted(operations["names after delete"]) == [FULL, "Nones"]
    assert operations["describe after delete"]["kinds"][0] == "ResourceNotFoundException"


@pytest.mark.parametrize(
    ("case", "kind", "status", "text"),
    [
        ("create twice", "InvalidRequestException", 3, "already exists"),
        ("create with identifier twice", "InvalidRequestException", 3, "same"),
        ("append to unknown", "ResourceNotFoundException", 5, "Unknown"),
        ("read unknown", "ResourceNotFoundException", 5, "Unknown"),
        ("describe unknown", "ResourceNotFoundException", 5, "Unknown"),
        ("update unknown", "ResourceNotFoundException", 5, "Unknown"),
        ("delete unknown", "ResourceNotFoundException", 5, "Unknown"),
        ("append to full", "InvalidRequestException", 3, "Small is full"),
        ("append more than fits", "RequestPayloadTooLargeException", 4, "1024"),
        (
            "read past the end",
            "NotEnoughMessagesException",
            13,
            "greater than the last sequence number",
        ),
        ("read too many", "NotEnoughMessagesException", 13, "File"),
        ("wait for too many", "NotEnoughMessagesException", 13, "File"),
        ("update memory to file", "UpdateNotAllowedException", 17, "persistence"),
        ("update file to memory", "UpdateNotAllowedException", 17, "persistence"),
        ("update below segment size", "UpdateNotAllowedException", 17, "streamSegmentSize"),
    ],
)
def test_what_the_server_refuses_raises_its_exception_with_status_and_text(
    errors: dict[str, Any], case: str, kind: str, status: int, text: str
) -> None:
    error = errors[case]
    assert error is not None, "nothing was raised"
    assert kind in error["kinds"]
    assert error["status"] == status
    assert text in error["text"]


@pytest.mark.parametrize(
    "case", ["append nothing", "create too small", "read with minimum above maximum"]
)
def test_what_breaks_a_rule_of_the_model_is_refused_before_it_is_sent(
    errors: dict[str, Any], case: str
) -> None:
    assert errors[case]["kinds"][0] == "ValidationException"
    assert errors[case]["status"] is None


def test_a_refused_update_is_caught_as_an_invalid_request_too(errors: dict[str, Any]) -> None:
    assert "InvalidRequestException" in errors["update file to memory"]["kinds"]


def test_the_connection_goes_on_after_every_refusal(errors: dict[str, Any]) -> None:
    assert sorted(errors["streams afterwards"]) == ["File", "Memory", "Small"]
    assert errors["append afterwards"] == 1


def test_a_closed_client_says_so(errors: dict[str, Any]) -> None:
    assert "StreamManagerException" in errors["list after close"]["kinds"]
    assert "closed" in errors["list after close"]["text"]


def test_a_server_with_tokens_serves_those_who_have_one_and_refuses_all_others(
    client: Client, tmp_path: Path, program_log: Path, request: pytest.FixtureRequest
) -> None:
    server = ServerProcess(tmp_path, env={"PENSTOCK_TOKENS": "first-secret,second-secret"})
    show_on_failure(request, server.log_path)
    with server:
        answers = client.run(
            "tokens", "first-secret", "wrong", "", "second-secret", server=server, log=program_log
        )
    assert answers["first-secret"] == {"streams": []}
    assert answers["second-secret"] == {"streams": []}
    assert "ConnectFailedException" in answers["wrong"]["kinds"]
    assert "ConnectFailedException" in answers[""]["kinds"]


def test_twenty_parallel_requests_on_one_connection_each_get_their_own_answer(
    client: Client, server: ServerProcess, program_log: Path
) -> None:
    results = client.run("parallel", server=server, log=program_log)
    numbers = [number for number, _ in results["appended"]]
    assert sorted(numbers) == list(range(20))
    assert results["read"] == [[message] for message in sorted(results["appended"])]


def test_a_read_that_waits_does_not_delay_appends_and_returns_with_the_fifth(
    client: Client, server: ServerProcess, program_log: Path
) -> None:
    results = client.run("waiting_read", server=server, log=program_log)
    assert results["messages"] == [[number, f"message {number}"] for number in range(5)]
    assert results["read done before the fifth append"] is False
    # A server that serves one request after another keeps the first append for the read's 10 s.
    assert max(results["appends_s"]) < 5
    assert results["read_s"] < 9


def test_a_client_goes_on_after_the_server_was_killed_and_nothing_acknowledged_is_lost(
    client: Client, server: ServerProcess, program_log: Path
) -> None:
    with client.start("reconnect", server=server, log=program_log) as program:
        program.expect("acknowledged")
        server.kill()
        program.tell("killed")
        outage = program.expect("noticed")["outage"]
        server.restart()
        program.tell("restarted")
        program.expect("acknowledged")
        server.kill()
        program.tell("killed")
        program.expect("noticed")
        server.restart()
        program.tell("restarted")
        results = program.expect("result")
    assert client.unreachable in outage["kinds"]
    assert [number for number, _ in results["acknowledged"]] == list(range(10))
    assert results["second life"]["stored"] == results["acknowledged"][:5]
    assert results["third life"]["stored"] == results["acknowledged"]
    assert results["third life"]["kept"]["definition"]["timeToLiveMillis"] == 3600000
    # The memory stream ended with the server; the deleted one stays deleted.
    assert results["second life"]["streams"] == ["Kept"]
