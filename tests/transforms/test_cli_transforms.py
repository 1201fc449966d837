"""`penstock transforms` at a shell: what it prints, and what it says about every mistake."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from transforms_rig import Result, command

from penstock.client.sync import StreamManagerClient
from penstock.model import MessageStreamDefinition, StrategyOnFull
from server_process import ServerProcess, clean_environment

CONFIG = """
[transforms.fine]
source = "Json"
schema = "rpm DOUBLE, at STRUCT<line: STRING>"
sql = "SELECT sequence_number, rpm, at.line FROM source"
target = { stream = "Out" }

[transforms.misspelt]
source = "Json"
schema = "rpm DOUBLE"
sql = "SELECT rmp FROM source"
target = { stream = "Out" }

[transforms.no_statement]
source = "Json"
schema = "rpm DOUBLE"
sql = "SELEKT rpm FROM source"
target = { stream = "Out" }

[transforms.no_type]
source = "Json"
schema = "rpm DUOBLE"
sql = "SELECT rpm FROM source"
target = { stream = "Out" }

[transforms.no_watermark]
source = "Json"
schema = "rpm DOUBLE, ts TIMESTAMP"
sql = "SELECT window(ts, '1 minute') AS w, avg(rpm) AS rpm FROM source GROUP BY w"
target = { stream = "Out" }

[transforms.no_time]
source = "Json"
schema = "rpm DOUBLE"
watermark = "rpm 1 minute"
sql = "SELECT rpm FROM source"
target = { stream = "Out" }

[transforms.no_partition]
source = "Json"
schema = "rpm DOUBLE"
sql = "SELECT rpm FROM source"
target = { table = "out", partition_by = ["machine"] }

[transforms.elsewhere]
source = "Json"
schema = "rpm DOUBLE"
sql = "SELECT 1 AS one"
target = { stream = "Out" }

[transforms.taken_name]
source = "Json"
schema = "ingest_time TIMESTAMP"
sql = "SELECT * FROM source"
target = { stream = "Out" }

