"""Exports to HTTP addresses, against servers that take, refuse, hang and hang up."""

from __future__ import annotations

import base64
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from scripted_service import (
    Answer,
    Close,
    CloseQuietly,
    Deed,
    Drip,
    Hang,
    Request,
    ScriptedService,
)
from surroundings import Surroundings, batch_of

from penstock.destinations.base import Batch, Blocked, Delivery, Timeouts, Transient
from penstock.destinations.http import HTTPDestination
from penstock.model import ExportFormat, HTTPConfig

SHORT = Timeouts(connect_s=2.0, read_s=0.3)


@contextmanager
def destination(
    uri: str, export_format: ExportFormat = ExportFormat.RAW_NOT_BATCHED, **options: Timeouts
) -> Iterator[HTTPDestination]:
    config = HTTPConfig("web", uri, export_format=export_format)
    opened = HTTPDestination(config, Surroundings().context(), **options)
    try:
        yield opened
    finally:
        opened.close()


def in_batches(uri: str, **options: Timeouts) -> HTTPDestination:
    return destination(uri, ExportFormat.JSON_BATCHED, **options)


def messages_in(request: Request) -> list[tuple[str, int, int, bytes]]:
    return [
        (
            entry["streamName"],
            entry["sequenceNumber"],
            entry["ingestTime"],
            base64.b64decode(entry["payload"], validate=True),
        )
        for entry in request.json()
    ]


def messages_of(batch: Batch) -> list[tuple[str, int, int, bytes]]:
    return [
        (batch.stream_name, number, time_ms, payload)
        for number, time_ms, payload in zip(
            batch.sequence_numbers, batch.ingest_times_ms, batch.payloads, strict=True
        )
    ]


# --- what is sent -------------------------------------------------------------------------------


def test_raw_messages_are_posted_one_by_one_in_order_over_one_connection(
    service: ScriptedService,
) -> None:
    payloads = [b"one", b"\x00\xff\r\n\r\n", b"three"]

    with destination(f"{service.url}/in?a=b%20c") as http:
        assert http.send(batch_of(*payloads)) == Delivery()

    assert [request.body for request in service.requests] == payloads
    assert {request.target for request in service.requests} == {"/in?a=b%20c"}
    assert {request.method for request in service.requests} == {"POST"}
    assert {request.headers["content-type"] for request in service.requests} == {
        "application/octet-stream"
    }
    assert len({request.client_port for request in service.requests}) == 1


def test_a_batch_is_one_json_list_of_messages(service: ScriptedService) -> None:
    batch = batch_of(b"", b"\x00\xff", bytes(range(256)) * 5)
    batch = Batch('odd "name" \\', *messages_columns(batch))

    with in_batches(service.url) as http:
        assert http.send(batch) == Delivery()

    (request,) = service.requests
    assert request.headers["content-type"] == "application/json"
    assert messages_in(request) == messages_of(batch)
    assert list(request.json()[0]) == ["streamName", "sequenceNumber", "ingestTime", "payload"]


def messages_columns(batch: Batch) -> tuple[list[int], list[int], list[bytes]]:
    return list(batch.sequence_numbers), list(batch.ingest_times_ms), list(batch.payloads)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_every_2xx_is_a_delivery(service: ScriptedService, status: int) -> None:
    service.next.append(Answer(status))

    with destination(service.url) as http:
        assert http.send(batch_of(b"x")) == Delivery()


def test_a_user_in_the_uri_becomes_basic_authentication_and_is_never_shown(
    service: ScriptedService,
) -> None:
    service.next += [Answer(), Answer(403)]

    with destination(service.url.replace("://", "://me:pass%40word@")) as http:
        http.send(batch_of(b"x"))
        with pytest.raises(Blocked) as raised:
            http.send(batch_of(b"x"))

    expected = "Basic " + base64.b64encode(b"me:pass@word").decode()
    assert service.requests[0].headers["authorization"] == expected
    assert "word" not in str(raised.value)


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 409, 413, 415, 422])
def test_a_raw_message_that_is_refused_is_refused_alone(
    service: ScriptedService, status: int
) -> None:
    service.answer = lambda request: (
        Answer(status, b"not\n  this one") if request.body == b"bad" else Answer()
    )

    with destination(service.url) as http:
        delivery = http.send(batch_of(b"a", b"bad", b"c"))

    assert delivery == Delivery(refused={1: f"HTTP {status} Because: not this one"})
    assert [request.body for request in service.requests] == [b"a", b"bad", b"c"]


def refusing(poison: set[bytes]) -> Callable[[Request], Deed]:
    def answer(request: Request) -> Answer:
        found = {payload for *_, payload in messages_in(request)}
        return Answer(400, b"poison") if found & poison else Answer()

    return answer


