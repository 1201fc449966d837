"""Every knob on every AWS service, as botocore understands the answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from botocore.exceptions import ConnectionClosedError, ReadTimeoutError, ResponseStreamingError
from cloud_clients import Clients, entry, messages, records, refused

from penstock.testing import CloseWhen, LocalCloud
from penstock.testing.service import Service


class Case(NamedTuple):
    """One service: how to make its target, how to send to it, how much it took."""

    name: str
    service: Callable[[LocalCloud], Service]
    prepare: Callable[[LocalCloud], object]
    send: Callable[[Clients, bytes], Any]
    target: str | None


def put_record(clients: Clients, content: bytes) -> Any:
    return clients.kinesis.put_records(StreamName="target", Records=records(content))


def put_object(clients: Clients, content: bytes) -> Any:
    return clients.s3.put_object(Bucket="target", Key="key", Body=content)


def put_entry(clients: Clients, content: bytes) -> Any:
    made = entry("1", alias=f"/plant/{content.decode()}")
    return clients.sitewise.batch_put_asset_property_value(entries=[made])


def put_message(clients: Clients, content: bytes) -> Any:
    return clients.iot_analytics.batch_put_message(channelName="target", messages=messages(content))


CASES = [
    Case(
        "kinesis",
        lambda cloud: cloud.kinesis,
        lambda cloud: cloud.kinesis.create_stream("target"),
        put_record,
        "target",
    ),
    Case(
        "s3",
        lambda cloud: cloud.s3,
        lambda cloud: cloud.s3.create_bucket("target"),
        put_object,
        "target",
    ),
    Case("iotsitewise", lambda cloud: cloud.sitewise, lambda cloud: None, put_entry, None),
    Case(
        "iotanalytics",
        lambda cloud: cloud.iot_analytics,
        lambda cloud: cloud.iot_analytics.create_channel("target"),
        put_message,
        "target",
    ),
]
# What botocore must read, by knob and service.
ERRORS: dict[str, dict[str, tuple[str, int]]] = {
    "throttle": {
        "kinesis": ("ProvisionedThroughputExceededException", 400),
        "s3": ("SlowDown", 503),
        "iotsitewise": ("ThrottlingException", 429),
        "iotanalytics": ("ThrottlingException", 429),
    },
    "fail": {
        "kinesis": ("InternalFailure", 500),
        "s3": ("InternalError", 500),
        "iotsitewise": ("InternalFailureException", 500),
        "iotanalytics": ("InternalFailureException", 500),
    },
    "expire": {
        "kinesis": ("ExpiredTokenException", 400),
        "s3": ("ExpiredToken", 400),
        "iotsitewise": ("ExpiredTokenException", 403),
        "iotanalytics": ("ExpiredTokenException", 403),
    },
    "deny": {
        "kinesis": ("AccessDeniedException", 400),
        "s3": ("AccessDenied", 403),
        "iotsitewise": ("AccessDeniedException", 403),
        "iotanalytics": ("AccessDeniedException", 403),
    },
    "missing": {
        "kinesis": ("ResourceNotFoundException", 400),
        "s3": ("NoSuchBucket", 404),
        "iotsitewise": ("ResourceNotFoundException", 404),
        "iotanalytics": ("ResourceNotFoundException", 404),
    },
}
# Errors that are in the service's model become exceptions of their own.
MODELLED = {
    ("throttle", "kinesis"),
    ("throttle", "iotsitewise"),
    ("throttle", "iotanalytics"),
    ("fail", "iotsitewise"),
    ("fail", "iotanalytics"),
    ("deny", "kinesis"),
    ("deny", "iotsitewise"),
    ("missing", "kinesis"),
    ("missing", "s3"),
    ("missing", "iotsitewise"),
    ("missing", "iotanalytics"),
}

every_service = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])


@pytest.fixture
def prepared(cloud: LocalCloud, case: Case) -> Service:
    case.prepare(cloud)
    return case.service(cloud)


@every_service
@pytest.mark.parametrize("knob", ERRORS)
def test_a_knob_becomes_the_services_own_error_and_goes_away(
    clients: Clients, case: Case, prepared: Service, knob: str
) -> None:
    getattr(prepared, knob)(times=2)
    for _ in range(2):
        with refused(*ERRORS[knob][case.name]) as caught:
            case.send(clients, b"x")
        if (knob, case.name) in MODELLED:
            assert type(caught.value).__name__ == ERRORS[knob][case.name][0]
    assert prepared.totals(case.target).count == 0

    case.send(clients, b"x")
    assert prepared.totals(case.target).count == 1


@every_service
def test_a_poison_message_refuses_its_request_for_good(
    clients: Clients, case: Case, prepared: Service
) -> None:
    code = {"kinesis": "InvalidArgumentException", "s3": "InvalidRequest"}
    prepared.refuse("poison")
    for _ in range(2):
        with refused(code.get(case.name, "InvalidRequestException"), 400):
            case.send(clients, b"a-poison-pill")
    case.send(clients, b"food")
    assert prepared.totals(case.target).count == 1


@every_service
def test_a_slow_service_answers_late(clients: Clients, case: Case, prepared: Service) -> None:
    prepared.slow(0.3, times=1)
    start_s = time.monotonic()
    case.send(clients, b"x")
    assert time.monotonic() - start_s >= 0.3


@every_service
def test_a_hanging_service_answers_when_it_is_released(
    cloud: LocalCloud, clients: Clients, case: Case, prepared: Service
) -> None:
    knob = prepared.hang()
    answers: list[Any] = []
    sender = threading.Thread(target=lambda: answers.append(case.send(clients, b"x")))
    sender.start()
    try:
        knob.wait_used(1, timeout_s=10)
        assert prepared.totals(case.target).count == 0
        assert not answers
    finally:
        knob.release()
        sender.join()
    assert len(answers) == 1
    assert prepared.totals(case.target).count == 1


@every_service
def test_a_client_that_waits_too_long_gives_up(
    cloud: LocalCloud, case: Case, prepared: Service
) -> None:
    prepared.hang()
    impatient = Clients(cloud)
    client = cloud.client(case.name, read_timeout=0.2, retries={"total_max_attempts": 1})
    impatient._made[case.name] = client
    with impatient, pytest.raises(ReadTimeoutError):
        case.send(impatient, b"x")


@every_service
@pytest.mark.parametrize(
    ("when", "taken"), [(CloseWhen.BEFORE_PROCESSING, 0), (CloseWhen.BEFORE_ANSWER, 1)]
)
def test_a_closed_connection_tells_the_client_nothing(
    clients: Clients, case: Case, prepared: Service, when: CloseWhen, taken: int
) -> None:
    prepared.close(when, times=1)
    with pytest.raises(ConnectionClosedError):
        case.send(clients, b"x")

    assert prepared.totals(case.target).count == taken
    case.send(clients, b"x")
    assert prepared.totals(case.target).count == taken + 1


@every_service
def test_half_an_answer_looks_like_an_empty_success_to_botocore(
    clients: Clients, case: Case, prepared: Service
) -> None:
    """Status 200 and nothing of the body: whoever believes that, loses failed records."""
    whole = case.send(clients, b"x")
    prepared.close(CloseWhen.WITHIN_ANSWER, times=1)
    half = case.send(clients, b"y")

    assert half["ResponseMetadata"]["HTTPStatusCode"] == 200
    if case.name == "s3":  # its answer is complete with its head
        assert half.keys() == whole.keys()
    else:
        assert half.keys() == {"ResponseMetadata"} < whole.keys()
    assert prepared.totals(case.target).count == 2


def test_an_object_can_break_off_in_the_middle(cloud: LocalCloud, clients: Clients) -> None:
    cloud.s3.create_bucket("target")
    put_object(clients, b"x" * 1000)
    cloud.s3.close(CloseWhen.WITHIN_ANSWER, operation="GetObject", times=1)
    body = clients.s3.get_object(Bucket="target", Key="key")["Body"]
    with pytest.raises(ResponseStreamingError):
        body.read()


@every_service
def test_one_access_key_can_expire(
    cloud: LocalCloud, clients: Clients, case: Case, prepared: Service
) -> None:
    prepared.expire(access_key="somebody-else")
    case.send(clients, b"x")
    prepared.expire(access_key="LOCALCLOUD")
    with refused(*ERRORS["expire"][case.name]):
        case.send(clients, b"x")


def test_a_probability_hits_some_requests(cloud: LocalCloud, clients: Clients) -> None:
    cloud.kinesis.create_stream("target")
    knob = cloud.kinesis.throttle(probability=0.5)
    failures = 0
    for _ in range(40):
        try:
            put_record(clients, b"x")
        except clients.kinesis.exceptions.ProvisionedThroughputExceededException:
            failures += 1
    assert failures == knob.used
    assert 5 < failures < 35


def test_a_knob_can_be_about_one_target_only(cloud: LocalCloud, clients: Clients) -> None:
    cloud.kinesis.create_stream("target")
    cloud.kinesis.create_stream("other")
    cloud.kinesis.throttle(target="other")
    put_record(clients, b"x")
    with refused("ProvisionedThroughputExceededException", 400):
        clients.kinesis.put_records(StreamName="other", Records=records(b"x"))


def test_an_outage_of_the_link_hits_every_service(cloud: LocalCloud, clients: Clients) -> None:
    for case in CASES:
        case.prepare(cloud)
    with cloud.every_service.close():
        for case in CASES:
            with pytest.raises(ConnectionClosedError):
                case.send(clients, b"x")
    for case in CASES:
        case.send(clients, b"x")
