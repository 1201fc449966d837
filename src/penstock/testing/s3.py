"""S3: moto's, with a memory of every upload, part and object.

Speaks path style (`/bucket/key`), which SDKs use for addresses such as 127.0.0.1, and virtual host
style below `.localhost`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple
from urllib.parse import parse_qs, quote, unquote
from xml.sax.saxutils import escape

from penstock.testing.errors import LocalCloudError
from penstock.testing.http_server import Request, Response
from penstock.testing.kinesis import own_authorization
from penstock.testing.knobs import Call, FailRecords, Knobs
from penstock.testing.moto_bridge import MotoAccount
from penstock.testing.recorder import Item, Recorder
from penstock.testing.service import Fault, Faults, Outcome, Refusal, Service

METADATA_PREFIX = "x-amz-meta-"
VIRTUAL_HOST = re.compile(r"(?P<bucket>.+)\.localhost(:\d+)?")
UPLOAD_ID = re.compile(rb"<UploadId>([^<]+)</UploadId>")
# moto says of every upload that it was begun on the day when S3 learnt to do uploads in parts.
INITIATED = re.compile(rb"(?s)(<UploadId>([^<]+)</UploadId>.*?<Initiated>)[^<]*")
UNCONSTRAINED_REGION = "us-east-1"


class UploadState(StrEnum):
    OPEN = "open"
    COMPLETED = "completed"
    ABORTED = "aborted"


@dataclass(frozen=True)
class Part:
    """One part that was taken; a part that is sent twice is here twice."""

    number: int
    size_bytes: int
    etag: str


@dataclass
class Upload:
    """One multipart upload, from its creation on."""

    bucket: str
    key: str
    upload_id: str
    state: UploadState = UploadState.OPEN
    parts: list[Part] = field(default_factory=list)
    created_s: float = field(default_factory=time.time)  # since 1970


@dataclass(frozen=True)
class Stored(Item):
    """An object that became visible, by one request or by the completion of an upload."""

    bucket: str
    key: str
    upload_id: str | None


@dataclass(frozen=True)
class S3Object:
    """An object as a reader gets it."""

    body: bytes
    etag: str
    content_type: str
    # Names without their prefix, in lower case.
    metadata: dict[str, str]


class Place(NamedTuple):
    """Where a request goes."""

    bucket: str
    key: str
    query: dict[str, list[str]]


class S3(Service):
    """Buckets, the objects in them, and how they came there."""

    name = "s3"
    faults = Faults(
        throttle=Fault(503, "SlowDown", "Please reduce your request rate."),
        fail=Fault(500, "InternalError", "We encountered an internal error. Please try again."),
        expire=Fault(400, "ExpiredToken", "The provided token has expired."),
        deny=Fault(403, "AccessDenied", "Access Denied"),
        missing=Fault(404, "NoSuchBucket", "The specified bucket does not exist"),
        refuse=Fault(400, "InvalidRequest", "The request contains data it must not"),
        unsigned=Fault(403, "AccessDenied", "Access Denied"),
        malformed_signature=Fault(
            400, "AuthorizationHeaderMalformed", "The Authorization header is not complete"
        ),
        wrong_signature=Fault(
            403, "SignatureDoesNotMatch", "The signature does not match this request"
        ),
        wrong_digest=Fault(
            400, "XAmzContentSHA256Mismatch", "The body does not match its signed digest"
        ),
    )

    def __init__(self, knobs: Knobs, recorder: Recorder, moto: MotoAccount, region: str) -> None:
        super().__init__(knobs, recorder)
        self._moto = moto
        self._region = region
        self._uploads: dict[str, Upload] = {}

    def create_bucket(self, name: str) -> None:
        """Make a bucket in the cloud's region."""
        place = f"<LocationConstraint>{self._region}</LocationConstraint>"
        body = b""
        if self._region != UNCONSTRAINED_REGION:
            body = f"<CreateBucketConfiguration>{place}</CreateBucketConfiguration>".encode()
        answer = self._create_bucket(name, self._own_request("PUT", name, "", body))
        if answer.status != 200:
            raise LocalCloudError(f"No bucket {name}: {error_text(answer)}")

    def object(self, bucket: str, key: str) -> S3Object:
        """An object with its content. KeyError when there is none."""
        answer = self._moto.call(self.name, self._own_request("GET", bucket, key))
        if answer.status != 200:
            raise KeyError(f"{bucket}/{key}: {answer.status}")
        metadata = {
            name.removeprefix(METADATA_PREFIX): value
            for name, value in answer.headers.items()
            if name.startswith(METADATA_PREFIX)
        }
        content_type = answer.headers.get("content-type", "")
        return S3Object(answer.body, answer.headers["etag"].strip('"'), content_type, metadata)

    def stored(self, bucket: str) -> list[Stored]:
        """The objects that were stored, in order; one that was replaced is here twice."""
        return self._recorder.items(self.name, bucket, Stored)

    def keys(self, bucket: str) -> list[str]:
        """The keys of `stored`."""
        return [stored.key for stored in self.stored(bucket)]

    def uploads(self, bucket: str) -> list[Upload]:
        """All multipart uploads of a bucket, in the order of their creation."""
        with self._moto.lock:
            return [upload for upload in self._uploads.values() if upload.bucket == bucket]

    def wait_for_objects(self, bucket: str, count: int, timeout_s: float = 30.0) -> None:
        self.wait_for_count(bucket, count, timeout_s)

    def read(self, request: Request, access_key: str) -> Call:
        place = place_of(request)

        def contents() -> list[bytes]:
            return [request.body]

        return Call(
            self.name,
            operation_of(request, place),
            place.bucket or None,
            access_key,
            contents,
            request,
            place,
        )

    def answer(self, call: Call, failing: Mapping[int, FailRecords]) -> Outcome:
        if failing:
            # An S3 request has one content; to fail it is to fail the request.
            knob = failing[0]
            fault = self.faults.fail
            raise Refusal(
                Fault(fault.status, knob.code or fault.code, knob.message or fault.message)
            )
        place: Place = call.parsed
        if call.operation == "CreateBucket":
            return Outcome(self._create_bucket(place.bucket, call.request))
        with self._moto.lock:
            self._check_upload(place)
            answer = self._moto.call(self.name, call.request)
            if answer.status < 300 and call.operation == "ListMultipartUploads":
                answer = self._with_true_times(answer)
            if answer.status >= 300 or call.operation not in REMEMBERED:
                return Outcome(answer)
            REMEMBERED[call.operation](self, call.request, place, answer)
            if self._recorder.bytes_max is not None:
                self._moto.drop_objects(self._recorder.bytes_max)
        return Outcome(answer, int(call.operation in TAKING))

    def error(self, fault: Fault) -> Response:
        body = (
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            f"<Error><Code>{escape(fault.code)}</Code><Message>{escape(fault.message)}</Message>"
            "<RequestId>LOCALCLOUD</RequestId></Error>"
        )
        return Response(fault.status, body.encode(), {"content-type": "application/xml"})

    def forget(self) -> None:
        """Uploads that are still open stay, as the buckets do."""
        with self._moto.lock:
            self._uploads = {
                upload_id: upload
                for upload_id, upload in self._uploads.items()
                if upload.state is UploadState.OPEN
            }

    def _check_upload(self, place: Place) -> None:
        """moto fails where S3 says that there is no such upload."""
        for upload_id in place.query.get("uploadId", ()):
            if not self._moto.has_upload(place.bucket, upload_id):
                text = "The specified multipart upload does not exist."
                raise Refusal(Fault(404, "NoSuchUpload", text))

    def _with_true_times(self, answer: Response) -> Response:
        """A list of open uploads that says when each was begun."""

        def corrected(found: re.Match[bytes]) -> bytes:
            begun_s = self._uploads[found[2].decode()].created_s
            text = datetime.fromtimestamp(begun_s, UTC).isoformat(timespec="milliseconds")
            return found[1] + text.replace("+00:00", "Z").encode()

        return replace(answer, body=INITIATED.sub(corrected, answer.body))

    def _create_bucket(self, name: str, request: Request) -> Response:
        with self._moto.own_bucket_names(name):
            return self._moto.call(self.name, request)

    def _own_request(self, method: str, bucket: str, key: str, body: bytes = b"") -> Request:
        headers = {
            "host": "127.0.0.1",
            "authorization": own_authorization(self.name, self._region),
        }
        path = f"/{bucket}/{quote(key)}" if key else f"/{bucket}"
        return Request(method, path, "", headers, body)

    def _put_object(self, request: Request, place: Place, answer: Response) -> None:
        self._store(place, content_size(request), None)

    def _create_upload(self, request: Request, place: Place, answer: Response) -> None:
        found = UPLOAD_ID.search(answer.body)
        assert found is not None, "moto names the upload that it has created"
        upload_id = found[1].decode()
        self._uploads[upload_id] = Upload(place.bucket, place.key, upload_id)

    def _upload_part(self, request: Request, place: Place, answer: Response) -> None:
        upload = self._uploads[place.query["uploadId"][0]]
        number = int(place.query["partNumber"][0])
        etag = answer.headers.get("etag", "").strip('"')
        upload.parts.append(Part(number, content_size(request), etag))

    def _complete_upload(self, request: Request, place: Place, answer: Response) -> None:
        upload_id = place.query["uploadId"][0]
        upload = self._uploads[upload_id]
        upload.state = UploadState.COMPLETED
        size_bytes = sum({part.number: part.size_bytes for part in upload.parts}.values())
        self._store(place, size_bytes, upload_id)

    def _abort_upload(self, request: Request, place: Place, answer: Response) -> None:
        self._uploads[place.query["uploadId"][0]].state = UploadState.ABORTED

    def _store(self, place: Place, size_bytes: int, upload_id: str | None) -> None:
        def make(order: int) -> Stored:
            return Stored(order, size_bytes, place.bucket, place.key, upload_id)

        self._recorder.take(self.name, place.bucket, [make])


