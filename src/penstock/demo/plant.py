"""A program at the edge: it measures machines and hands everything to stream manager.

It is written as for AWS. With `stream_manager`, AWS's SDK, in place of `penstock` in the import
below it would be a program for theirs.

Vibration       ten readings a second of each machine, as JSON, to Kinesis; the transform's source
Temperature     one entry a second of each machine, to SiteWise
Reports         now and then a file with the latest readings, to S3
ReportStatus    what became of the files; one that has arrived is deleted here
"""

from __future__ import annotations

import json
import threading
import time
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from penstock import (
    AssetPropertyValue,
    ExportDefinition,
    IoTSiteWiseConfig,
    KinesisConfig,
    MessageStreamDefinition,
    NotEnoughMessagesException,
    PutAssetPropertyValueEntry,
    Quality,
    ReadMessagesOptions,
    S3ExportTaskDefinition,
    S3ExportTaskExecutorConfig,
    Status,
    StatusConfig,
    StatusLevel,
    StatusMessage,
    StrategyOnFull,
    StreamManagerClient,
    TimeInNanos,
    Util,
    Variant,
)
from penstock.demo.machines import PLANT, Reading, Sensors

VIBRATION = "Vibration"
TEMPERATURE = "Temperature"
REPORTS = "Reports"
REPORT_STATUS = "ReportStatus"
KINESIS_STREAM = "plant-telemetry"
BUCKET = "plant-reports"

TICK_S = 0.1
TICKS_PER_TEMPERATURE = 10
FIRST_REPORT_AT_S = 10
# The clock of this machine has no battery. A power cut sets it to 1970, until it is told the time;
# what it measures meanwhile is older than SiteWise takes.
FORGETFUL_MACHINE = "press-4"
POWER_CUT_AT_S = 5
POWER_CUT_EVERY_S = 120
STATUS_WAIT_MS = 1000


class Row(NamedTuple):
    """A line of a report."""

    time: str
    machine: str
    reading: Reading


def definitions() -> list[MessageStreamDefinition]:
    """The streams, and where they are exported to."""
    to_kinesis = KinesisConfig(identifier="ToKinesis", kinesis_stream_name=KINESIS_STREAM)
    to_sitewise = IoTSiteWiseConfig(identifier="ToSiteWise")
    to_s3 = S3ExportTaskExecutorConfig(
        identifier="ToS3",
        status_config=StatusConfig(status_level=StatusLevel.INFO, status_stream_name=REPORT_STATUS),
    )
    exports = {
        REPORT_STATUS: ExportDefinition(),
        VIBRATION: ExportDefinition(kinesis=[to_kinesis]),
        TEMPERATURE: ExportDefinition(iot_sitewise=[to_sitewise]),
        REPORTS: ExportDefinition(s3_task_executor=[to_s3]),
    }
    return [
        MessageStreamDefinition(
            name=name,
            strategy_on_full=StrategyOnFull.OverwriteOldestData,
            export_definition=definition,
        )
        for name, definition in exports.items()
    ]


def create_streams(client: StreamManagerClient) -> None:
    """Those that an earlier run left behind are taken as they are."""
    existing = client.list_streams()
    for definition in definitions():
        if definition.name not in existing:
            client.create_message_stream(definition)


