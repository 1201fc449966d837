"""A strict stand-in for AWS IoT Analytics: BatchPutMessage and nothing else.

Refuses the request     a channel that does not exist (ResourceNotFoundException); no message or
                        more than 100, ids that are too long, not ASCII or not unique, payloads that
                        are not base64 (InvalidRequestException).
Refuses a message       one of more than 128 KiB, in batchPutMessageErrorEntries.

The service ended in December 2025 and is in no current botocore. SERVICE_MODEL is what remains: the
facts of its interface, in botocore's form, so that a botocore client can be made of it.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from penstock.testing.errors import load
from penstock.testing.http_server import Request, Response
from penstock.testing.knobs import Call, FailRecords, Knobs
from penstock.testing.recorder import Item, Recorder
from penstock.testing.service import (
    Fault,
    Faults,
    Outcome,
    Refusal,
    Service,
    json_answer,
    json_body,
    rest_json_error,
)
from penstock.testing.shapes import violations

OPERATION = "BatchPutMessage"
MESSAGES_MAX = 100
MESSAGE_BYTES_MAX = 128 * 1024
ERROR_STATUSES = {
    "ResourceNotFoundException": 404,
    "InvalidRequestException": 400,
    "InternalFailureException": 500,
    "ServiceUnavailableException": 503,
    "ThrottlingException": 429,
}
SERVICE_MODEL: dict[str, Any] = {
    "version": "2.0",
    "metadata": {
        "apiVersion": "2017-11-27",
        "endpointPrefix": "iotanalytics",
        "protocol": "rest-json",
        "serviceFullName": "AWS IoT Analytics",
        "serviceId": "IoTAnalytics",
        "signatureVersion": "v4",
        "signingName": "iotanalytics",
        "uid": "iotanalytics-2017-11-27",
    },
    "operations": {
        OPERATION: {
            "name": OPERATION,
            "http": {"method": "POST", "requestUri": "/messages/batch", "responseCode": 200},
            "input": {"shape": "BatchPutMessageRequest"},
            "output": {"shape": "BatchPutMessageResponse"},
            "errors": [{"shape": name} for name in ERROR_STATUSES],
        }
    },
    "shapes": {
        "BatchPutMessageRequest": {
            "type": "structure",
            "required": ["channelName", "messages"],
            "members": {
                "channelName": {"shape": "ChannelName"},
                "messages": {"shape": "Messages"},
            },
        },
        "ChannelName": {
            "type": "string",
            "min": 1,
            "max": 128,
            "pattern": "(?!__)[a-zA-Z0-9_]+",
        },
        "Messages": {"type": "list", "member": {"shape": "Message"}},
        "Message": {
            "type": "structure",
            "required": ["messageId", "payload"],
            "members": {
                "messageId": {"shape": "MessageId"},
                "payload": {"shape": "MessagePayload"},
            },
        },
        # The service's own pattern says \p{ASCII}, which Python's expressions do not know.
        "MessageId": {"type": "string", "min": 1, "max": 128, "pattern": "[\\x00-\\x7f]*"},
        "MessagePayload": {"type": "blob"},
        "BatchPutMessageResponse": {
            "type": "structure",
            "members": {"batchPutMessageErrorEntries": {"shape": "BatchPutMessageErrorEntries"}},
        },
        "BatchPutMessageErrorEntries": {
            "type": "list",
            "member": {"shape": "BatchPutMessageErrorEntry"},
        },
        "BatchPutMessageErrorEntry": {
            "type": "structure",
            "members": {
                "messageId": {"shape": "MessageId"},
                "errorCode": {"shape": "Text"},
                "errorMessage": {"shape": "Text"},
            },
        },
        "Text": {"type": "string"},
        **{
            name: {
                "type": "structure",
                "members": {"message": {"shape": "Text"}},
                "error": {"httpStatusCode": status},
                "exception": True,
            }
            for name, status in ERROR_STATUSES.items()
        },
    },
}


@dataclass(frozen=True)
class AnalyticsMessage(Item):
    """A message that was taken."""

    channel: str
    message_id: str
    payload: bytes


class IoTAnalytics(Service):
    """Channels and the messages in them."""

    name = "iotanalytics"
    faults = Faults(
        throttle=Fault(429, "ThrottlingException", "Rate exceeded"),
        fail=Fault(500, "InternalFailureException", "There was an internal failure"),
        expire=Fault(
            403, "ExpiredTokenException", "The security token included in the request is expired"
        ),
        deny=Fault(403, "AccessDeniedException", "The caller may not put messages"),
        missing=Fault(404, "ResourceNotFoundException", "The channel does not exist"),
        refuse=Fault(400, "InvalidRequestException", "The request contains a message it must not"),
        unsigned=Fault(403, "MissingAuthenticationTokenException", "Missing Authentication Token"),
        malformed_signature=Fault(
            403, "IncompleteSignatureException", "The Authorization header is not complete"
        ),
        wrong_signature=Fault(
            403, "InvalidSignatureException", "The signature does not match this request"
        ),
        wrong_digest=Fault(
            403, "InvalidSignatureException", "The body does not match its signed digest"
        ),
    )

    def __init__(self, knobs: Knobs, recorder: Recorder) -> None:
        super().__init__(knobs, recorder)
        self._channels: set[str] = set()

    def create_channel(self, name: str) -> None:
        self._channels.add(name)

    def messages(self, channel: str) -> list[AnalyticsMessage]:
        """The messages that a channel took, in order of arrival."""
        return self._recorder.items(self.name, channel, AnalyticsMessage)

    def wait_for_messages(self, channel: str, count: int, timeout_s: float = 30.0) -> None:
        self.wait_for_count(channel, count, timeout_s)

    def read(self, request: Request, access_key: str) -> Call:
        if (request.method, request.path) != ("POST", "/messages/batch"):
            raise invalid(f"{request.method} {request.path} is not served by the local cloud")
        body = json_body(request, invalid)
        for text in violations(body, _input_shape()):
            raise invalid(text)

        def contents() -> list[bytes]:
            return [_payload(message) for message in body["messages"]]

        channel = body["channelName"]
        return Call(self.name, OPERATION, channel, access_key, contents, request, body["messages"])

    def answer(self, call: Call, failing: Mapping[int, FailRecords]) -> Outcome:
        channel, messages = call.target, call.parsed
        assert channel is not None
        if channel not in self._channels:
            text = f"there is no channel {channel}"
            raise Refusal(Fault(404, "ResourceNotFoundException", text))
        _check_batch(messages)
        answered: list[dict[str, str]] = []
        taken: list[Callable[[int], AnalyticsMessage]] = []
        for index, message in enumerate(messages):
            error = _error_entry(message, failing.get(index))
            if error is not None:
                answered.append(error)
            else:
                taken.append(_item_maker(channel, message))
        self._recorder.take(self.name, channel, taken)
        response = json_answer({"batchPutMessageErrorEntries": answered})
        return Outcome(response, len(taken), len(answered))

    def error(self, fault: Fault) -> Response:
        return rest_json_error(fault)


def invalid(text: str) -> Refusal:
    return Refusal(Fault(400, "InvalidRequestException", text))


def _check_batch(messages: list[dict[str, str]]) -> None:
    if not 1 <= len(messages) <= MESSAGES_MAX:
        raise invalid(f"messages has {len(messages)} members, not 1 to {MESSAGES_MAX}")
    if len({message["messageId"] for message in messages}) < len(messages):
        raise invalid("a messageId comes more than once")


def _error_entry(message: dict[str, str], knob: FailRecords | None) -> dict[str, str] | None:
    size_bytes = len(_payload(message))
    if knob is not None:
        code = knob.code or "InternalFailureException"
        text = knob.message or "a knob of the local cloud failed this message"
    elif size_bytes > MESSAGE_BYTES_MAX:
        code = "InvalidRequestException"
        text = f"the message has {size_bytes} bytes, above {MESSAGE_BYTES_MAX}"
    else:
        return None
    return {"messageId": message["messageId"], "errorCode": code, "errorMessage": text}


def _item_maker(channel: str, message: dict[str, str]) -> Callable[[int], AnalyticsMessage]:
    payload = _payload(message)

    def make(order: int) -> AnalyticsMessage:
        return AnalyticsMessage(order, len(payload), channel, message["messageId"], payload)

    return make


def _payload(message: dict[str, str]) -> bytes:
    return base64.b64decode(message["payload"])


@cache
def _input_shape() -> Any:
    model = load("botocore.model").ServiceModel(SERVICE_MODEL)
    return model.operation_model(OPERATION).input_shape