REMEMBERED: dict[str, Callable[[S3, Request, Place, Response], None]] = {
    "PutObject": S3._put_object,
    "CreateMultipartUpload": S3._create_upload,
    "UploadPart": S3._upload_part,
    "CompleteMultipartUpload": S3._complete_upload,
    "AbortMultipartUpload": S3._abort_upload,
}
# Operations that bring content.
TAKING = ("PutObject", "UploadPart", "CompleteMultipartUpload")
# By method and a parameter of the query; the first that fits. Without a parameter: the bucket or
# the object itself, and none of its properties.
OBJECT_OPERATIONS = (
    ("PUT", "partNumber", "UploadPart"),
    ("PUT", "", "PutObject"),
    ("POST", "uploads", "CreateMultipartUpload"),
    ("POST", "uploadId", "CompleteMultipartUpload"),
    ("DELETE", "uploadId", "AbortMultipartUpload"),
    ("DELETE", "", "DeleteObject"),
    ("GET", "uploadId", "ListParts"),
    ("GET", "", "GetObject"),
    ("HEAD", "", "HeadObject"),
)
BUCKET_OPERATIONS = (
    ("PUT", "", "CreateBucket"),
    ("GET", "uploads", "ListMultipartUploads"),
    ("GET", "", "ListObjects"),
    ("HEAD", "", "HeadBucket"),
    ("DELETE", "", "DeleteBucket"),
)
# fmt: off
PROPERTIES = frozenset((
    "accelerate", "acl", "analytics", "attributes", "cors", "delete", "encryption",
    "intelligent-tiering", "inventory", "legal-hold", "lifecycle", "location", "logging",
    "metrics", "notification", "object-lock", "ownershipControls", "policy", "policyStatus",
    "publicAccessBlock", "replication", "requestPayment", "restore", "retention", "select",
    "tagging", "torrent", "uploads", "uploadId", "versioning", "versions", "website",
))
# fmt: on


