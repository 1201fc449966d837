"""Exports to IoT Analytics, which exists no more: against a script that is as strict as it was."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.validate import ParamValidator
from scripted_service import Answer, Close, Hang, Request, ScriptedService
from surroundings import Surroundings, batch_of

from penstock.destinations.aws import OWN_MODELS
from penstock.destinations.base import Batch, Blocked, Delivery, Timeouts, Transient
from penstock.destinations.batching import pieces
from penstock.destinations.iot_analytics import IoTAnalyticsDestination
from penstock.model import KIB, IoTAnalyticsConfig

MODEL = ServiceModel(
    Loader(extra_search_paths=[str(OWN_MODELS)]).load_service_model("iotanalytics", "service-2")
)


@contextmanager
def destination(
    channel: str = "plant", prefix: str | None = None, **options: Timeouts
) -> Iterator[IoTAnalyticsDestination]:
    config = IoTAnalyticsConfig("a", channel, prefix)
    opened = IoTAnalyticsDestination(config, Surroundings().context(), **options)
    try:
        yield opened
    finally:
        opened.close()


@pytest.fixture
def scripted(
    aws: None, service: ScriptedService, monkeypatch: pytest.MonkeyPatch
) -> ScriptedService:
    monkeypatch.setenv("AWS_ENDPOINT_URL", service.url)
    service.answer = strict
    return service


def strict(request: Request) -> Answer:
    """Whatever breaks the service's rules is refused."""
    body = request.json()
    shape = MODEL.operation_model("BatchPutMessage").input_shape
    problems = ParamValidator().validate(body, shape).generate_report()
    ids = [message["messageId"] for message in body["messages"]]
    if (
        problems
        or request.target != "/messages/batch"
        or "/eu-west-1/iotanalytics/aws4_request" not in request.headers["authorization"]
        or not 1 <= len(ids) <= 100
        or len(set(ids)) < len(ids)
        or not all(re.fullmatch(r"[\x00-\x7f]{1,128}", id) for id in ids)
        or max(map(len, payloads_in(request))) > 128 * KIB
        or b"poison" in payloads_in(request)
    ):
        return error("InvalidRequestException", message=problems)
    return errors()


def error(code: str, status: int = 400, message: str = "Because.") -> Answer:
    return Answer.json({"message": message}, status, **{"x-amzn-ErrorType": code})


def errors(*entries: dict[str, str]) -> Answer:
    return Answer.json({"batchPutMessageErrorEntries": list(entries)})


def payloads_in(request: Request) -> list[bytes]:
    return [base64.b64decode(message["payload"]) for message in request.json()["messages"]]


def ids_in(request: Request) -> list[str]:
    return [message["messageId"] for message in request.json()["messages"]]


def test_messages_arrive_in_order_signed_and_under_unique_ids_with_the_prefix(
    scripted: ScriptedService,
) -> None:
    payloads = [b'{"n": %d}' % n for n in range(98)] + [b"", b"x" * 128 * KIB]

    with destination(prefix="press-") as analytics:
        assert analytics.send(batch_of(*payloads)) == Delivery()

    (request,) = scripted.requests
    assert request.json()["channelName"] == "plant"
    assert payloads_in(request) == payloads
    assert len(set(ids_in(request))) == 100
    assert all(re.fullmatch(r"press-[0-9a-f]{32}-1\d\d", id) for id in ids_in(request))


def test_a_message_has_the_same_id_when_it_is_sent_again_and_another_from_another_exporter(
    scripted: ScriptedService,
) -> None:
    with destination() as one, destination() as other:
        for analytics in (one, one, other):
            analytics.send(batch_of(b"a"))

    first, again, elsewhere = (ids_in(request) for request in scripted.requests)
    assert first == again != elsewhere


def test_errors_are_told_message_by_message(scripted: ScriptedService) -> None:
    def partly(request: Request) -> Answer:
        ids = ids_in(request)
        return errors(
            {"messageId": ids[1], "errorCode": "ThrottlingException", "errorMessage": "Slow."},
            {"messageId": ids[2], "errorCode": "InvalidRequestException", "errorMessage": "Odd."},
            {"messageId": ids[4], "errorCode": "InternalFailureException", "errorMessage": "Ow."},
        )

    scripted.answer = partly

    with destination() as analytics:
        delivery = analytics.send(batch_of(*[b"x"] * 5))

    assert delivery.retry == {
        1: "ThrottlingException: Slow.",
        4: "InternalFailureException: Ow.",
    }
    assert delivery.refused == {2: "InvalidRequestException: Odd."}