class Plant:
    """The machines, and the loop that reads them."""

    def __init__(
        self, client: StreamManagerClient, reports_folder: Path, report_interval_s: int
    ) -> None:
        self._client = client
        self._reports_folder = reports_folder
        self._report_interval_s = report_interval_s
        self._sensors = {machine.name: Sensors(machine) for machine in PLANT}
        self._start_ns = time.time_ns()
        self._rows: list[Row] = []  # since the last report

    def run(self, stopped: threading.Event) -> None:
        """Measure ten times a second. Who comes late makes up for it: no tick is left out."""
        begin_s = time.monotonic()
        for tick in count():
            if stopped.wait(max(begin_s + tick * TICK_S - time.monotonic(), 0)):
                return
            self.measure(tick)

    def measure(self, tick: int) -> None:
        """All machines once, and what else is due at this tenth of a second."""
        at_s = tick * TICK_S
        at_ns = self._start_ns + round(at_s * 1e9)
        readings = {name: sensors.read(at_s) for name, sensors in self._sensors.items()}
        shown_time = _shown(at_ns)
        for machine, reading in readings.items():
            self._client.append_message(VIBRATION, telemetry(machine, shown_time, reading))
            self._rows.append(Row(shown_time, machine, reading))
        if tick % TICKS_PER_TEMPERATURE == 0:
            second = tick // TICKS_PER_TEMPERATURE
            for machine, reading in readings.items():
                cut = machine == FORGETFUL_MACHINE and _has_lost_its_clock(second)
                entry = temperature(machine, at_ns % 10**9 + 10**9 if cut else at_ns, reading)
                self._client.append_message(
                    TEMPERATURE, Util.validate_and_serialize_to_json_bytes(entry)
                )
            if second >= FIRST_REPORT_AT_S and (
                (second - FIRST_REPORT_AT_S) % self._report_interval_s == 0
            ):
                self._report(at_ns)

    def _report(self, at_ns: int) -> None:
        """Write a file, and ask for its upload."""
        name = f"report-{datetime.fromtimestamp(at_ns / 1e9, UTC):%Y%m%dT%H%M%S}.csv"
        path = self._reports_folder.resolve() / name
        path.write_text(report(self._rows))
        self._rows.clear()
        task = S3ExportTaskDefinition(input_url=path.as_uri(), bucket=BUCKET, key=f"plant/{name}")
        self._client.append_message(REPORTS, Util.validate_and_serialize_to_json_bytes(task))


class ReportWatcher:
    """Reads the status stream, and deletes the files that have arrived."""

    def __init__(self, client: StreamManagerClient) -> None:
        self._client = client
        self._status = client.describe_message_stream(REPORT_STATUS).storage_status
        self.arrived: list[str] = []  # keys
        self.failed: list[str] = []

    def run(self, stopped: threading.Event) -> None:
        position = self._status.newest_sequence_number + 1
        while not stopped.is_set():
            options = ReadMessagesOptions(
                desired_start_sequence_number=position,
                min_message_count=1,
                max_message_count=100,
                read_timeout_millis=STATUS_WAIT_MS,
            )
            try:
                messages = self._client.read_messages(REPORT_STATUS, options)
            except NotEnoughMessagesException:
                continue  # no news within the timeout
            for message in messages:
                assert message.sequence_number is not None  # every message that was read has one
                position = message.sequence_number + 1
                self._take(Util.deserialize_json_bytes_to_obj(message.payload, StatusMessage))

    def _take(self, status: StatusMessage) -> None:
        context = status.status_context
        if context is None or context.s3_export_task_definition is None:
            return
        task = context.s3_export_task_definition
        if status.status == Status.Success:
            self.arrived.append(task.key)
            Path(unquote(urlsplit(task.input_url).path)).unlink(missing_ok=True)
        elif status.status in (Status.Failure, Status.Canceled):
            self.failed.append(task.key)


def telemetry(machine: str, shown_time: str, reading: Reading) -> bytes:
    """A reading as JSON: what goes to Kinesis, and what the transform reads."""
    values = {
        "machine": machine,
        "time": shown_time,
        "rpm": reading.rpm,
        "load": reading.load,
        "vibration_mm_s": reading.vibration_mm_s,
        "peak_mm_s": reading.peak_mm_s,
    }
    return json.dumps(values).encode()


def temperature(machine: str, at_ns: int, reading: Reading) -> PutAssetPropertyValueEntry:
    """A temperature as SiteWise wants it."""
    value = AssetPropertyValue(
        value=Variant(double_value=reading.temperature_c),
        quality=Quality.GOOD,
        timestamp=TimeInNanos(time_in_seconds=at_ns // 10**9, offset_in_nanos=at_ns % 10**9),
    )
    return PutAssetPropertyValueEntry(
        entry_id=f"{machine}-{at_ns // 10**6}",
        property_alias=f"/plant/{machine}/temperature",
        property_values=[value],
    )


def report(rows: list[Row]) -> str:
    """A file of readings, with a heading."""
    lines = [",".join(("time", "machine", *Reading._fields))]
    lines += [",".join((row.time, row.machine, *map(str, row.reading))) for row in rows]
    return "\n".join(lines) + "\n"


def _has_lost_its_clock(second: int) -> bool:
    return second % POWER_CUT_EVERY_S == POWER_CUT_AT_S


def _shown(at_ns: int) -> str:
    shown = datetime.fromtimestamp(at_ns / 1e9, UTC).isoformat(timespec="milliseconds")
    return shown.replace("+00:00", "Z")
