"""Options of a write: what is wrong is named with its remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import PenstockError
from penstock.model import Persistence, StrategyOnFull
from penstock.spark.sink_options import SinkError, parse_sink_options

LEAST = {"servers": "127.0.0.1:8088", "stream": "s"}


def test_server_and_stream_are_enough() -> None:
    options = parse_sink_options(LEAST)
    assert (options.server.host, options.server.port) == ("127.0.0.1", 8088)
    assert options.stream == "s"
    assert options.as_json is options.transaction_id is options.definition is None


def test_names_have_no_case_and_what_spark_adds_is_ignored() -> None:
    more = {"SERVERS": "h", "Stream": "s", "checkpointLocation": "/c", "queryName": "q"}
    assert parse_sink_options(more).server.host == "h"


def test_a_stream_is_created_as_the_options_say(tmp_path: Path) -> None:
    file = tmp_path / "definition.json"
    file.write_text('{"maxSize": 4096, "timeToLiveMillis": 60000, "persistence": null}')
    made = parse_sink_options(
        LEAST
        | {"createStream": "true", "definition": str(file), "maxSize": "8192"}
        | {"strategyOnFull": "overwriteOldestData", "persistence": "Memory", "flushOnWrite": "true"}
    ).definition
    assert made is not None
    assert made.name == "s"
    assert made.max_size == 8192
    assert made.time_to_live_millis == 60_000
    assert made.strategy_on_full == StrategyOnFull.OverwriteOldestData
    assert made.persistence == Persistence.Memory
    assert made.flush_on_write


def test_a_stream_that_is_created_by_default_loses_nothing() -> None:
    made = parse_sink_options(LEAST | {"createStream": "true"}).definition
    assert made is not None
    assert made.strategy_on_full == StrategyOnFull.RejectNewData


CREATE = {"createStream": "true"}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"servers": ""}, "option servers is missing"),
        ({"servers": "a:1,b:2"}, "option servers cannot be 'a:1,b:2': a write goes to one"),
        ({"servers": "a:x"}, "option servers cannot be 'a:x'"),
        ({"stream": ""}, "option stream is missing"),
        ({"path": "/x"}, "has no path: .* option stream"),
        ({"startingTime": "1"}, "option startingtime is not known to a write .* known are servers"),
        ({"payload": "xml"}, "option payload cannot be 'xml': give json"),
        ({"transactionId": ""}, "option transactionId has 0 characters"),
        ({"transactionId": "x" * 201}, "option transactionId has 201 characters"),
        ({"createStream": "yes"}, "option createStream cannot be 'yes': give true or false"),
        ({"maxSize": "4096"}, "option maxSize is for a stream that is created; set option createS"),
        (CREATE | {"maxSize": "4 KiB"}, "option maxSize cannot be '4 KiB': give a whole number"),
        (CREATE | {"maxSize": "10"}, "the stream cannot be created so: maxSize"),
        (CREATE | {"strategyOnFull": "1"}, "give RejectNewData or OverwriteOldestData"),
        (CREATE | {"persistence": "disk"}, "option persistence cannot be 'disk': give File or Mem"),
        (CREATE | {"definition": "/no/file"}, "/no/file cannot be read"),
        (CREATE | {"definition": "{"}, "option definition is not JSON"),
        (CREATE | {"definition": '{"name": "t"}'}, "option definition is for stream t, not for s"),
        (CREATE | {"definition": '{"maxsize": 1}'}, "option definition has the key maxsize"),
    ],
)
def test_what_is_wrong_is_named_with_its_remedy(options: dict[str, str], text: str) -> None:
    with pytest.raises(PenstockError, match=text):
        parse_sink_options(LEAST | options)


def test_a_definition_file_must_hold_an_object(tmp_path: Path) -> None:
    file = tmp_path / "definition.json"
    file.write_text("[]")
    with pytest.raises(SinkError, match="does not hold a JSON object"):
        parse_sink_options(LEAST | CREATE | {"definition": str(file)})
