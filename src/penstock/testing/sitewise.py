"""A strict stand-in for AWS IoT SiteWise: BatchPutAssetPropertyValue and nothing else.

Refuses the request     what botocore's service model forbids, unknown members, more than 10 entries
                        or 10 values in one, a property named in no way or in two, a value that has
                        not exactly one type (InvalidRequestException); an entryId that comes twice
                        (ConflictingOperationException).
Refuses an entry        a timestamp more than 7 days back or 10 minutes ahead
                        (TimestampOutOfRangeException); a timestamp that the same property already
                        has earlier in the request (ConflictingOperationException); a property
                        that is not in `properties`, if that is set (ResourceNotFoundException).

AWS documents the limits and the time window. It does not say which of two equal timestamps is
refused, nor what a repeated entryId leads to: here the later one, and an error of the request.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
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

OPERATION = "BatchPutAssetPropertyValue"
ENTRIES_MAX = 10
VALUES_MAX = 10
STRING_LENGTH_MAX = 1024
DOUBLE_MAX = 1e10
PAST_MAX_S = 7 * 24 * 3600
FUTURE_MAX_S = 10 * 60
NANOS = 10**9


@dataclass(frozen=True)
class SiteWiseEntry(Item):
    """An entry that was taken; `values` holds those of its values that were."""

    entry_id: str
    # The alias, or asset id and property id with a slash between.
    property_name: str
    values: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class RefusedValue:
    """Why one value of an entry is refused."""

    code: str
    message: str
    value: dict[str, Any]


class SiteWise(Service):
    """Property values, checked as the service would."""

    name = "iotsitewise"
    faults = Faults(
        throttle=Fault(429, "ThrottlingException", "Rate exceeded"),
        fail=Fault(500, "InternalFailureException", "The service failed; try again later"),
        expire=Fault(
            403, "ExpiredTokenException", "The security token included in the request is expired"
        ),
        deny=Fault(403, "AccessDeniedException", "The caller may not put property values"),
        missing=Fault(404, "ResourceNotFoundException", "The property does not exist"),
        refuse=Fault(400, "InvalidRequestException", "The request contains a value it must not"),
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

    def __init__(
        self, knobs: Knobs, recorder: Recorder, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__(knobs, recorder)
        self._clock = clock
        # Aliases, or "assetId/propertyId", that exist. None: every property does.
        self.properties: set[str] | None = None

    def entries(self) -> list[SiteWiseEntry]:
        """The entries that were taken, in order of arrival."""
        return self._recorder.items(self.name, None, SiteWiseEntry)

    def wait_for_entries(self, count: int, timeout_s: float = 30.0) -> None:
        self.wait_for_count(None, count, timeout_s)

    def read(self, request: Request, access_key: str) -> Call:
        if (request.method, request.path) != ("POST", "/properties"):
            raise invalid(f"{request.method} {request.path} is not served by the local cloud")
        body = json_body(request, invalid)

        def contents() -> list[bytes]:
            entries = body.get("entries")
            return [json.dumps(entry).encode() for entry in entries or ()]

        return Call(self.name, OPERATION, None, access_key, contents, request, body)

    def answer(self, call: Call, failing: Mapping[int, FailRecords]) -> Outcome:
        body: dict[str, Any] = call.parsed
        for text in request_violations(body):
            raise invalid(text)
        is_partial = body.get("enablePartialEntryProcessing") is True
        errors = self._errors(body["entries"])
        answered: list[dict[str, Any]] = []
        taken: list[Callable[[int], SiteWiseEntry]] = []
        for index, entry in enumerate(body["entries"]):
            wrong = errors[index]
            if index in failing:
                wrong = [_failed(failing[index], value) for value in entry["propertyValues"]]
            if wrong:
                answered.append(_error_entry(entry, wrong))
            kept = _kept(entry, wrong, is_partial=is_partial and index not in failing)
            if kept:
                taken.append(_item_maker(entry, kept))
        self._recorder.take(self.name, None, taken)
        return Outcome(json_answer({"errorEntries": answered}), len(taken), len(answered))

    def error(self, fault: Fault) -> Response:
        return rest_json_error(fault)

    def _errors(self, entries: list[dict[str, Any]]) -> list[list[RefusedValue]]:
        """For each entry, the values that the service would not take."""
        seen: set[tuple[str, int]] = set()
        return [list(self._entry_errors(entry, seen)) for entry in entries]

    def _entry_errors(
        self, entry: dict[str, Any], seen: set[tuple[str, int]]
    ) -> Iterator[RefusedValue]:
        name = property_name(entry)
        now_s = self._clock()
        for value in entry["propertyValues"]:
            time_ns = nanos(value["timestamp"])
            if self.properties is not None and name not in self.properties:
                code, text = "ResourceNotFoundException", f"there is no property {name}"
            elif not -PAST_MAX_S <= time_ns / NANOS - now_s <= FUTURE_MAX_S:
                code, text = "TimestampOutOfRangeException", "7 days back, 10 minutes ahead at most"
            elif (name, time_ns) in seen:
                code, text = "ConflictingOperationException", "two values have this timestamp"
            else:
                seen.add((name, time_ns))
                continue
            yield RefusedValue(code, text, value)


def invalid(text: str) -> Refusal:
    return Refusal(Fault(400, "InvalidRequestException", text))


def request_violations(body: dict[str, Any]) -> Iterator[str]:
    """What is wrong with the request as a whole, the model's rules first."""
    yield from violations(body, _input_shape())
    entries = body["entries"]
    if not 1 <= len(entries) <= ENTRIES_MAX:
        yield f"entries has {len(entries)} members, not 1 to {ENTRIES_MAX}"
    for index, entry in enumerate(entries):
        yield from (f"entries[{index}]{text}" for text in _entry_violations(entry))
    entry_ids = [entry["entryId"] for entry in entries]
    repeated = {entry_id for entry_id in entry_ids if entry_ids.count(entry_id) > 1}
    if repeated:
        text = f"the entryId {', '.join(sorted(repeated))} comes more than once"
        raise Refusal(Fault(409, "ConflictingOperationException", text))


