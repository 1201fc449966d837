"""What `[transforms.NAME]` may say, and what is answered to everything else. No Spark here."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest

from penstock.errors import SettingsError
from penstock.settings import Settings
from penstock.transforms.declaration import Target, Transform, declared

SMALLEST = """
[t]
source = "In"
schema = "a INT"
sql = "SELECT a FROM source"
target = { stream = "Out" }
"""


def problems_of(text: str) -> list[str]:
    return declared(tomllib.loads(text), "/etc/penstock")[1]


def with_lines(*lines: str) -> str:
    """The smallest declaration; a line replaces the one with the same key."""
    table = dict(line.split(" = ", 1) for line in SMALLEST.strip().splitlines()[1:])
    table |= dict(line.split(" = ", 1) for line in lines)
    return "\n".join(["[t]", *(f"{key} = {value}" for key, value in table.items() if value)])


def test_the_smallest_declaration_has_sensible_defaults() -> None:
    transforms, problems = declared(tomllib.loads(SMALLEST), "/etc/penstock")

    assert problems == []
    assert transforms == [
        Transform(
            name="t",
            source="In",
            schema="a INT",
            sql="SELECT a FROM source",
            target=Target(stream="Out", create=True),
            format="json",
            malformed="dead-letters",
            output_mode="append",
            trigger="1 second",
            start="earliest",
            enabled=True,
        )
    ]


def test_every_key_can_be_given() -> None:
    text = """
    [vibration]
    source = "Turbine7"
    format = "csv"
    schema = "ts TIMESTAMP, rpm DOUBLE"
    options = { sep = ";", maxColumns = 20, multiLine = true }
    watermark = "ts 10 minutes"
    sql = "SELECT * FROM source"
    malformed = "column"
    output_mode = "append"
    trigger = "1 minute 30 seconds"
    start = 17
    messages_per_batch_max = 5
    fail_on_data_loss = true
    enabled = false
    [vibration.target]
    table = "tables/averages"
    partition_by = ["machine"]
    options = { compression = "zstd" }
    """

    (transform,), problems = declared(tomllib.loads(text), "/etc/penstock")

    assert problems == []
    assert transform.options == {"sep": ";", "maxColumns": "20", "multiLine": "true"}
    assert transform.watermark_parts == ("ts", "10 minutes")
    assert transform.start == "17"
    assert transform.target.table == "/etc/penstock/tables/averages"
    assert transform.target.options == {"compression": "zstd"}
    assert Transform.from_dict(transform.as_dict()) == transform


def test_a_table_at_an_address_stays_as_it_is() -> None:
    (transform,), _ = declared(
        tomllib.loads(with_lines('target = { table = "s3a://bucket/t" }')), "/etc/penstock"
    )

    assert transform.target.table == "s3a://bucket/t"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('fromat = "json"', 'key "fromat" is unknown. Did you mean "format"? Known are source,'),
        ('format = "xml"', 'key "format" is "xml", which cannot be used. Give one of json, csv,'),
        ("source = 5", 'key "source" is 5, which cannot be used. Give the name of a stream.'),
        ('source = "a/b"', 'key "source" is "a/b", which cannot be used.'),
        ("source = ", 'key "source" is missing. Name the stream that it reads.'),
        ("sql = ", 'key "sql" is missing. Give one SELECT statement over source.'),
        ('sql = " "', 'key "sql" is " ", which cannot be used. Give one SELECT statement.'),
        ("schema = ", "`penstock transforms infer In` prints one, or give format"),
        ('watermark = "ts"', 'Give a column and a duration, such as "ts 10 minutes".'),
        ('watermark = "ts soon"', 'Give a column and a duration, such as "ts 10 minutes".'),
        ('trigger = "fast"', 'Give a duration, such as "5 seconds".'),
        ('start = "middle"', "Give earliest, latest, or a sequence number."),
        ("start = -1", "Give earliest, latest, or a sequence number."),
        ('malformed = "ignore"', "Give one of dead-letters, column."),
        ('output_mode = "upsert"', "Give one of append, update, complete."),
        ("messages_per_batch_max = 0", "Give a whole number from 1 to"),
        ('enabled = "yes"', 'key "enabled" is "yes", which cannot be used. Give true or false.'),
        ('options = { mode = "FAILFAST" }', "without mode and columnNameOfCorruptRecord"),
        ("options = { sep = [1] }", "a table of Spark's options"),
        ('format = "raw"', 'key "schema" has no meaning with format = "raw"'),
        ("target = ", 'key "target" is missing. Add [transforms.t.target] with one of stream,'),
        ("target = {}", "target: no place is given. Give exactly one of stream, table, format."),
        ('target = { stream = "A", table = "b" }', "target: stream and table are given."),
        ('target = { steam = "A" }', 'target: key "steam" is unknown. Did you mean "stream"?'),
        ('target = { stream = "In" }', 'key "target.stream" is its own source, In'),
        ('target = { stream = "A", partition_by = ["x"] }', '"partition_by" belongs to table.'),
        ('target = { table = "a", create = true }', '"create" belongs to stream.'),
    ],
)
def test_a_mistake_is_answered_with_transform_key_and_remedy(line: str, expected: str) -> None:
    problems = problems_of(with_lines(line))

    assert len(problems) >= 1
    assert problems[0].startswith('transform "t": ')
    assert any(expected in problem for problem in problems), problems


def test_all_mistakes_are_told_together() -> None:
    problems = problems_of(with_lines('trigger = "soon"', "start = 1.5", "target = {}"))

    assert len(problems) == 3


@pytest.mark.parametrize("target", ["table", "stream"])
@pytest.mark.parametrize("mode", ["complete", "update"])
def test_a_target_that_only_grows_is_not_given_rows_to_replace(target: str, mode: str) -> None:
    lines = (f'target = {{ {target} = "a" }}', f'output_mode = "{mode}"')

    assert (
        f'is "{mode}", but a {target} can only be appended to' in problems_of(with_lines(*lines))[0]
    )


@pytest.mark.parametrize("name", ["a b", "a.b", "x" * 65, "ä"])
def test_a_name_that_could_not_be_a_folder_is_refused(name: str) -> None:
    (problem,) = declared({name: tomllib.loads(SMALLEST)["t"]}, "/")[1]

    assert "the name cannot be used" in problem


@pytest.mark.parametrize("tables", [1, [{"source": "x"}], {"t": 1}])
def test_what_is_no_table_is_refused(tables: object) -> None:
    (problem,) = declared(tables, "/")[1]

    assert "not a table" in problem


def test_two_transforms_cannot_write_the_same_table() -> None:
    table = tomllib.loads(with_lines('target = { table = "a" }'))["t"]

    (problem,) = declared({"one": table, "two": table}, "/data")[1]

    assert problem.startswith('transform "two": key "target.table" is /data/a, as in transform')


def test_transforms_that_feed_each_other_in_a_circle_are_refused() -> None:
    first = tomllib.loads(with_lines('source = "A"', 'target = { stream = "B" }'))["t"]
    second = tomllib.loads(with_lines('source = "B"', 'target = { stream = "A" }'))["t"]

    problems = declared({"one": first, "two": second}, "/")[1]

    assert any("comes back to its source by way of other transforms" in each for each in problems)


def test_transforms_in_a_row_are_fine() -> None:
    first = tomllib.loads(with_lines('source = "A"', 'target = { stream = "B" }'))["t"]
    second = tomllib.loads(with_lines('source = "B"', 'target = { stream = "C" }'))["t"]

    assert declared({"one": first, "two": second}, "/")[1] == []


def test_the_settings_hold_the_transforms_of_their_file(tmp_path: Path) -> None:
    path = tmp_path / "penstock.toml"
    path.write_text(SMALLEST.replace("[t]", "[transforms.t]"))

    settings = Settings.load({}, {}, str(path)).settings

    assert [transform.name for transform in settings.transforms] == ["t"]
    assert Settings.load({}, {}, config_search=()).settings.transforms == ()


def test_a_server_with_a_wrong_transform_does_not_start(tmp_path: Path) -> None:
    path = tmp_path / "penstock.toml"
    path.write_text("port = -1\n[transforms.t]\nsauce = 1\n")

    with pytest.raises(SettingsError) as caught:
        Settings.load({}, {}, os.fspath(path))

    lines = str(caught.value).splitlines()
    assert any(line.startswith("port ") for line in lines)
    assert any(line.startswith(f'{path}: transform "t": key "sauce" is unknown') for line in lines)