def test_the_message_that_spoils_a_batch_is_found_and_all_others_are_delivered_in_order(
    service: ScriptedService,
) -> None:
    payloads = [b"%d" % n for n in range(500)]
    service.answer = refusing({b"317"})

    with in_batches(service.url) as http:
        delivery = http.send(batch_of(*payloads))

    assert delivery == Delivery(refused={317: "HTTP 400 Because: poison"})
    taken = [
        payload
        for request in service.requests
        for *_, payload in messages_in(request)
        if b"317" not in {payload for *_, payload in messages_in(request)}
    ]
    assert taken == [payload for payload in payloads if payload != b"317"]
    assert len(service.requests) <= 19


def test_a_receiver_that_stops_reading_a_message_that_is_too_large_is_understood(
    service: ScriptedService,
) -> None:
    service.deaf_answer = Answer(413, b"too large")

    with destination(service.url) as http:
        delivery = http.send(batch_of(b"x" * 32 * 1024 * 1024))

    assert delivery == Delivery(refused={0: "HTTP 413 Because: too large"})


@pytest.mark.parametrize("status", [401, 403, 404, 405, 407, 410])
def test_an_answer_about_the_address_blocks_the_export_and_refuses_no_message(
    service: ScriptedService, status: int
) -> None:
    service.answer = lambda _: Answer(status, b"no")

    with in_batches(f"{service.url}/in") as http, pytest.raises(Blocked) as raised:
        http.send(batch_of(b"a", b"b"))

    assert f"{service.url}/in" in str(raised.value)
    assert f"HTTP {status} Because: no" in str(raised.value)
    assert len(service.requests) == 1


def test_a_redirect_is_not_followed_but_named(service: ScriptedService) -> None:
    service.next.append(Answer(308, headers={"Location": "http://elsewhere/in"}))

    with (
        destination(service.url) as http,
        pytest.raises(Blocked, match="moved to http://elsewhere/in: change the uri"),
    ):
        http.send(batch_of(b"a"))


@pytest.mark.parametrize(
    "uri",
    ["ftp://host/", "http://", "host/path", "http://host:port/", "http://h:0/", "http://[::1/"],
)
def test_a_uri_that_cannot_work_blocks_the_export(uri: str) -> None:
    with pytest.raises(Blocked, match="uri of the export"):
        HTTPDestination(HTTPConfig("web", uri), Surroundings().context())


# --- failures that pass -------------------------------------------------------------------------


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_a_busy_receiver_is_tried_again(service: ScriptedService, status: int) -> None:
    service.next.append(Answer(status, b"later"))

    with in_batches(service.url) as http:
        with pytest.raises(Transient, match=f"HTTP {status} Because: later") as raised:
            http.send(batch_of(b"a"))
        assert raised.value.retry_after_s is None
        assert http.send(batch_of(b"a")) == Delivery()


def test_retry_after_is_passed_on(service: ScriptedService) -> None:
    at = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    service.next += [
        Answer(503, headers={"Retry-After": "17"}),
        Answer(429, headers={"Retry-After": at}),
    ]

    with destination(service.url) as http:
        with pytest.raises(Transient) as seconds:
            http.send(batch_of(b"a"))
        with pytest.raises(Transient) as date:
            http.send(batch_of(b"a"))

    assert seconds.value.retry_after_s == 17.0
    assert date.value.retry_after_s == pytest.approx(90, abs=3)


def test_raw_messages_before_a_failure_are_delivered_and_those_after_it_wait(
    service: ScriptedService,
) -> None:
    service.next += [Answer(), Answer(400, b"bad"), Answer(503, headers={"Retry-After": "5"})]

    with destination(service.url) as http:
        delivery = http.send(batch_of(b"a", b"b", b"c", b"d"))

    assert delivery.refused == {1: "HTTP 400 Because: bad"}
    assert set(delivery.retry) == {2, 3}
    assert isinstance(delivery.error, Transient)
    assert delivery.error.retry_after_s == 5.0
    assert [request.body for request in service.requests] == [b"a", b"b", b"c"]


@pytest.mark.parametrize("deed", [Hang(), Drip(pause_s=0.05)], ids=["hangs", "drips"])
def test_a_receiver_that_does_not_come_to_an_end_costs_the_timeout_and_no_more(
    service: ScriptedService, deed: Deed
) -> None:
    service.next.append(deed)
    started_s = time.monotonic()

    with destination(service.url, timeouts=SHORT) as http:
        with pytest.raises(Transient, match=r"no answer within 0\.3 s"):
            http.send(batch_of(b"a"))
        assert time.monotonic() - started_s < 3
        assert http.send(batch_of(b"a")) == Delivery()


@pytest.mark.parametrize("after_bytes", [0, 1, 5])
def test_a_receiver_that_hangs_up_before_it_says_yes_is_tried_again(
    service: ScriptedService, after_bytes: int
) -> None:
    service.next.append(Close(after_bytes))

    with destination(service.url) as http:
        with pytest.raises(Transient):
            http.send(batch_of(b"a"))
        assert http.send(batch_of(b"a")) == Delivery()