[transforms.absent]
source = "Nowhere"
format = "raw"
sql = "SELECT payload FROM source"
target = { stream = "Out" }
"""
PROBLEMS = {
    "misspelt": 'key "sql" is refused by Spark: A column, variable, or function parameter with '
    "name `rmp` cannot be resolved",
    "no_statement": "key \"sql\" is refused by Spark: Syntax error at or near 'SELEKT'",
    "no_type": 'key "schema" is not a list of columns and types',
    "no_watermark": 'needs key "watermark" on a column that it groups by',
    "no_time": 'key "watermark" names the column rpm, which is DOUBLE. Name one of type TIMESTAMP',
    "no_partition": 'key "target.partition_by" names machine, which the SQL does not give. It '
    "gives rpm.",
    "elsewhere": 'key "sql" does not read from source. Select from it.',
    "taken_name": "which is a name of the message's own",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, ServerProcess]]:
    folder = tmp_path_factory.mktemp("cli-transforms")
    (folder / "penstock.toml").write_text(CONFIG)
    with ServerProcess(folder, "--config", str(folder / "penstock.toml")) as server:
        with StreamManagerClient(port=server.port) as client:
            for name, payloads in {
                "Json": [b'{"rpm": 1.5, "at": {"line": "L"}}', b"torn {", b'{"rpm": 2}'],
                "Csv": [b"1;x;2.5", b"2;y;3"],
                "Text": [b"hello"],
                "Empty": [],
            }.items():
                client.create_message_stream(
                    MessageStreamDefinition(
                        name, strategy_on_full=StrategyOnFull.OverwriteOldestData
                    )
                )
                if payloads:
                    client.append_messages(name, payloads)
        yield folder, server


def run(place: tuple[Path, ServerProcess], *arguments: str, online: bool = True) -> Result:
    folder, server = place
    port = ["--port", str(server.port)] if online else []
    return command(folder, "transforms", *arguments, *port)


def test_validate_says_of_each_transform_whether_spark_takes_it(
    place: tuple[Path, ServerProcess],
) -> None:
    done = run(place, "validate", online=False)

    assert done.status == 1
    assert done.lines == [
        "fine is fine. It gives sequence_number BIGINT, rpm DOUBLE, line STRING.",
        "absent is fine. It gives payload BINARY.",
    ]
    told = {
        line.removeprefix("penstock: transform ").partition(":")[0]: line
        for line in done.errors.splitlines()
        if line.startswith("penstock: transform ")
    }
    assert told.keys() == PROBLEMS.keys()
    for name, problem in PROBLEMS.items():
        assert problem in told[name]
    assert "Exception" not in done.errors


def test_dry_run_prints_rows_and_malformed_messages_and_writes_nothing(
    place: tuple[Path, ServerProcess],
) -> None:
    _, server = place
    before = sorted(os.listdir(server.data_dir))

    done = run(place, "dry-run", "fine", "--last", "2")

    assert done.status == 0, done.errors
    assert done.lines == ['{"sequence_number":2,"rpm":2.0}']
    assert "penstock: message 1 is malformed: not JSON" in done.errors
    assert sorted(os.listdir(server.data_dir)) == before
    with StreamManagerClient(port=server.port) as client:
        assert "Out" not in client.list_streams()
        assert client.find_dead_letters() == []


def test_infer_prints_a_schema_to_paste(place: tuple[Path, ServerProcess]) -> None:
    done = run(place, "infer", "Json")

    assert done.lines == ['schema = "at STRUCT<line: STRING>, rpm DOUBLE"']
    assert "1 of 3 messages are not JSON objects and were left out." in done.errors


@pytest.mark.slow
def test_infer_reads_a_data_directory_without_its_server(
    place: tuple[Path, ServerProcess],
) -> None:
    _, server = place
    done = run(place, "infer", "Text", "--path", str(server.data_dir), online=False)

    assert done.status == 1
    assert "none of the last 1 messages of stream Text is a JSON object" in done.errors


@pytest.mark.parametrize(
    ("arguments", "status", "expected"),
    [
        (["dry-run", "fnie"], 1, 'There is no transform fnie. Did you mean "fine"?'),
        (["validate", "x", "--config", "none.toml"], 2, "there is no configuration file none.toml"),
        (["dry-run", "absent", "--port", "PORT"], 1, "stream Nowhere does not exist"),
        (["dry-run", "fine", "--port", "1"], 3, "Start a server with `penstock serve`"),
        (["dry-run", "fine", "--last", "0"], 2, "0 is not in the range"),
        (["infer", "Nowhere", "--port", "PORT"], 1, "`penstock streams list` shows what there is"),
        (["infer", "Empty", "--port", "PORT"], 1, "has no messages to infer a schema from"),
        (["infer", "Json", "--path", "nothing"], 1, "nothing is not a folder"),
        (["infer", "Json", "--path", "DATA", "--format", "xml"], 2, "'xml' is not one of"),
        (["infer", "Nowhere", "--path", "DATA"], 1, "there is no stream Nowhere at"),
        (["reset", "fnie", "--port", "PORT"], 1, "there is no transform fnie; declared are: fine,"),
        (["reset", "fine", "--from", "noon"], 2, "--from noon cannot be used. Give earliest,"),
        (["list", "--port", "1"], 3, "Start a server with `penstock serve`"),
    ],
)
def test_a_mistake_is_told_in_a_line(
    place: tuple[Path, ServerProcess], arguments: list[str], status: int, expected: str
) -> None:
    _, server = place
    known = {"PORT": str(server.port), "DATA": str(server.data_dir)}

    done = run(place, *(known.get(each, each) for each in arguments), online=False)

    assert (done.status, done.lines) == (status, [])
    assert done.errors.startswith("penstock: ")
    assert expected in done.errors
    assert "Traceback" not in done.errors


def test_no_transform_at_all_is_a_hint_where_to_declare_one(tmp_path: Path) -> None:
    done = command(tmp_path, "transforms", "validate")

    assert done.status == 1
    assert "No transform is declared. Write [transforms.NAME] into penstock.toml" in done.errors


def test_list_shows_what_waits_for_a_pipeline(place: tuple[Path, ServerProcess]) -> None:
    done = run(place, "list")

    assert done.lines[0].split()[:4] == ["TRANSFORM", "FROM", "TO", "STATE"]
    assert done.lines[1].split()[:5] == ["fine", "Json", "stream", "Out", "waiting"]


def test_without_spark_the_error_says_what_to_install(place: tuple[Path, ServerProcess]) -> None:
    folder, _ = place
    program = (
        "import sys; sys.modules['pyspark'] = None\n"
        "from penstock.cli import run\n"
        "sys.exit(run(sys.argv[1:]))"
    )

    done = subprocess.run(
        [sys.executable, "-c", program, "transforms", "validate", "fine"],
        cwd=folder,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.returncode == 1
    assert done.stderr.strip().endswith(
        "pyspark is not installed: run `pip install penstock[spark]`."
    )
