"""Follow every message from the program that wrote it to the end of its way."""

from __future__ import annotations

import hashlib
import json
import math
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from penstock import StreamManagerClient
from penstock.demo.plant import BUCKET, KINESIS_STREAM, REPORTS, TEMPERATURE, VIBRATION
from penstock.demo.stage import Stage
from penstock.demo.table import Average
from penstock.export_model import ExportView

# As in penstock.toml, which this file checks.
WINDOW = timedelta(seconds=5)
LATENESS = timedelta(seconds=2)
# After an outage an export pauses for as long as that took, at most.
DRAINED_WITHIN_S = 90.0
# The console asks the server every second.
CONSOLE_AGREES_WITHIN_S = 15.0
# The plant's clocks either go right or begin with 1970.
LOST_CLOCK_BEFORE_S = 10**9
# Averages are sums in another order.
AVERAGE_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Finding:
    """Something that was counted at both ends."""

    what: str
    expected: int
    found: int
    difference: str = ""  # what is wrong; empty if nothing is


@dataclass(frozen=True)
class Appended:
    """A message that the server has acknowledged."""

    sequence_number: int
    payload: bytes

    def values(self) -> Any:
        return json.loads(self.payload)


class Ledger:
    """All of them by stream, and the files that they speak of."""

    def __init__(self) -> None:
        self.messages: dict[str, list[Appended]] = defaultdict(list)
        self.files: dict[str, str] = {}  # checksum by key of the object

    def client(self, port: int) -> StreamManagerClient:
        """A client whose appends are noted here."""
        return _NotingClient(self, port)


class _NotingClient(StreamManagerClient):
    def __init__(self, ledger: Ledger, port: int) -> None:
        self._ledger = ledger
        super().__init__(port=port)

    def append_message(self, stream_name: str, data: bytes) -> int:
        if stream_name == REPORTS:
            task = json.loads(data)  # the file is gone as soon as it has arrived
            content = Path(unquote(urlsplit(task["inputUrl"]).path)).read_bytes()
            self._ledger.files[task["key"]] = _checksum(content)
        number = super().append_message(stream_name, data)
        self._ledger.messages[stream_name].append(Appended(number, data))
        return number


class Check:
    """What the parts of a stage say, against what was written."""

    def __init__(self, stage: Stage, ledger: Ledger) -> None:
        self._stage = stage
        self._ledger = ledger
        self._entries = ledger.messages[TEMPERATURE]
        self._refused = [entry for entry in self._entries if _has_lost_clock(entry)]

    def wait_until_drained(self) -> None:
        """Give everything time to go its way; the findings tell what has not."""
        expected_rows = len(self._closed_windows())

        def is_drained() -> bool:
            picture = self._stage.picture()
            reports = self._stage.reports
            return (
                all(view.lag_messages == 0 for view in picture.observation.exports)
                and all(view.lag_messages == 0 for view in picture.observation.transforms)
                and len(reports.arrived) + len(reports.failed) == len(self._ledger.files)
                and picture.table_rows >= expected_rows
            )

        self._stage.holds_within(is_drained, DRAINED_WITHIN_S)

    def findings(self) -> list[Finding]:
        return [
            *self._stored(),
            *self._delivered(),
            *self._told_by_server(),
            *self._told_by_console(),
        ]

    # --- what arrived ---------------------------------------------------------------------------

    def _stored(self) -> Iterator[Finding]:
        for stream, messages in self._ledger.messages.items():
            numbers = [message.sequence_number for message in messages]
            stored = self._stage.client.describe_message_stream(stream).storage_status
            found = range(stored.oldest_sequence_number, stored.newest_sequence_number + 1)
            yield compared(f"{stream}: messages in the stream", numbers, found)

    def _delivered(self) -> Iterator[Finding]:
        cloud = self._stage.cloud
        yield compared(
            f"{VIBRATION}: records in Kinesis",
            [message.payload for message in self._ledger.messages[VIBRATION]],
            [record.data for record in cloud.kinesis.records(KINESIS_STREAM)],
        )
        good = [entry for entry in self._entries if entry not in self._refused]
        yield compared(
            f"{TEMPERATURE}: entries in SiteWise",
            [_point(entry.values()) for entry in good],
            [
                _point({"propertyAlias": entry.property_name, "propertyValues": entry.values})
                for entry in cloud.sitewise.entries()
            ],
        )
        yield compared(
            f"{TEMPERATURE}: dead letters, no others",
            [(TEMPERATURE, entry.sequence_number) for entry in self._refused],
            [
                (letter.stream_name, letter.sequence_number)
                for letter in self._stage.client.find_dead_letters()
            ],
        )
        keys = cloud.s3.keys(BUCKET)
        yield compared(
            f"{REPORTS}: files in S3",
            list(self._ledger.files.items()),
            [(key, _checksum(cloud.s3.object(BUCKET, key).body)) for key in keys],
        )
        reports = self._stage.reports
        yield compared(
            f"{REPORTS}: statuses Success, no others",
            list(self._ledger.files),
            [*reports.arrived, *(f"{key} failed" for key in reports.failed)],
        )
        yield averaged(self._closed_windows(), self._stage.table.rows())
        yield at_least("requests lost in the outage", 1, self._stage.link.lost_requests)

    def _closed_windows(self) -> list[Average]:
        """What the transform should have written: windows that no message can change any more."""
        readings: dict[tuple[datetime, str], list[tuple[float, float]]] = defaultdict(list)
        newest = datetime.min
        for message in self._ledger.messages[VIBRATION]:
            values = message.values()
            time = datetime.fromisoformat(values["time"]).replace(tzinfo=None)
            start = time - (time - datetime(1970, 1, 1)) % WINDOW
            measured = (values["vibration_mm_s"], values["peak_mm_s"])
            readings[start, values["machine"]].append(measured)
            newest = max(newest, time)
        return sorted(
            Average(
                start.replace(tzinfo=UTC),
                machine,
                len(values),
                math.fsum(vibration for vibration, _ in values) / len(values),
                max(peak for _, peak in values),
            )
            for (start, machine), values in readings.items()
            if start + WINDOW <= newest - LATENESS
        )

    # --- what is told of it ---------------------------------------------------------------------

    def _told_by_server(self) -> Iterator[Finding]:
        observation = self._stage.client.observe_server()
        appended = {view.name: view.appended_messages for view in observation.streams}
        yield from self._told("status", appended, observation.exports)

    def _told_by_console(self) -> Iterator[Finding]:
        url = f"{self._stage.server.console_url}/api/overview"
        findings: list[Finding] = []

        def agrees() -> bool:
            findings[:] = self._told("console", *_overview(url))
            return not any(finding.difference for finding in findings)

        self._stage.holds_within(agrees, CONSOLE_AGREES_WITHIN_S)
        yield from findings

    def _told(
        self, by: str, appended: Mapping[str, int], exports: Sequence[ExportView]
    ) -> Iterator[Finding]:
        for stream, messages in self._ledger.messages.items():
            yield counted(f"{by}: {stream} appended", len(messages), appended.get(stream, 0))
        for view in exports:
            name = f"{by}: {view.stream_name} to {view.export_identifier}"
            messages = self._ledger.messages[view.stream_name]
            refused = len(self._refused) if view.stream_name == TEMPERATURE else 0
            yield counted(f"{name}, delivered", len(messages) - refused, view.delivered_messages)
            yield counted(f"{name}, refused", refused, view.refused_messages)
            yield counted(f"{name}, dead letters", refused, view.dead_letters)
            yield counted(f"{name}, lost or waiting", 0, view.lost_messages + view.lag_messages)


