"""`penstock doctor`: findings of a server that runs, and of one that does not."""

from __future__ import annotations

import json
import socket
import threading

import pytest
from command_line import CommandLine

from penstock import StreamManagerClient
from penstock.model import ExportDefinition, HTTPConfig, MessageStreamDefinition, StrategyOnFull
from server_process import ServerProcess

WITHOUT_CLOUD = {
    "AWS_EC2_METADATA_DISABLED": "true",
    "PENSTOCK_CONSOLE": "false",
    "PENSTOCK_PIPELINE": "off",
}


@pytest.fixture
def at_home(penstock: CommandLine) -> CommandLine:
    """A command line whose doctor finds only what the test brings."""
    penstock.environment |= WITHOUT_CLOUD
    return penstock


def findings(document: dict) -> dict[str, list[dict]]:
    by_check: dict[str, list[dict]] = {}
    for finding in document["findings"]:
        by_check.setdefault(finding["check"], []).append(finding)
    return by_check


def export_to(port: int, name: str, receiver_port: int) -> None:
    with StreamManagerClient(port=port) as client:
        client.create_message_stream(
            MessageStreamDefinition(
                name,
                strategy_on_full=StrategyOnFull.RejectNewData,
                export_definition=ExportDefinition(
                    http=[HTTPConfig("h", f"http://127.0.0.1:{receiver_port}/x")]
                ),
            )
        )


def test_a_machine_on_which_nothing_needs_doing_gives_success(
    at_home: CommandLine, unused_port: int
):
    result = at_home("doctor", "--port", "0")
    assert result.status == 0, result.text
    assert result.errors == ""
    assert result.lines[-1] == "Nothing needs doing."
    assert not (at_home.folder / ".local").exists()


def test_destinations_are_taken_from_the_server_and_when_it_is_down_from_its_data(
    at_home: CommandLine, server: ServerProcess, unused_port: int
):
    export_to(server.port, "telemetry", unused_port)
    place = ("--port", str(server.port), "--data-dir", str(server.data_dir))
    running = at_home("doctor", "--json", *place)
    assert running.status == 1
    found = findings(running.json)
    assert f"process {server.process.pid}" in found["server"][0]["text"]
    assert found["port"][0]["text"] == f"a Penstock server answers on 127.0.0.1:{server.port}."
    assert found["destination"][0]["level"] == "problem"
    assert f"127.0.0.1:{unused_port}" in found["destination"][0]["text"]
    assert "export h of telemetry" in found["destination"][0]["text"]

    server.stop()
    at_rest = findings(at_home("doctor", "--json", *place).json)
    assert at_rest["server"][0]["level"] == "note"
    assert at_rest["port"][0]["text"].endswith("is free.")
    assert at_rest["destination"] == found["destination"]


def hang_up(listener: socket.socket) -> None:
    """What a program does that knows another protocol."""
    connection, _ = listener.accept()
    connection.close()


def test_every_problem_comes_with_a_remedy(at_home: CommandLine):
    with socket.create_server(("127.0.0.1", 0)) as other:
        guard = threading.Thread(target=hang_up, args=(other,))
        guard.start()
        result = at_home("doctor", "--port", str(other.getsockname()[1]))
        guard.join()
    assert result.status == 1
    number = next(n for n, line in enumerate(result.lines) if line.startswith("problem  port"))
    assert "taken by another program" in result.lines[number]
    assert "--port" in result.lines[number + 1]
    assert result.lines[-1] == "1 problem."


def test_a_server_that_wants_a_token_is_told_apart_from_a_foreign_program(
    tmp_path, at_home: CommandLine
):
    with ServerProcess(tmp_path, env={"PENSTOCK_TOKENS": "right"}) as server:
        refused = at_home("doctor", "--json", "--port", str(server.port))
        let_in = at_home("doctor", "--json", "--port", str(server.port), "--token", "right")
    (finding,) = findings(refused.json)["server"]
    assert (finding["level"], finding["remedy"]) == ("problem", "Give its --token.")
    assert findings(let_in.json)["server"][0]["level"] == "ok"


def test_wrong_settings_are_findings_too(at_home: CommandLine):
    at_home.environment["PENSTOCK_LOG_LEVEL"] = "LOUD"
    result = at_home("doctor", "--json")
    assert result.status == 1
    (finding,) = json.loads(result.output)["findings"]
    assert finding["check"] == "settings"
    assert "LOUD" in finding["text"]


def test_levels_have_colours_on_a_terminal_only(at_home: CommandLine):
    assert b"\x1b" not in at_home("doctor", "--port", "0").output
    assert b"\x1b[32mok" in at_home.on_terminal("doctor", "--port", "0").output
    at_home.variables["NO_COLOR"] = "1"
    assert b"\x1b[3" not in at_home.on_terminal("doctor", "--port", "0").output
