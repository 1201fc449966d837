"""Kinesis: moto's, with records that can be failed one by one, and a memory of what came.

Checked before moto sees it: the limits in botocore's service model (500 records, keys of at most
256 characters, base64). moto itself refuses records above 1 MiB, as streams do that were not set up
for more, and requests above 5 MiB, where the service would take 10.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from penstock.testing.errors import LocalCloudError, load
from penstock.testing.http_server import Request, Response
from penstock.testing.knobs import Call, FailRecords, Knobs
from penstock.testing.moto_bridge import MotoAccount
from penstock.testing.recorder import Item, Recorder
from penstock.testing.service import (
    Fault,
    Faults,
    Outcome,
    Refusal,
    Service,
    json_answer,
    json_body,
    json_error,
)
from penstock.testing.shapes import violations
from penstock.testing.signature import signature_of

CONTENT_TYPE = "application/x-amz-json-1.1"
TARGET_PREFIX = "Kinesis_20131202."


@dataclass(frozen=True)
class KinesisRecord(Item):
    """A record that was taken."""

    stream: str
    shard_id: str
    sequence_number: str
    partition_key: str
    data: bytes


class Kinesis(Service):
    """Streams and the records in them."""

    name = "kinesis"
    faults = Faults(
        throttle=Fault(
            400, "ProvisionedThroughputExceededException", "Rate exceeded for shard of the stream"
        ),
        fail=Fault(500, "InternalFailure", "Internal service failure"),
        expire=Fault(
            400, "ExpiredTokenException", "The security token included in the request is expired"
        ),
        deny=Fault(400, "AccessDeniedException", "The caller may not put records"),
        missing=Fault(400, "ResourceNotFoundException", "The stream is not found"),
        refuse=Fault(400, "InvalidArgumentException", "The request contains a record it must not"),
        unsigned=Fault(400, "MissingAuthenticationTokenException", "Missing Authentication Token"),
        malformed_signature=Fault(
            400, "IncompleteSignatureException", "The Authorization header is not complete"
        ),
        wrong_signature=Fault(
            400, "InvalidSignatureException", "The signature does not match this request"
        ),
        wrong_digest=Fault(
            400, "InvalidSignatureException", "The body does not match its signed digest"
        ),
    )

    def __init__(self, knobs: Knobs, recorder: Recorder, moto: MotoAccount, region: str) -> None:
        super().__init__(knobs, recorder)
        self._moto = moto
        self._region = region

    def create_stream(self, name: str, shard_count: int = 1) -> None:
        """Make a stream in the cloud's region."""
        body = {"StreamName": name, "ShardCount": shard_count}
        answer = self._moto.call(self.name, own_request("CreateStream", body, self._region))
        if answer.status != 200:
            raise LocalCloudError(f"No stream {name}: {json.loads(answer.body)['message']}")

    def records(self, stream: str, shard_id: str | None = None) -> list[KinesisRecord]:
        """The records that a stream took, in order of arrival: of one shard, or of all."""
        taken = self._recorder.items(self.name, stream, KinesisRecord)
        return [record for record in taken if shard_id in (None, record.shard_id)]

    def wait_for_records(self, stream: str, count: int, timeout_s: float = 30.0) -> None:
        self.wait_for_count(stream, count, timeout_s)

    def read(self, request: Request, access_key: str) -> Call:
        content_type = request.headers.get("content-type", "")
        if content_type != CONTENT_TYPE:
            raise serialization_error(f"the local cloud speaks {CONTENT_TYPE}, not {content_type}")
        operation = request.headers.get("x-amz-target", "").removeprefix(TARGET_PREFIX)
        body = json_body(request, serialization_error)
        if operation in ("PutRecords", "PutRecord"):
            for text in put_violations(operation, body):
                raise validation_error(text)

        def contents() -> list[bytes]:
            return [_data(record) for record in records_of(operation, body)]

        return Call(self.name, operation, stream_of(body), access_key, contents, request, body)

    def answer(self, call: Call, failing: Mapping[int, FailRecords]) -> Outcome:
        if call.operation == "PutRecords":
            return self._put_records(call, failing)
        if call.operation == "PutRecord":
            return self._put_record(call, failing)
        return Outcome(self._moto.call(self.name, call.request))

    def error(self, fault: Fault) -> Response:
        return json_error(fault)

    def _put_records(self, call: Call, failing: Mapping[int, FailRecords]) -> Outcome:
        """Let moto take the records that no knob fails, and put its answers between the others."""
        records: list[dict[str, Any]] = call.parsed["Records"]
        wanted = [record for index, record in enumerate(records) if index not in failing]
        with self._moto.lock:
            answer = self._forward(call, {**call.parsed, "Records": wanted})
            if answer.status != 200:
                return Outcome(answer)
            taken = json.loads(answer.body)["Records"]
            self._record(call, zip(wanted, taken, strict=True))
        results = iter(taken)
        answered = [
            _failed_record(failing[index]) if index in failing else next(results)
            for index in range(len(records))
        ]
        body = {"FailedRecordCount": len(failing), "Records": answered}
        return Outcome(json_answer(body, CONTENT_TYPE), len(taken), len(failing))

    def _put_record(self, call: Call, failing: Mapping[int, FailRecords]) -> Outcome:
        if failing:
            code, text = _error_of(failing[0])
            status = self.faults.fail.status if code == self.faults.fail.code else 400
            return Outcome(self.error(Fault(status, code, text)), 0, 1)
        with self._moto.lock:
            answer = self._moto.call(self.name, call.request)
            if answer.status != 200:
                return Outcome(answer)
            self._record(call, [(call.parsed, json.loads(answer.body))])
        return Outcome(answer, 1)

    def _forward(self, call: Call, body: dict[str, Any]) -> Response:
        request = replace(call.request, body=json.dumps(body).encode())
        return self._moto.call(self.name, request)

    def _record(self, call: Call, pairs: Iterable[tuple[dict[str, Any], dict[str, Any]]]) -> None:
        stream = call.target
        assert stream is not None
        makers = [_item_maker(stream, record, result) for record, result in pairs]
        self._recorder.take(self.name, stream, makers)
        if self._recorder.bytes_max is not None:
            signature = signature_of(call.request)
            self._moto.keep_last_records(signature.region if signature else self._region, stream)


