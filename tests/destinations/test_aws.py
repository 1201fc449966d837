"""Requests to AWS: what is configured as everywhere, and what errors mean."""

from __future__ import annotations

import time
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path

import pytest
from scripted_service import Answer, Close, Deed, Hang, Request, ScriptedService

from penstock.destinations.aws import Denied, Missing, Service
from penstock.destinations.base import Blocked, DestinationError, Timeouts, Transient
from penstock.destinations.parts import RequestRefused

TARGET = "Kinesis stream plant"


def error(code: str, status: int = 400, message: str = "Because.", **headers: str) -> Answer:
    return Answer.json({"__type": code, "message": message}, status, **headers)


@pytest.fixture
def kinesis(
    aws: None, service: ScriptedService, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Service]:
    monkeypatch.setenv("AWS_ENDPOINT_URL", service.url)
    opened = Service(
        "kinesis",
        TARGET,
        missing="export stream plant doesn't exist",
        refused_codes=frozenset(("ValidationException",)),
        timeouts=Timeouts(connect_s=2.0, read_s=0.5),
    )
    service.answer = lambda _: Answer.json({"StreamNames": [], "HasMoreStreams": False})
    yield opened
    opened.close()


def error_of(kinesis: Service, service: ScriptedService, deed: Deed) -> DestinationError:
    service.next.append(deed)
    with pytest.raises(DestinationError) as raised:
        kinesis.call("list_streams")
    return raised.value


# --- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (error("ProvisionedThroughputExceededException"), Transient, "Because."),
        (error("LimitExceededException"), Transient, "LimitExceeded"),
        (error("ThrottlingException"), Transient, "Throttling"),
        (error("SlowDown", 503), Transient, "SlowDown"),
        (error("Whatever", 429), Transient, "Whatever"),
        (error("InternalFailure", 500), Transient, "InternalFailure"),
        (error("Unheard", 502), Transient, "Unheard"),
        (Answer(503, b"<html>bad gateway</html>"), Transient, "503"),
        (error("ExpiredTokenException"), Transient, "have expired"),
        (error("ExpiredToken", 403), Transient, "have expired"),
        (error("RequestTimeTooSkewed", 403), Transient, "clock is wrong"),
        (
            error("InvalidSignatureException", 400, "Signature expired: 1 is now earlier than 2"),
            Transient,
            "clock is wrong",
        ),
        (error("InvalidSignatureException"), Blocked, "check the AWS credentials"),
        (error("UnrecognizedClientException"), Blocked, "check the AWS credentials"),
        (error("SignatureDoesNotMatch", 403), Blocked, "check the AWS credentials"),
        (error("AccessDeniedException"), Denied, "allow kinesis:ListStreams"),
        (error("KMSAccessDeniedException"), Denied, "allow kinesis:ListStreams"),
        (error("KMSDisabledException"), Blocked, "KMSDisabled"),
        (error("ResourceNotFoundException"), Missing, "export stream plant doesn't exist"),
        (error("ValidationException"), RequestRefused, "ValidationException: Because."),
        (Answer(413), RequestRefused, "413"),
        (error("SomethingNew"), Blocked, "SomethingNew: Because."),
        (error("NotImplemented", 501), Blocked, "NotImplemented"),
    ],
    ids=lambda value: value.body[:50].decode() if isinstance(value, Answer) else None,
)
def test_an_error_is_told_by_who_has_to_act(
    kinesis: Service,
    service: ScriptedService,
    answer: Answer,
    kind: type[DestinationError],
    words: str,
) -> None:
    found = error_of(kinesis, service, answer)

    assert type(found) is kind
    assert words in str(found)
    assert len(service.requests) == 1, "botocore must not retry by itself"