def compared(what: str, expected: Sequence[object], found: Sequence[object]) -> Finding:
    """Two lists that must be equal: nothing missing, nothing twice, in order; and not empty."""
    difference = "" if expected else "there was nothing to count; run for more seconds"
    for position, (left, right) in enumerate(zip_longest(expected, found)):
        if left != right:
            difference = f"number {position} should be {left!r:.200} and is {right!r:.200}"
            break
    return Finding(what, len(expected), len(found), difference)


def counted(what: str, expected: int, found: int) -> Finding:
    difference = "" if expected == found else f"should be {expected:,} and is {found:,}"
    return Finding(what, expected, found, difference)


def at_least(what: str, expected: int, found: int) -> Finding:
    difference = "" if found >= expected else f"should be {expected:,} or more and is {found:,}"
    return Finding(what, expected, found, difference)


def averaged(expected: list[Average], found: list[Average]) -> Finding:
    """Averages may differ where numbers end; all else must be equal."""
    rounded = [
        row._replace(vibration_mm_s=wanted.vibration_mm_s)
        if math.isclose(row.vibration_mm_s, wanted.vibration_mm_s, rel_tol=AVERAGE_TOLERANCE)
        else row
        for row, wanted in zip(found, expected, strict=False)
    ]
    return compared(
        "rows of closed windows in the table", expected, rounded + found[len(rounded) :]
    )


def _overview(url: str) -> tuple[dict[str, int], list[ExportView]]:
    """Appended messages by stream, and the exports, as the console's page gets them."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        observation = json.load(answer)["observation"]
    appended = {view["name"]: view.get("appendedMessages", 0) for view in observation["streams"]}
    return appended, [ExportView.from_dict(view) for view in observation["exports"]]


def _has_lost_clock(entry: Appended) -> bool:
    (value,) = entry.values()["propertyValues"]
    return bool(value["timestamp"]["timeInSeconds"] < LOST_CLOCK_BEFORE_S)


def _point(entry: Mapping[str, Any]) -> tuple[str, float, int, int]:
    """What an entry says, without its id, which is the exporter's own.

    A time without a fraction may be written in two ways.
    """
    (value,) = entry["propertyValues"]
    time = value["timestamp"]
    return (
        entry["propertyAlias"],
        value["value"]["doubleValue"],
        time["timeInSeconds"],
        time.get("offsetInNanos", 0),
    )


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