def own_request(operation: str, body: dict[str, Any], region: str) -> Request:
    """A request of the local cloud to itself; moto reads only the region of its signature."""
    headers = {
        "host": "127.0.0.1",
        "content-type": CONTENT_TYPE,
        "x-amz-target": TARGET_PREFIX + operation,
        "authorization": own_authorization("kinesis", region),
    }
    return Request("POST", "/", "", headers, json.dumps(body).encode())


def own_authorization(service: str, region: str) -> str:
    return f"AWS4-HMAC-SHA256 Credential=local/20000101/{region}/{service}/aws4_request"


def stream_of(body: dict[str, Any]) -> str | None:
    """The name of the stream that a request is about, if it is about one."""
    name = body.get("StreamName") or str(body.get("StreamARN", "")).rpartition("/")[2]
    return str(name) if name else None


def records_of(operation: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    match operation:
        case "PutRecords":
            records: list[dict[str, Any]] = body["Records"]
            return records
        case "PutRecord":
            return [body]
        case _:
            return []


def put_violations(operation: str, body: dict[str, Any]) -> Iterable[str]:
    """What the model forbids, and what it only says in words: a record needs a key."""
    yield from violations(body, _input_shape(operation))
    if stream_of(body) is None:
        yield "either StreamName or StreamARN is required"
    for index, record in enumerate(records_of(operation, body)):
        if "PartitionKey" not in record:
            yield f"records[{index}].partitionKey is required"


def serialization_error(text: str) -> Refusal:
    return Refusal(Fault(400, "SerializationException", text))


def validation_error(text: str) -> Refusal:
    return Refusal(Fault(400, "ValidationException", f"1 validation error detected: {text}"))


def _failed_record(knob: FailRecords) -> dict[str, str]:
    code, text = _error_of(knob)
    return {"ErrorCode": code, "ErrorMessage": text}


def _error_of(knob: FailRecords) -> tuple[str, str]:
    return knob.code or "InternalFailure", knob.message or "Internal Service Failure"


def _item_maker(
    stream: str, record: dict[str, Any], result: dict[str, Any]
) -> Callable[[int], KinesisRecord]:
    data = _data(record)

    def make(order: int) -> KinesisRecord:
        return KinesisRecord(
            order,
            len(data),
            stream,
            result["ShardId"],
            result["SequenceNumber"],
            record["PartitionKey"],
            data,
        )

    return make


def _data(record: dict[str, Any]) -> bytes:
    return base64.b64decode(record["Data"])


@cache
def _input_shape(operation: str) -> Any:
    loader = load("botocore.loaders").create_loader()
    model = loader.load_service_model("kinesis", "service-2")
    return load("botocore.model").ServiceModel(model).operation_model(operation).input_shape
