"""Programs as users of AWS's Python SDK write them, from append to the cloud."""

from __future__ import annotations

import subprocess
from pathlib import Path

from exports_rig import Rig

from environments import python_with
from server_process import clean_environment

DRIVERS = Path(__file__).parent / "drivers"
# A run that waits for the start of Spark takes 10 s.
FLOW_TIMEOUT_S = 90


def run_flow(rig: Rig, program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    python = python_with("stream-manager==1.1.2")
    return subprocess.run(
        [str(python), str(DRIVERS / program), *map(str, arguments)],
        env=clean_environment() | {"STREAM_MANAGER_SERVER_PORT": str(rig.server.port)},
        capture_output=True,
        text=True,
        timeout=FLOW_TIMEOUT_S,
    )


def test_readings_reach_kinesis_and_the_status_says_so(rig: Rig) -> None:
    rig.cloud.kinesis.create_stream("factory")

    done = run_flow(rig, "kinesis_flow.py", "factory", 200)

    assert done.returncode == 0, done.stderr
    rig.wait_until_exported("SensorReadings", 200, "ToKinesis")
    records = [record.data.decode() for record in rig.cloud.kinesis.records("factory")]
    assert records == [f"reading {number}" for number in range(200)]
    (status,) = rig.client.describe_message_stream("SensorReadings").export_statuses
    assert status.export_config_identifier == "ToKinesis"
    assert status.last_exported_sequence_number == 199
    assert status.exported_messages_count == 200
    assert status.exported_bytes_from_stream == sum(map(len, records))
    assert not status.error_message


def test_measured_values_reach_sitewise(rig: Rig) -> None:
    done = run_flow(rig, "sitewise_flow.py", "/plant/pump/speed", 25)

    assert done.returncode == 0, done.stderr
    rig.wait_until_exported("Measurements", 25, "ToSiteWise")
    values = [
        value["value"]["doubleValue"]
        for entry in rig.cloud.sitewise.entries()
        if entry.property_name == "/plant/pump/speed"
        for value in entry.values
    ]
    assert values == [number / 2 for number in range(25)]


def test_a_file_reaches_s3_and_the_program_reads_its_success(rig: Rig, tmp_path: Path) -> None:
    rig.cloud.s3.create_bucket("uploads")
    file = tmp_path / "picture.bin"
    file.write_bytes(b"picture" * 100_000)

    done = run_flow(rig, "s3_flow.py", file, "uploads", "pictures/first")

    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["InProgress", "Success"]
    assert rig.cloud.s3.object("uploads", "pictures/first").body == file.read_bytes()


def test_a_file_that_cannot_be_uploaded_gives_the_program_a_failure(
    rig: Rig, tmp_path: Path
) -> None:
    file = tmp_path / "picture.bin"
    file.write_bytes(b"picture")

    done = run_flow(rig, "s3_flow.py", file, "no-such-bucket", "pictures/first")

    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines()[-1].startswith("Failure "), done.stdout
    assert "no-such-bucket" in done.stdout
