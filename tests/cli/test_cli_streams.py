"""`penstock streams`: every command, in words and as JSON."""

from __future__ import annotations

import json

import pytest
from command_line import CommandLine, Result, Terminal

MIB = 1024 * 1024
KINESIS = {"identifier": "k", "kinesisStreamName": "plant-7"}
HTTP = {"identifier": "h", "uri": "http://127.0.0.1:9/x", "disabled": True}


def definition(penstock: CommandLine, name: str) -> dict[str, object]:
    return penstock.succeeds("streams", "describe", name, "--json").json["definition"]


# --- create -------------------------------------------------------------------------------------


def test_a_stream_is_created_with_the_defaults_of_the_protocol(connected: CommandLine):
    assert connected.succeeds("streams", "create", "plain").text == "Created stream plain.\n"
    assert definition(connected, "plain") == {
        "name": "plain",
        "maxSize": 256 * MIB,
        "streamSegmentSize": 16 * MIB,
        "strategyOnFull": 0,
        "persistence": 0,
        "flushOnWrite": False,
        "exportDefinition": {
            "http": [],
            "iotAnalytics": [],
            "kinesis": [],
            "IotSitewise": [],
            "s3TaskExecutor": [],
        },
    }


def test_every_option_reaches_the_definition(connected: CommandLine):
    options = "--max-size 10MiB --segment-size 1MB --ttl 90m --on-full overwrite --flush"
    created = connected.succeeds(
        "streams", "create", "special", *options.split(), "--persistence", "memory", "--json"
    )
    found = created.json["definition"]
    assert found["maxSize"] == 10 * MIB
    assert found["streamSegmentSize"] == 1_000_000
    assert found["timeToLiveMillis"] == 90 * 60_000
    assert found["strategyOnFull"] == 1
    assert found["persistence"] == 1
    assert found["flushOnWrite"] is True
    assert created.json["storageStatus"]["newestSequenceNumber"] == -1


def test_a_definition_file_brings_exports_and_options_are_stronger(connected: CommandLine):
    content = {"maxSize": 5 * MIB, "flushOnWrite": True, "exportDefinition": {"kinesis": [KINESIS]}}
    (connected.folder / "definition.json").write_text(json.dumps(content))
    connected.succeeds(
        "streams", "create", "from file", "--definition", "definition.json", "--max-size", "6MiB"
    )
    found = definition(connected, "from file")
    assert (found["maxSize"], found["flushOnWrite"]) == (6 * MIB, True)
    assert found["exportDefinition"]["kinesis"][0]["kinesisStreamName"] == "plant-7"


def test_a_definition_can_come_from_standard_input(connected: CommandLine):
    described = connected.succeeds("streams", "create", "original", "--ttl", "1h", "--json").json
    text = json.dumps(described["definition"] | {"name": "copy"})
    connected.succeeds("streams", "create", "copy", "--definition", "-", stdin=text.encode())
    assert definition(connected, "copy") == described["definition"] | {"name": "copy"}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("{", "definition.json is not JSON"),
        ("[]", "definition.json does not hold a JSON object"),
        ('{"name": "other"}', 'the definition is for stream "other", not for "refused"'),
        ('{"maxSizes": 1}', 'unknown key "maxSizes" in definition. Did you mean "maxSize"?'),
        (
            '{"exportDefinition": {"iotSitewise": []}}',
            'unknown key "iotSitewise" in definition.exportDefinition. Did you mean "IotSitewise"?',
        ),
        (
            '{"exportDefinition": {"http": [{"identifier": "h", "uri": "u", "batchSise": 1}]}}',
            'unknown key "batchSise" in definition.exportDefinition.http[0].',
        ),
        ('{"maxSize": 3}', "maxSize"),
        ('{"exportDefinition": {"http": [{"identifier": "h"}]}}', "exportDefinition.http[0].uri"),
    ],
)
def test_a_definition_that_cannot_be_used_is_refused_before_anything_is_sent(
    penstock: CommandLine, content, expected
):
    (penstock.folder / "definition.json").write_text(content)
    result = penstock("streams", "create", "refused", "--definition", "definition.json")
    assert (result.status, result.output) == (2, b"")
    assert expected in result.errors
    assert result.errors.count("\n") == 1


def test_a_definition_file_that_is_missing_is_refused(penstock: CommandLine):
    result = penstock("streams", "create", "s", "--definition", "missing.json")
    assert (result.status, result.output) == (2, b"")
    assert "missing.json" in result.errors


def test_a_name_that_is_taken_is_refused(connected: CommandLine, stream: str):
    result = connected("streams", "create", stream)
    assert (result.status, result.output) == (1, b"")
    assert "already exists" in result.errors
    assert result.errors.count("\n") == 1


# --- list and describe --------------------------------------------------------------------------


def test_without_streams_the_list_says_what_to_do(penstock: CommandLine, server):
    port = ("--port", str(server.port))
    assert "penstock streams create" in penstock.succeeds("streams", "list", *port).text
    assert penstock.succeeds("streams", "list", "--json", *port).json == []


def test_the_list_shows_what_each_stream_holds(connected: CommandLine):
    connected.succeeds("streams", "create", "listed", "--on-full", "overwrite")
    connected.succeeds("streams", "create", "listed empty", "--persistence", "memory")
    connected.succeeds("append", "listed", "one", "two")
    rows = {line[:12].strip(): line.split() for line in connected.succeeds("streams", "list").lines}

    assert rows["STREAM"][:5] == ["STREAM", "MESSAGES", "OLDEST", "NEWEST", "SIZE"]
    expected = ["listed", "2", "0", "1", "70", "B", "256", "MiB", "overwrite", "file", "0"]
    assert rows["listed"] == expected
    assert rows["listed empty"][2:5] == ["0", "-", "-"]
    assert rows["listed empty"][-2:] == ["memory", "0"]


