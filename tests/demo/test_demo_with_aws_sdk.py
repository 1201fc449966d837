"""The plant is a program for AWS's SDK, as it says: only the import is another one."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import penstock.demo.machines
import penstock.demo.plant
from environments import python_with
from penstock import ReadMessagesOptions, StreamManagerClient
from penstock.demo.plant import REPORTS, TEMPERATURE, VIBRATION
from server_process import ServerProcess, clean_environment

# Up to and with the first report: the power cut is before it.
PROGRAM = """
import pathlib, plant, stream_manager
client = stream_manager.StreamManagerClient()
plant.create_streams(client)
there = plant.Plant(client, pathlib.Path("."), 60)
for tick in range(plant.FIRST_REPORT_AT_S * plant.TICKS_PER_TEMPERATURE + 1):
    there.measure(tick)
client.close()
"""
TICKS = 101


def test_the_plant_runs_with_the_sdk_of_aws(tmp_path: Path) -> None:
    for module in (penstock.demo.plant, penstock.demo.machines):
        source = Path(str(module.__file__))
        text = source.read_text().replace("from penstock.demo.machines", "from machines")
        (tmp_path / source.name).write_text(text.replace("from penstock ", "from stream_manager "))
    with ServerProcess(tmp_path) as server, StreamManagerClient(port=server.port) as client:
        subprocess.run(
            [python_with("stream-manager==1.1.2"), "-c", PROGRAM],
            cwd=tmp_path,
            env=clean_environment() | {"STREAM_MANAGER_SERVER_PORT": str(server.port)},
            check=True,
            timeout=60,
        )
        count = {
            name: client.describe_message_stream(name).storage_status.newest_sequence_number + 1
            for name in (VIBRATION, TEMPERATURE, REPORTS)
        }
        (first,) = client.read_messages(VIBRATION, ReadMessagesOptions(0, 1, 1))

    assert count == {VIBRATION: 4 * TICKS, TEMPERATURE: 4 * 11, REPORTS: 1}
    assert json.loads(first.payload)["machine"] == "pump-1"
    assert len(list(tmp_path.glob("report-*.csv"))) == 1
