"""SiteWise as a script plays it: as strict as botocore's model and the service's manual say."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.validate import ParamValidator
from scripted_service import Answer, Request

MODEL = ServiceModel(Loader().load_service_model("iotsitewise", "service-2"))
INPUT = MODEL.operation_model("BatchPutAssetPropertyValue").input_shape


class SiteWise:
    """Keeps values by property and time. `entry_errors` are those of a property's entries."""

    def __init__(self) -> None:
        # (alias or ids, seconds, nanos) -> value
        self.values: dict[tuple[str, int, int], dict[str, Any]] = {}
        self.entry_errors: dict[str, str] = {}
        # Two names of one property.
        self.same_property: dict[str, str] = {}
        self.now_s: Callable[[], float] = time.time

    def answer(self, request: Request) -> Answer:
        body = request.json()
        problems = ParamValidator().validate(body, INPUT).generate_report()
        entries = body.get("entries", [])
        ids = [entry["entryId"] for entry in entries]
        if problems or request.target != "/properties":
            return error("InvalidRequestException", problems or "wrong path")
        if not 1 <= len(entries) <= 10 or len(set(ids)) < len(ids):
            return error("InvalidRequestException", "1 to 10 entries with different ids")
        if any("forbidden" in name_of(entry) for entry in entries):
            return error("InvalidRequestException", "a name that spoils the request")
        assert body["enablePartialEntryProcessing"] is True
        return Answer.json({"errorEntries": self._take(entries)})

    def _take(self, entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
        points = Counter(point for entry in entries for point in self._points(entry))
        found = []
        for entry in entries:
            conflicts = [point for point in self._points(entry) if points[point] > 1]
            if code := self.entry_errors.get(name_of(entry)):
                found.append(entry_error(entry, code, []))
            elif conflicts:
                found.append(entry_error(entry, "ConflictingOperationException", []))
            else:
                found += self._take_values(entry)
        return found

    def _take_values(self, entry: dict[str, Any]) -> list[dict[str, Any]]:
        outside = []
        for value, point in zip(entry["propertyValues"], self._points(entry), strict=True):
            if -7 * 86_400 <= point[1] - self.now_s() <= 600:
                self.values[point] = value["value"]
            else:
                outside.append(value["timestamp"])
        if not outside:
            return []
        return [entry_error(entry, "TimestampOutOfRangeException", outside)]

    def _points(self, entry: dict[str, Any]) -> list[tuple[str, int, int]]:
        name = self.same_property.get(name_of(entry), name_of(entry))
        return [
            (name, value["timestamp"]["timeInSeconds"], value["timestamp"].get("offsetInNanos", 0))
            for value in entry["propertyValues"]
        ]


def name_of(entry: dict[str, Any]) -> str:
    return entry.get("propertyAlias") or f"{entry['assetId']} {entry['propertyId']}"


def entry_error(
    entry: dict[str, Any], code: str, timestamps: list[dict[str, int]]
) -> dict[str, Any]:
    return {
        "entryId": entry["entryId"],
        "errors": [{"errorCode": code, "errorMessage": "Because.", "timestamps": timestamps}],
    }


def error(code: str, message: str = "Because.", status: int = 400, **headers: str) -> Answer:
    return Answer.json({"message": message}, status, **{"x-amzn-ErrorType": code}, **headers)