def property_name(entry: dict[str, Any]) -> str:
    """The alias of an entry's property, or asset id and property id."""
    return entry.get("propertyAlias") or f"{entry['assetId']}/{entry['propertyId']}"


def nanos(timestamp: dict[str, int]) -> int:
    return timestamp["timeInSeconds"] * NANOS + timestamp.get("offsetInNanos", 0)


def _entry_violations(entry: dict[str, Any]) -> Iterator[str]:
    by_id = [name for name in ("assetId", "propertyId") if entry.get(name) is not None]
    by_alias = entry.get("propertyAlias") is not None
    if by_alias == (len(by_id) == 2) or (by_alias and by_id):
        yield " needs either propertyAlias or both assetId and propertyId"
    values = entry["propertyValues"]
    if not 1 <= len(values) <= VALUES_MAX:
        yield f".propertyValues has {len(values)} members, not 1 to {VALUES_MAX}"
    for index, value in enumerate(values):
        yield from (f".propertyValues[{index}]{text}" for text in _value_violations(value))


def _value_violations(value: dict[str, Any]) -> Iterator[str]:
    variant = {name: content for name, content in value["value"].items() if content is not None}
    if len(variant) != 1:
        yield f".value has {len(variant)} types, not one"
    text = variant.get("stringValue", "")
    if len(text) > STRING_LENGTH_MAX:
        yield f".value.stringValue has {len(text)} characters, above {STRING_LENGTH_MAX}"
    if any(char < " " or char == "\x7f" for char in text):
        yield ".value.stringValue contains a control character"
    number = variant.get("doubleValue", 0)
    if isinstance(number, int | float) and abs(number) > DOUBLE_MAX:
        yield f".value.doubleValue is beyond {DOUBLE_MAX:.0e}"


def _failed(knob: FailRecords, value: dict[str, Any]) -> RefusedValue:
    code = knob.code or "InternalFailureException"
    return RefusedValue(code, knob.message or "a knob of the local cloud failed this entry", value)


def _error_entry(entry: dict[str, Any], errors: Iterable[RefusedValue]) -> dict[str, Any]:
    return {
        "entryId": entry["entryId"],
        "errors": [
            {
                "errorCode": error.code,
                "errorMessage": error.message,
                "timestamps": [error.value["timestamp"]],
            }
            for error in errors
        ],
    }


def _kept(
    entry: dict[str, Any], errors: list[RefusedValue], *, is_partial: bool
) -> list[dict[str, Any]]:
    """The values that are taken: all or none, unless the request allows some."""
    if errors and not is_partial:
        return []
    wrong = [error.value for error in errors]
    return [value for value in entry["propertyValues"] if not any(value is bad for bad in wrong)]


def _item_maker(
    entry: dict[str, Any], values: list[dict[str, Any]]
) -> Callable[[int], SiteWiseEntry]:
    size_bytes = len(json.dumps(values))

    def make(order: int) -> SiteWiseEntry:
        name = property_name(entry)
        return SiteWiseEntry(order, size_bytes, entry["entryId"], name, tuple(values))

    return make


@cache
def _input_shape() -> Any:
    loader = load("botocore.loaders").create_loader()
    model = loader.load_service_model("iotsitewise", "service-2")
    return load("botocore.model").ServiceModel(model).operation_model(OPERATION).input_shape
