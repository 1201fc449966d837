"""What a user may say, and what they are told when it is wrong."""

from __future__ import annotations

import pytest

from penstock.spark.options import LATEST, OPTIONS, ServerAddress, parse_options
from penstock.spark.trouble import SourceError

ONE = {"servers": "127.0.0.1:8088", "stream": "S"}


def test_the_least_that_is_needed() -> None:
    options = parse_options(ONE)

    assert options.servers == (ServerAddress("127.0.0.1:8088", "127.0.0.1", 8088),)
    assert options.streams.exact == ("S",)
    assert options.fail_on_data_loss
    assert options.fail_on_unreachable
    assert not options.has_server_column


@pytest.mark.parametrize("name", OPTIONS)
def test_options_are_known_in_any_case(name: str) -> None:
    values = {
        "servers": "h:1",
        "path": "/data",
        "startingSequence": "earliest",
        "endingSequence": "latest",
        "startingTime": "0",
        "endingTime": "0",
        "failOnDataLoss": "false",
        "filterPushdown": "true",
        "failOnUnreachable": "TRUE",
        "token": "secret",
        "stream": "T",
    }
    rest = {"stream": "S"} if name == "path" else ONE

    assert parse_options(rest | {name.lower(): values.get(name, "5")})
    assert parse_options(
        {k: v for k, v in rest.items() if k != name} | {name: values.get(name, "5")}
    )


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("h", ["h:8088"]),
        ("h:1", ["h:1"]),
        ("h:1,h:2 , i", ["h:1", "h:2", "i:8088"]),
        ('["h:1", "i:2"]', ["h:1", "i:2"]),
        ("pump=10.0.0.1:9, valve=v", ["pump", "valve"]),
        ("[::1]:8088", ["[::1]:8088"]),
        ("box=[::1]", ["box"]),
    ],
)
def test_servers_in_all_their_forms(text: str, names: list[str]) -> None:
    options = parse_options({"servers": text, "stream": "S"})

    assert [server.name for server in options.servers] == names
    assert options.has_server_column == (len(names) > 1)


@pytest.mark.parametrize(
    ("text", "is_many"),
    [("/a", False), ("/a,/b", True), ("/devices/*", True), ("file:///a", False)],
)
def test_paths_in_all_their_forms(text: str, is_many: bool) -> None:
    assert parse_options({"path": text, "stream": "S"}).has_server_column == is_many


def test_a_name_with_a_comma_goes_into_a_json_list() -> None:
    streams = parse_options(ONE | {"stream": '["a,b", "c*"]'}).streams

    assert streams.exact == ("a,b",)
    assert streams.match("cd")
    assert not streams.match("a")


def test_a_map_of_numbers_is_for_streams_or_for_servers() -> None:
    by_stream = parse_options(ONE | {"startingSequence": '{"S": 7}'}).start
    two = {"servers": "a:1,b:1", "stream": "*"}
    by_server = parse_options(two | {"endingSequence": '{"a:1": {"S": 7, "T": "earliest"}}'}).end

    assert by_stream.of("127.0.0.1:8088", "S") == 7
    assert by_server.of("a:1", "S") == 7
    assert by_server.of("b:1", "S") == LATEST


@pytest.mark.parametrize(
    "text", ["2026-01-31T12:00:00Z", "2026-01-31T13:00:00+01:00", "2026-01-31 12:00"]
)
def test_a_time_without_a_zone_is_utc(text: str) -> None:
    options = parse_options(ONE | {"startingTime": text, "endingTime": "1769860800001"})

    assert options.start_time_ms == 1769860800000
    assert options.end_time_ms == 1769860800001


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"stream": "S"}, "option servers is missing"),
        ({"servers": "h:1"}, "option stream is missing"),
        (ONE | {"topic": "x"}, "option topic is not known.*known are servers, stream, path"),
        (ONE | {"path": "/x"}, "options servers and path exclude each other"),
        (ONE | {"startingTime": "0", "startingSequence": "0"}, "exclude each other"),
        (ONE | {"endingTime": "0", "endingSequence": "0"}, "exclude each other"),
        (ONE | {"servers": "h:x"}, "option servers cannot be 'h:x': .*h:x"),
        (ONE | {"servers": "h:70000"}, "1..65535"),
        (ONE | {"servers": "http://h:1"}, "is not host:port"),
        (ONE | {"servers": "h:1,h:1"}, "h:1 is there twice"),
        (ONE | {"servers": ","}, "option servers cannot be ','"),
        ({"path": "s3://bucket/x", "stream": "S"}, "option path .*local"),
        (ONE | {"stream": ","}, "option stream cannot be ','"),
        (ONE | {"startingSequence": "-1"}, "option startingSequence cannot be '-1': .*earliest"),
        (ONE | {"startingSequence": "{"}, "it is not JSON"),
        (ONE | {"startingSequence": '{"T": 1}'}, "startingSequence names T, which option stream"),
        (ONE | {"endingSequence": '{"x:1": {"S": 1}}'}, "endingSequence names x:1, which option s"),
        (ONE | {"startingSequence": '{"S": 1, "x": {"S": 1}}'}, "give either"),
        (ONE | {"startingTime": "yesterday"}, "option startingTime .*ISO 8601"),
        (ONE | {"maxMessagesPerTrigger": "0"}, "option maxMessagesPerTrigger cannot be '0'"),
        (
            ONE | {"failOnDataLoss": "no"},
            "option failOnDataLoss cannot be 'no': give true or false",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_remedy(given: dict[str, str], expected: str) -> None:
    with pytest.raises(SourceError, match=expected):
        parse_options(given)


def test_a_token_is_not_shown() -> None:
    assert "geheim" not in repr(parse_options(ONE | {"token": "geheim"}))
