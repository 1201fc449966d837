"""IoT Analytics' stand-in: what it takes, and what it refuses as the service did."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cloud_clients import Clients, messages, refused, send, send_signed

from penstock.testing import LocalCloud


@pytest.fixture
def channel(cloud: LocalCloud) -> str:
    cloud.iot_analytics.create_channel("readings")
    return "readings"


def put(clients: Clients, channel: str, sent: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Put messages; the errors."""
    answer = clients.iot_analytics.batch_put_message(channelName=channel, messages=sent)
    errors: list[dict[str, str]] = answer["batchPutMessageErrorEntries"]
    return errors


def test_messages_are_kept_decoded_and_in_order(
    cloud: LocalCloud, clients: Clients, channel: str
) -> None:
    assert put(clients, channel, messages(b"\x00one", b"two")) == []
    assert put(clients, channel, messages(b"three")) == []

    taken = cloud.iot_analytics.messages(channel)
    assert [message.payload for message in taken] == [b"\x00one", b"two", b"three"]
    assert [message.message_id for message in taken] == ["id-0", "id-1", "id-0"]
    assert {message.channel for message in taken} == {channel}


def test_a_channel_that_was_never_made_is_not_found(clients: Clients) -> None:
    with refused("ResourceNotFoundException", 404) as caught:
        put(clients, "nowhere", messages(b"x"))
    assert isinstance(caught.value, clients.iot_analytics.exceptions.ResourceNotFoundException)


def test_a_hundred_messages_are_the_limit(
    cloud: LocalCloud, clients: Clients, channel: str
) -> None:
    assert put(clients, channel, messages(*[b"x"] * 100)) == []
    with refused("InvalidRequestException", 400) as caught:
        put(clients, channel, messages(*[b"x"] * 101))
    assert isinstance(caught.value, clients.iot_analytics.exceptions.InvalidRequestException)
    assert cloud.iot_analytics.totals(channel).count == 100


def test_a_message_that_is_too_large_fails_alone(
    cloud: LocalCloud, clients: Clients, channel: str
) -> None:
    size = 128 * 1024
    errors = put(clients, channel, messages(b"x" * (size + 1), b"y" * size))
    assert [(error["messageId"], error["errorCode"]) for error in errors] == [
        ("id-0", "InvalidRequestException")
    ]
    assert "131073 bytes" in errors[0]["errorMessage"]
    assert [message.message_id for message in cloud.iot_analytics.messages(channel)] == ["id-1"]


def body(**fields: Any) -> dict[str, Any]:
    """A request that is right but for these fields."""
    right = {"channelName": "readings", "messages": [{"messageId": "1", "payload": "eA=="}]}
    return {**right, **fields}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not JSON"),
        (b"7", "not a JSON object"),
        ({}, "channelName is required"),
        (body(channelName="__reserved"), "channelName does not match"),
        (body(channelName="with-dash"), "channelName does not match"),
        (body(channelName="x" * 129), "is 129, above 128"),
        (body(messages=[]), "0 members, not 1 to 100"),
        (body(messages=[{"messageId": "1", "payload": "eA=="}] * 2), "more than once"),
        (body(messages=[{"messageId": "1", "payload": "not base64"}]), "payload is not base64"),
        (body(messages=[{"messageId": "1", "payload": 7}]), "payload is not base64"),
        (body(messages=[{"messageId": "ü", "payload": "eA=="}]), "messageId does not match"),
        (body(messages=[{"messageId": "x" * 129, "payload": "eA=="}]), "is 129, above 128"),
        (body(messages=[{"payload": "eA=="}]), "messages[0].messageId is required"),
        (body(messages=[{"messageId": "1", "data": "eA=="}]), "messages[0].payload is required"),
    ],
)
def test_a_request_that_breaks_the_rules_is_refused(
    cloud: LocalCloud, channel: str, content: Any, reason: str
) -> None:
    encoded = content if isinstance(content, bytes) else json.dumps(content).encode()
    answer = send_signed(cloud, "iotanalytics", "/messages/batch", encoded)
    assert answer.status == 400
    assert answer.headers["x-amzn-errortype"] == "InvalidRequestException"
    assert reason in answer.json["message"]
    assert cloud.iot_analytics.messages(channel) == []


def test_single_messages_fail_by_a_knob(cloud: LocalCloud, clients: Clients, channel: str) -> None:
    cloud.iot_analytics.fail_records(containing=b"\xff", message="unwell", times=1)
    sent = messages(b"fine", b"bad \xff", b"also fine")
    assert put(clients, channel, sent) == [
        {
            "messageId": "id-1",
            "errorCode": "InternalFailureException",
            "errorMessage": "unwell",
        }
    ]
    taken = [message.payload for message in cloud.iot_analytics.messages(channel)]
    assert taken == [b"fine", b"also fine"]
    assert put(clients, channel, sent) == []


def test_other_operations_are_not_pretended(cloud: LocalCloud) -> None:
    answer = send_signed(cloud, "iotanalytics", "/channels", method="GET")
    assert answer.status == 400
    assert "not served by the local cloud" in answer.json["message"]


def test_an_unsigned_request_is_refused(cloud: LocalCloud) -> None:
    answer = send(f"{cloud.endpoint}/messages/batch", b"{}")
    assert answer.status == 403
    assert answer.headers["x-amzn-errortype"] == "MissingAuthenticationTokenException"
