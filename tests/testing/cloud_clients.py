"""AWS's clients and plain HTTP for tests of the local cloud."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from penstock.testing import LocalCloud
from penstock.testing.local_cloud import ACCESS_KEY, SECRET_KEY

# A client that hangs ends its test by this.
READ_TIMEOUT_S = 10
NO_HEADERS: Mapping[str, str] = {}


class Clients:
    """botocore clients that try once and never wait for ever; closed at the end of the block."""

    def __init__(self, cloud: LocalCloud) -> None:
        self._cloud = cloud
        self._made: dict[str, Any] = {}

    @property
    def kinesis(self) -> Any:
        return self["kinesis"]

    @property
    def s3(self) -> Any:
        return self["s3"]

    @property
    def sitewise(self) -> Any:
        return self["iotsitewise"]

    @property
    def iot_analytics(self) -> Any:
        return self["iotanalytics"]

    def __getitem__(self, service: str) -> Any:
        if service not in self._made:
            self._made[service] = self._cloud.client(
                service, retries={"total_max_attempts": 1}, read_timeout=READ_TIMEOUT_S
            )
        return self._made[service]

    def __enter__(self) -> Clients:
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._made.values():
            client.close()


class Answer(NamedTuple):
    """What came back over plain HTTP."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def send(
    url: str,
    body: bytes | None = b"",
    method: str = "POST",
    headers: Mapping[str, str] = NO_HEADERS,
) -> Answer:
    """One request on a connection of its own."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=READ_TIMEOUT_S)
    try:
        path = f"{parts.path}?{parts.query}" if parts.query else parts.path
        connection.request(method, path, body, dict(headers))
        answer = connection.getresponse()
        names = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, names, answer.read())
    finally:
        connection.close()


def send_signed(
    cloud: LocalCloud,
    service: str,
    path: str = "/",
    body: bytes = b"",
    method: str = "POST",
    keys: tuple[str, str] = (ACCESS_KEY, SECRET_KEY),
    headers: Mapping[str, str] = NO_HEADERS,
) -> Answer:
    """One request with any content, signed by botocore."""
    url = f"{cloud.endpoint}{path}"
    request = AWSRequest(method, url, dict(headers), body)
    SigV4Auth(Credentials(*keys), service, cloud.region).add_auth(request)
    return send(url, body, method, dict(request.headers.items()))


def control(cloud: LocalCloud, method: str, path: str, body: Any = None) -> Answer:
    """One request to the control interface."""
    encoded = b"" if body is None else json.dumps(body).encode()
    return send(f"{cloud.endpoint}/_local-cloud{path}", encoded, method)


@contextmanager
def refused(code: str, status: int) -> Iterator[pytest.ExceptionInfo[ClientError]]:
    """The block must end with an error of this code and HTTP status, as botocore reads it."""
    with pytest.raises(ClientError) as caught:
        yield caught
    response = caught.value.response
    assert response["Error"]["Code"] == code
    assert response["ResponseMetadata"]["HTTPStatusCode"] == status


def records(*data: bytes) -> list[dict[str, Any]]:
    """Entries for PutRecords."""
    return [{"Data": content, "PartitionKey": "key"} for content in data]


def property_value(time_s: float | None = None, value: Any = None, **more: Any) -> dict[str, Any]:
    """A value as SiteWise takes it, of this second unless another time is given."""
    seconds = int(time.time() if time_s is None else time_s)
    return {
        "value": {"doubleValue": 1.5} if value is None else value,
        "timestamp": {"timeInSeconds": seconds},
        **more,
    }


def entry(
    entry_id: str, *values: dict[str, Any], alias: str | None = None, **more: Any
) -> dict[str, Any]:
    """An entry for BatchPutAssetPropertyValue, about a property of its own by default."""
    return {
        "entryId": entry_id,
        "propertyAlias": alias or f"/plant/{entry_id}",
        "propertyValues": list(values) or [property_value()],
        **more,
    }


def messages(*payloads: bytes) -> list[dict[str, Any]]:
    """Messages for BatchPutMessage."""
    return [
        {"messageId": f"id-{index}", "payload": payload} for index, payload in enumerate(payloads)
    ]
