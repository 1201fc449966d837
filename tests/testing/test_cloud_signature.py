"""Signatures, compared with those that botocore makes."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlsplit

import pytest
from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from cloud_clients import Clients, refused, send, send_signed

from penstock.testing import LocalCloud
from penstock.testing.http_server import Request
from penstock.testing.signature import body_is_as_signed, is_right, signature_of

SECRET = "secret/+="


def signed(service: str, url: str, body: bytes = b"", method: str = "POST") -> Request:
    """A request as botocore signs it."""
    made = AWSRequest(method, url, {"X-Custom": " a   b "}, body)
    kind = S3SigV4Auth if service == "s3" else SigV4Auth
    kind(Credentials("key", SECRET, "token"), service, "eu-central-1").add_auth(made)
    parts = urlsplit(url)
    headers = {name.lower(): value.strip() for name, value in made.headers.items()}
    headers.setdefault("host", parts.netloc)
    return Request(method, parts.path, parts.query, headers, body)


REQUESTS = [
    signed("kinesis", "http://127.0.0.1:4566/", b"{}"),
    signed("iotsitewise", "http://localhost/properties", b"\x00"),
    signed("iotanalytics", "http://h/messages/batch", b""),
    signed("s3", "http://h/bucket/a%20b/%C3%BC%252F", b"content", "PUT"),
    signed("s3", "http://h/bucket/k?uploadId=x%2Fy&partNumber=2", b"content", "PUT"),
    signed("s3", "http://h/bucket/k?uploads", b"", "POST"),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda made: made.path + "?" + made.query)
def test_botocores_signature_is_right_and_every_change_makes_it_wrong(request_: Request) -> None:
    signature = signature_of(request_)
    assert signature is not None
    assert (signature.access_key, signature.region) == ("key", "eu-central-1")
    assert is_right(signature, request_, SECRET)
    assert body_is_as_signed(request_)

    assert not is_right(signature, request_, "another secret")
    headers = request_.headers
    for changed in (
        replace(request_, method="DELETE"),
        replace(request_, path=request_.path + "x"),
        replace(request_, query=request_.query + "&x=1"),
        replace(request_, headers={**headers, "host": "elsewhere"}),
        replace(request_, headers={**headers, "x-custom": "c"}),
        replace(request_, headers={**headers, "x-amz-date": "20000101T000000Z"}),
    ):
        assert not is_right(signature, changed, SECRET)
    changed = replace(request_, body=request_.body + b"x")
    assert not (is_right(signature, changed, SECRET) and body_is_as_signed(changed))


@pytest.mark.parametrize(
    "authorization",
    [
        "Bearer token",
        "AWS4-HMAC-SHA256 Credential=key/20260101/r/s3/aws4_request, SignedHeaders=host",
        "AWS4-HMAC-SHA256 Credential=key/r/s3/aws4_request, SignedHeaders=host, Signature="
        + "0" * 64,
    ],
)
def test_a_header_that_is_not_complete_is_no_signature(authorization: str) -> None:
    headers = {"authorization": authorization, "x-amz-date": "20260101T000000Z"}
    assert signature_of(Request("GET", "/", "", headers, b"")) is None


def test_a_wrong_secret_is_refused_in_each_services_way(cloud: LocalCloud) -> None:
    wrong = ("LOCALCLOUD", "wrong")
    kinesis = send_signed(cloud, "kinesis", body=b"{}", keys=wrong)
    assert (kinesis.status, kinesis.json["__type"]) == (400, "InvalidSignatureException")
    for service, path in (("iotsitewise", "/properties"), ("iotanalytics", "/messages/batch")):
        answer = send_signed(cloud, service, path, keys=wrong)
        assert answer.status == 403
        assert answer.headers["x-amzn-errortype"] == "InvalidSignatureException"
    s3 = send_signed(cloud, "s3", "/bucket/key", b"x", "PUT", keys=wrong)
    assert s3.status == 403
    assert b"<Code>SignatureDoesNotMatch</Code>" in s3.body


def test_a_body_that_was_changed_on_the_way_is_refused(cloud: LocalCloud, clients: Clients) -> None:
    cloud.s3.create_bucket("bucket")
    clients.s3.meta.events.register(
        "before-send.s3.PutObject", lambda request, **_: setattr(request, "body", b"changed")
    )
    with refused("XAmzContentSHA256Mismatch", 400):
        clients.s3.put_object(Bucket="bucket", Key="k", Body=b"orignal")


def test_keys_that_the_cloud_does_not_know_are_taken_unchecked(cloud: LocalCloud) -> None:
    cloud.s3.create_bucket("bucket")
    answer = send_signed(cloud, "s3", "/bucket/key", b"x", "PUT", keys=("test", "test"))
    assert answer.status == 200


def test_a_signature_that_is_not_complete_is_refused_in_each_services_way(
    cloud: LocalCloud,
) -> None:
    broken = {"Authorization": "AWS4-HMAC-SHA256 nonsense"}
    for path in ("/properties", "/messages/batch"):
        answer = send(f"{cloud.endpoint}{path}", headers=broken)
        assert answer.headers["x-amzn-errortype"] == "IncompleteSignatureException"
    kinesis = send(cloud.endpoint, headers=broken | {"X-Amz-Target": "Kinesis_20131202.PutRecords"})
    assert kinesis.json["__type"] == "IncompleteSignatureException"
    assert b"AuthorizationHeaderMalformed" in send(f"{cloud.endpoint}/bucket", headers=broken).body