def test_other_client_errors_can_mean_that_the_request_is_refused(
    aws: None, service: ScriptedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", service.url)
    opened = Service("kinesis", TARGET, others_are_refused=True)

    found = error_of(opened, service, error("SomethingNew"))
    denied = error_of(opened, service, error("AccessDeniedException"))
    opened.close()

    assert isinstance(found, RequestRefused)
    assert found.code == "SomethingNew"
    assert isinstance(denied, Denied)


def test_errors_name_the_target_and_are_one_short_line(
    kinesis: Service, service: ScriptedService
) -> None:
    found = error_of(kinesis, service, error("ThrottlingException", message="too\n much " * 500))

    assert str(found).startswith(f"{TARGET}: ThrottlingException: too much too much")
    assert "\n" not in str(found)
    assert len(str(found)) < 400


def test_retry_after_is_passed_on(kinesis: Service, service: ScriptedService) -> None:
    found = error_of(kinesis, service, error("ThrottlingException", 429, **{"Retry-After": "12"}))

    assert isinstance(found, Transient)
    assert found.retry_after_s == 12.0


def test_a_service_that_hangs_costs_the_timeout(kinesis: Service, service: ScriptedService) -> None:
    started_s = time.monotonic()

    found = error_of(kinesis, service, Hang())

    assert type(found) is Transient
    assert "no answer within 0.5 s" in str(found)
    assert time.monotonic() - started_s < 5
    kinesis.call("list_streams")


@pytest.mark.parametrize("after_bytes", [0, 5, 120, 1000])
def test_a_service_that_hangs_up_half_way_is_tried_again(
    kinesis: Service, service: ScriptedService, after_bytes: int
) -> None:
    assert type(error_of(kinesis, service, Close(after_bytes))) is Transient
    kinesis.call("list_streams")


def test_a_service_that_cannot_be_reached_is_tried_again(
    aws: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    opened = Service("kinesis", TARGET)

    with pytest.raises(Transient, match=r"127\.0\.0\.1:1"):
        opened.call("list_streams")
    opened.close()


# --- credentials, region, endpoint --------------------------------------------------------------


def test_requests_are_signed_for_the_region_with_the_credentials_of_the_environment(
    kinesis: Service, service: ScriptedService
) -> None:
    kinesis.call("list_streams")

    (request,) = service.requests
    authorization = request.headers["authorization"]
    assert authorization.startswith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/")
    assert "/eu-west-1/kinesis/aws4_request" in authorization


def test_no_credentials_block_the_export_until_there_are_some(
    kinesis: Service, service: ScriptedService, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))

    for _ in range(2):
        with pytest.raises(Blocked, match="no AWS credentials were found; set AWS_ACCESS_KEY_ID"):
            kinesis.call("list_streams")
    with pytest.raises(Blocked, match="no AWS credentials"):
        kinesis.check_credentials()
    assert service.requests == []
    kinesis.close()
    write_credentials(tmp_path / "credentials", "AKIDLATER")

    kinesis.call("list_streams")
    kinesis.check_credentials()
    assert "AKIDLATER" in service.requests[0].headers["authorization"]


def test_credentials_that_were_renewed_in_their_file_are_used_after_the_old_ones_expired(
    kinesis: Service, service: ScriptedService, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    write_credentials(tmp_path / "credentials", "AKIDOLD")

    error_of(kinesis, service, error("ExpiredTokenException"))
    write_credentials(tmp_path / "credentials", "AKIDNEW")
    kinesis.call("list_streams")

    old, new = service.requests
    assert "AKIDOLD" in old.headers["authorization"]
    assert "AKIDNEW" in new.headers["authorization"]


def write_credentials(path: Path, key_id: str) -> None:
    path.write_text(f"[default]\naws_access_key_id = {key_id}\naws_secret_access_key = secret\n")


def test_credentials_that_cannot_be_had_just_now_are_tried_again(
    kinesis: Service, service: ScriptedService, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    (tmp_path / "config").write_text("[default]\ncredential_process = false\n")

    with pytest.raises(Transient, match="credentials cannot be had"):
        kinesis.call("list_streams")
    key = '{"Version": 1, "AccessKeyId": "AKIDLATER", "SecretAccessKey": "secret"}'
    (tmp_path / "config").write_text(f"[default]\ncredential_process = echo '{key}'\n")

    kinesis.call("list_streams")
    assert "AKIDLATER" in service.requests[0].headers["authorization"]


def test_no_region_blocks_the_export(aws: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    opened = Service("kinesis", TARGET)

    with pytest.raises(Blocked, match="no AWS region is set; set AWS_DEFAULT_REGION"):
        opened.call("list_streams")


def test_the_region_can_come_from_aws_region_as_greengrass_sets_it(
    kinesis: Service, service: ScriptedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    monkeypatch.setenv("AWS_REGION", "ap-south-1")

    kinesis.call("list_streams")

    assert "/ap-south-1/kinesis/" in service.requests[0].headers["authorization"]


def test_a_profile_that_is_broken_blocks_the_export(
    aws: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    opened = Service("kinesis", TARGET)

    with pytest.raises(Blocked, match="nobody"):
        opened.call("list_streams")


def test_the_endpoint_of_the_service_goes_before_the_general_one(
    kinesis: Service, service: ScriptedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_KINESIS", service.url)

    kinesis.call("list_streams")

    assert len(service.requests) == 1


def test_a_proxy_of_the_environment_is_used(
    aws: None, service: ScriptedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", service.url)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://kinesis.example")
    opened = Service("kinesis", TARGET)

    opened.call("list_streams")
    opened.close()

    assert service.requests[0].target == "http://kinesis.example/"


# --- bodies and clocks --------------------------------------------------------------------------


def test_a_ready_body_travels_as_it_is_signed_and_its_answer_comes_back_as_it_is(
    kinesis: Service, service: ScriptedService
) -> None:
    service.next.append(Answer(200, b'{"odd":  1}'))

    answer = kinesis.exchange("put_records", b'{"mine":  2}', StreamName="plant", Records=[])

    assert answer == b'{"odd":  1}'
    assert service.requests[0].body == b'{"mine":  2}'
    kinesis.call("list_streams")
    assert service.requests[1].body == b"{}", "only that one request had the body"


def test_an_error_to_a_ready_body_is_understood(kinesis: Service, service: ScriptedService) -> None:
    service.next.append(error("ValidationException"))

    with pytest.raises(RequestRefused):
        kinesis.exchange("put_records", b"{}", StreamName="plant", Records=[])


def test_the_service_s_clock_is_learnt_from_answers_and_errors(
    kinesis: Service, service: ScriptedService
) -> None:
    tomorrow_s, yesterday_s = time.time() + 86_400, time.time() - 86_400
    assert not kinesis.clock_is_known()
    assert kinesis.now_s() == pytest.approx(time.time(), abs=1)

    service.next.append(Answer.json({"StreamNames": []}, Date=formatdate(tomorrow_s, usegmt=True)))
    kinesis.call("list_streams")
    assert kinesis.clock_is_known()
    assert kinesis.now_s() == pytest.approx(tomorrow_s, abs=2)

    error_of(kinesis, service, error("Odd", Date=formatdate(yesterday_s, usegmt=True)))
    assert kinesis.now_s() == pytest.approx(yesterday_s, abs=2)

    error_of(kinesis, service, error("Odd", Date="some day"))
    assert kinesis.now_s() == pytest.approx(yesterday_s, abs=2)


def test_a_request_is_what_botocore_s_model_says(
    kinesis: Service, service: ScriptedService
) -> None:
    def seen(request: Request) -> Answer:
        assert request.headers["x-amz-target"] == "Kinesis_20131202.ListStreams"
        return Answer.json({"StreamNames": ["a"], "HasMoreStreams": False})

    service.answer = seen

    assert kinesis.call("list_streams")["StreamNames"] == ["a"]