def test_a_message_that_spoils_a_request_is_found_and_refused_alone(
    scripted: ScriptedService,
) -> None:
    payloads = [b"a", b"poison", b"c", b"d"]

    with destination() as analytics:
        delivery = analytics.send(batch_of(*payloads))

    assert set(delivery.refused) == {1}
    assert delivery.refused[1].startswith("InvalidRequestException")
    assert delivery.retry == {}


def test_requests_keep_to_the_service_s_limits() -> None:
    batch = batch_of(b"a", b"x" * (128 * KIB + 1), *[b"y" * 1024] * 150)

    found = list(pieces(batch, IoTAnalyticsDestination.limits))

    assert [len(piece.batch) for piece in found] == [1, 1, 100, 50]
    assert [piece.refusal is not None for piece in found] == [False, True, False, False]


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (error("ThrottlingException", 429), Transient, "Throttling"),
        (error("ServiceUnavailableException", 503), Transient, "Unavailable"),
        (error("ExpiredTokenException", 403), Transient, "expired"),
        (error("AccessDeniedException", 403), Blocked, "allow iotanalytics:BatchPutMessage"),
        (error("ResourceNotFoundException", 404), Blocked, "channel plant doesn't exist"),
        (Answer(200, b""), Transient, "makes no sense"),
        (Close(100, errors()), Transient, "channel plant"),
        (
            errors({"messageId": "?", "errorCode": "ThrottlingException"}),
            Transient,
            "unknown message",
        ),
    ],
)
def test_a_request_that_fails_as_a_whole_settles_nothing(
    scripted: ScriptedService,
    answer: Answer | Close,
    kind: type[Exception],
    words: str,
) -> None:
    scripted.next.append(answer)

    with destination() as analytics:
        with pytest.raises(kind, match=words):
            analytics.send(batch_of(b"a", b"b"))
        assert analytics.send(batch_of(b"a", b"b")) == Delivery()


def test_a_service_that_hangs_costs_the_timeout(scripted: ScriptedService) -> None:
    scripted.next.append(Hang())

    with (
        destination(timeouts=Timeouts(2.0, 0.3)) as analytics,
        pytest.raises(Transient, match=r"no answer within 0\.3 s"),
    ):
        analytics.send(batch_of(b"a"))


@pytest.mark.parametrize(
    "name", ["AWS_ENDPOINT_URL_IOTANALYTICS", "AWS_ENDPOINT_URL_IOT_ANALYTICS"]
)
def test_the_endpoint_can_be_set_for_this_service_alone(
    scripted: ScriptedService, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv(name, scripted.url)

    with destination() as analytics:
        assert analytics.send(batch_of(b"a")) == Delivery()


def test_without_an_endpoint_the_region_s_own_is_used(
    aws: None, service: ScriptedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", service.url)  # nothing may leave this machine
    service.next.append(Answer(403))

    with destination() as analytics, pytest.raises(Transient):
        analytics.send(batch_of(b"a"))

    (request,) = service.requests
    assert request.method == "CONNECT"
    assert request.target == "iotanalytics.eu-west-1.amazonaws.com:443"


def test_a_check_sends_no_message(scripted: ScriptedService) -> None:
    with destination() as analytics:
        analytics.check()
        scripted.next.append(error("AccessDeniedException", 403))
        with pytest.raises(Blocked):
            analytics.check()

    assert [request.json()["messages"] for request in scripted.requests] == [[], []]


@pytest.mark.parametrize(
    ("channel", "prefix"), [("my-channel", None), ("__x", None), ("x" * 129, None), ("ok", "é")]
)
def test_names_that_the_service_would_refuse_block_the_export(
    channel: str, prefix: str | None
) -> None:
    config = IoTAnalyticsConfig("a", channel, prefix)

    with pytest.raises(Blocked, match=r"change iotChannel|must be ASCII"):
        IoTAnalyticsDestination(config, Surroundings().context())


def test_a_batch_keeps_its_numbers_in_the_ids(scripted: ScriptedService) -> None:
    with destination() as analytics:
        analytics.send(Batch("S", [7, 10**15], [1, 2], [b"a", b"b"]))

    assert [id.rpartition("-")[2] for id in ids_in(scripted.requests[0])] == [
        "7",
        "1000000000000000",
    ]