def test_the_list_as_json_is_what_describe_says(connected: CommandLine, stream: str):
    listed = connected.succeeds("streams", "list", "--json").json
    described = connected.succeeds("streams", "describe", stream, "--json").json
    assert described in listed
    names = [info["definition"]["name"] for info in listed]
    assert names == sorted(names)


def test_describe_explains_a_stream_and_its_exports(connected: CommandLine):
    exports = {"exportDefinition": {"kinesis": [KINESIS], "http": [HTTP]}}
    (connected.folder / "definition.json").write_text(json.dumps(exports))
    connected.succeeds("streams", "create", "described", "--definition", "definition.json")
    connected.succeeds("append", "described", "four")
    text = connected.succeeds("streams", "describe", "described").text

    facts = dict(line.split("  ", 1) for line in text.splitlines() if "  " in line)
    facts = {name: value.strip() for name, value in facts.items()}
    assert facts["Messages"] == "1 (0 to 0)"
    assert facts["Next number"] == "1"
    assert facts["Size"] == "36 B (36 bytes)"
    assert facts["Time to live"] == "none"
    assert facts["When full"] == "reject new messages"
    assert facts["Exports"] == "2"
    assert "http://127.0.0.1:9/x" in text
    assert "kinesis plant-7" in text
    assert [line.split()[-1] for line in text.splitlines() if line.startswith("h ")] == ["paused"]


def test_an_unknown_stream_is_refused_with_a_way_to_find_out(connected: CommandLine):
    for arguments in (["describe", "nowhere"], ["delete", "nowhere", "--yes"]):
        result = connected("streams", *arguments)
        assert (result.status, result.output) == (1, b"")
        assert "nowhere" in result.errors
        assert "`penstock streams list` shows what there is." in result.errors


# --- update -------------------------------------------------------------------------------------


def test_an_update_changes_what_is_given_and_nothing_else(connected: CommandLine):
    exports = {"exportDefinition": {"kinesis": [KINESIS]}}
    (connected.folder / "definition.json").write_text(json.dumps(exports))
    connected.succeeds(
        "streams", "create", "updated", "--definition", "definition.json", "--persistence", "memory"
    )
    before = definition(connected, "updated")

    result = connected.succeeds("streams", "update", "updated", "--ttl", "2h", "--flush")
    assert result.lines == [
        "Updated stream updated.",
        "  Time to live    none -> 2h",
        "  Flush on write  no -> yes",
    ]
    changed = {"timeToLiveMillis": 7_200_000, "flushOnWrite": True}
    assert definition(connected, "updated") == before | changed

    connected.succeeds("streams", "update", "updated", "--ttl", "none", "--no-flush")
    assert definition(connected, "updated") == before


def test_an_export_definition_is_replaced_as_a_whole(connected: CommandLine, stream: str):
    for kind, export in (("kinesis", KINESIS), ("http", HTTP)):
        text = json.dumps({"exportDefinition": {kind: [export]}})
        updated = connected.succeeds(
            "streams", "update", stream, "--definition", "-", "--json", stdin=text.encode()
        )
    exports = updated.json["definition"]["exportDefinition"]
    assert (len(exports["http"]), len(exports["kinesis"])) == (1, 0)


def test_an_update_that_breaks_a_rule_is_refused_and_changes_nothing(
    connected: CommandLine, stream: str
):
    before = definition(connected, stream)
    result = connected("streams", "update", stream, "--max-size", "2KiB")
    assert (result.status, result.output) == (1, b"")
    assert result.errors.count("\n") == 1
    assert definition(connected, stream) == before


def test_an_update_without_a_change_is_wrong_usage(connected: CommandLine, stream: str):
    result = connected("streams", "update", stream)
    assert (result.status, result.output) == (2, b"")
    assert "Nothing to change was given." in result.errors


# --- delete -------------------------------------------------------------------------------------


def test_a_deletion_without_terminal_needs_yes(connected: CommandLine, stream: str):
    result = connected("streams", "delete", stream)
    assert (result.status, result.output) == (2, b"")
    assert "give --yes" in result.errors
    assert definition(connected, stream)["name"] == stream

    done = connected.succeeds("streams", "delete", stream, "--yes", "--json")
    assert done.json == {"name": stream, "deleted": True}
    assert connected("streams", "describe", stream).status == 1


def test_a_deletion_on_a_terminal_asks(connected: CommandLine):
    connected.succeeds("streams", "create", "asked")
    connected.succeeds("append", "asked", "one", "two")

    kept = answered(connected, "n\n", "streams", "delete", "asked")
    assert (kept.status, "Nothing was deleted." in kept.text) == (1, True)
    assert definition(connected, "asked")["name"] == "asked"

    gone = answered(connected, "y\n", "streams", "delete", "asked")
    assert (gone.status, "Deleted stream asked." in gone.text) == (0, True)
    assert connected("streams", "describe", "asked").status == 1


def test_ctrl_c_at_the_question_deletes_nothing(connected: CommandLine, stream: str):
    with Terminal(connected, "streams", "delete", stream) as terminal:
        terminal.wait_for("[y/N]")
        terminal.press_ctrl_c()
        result = terminal.result()
    assert result.status == 130
    assert "Traceback" not in result.text
    assert definition(connected, stream)["name"] == stream


def answered(penstock: CommandLine, keys: str, *arguments: str) -> Result:
    """Run a command that asks about two messages, and type the answer."""
    with Terminal(penstock, *arguments) as terminal:
        terminal.wait_for("with 2 messages? [y/N]")
        terminal.type(keys)
        return terminal.result()