def place_of(request: Request) -> Place:
    """Bucket, key and query of a request."""
    path = unquote(request.path).removeprefix("/")
    query = parse_qs(request.query, keep_blank_values=True)
    virtual = VIRTUAL_HOST.fullmatch(request.headers.get("host", ""))
    if virtual is not None:
        return Place(virtual["bucket"], path, query)
    bucket, _, key = path.partition("/")
    return Place(bucket, key, query)


def operation_of(request: Request, place: Place) -> str:
    """The operation by its name in AWS's documentation; just the method for the rarer ones."""
    if "x-amz-copy-source" in request.headers:
        return "CopyObject"
    operations = OBJECT_OPERATIONS if place.key else BUCKET_OPERATIONS
    is_property = not PROPERTIES.isdisjoint(place.query)
    for method, parameter, operation in operations if place.bucket else ():
        fits = parameter in place.query if parameter else not is_property
        if request.method == method and fits:
            return operation
    return request.method


def error_text(answer: Response) -> str:
    """Code and message of an error."""
    return ": ".join(re.findall("<(?:Code|Message)>([^<]*)<", answer.body.decode()))


def content_size(request: Request) -> int:
    """The size of the content; a body in chunks says it apart."""
    return int(request.headers.get("x-amz-decoded-content-length", len(request.body)))
