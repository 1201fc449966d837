"""The local cloud's S3 behind a door that sees every request and can refuse it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from http.client import HTTPConnection
from urllib.parse import parse_qs, urlsplit

from scripted_service import Answer, Deed, Request

FORWARDED_HEADERS = ("etag", "content-type", "x-amz-request-id", "x-amz-checksum-crc32")


class S3Front:
    """The `answer` of a ScriptedService. `fault` is asked before a request goes on to the cloud."""

    def __init__(self, cloud_url: str) -> None:
        self._cloud = urlsplit(cloud_url)
        self.fault: Callable[[str], Deed | None] = lambda _: None
        self.operations: list[str] = []
        # Those that the cloud has done, in that order.
        self.done: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._lock = threading.Lock()

    def answer(self, request: Request) -> Deed:
        operation = operation_of(request)
        with self._lock:
            self.operations.append(operation)
        if deed := self.fault(operation):
            return deed
        answer = self._forwarded(request)
        self.done.put(operation)
        return answer

    def _forwarded(self, request: Request) -> Answer:
        connection = HTTPConnection(self._cloud.hostname or "", self._cloud.port or 80, timeout=30)
        hidden = ("expect", "connection", "content-length")
        asked = {name: text for name, text in request.headers.items() if name not in hidden}
        connection.request(request.method, request.target, request.body, asked)
        response = connection.getresponse()
        body = response.read()
        connection.close()
        kept = {
            name: value
            for name, value in response.getheaders()
            if name.lower() in FORWARDED_HEADERS
        }
        return Answer(response.status, body, kept)


def operation_of(request: Request) -> str:
    """As S3's manual names it: 'UploadPart 3', 'PutObject'."""
    query = parse_qs(urlsplit(request.target).query, keep_blank_values=True)
    if "partNumber" in query:
        return f"UploadPart {query['partNumber'][0]}"
    in_upload = "uploadId" in query
    return {
        ("POST", True): "CompleteMultipartUpload",
        ("DELETE", True): "AbortMultipartUpload",
        ("GET", True): "ListParts",
        ("POST", False): "CreateMultipartUpload",
        ("GET", False): "ListMultipartUploads",
        ("PUT", False): "PutObject",
    }[request.method, in_upload]


def s3_error(code: str, status: int) -> Answer:
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>Because.</Message></Error>"
    return Answer(status, body.encode(), {"Content-Type": "application/xml"})