@pytest.mark.parametrize("after_bytes", [40, 200])
def test_a_receiver_that_hangs_up_after_it_said_yes_has_the_message(
    service: ScriptedService, after_bytes: int
) -> None:
    service.next.append(Close(after_bytes))

    with destination(service.url) as http:
        assert http.send(batch_of(b"a")) == Delivery()
        assert http.send(batch_of(b"b")) == Delivery()

    assert [request.body for request in service.requests] == [b"a", b"b"]


def test_a_connection_that_was_closed_while_idle_is_replaced_without_a_failure(
    service: ScriptedService,
) -> None:
    service.next += [CloseQuietly(), CloseQuietly()]

    with destination(service.url) as http:
        for payload in (b"a", b"b", b"c"):
            assert http.send(batch_of(payload)) == Delivery()

    assert [request.body for request in service.requests] == [b"a", b"b", b"c"]
    assert len({request.client_port for request in service.requests}) == 3


def test_a_receiver_that_says_too_much_is_not_listened_to(service: ScriptedService) -> None:
    service.next.append(Answer(body=b"x" * 1_000_000))

    with destination(service.url) as http:
        assert http.send(batch_of(b"a", b"b")) == Delivery()

    first, second = service.requests
    assert first.client_port != second.client_port


def test_an_address_where_nobody_listens_is_tried_again() -> None:
    with ScriptedService() as service:
        uri = service.url
    with destination(uri) as http, pytest.raises(Transient, match="refused"):
        http.send(batch_of(b"a"))


def test_a_name_that_nobody_knows_is_tried_again() -> None:
    with destination("http://nowhere.invalid/") as http, pytest.raises(Transient, match="nowhere"):
        http.send(batch_of(b"a"))


# --- check, proxies, certificates ---------------------------------------------------------------


def test_a_check_connects_and_sends_nothing(service: ScriptedService) -> None:
    with destination(service.url) as http:
        http.check()

    assert service.requests == []


def test_a_check_of_a_dead_address_fails() -> None:
    with ScriptedService() as service:
        uri = service.url
    with destination(uri) as http, pytest.raises(Transient):
        http.check()


@pytest.fixture
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return monkeypatch


def test_http_goes_through_the_proxy_of_the_environment(
    service: ScriptedService, no_proxies: pytest.MonkeyPatch
) -> None:
    no_proxies.setenv("http_proxy", service.url.replace("://", "://user:secret@"))

    with destination("http://me:mine@collector.example:81/in") as http:
        assert http.send(batch_of(b"a")) == Delivery()

    (request,) = service.requests
    assert request.target == "http://collector.example:81/in"
    assert request.headers["host"] == "collector.example:81"
    expected = "Basic " + base64.b64encode(b"user:secret").decode()
    assert request.headers["proxy-authorization"] == expected


def test_https_asks_the_proxy_for_a_tunnel(
    service: ScriptedService, no_proxies: pytest.MonkeyPatch
) -> None:
    no_proxies.setenv("https_proxy", f"127.0.0.1:{service.port}")
    service.next.append(Answer(403))

    with (
        destination("https://collector.example/in") as http,
        pytest.raises(Transient, match="403"),
    ):
        http.send(batch_of(b"a"))

    (request,) = service.requests
    assert (request.method, request.target) == ("CONNECT", "collector.example:443")


def test_no_proxy_is_honoured(service: ScriptedService, no_proxies: pytest.MonkeyPatch) -> None:
    no_proxies.setenv("http_proxy", "http://127.0.0.1:1")
    no_proxies.setenv("no_proxy", "127.0.0.1")

    with destination(service.url) as http:
        assert http.send(batch_of(b"a")) == Delivery()


def test_a_proxy_of_an_unknown_kind_blocks_the_export(no_proxies: pytest.MonkeyPatch) -> None:
    no_proxies.setenv("http_proxy", "socks5://127.0.0.1:1")

    with pytest.raises(Blocked, match="http_proxy"):
        HTTPDestination(HTTPConfig("web", "http://host/"), Surroundings().context())


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for 127.0.0.1, signed by itself, in one file with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path / "certificate.pem"
    path.write_bytes(
        signed.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return path


@pytest.fixture
def tls_service(certificate: Path) -> Iterator[ScriptedService]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with ScriptedService(tls=context) as running:
        yield running


def test_https_reaches_a_receiver_whose_authority_is_named(
    tls_service: ScriptedService,
    certificate: Path,
    no_proxies: pytest.MonkeyPatch,
) -> None:
    no_proxies.setenv("SSL_CERT_FILE", str(certificate))

    with destination(tls_service.url) as http:
        assert http.send(batch_of(b"a", b"b")) == Delivery()

    assert [request.body for request in tls_service.requests] == [b"a", b"b"]


def test_a_certificate_that_cannot_be_trusted_blocks_the_export(
    tls_service: ScriptedService, no_proxies: pytest.MonkeyPatch
) -> None:
    with (
        destination(tls_service.url) as http,
        pytest.raises(Blocked, match=r"certificate cannot be trusted.*SSL_CERT_FILE"),
    ):
        http.send(batch_of(b"a"))
