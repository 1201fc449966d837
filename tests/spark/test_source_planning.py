"""The stream reader as Spark's planning process calls it, over real stores and servers."""

from __future__ import annotations

import json
import logging
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows
from stores import append, make_store, make_stream, numbered, open_store

from penstock import MessageStreamDefinition, StrategyOnFull, StreamManagerClient
from penstock.spark.options import parse_options
from penstock.spark.places import Unreachable
from penstock.spark.stream_reader import PenstockStreamReader
from penstock.spark.survey import Places
from penstock.spark.trouble import DataLoss, SourceError
from server_process import ServerProcess


def reader_of(path: Path | str, **options: str) -> PenstockStreamReader:
    return PenstockStreamReader(parse_options({"path": str(path), "stream": "*"} | options))


def payloads(reader: PenstockStreamReader, start: Any, end: Any) -> list[bytes]:
    """What the tasks of a batch give; they run elsewhere, so everything is pickled."""
    found = []
    for partition in pickle.loads(pickle.dumps(reader.partitions(start, end))):
        for batch in pickle.loads(pickle.dumps(reader)).read(partition):
            found += batch.column("payload").to_pylist()
    return found


def next_offset(reader: PenstockStreamReader, start: Any) -> Any:
    """As it comes back from Spark, which keeps it as text."""
    return json.loads(json.dumps(reader.latestOffset(start, reader.getDefaultReadLimit())))


def test_a_batch_is_the_same_when_it_is_read_again_by_another_process(tmp_path: Path) -> None:
    with open_store(tmp_path) as manager:
        stream = make_stream(manager)
        append(stream, numbered(100))
        reader = reader_of(tmp_path)
        start = reader.initialOffset()
        end = next_offset(reader, start)
        append(stream, numbered(100, 100))

        assert payloads(reader, start, end) == numbered(100)
        assert payloads(reader_of(tmp_path), start, end) == numbered(100)


def test_nothing_new_gives_the_same_offset_as_text(tmp_path: Path) -> None:
    reader = reader_of(make_store(tmp_path, T=[b"x"], S=[b"y"], A=[b"z"]))
    end = next_offset(reader, reader.initialOffset())

    assert json.dumps(next_offset(reader, end)) == json.dumps(end)
    assert reader.partitions(end, end) == []


def test_a_stream_that_appears_later_is_read_from_its_beginning(tmp_path: Path) -> None:
    with open_store(tmp_path) as manager:
        append(make_stream(manager, "S"), [b"old"])
        reader = reader_of(tmp_path, startingSequence="latest")
        start = reader.initialOffset()
        assert next_offset(reader, start) == start

        append(make_stream(manager, "T"), numbered(3))
        noted = next_offset(reader, start)
        assert payloads(reader, start, noted) == []
        end = next_offset(reader, noted)

        assert payloads(reader, noted, end) == numbered(3)
        assert next_offset(reader, end) == end


def test_a_store_that_appears_later_is_found_by_a_pattern(tmp_path: Path) -> None:
    make_store(tmp_path / "pump-1", S=[b"1"])
    reader = reader_of(f"{tmp_path}/pump-*")
    end = next_offset(reader, reader.initialOffset())
    make_store(tmp_path / "pump-2", S=[b"2"])

    noted = next_offset(reader, end)
    assert payloads(reader, noted, next_offset(reader, noted)) == [b"2"]


def test_what_comes_after_available_now_began_is_left_for_the_next_time(tmp_path: Path) -> None:
    with open_store(tmp_path) as manager:
        stream = make_stream(manager)
        append(stream, numbered(10))
        reader = reader_of(tmp_path, maxMessagesPerTrigger="4", minMessagesPerTrigger="3")
        reader.prepareForTriggerAvailableNow()
        append(stream, numbered(10, 10))
        append(make_stream(manager, "T"), [b"x"])

        offset, batches = reader.initialOffset(), []
        while (end := next_offset(reader, offset)) != offset:
            batches.append(payloads(reader, offset, end))
            offset = end

    # The smallest batch is no reason to wait: nothing more will come.
    assert [batch for batch in batches if batch] == [numbered(4), numbered(4, 4), numbered(2, 8)]


def test_the_most_and_the_least_of_a_batch(tmp_path: Path) -> None:
    with open_store(tmp_path) as manager:
        stream = make_stream(manager)
        append(stream, numbered(5))
        reader = reader_of(tmp_path, maxMessagesPerTrigger="8", minMessagesPerTrigger="6")
        start = reader.initialOffset()
        assert reader.getDefaultReadLimit() == ReadMaxRows(8)
        assert next_offset(reader, start) == start

        append(stream, numbered(10, 5))
        assert payloads(reader, start, next_offset(reader, start)) == numbered(8)
        everything = reader.latestOffset(start, ReadAllAvailable())
        assert payloads(reader, start, everything) == numbered(15)
    assert reader_of(tmp_path, minMessagesPerTrigger="6").getDefaultReadLimit() == ReadMinRows(6)
    assert reader_of(tmp_path).getDefaultReadLimit() == ReadAllAvailable()


def test_two_stores_have_an_offset_each_and_share_the_limit(tmp_path: Path) -> None:
    for name, count in (("a", 30), ("b", 10)):
        make_store(tmp_path / name, S=numbered(count))
    reader = reader_of(f"{tmp_path}/a,{tmp_path}/b", maxMessagesPerTrigger="20")
    end = next_offset(reader, reader.initialOffset())

    assert end == {f"{tmp_path}/a": {"S": 15}, f"{tmp_path}/b": {"S": 5}}
    assert reader.reportLatestOffset() == {f"{tmp_path}/a": {"S": 30}, f"{tmp_path}/b": {"S": 10}}


# --- starting -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "first"),
    [
        ({}, 0),
        ({"startingSequence": "latest"}, 100),
        ({"startingSequence": "42"}, 42),
        ({"startingSequence": '{"S": 7}'}, 7),
        ({"startingTime": "1700000000000"}, 0),
        ({"startingTime": "2099-01-01"}, 100),
    ],
)
def test_where_a_query_begins(tmp_path: Path, options: dict[str, str], first: int) -> None:
    reader = reader_of(make_store(tmp_path, S=numbered(100)), **options)

    assert reader.initialOffset() == {str(tmp_path): {"S": first}}


def test_beginning_without_a_checkpoint_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reader = reader_of(make_store(tmp_path, S=numbered(3)))

    reader.initialOffset()
    reader.initialOffset()

    assert [text for text in caplog.messages if "its checkpoint is lost" in text] == caplog.messages
    assert f"S at {tmp_path} from 0" in caplog.text
    assert len(caplog.messages) == 1


def test_a_start_beyond_the_end_is_refused(tmp_path: Path) -> None:
    reader = reader_of(make_store(tmp_path, S=numbered(3)), startingSequence="4")

    with pytest.raises(SourceError, match=r"startingSequence cannot be 4 .* next number is 3"):
        reader.initialOffset()


def test_a_checkpoint_of_something_else_is_refused(tmp_path: Path) -> None:
    reader = reader_of(make_store(tmp_path, S=[b"x"]))

    with pytest.raises(SourceError, match="start offset in the checkpoint is not one of format"):
        reader.latestOffset({"logOffset": 0}, ReadAllAvailable())


# --- losses -------------------------------------------------------------------------------------


def overwritten(root: Path) -> None:
    """100 messages are gone, 50 are left."""
    with open_store(root) as manager:
        stream = manager.get("S")
        while stream.log.first_sequence < 100:
            append(stream, numbered(1, stream.log.next_sequence))


def deleted(root: Path) -> None:
    with open_store(root) as manager:
        manager.delete("S")


def made_anew(root: Path) -> None:
    with open_store(root) as manager:
        manager.delete("S")
        append(make_stream(manager), [b"new 0", b"new 1"])


LOSSES = [
    (overwritten, r"messages 50 to \d+ of stream S at .* overwritten or expired, the oldest"),
    (deleted, "messages from 50 on of stream S at .* the stream was deleted"),
    (made_anew, r"messages from 50 on of stream S .* made anew .*, its next number is 2"),
]


def store_with_small_stream(root: Path) -> None:
    with open_store(root) as manager:
        append(make_stream(manager, max_size=8192, stream_segment_size=2048), numbered(60))


@pytest.mark.parametrize(("lose", "text"), LOSSES)
def test_a_loss_between_two_batches_is_an_error(
    tmp_path: Path, lose: Callable[[Path], None], text: str
) -> None:
    store_with_small_stream(tmp_path)
    start = {str(tmp_path): {"S": 50}}
    lose(tmp_path)

    with pytest.raises(DataLoss, match=text + r".* Set failOnDataLoss to false"):
        reader_of(tmp_path).latestOffset(start, ReadAllAvailable())
    with pytest.raises(DataLoss, match=r"messages 50 to .* of stream S"):
        reader_of(tmp_path).partitions(start, {str(tmp_path): {"S": 60}})


@pytest.mark.parametrize(("lose", "text"), LOSSES)
def test_a_loss_is_logged_once_and_the_rest_is_read_if_the_option_says_so(
    tmp_path: Path, lose: Callable[[Path], None], text: str, caplog: pytest.LogCaptureFixture
) -> None:
    store_with_small_stream(tmp_path)
    offset: Any = {str(tmp_path): {"S": 50}}
    lose(tmp_path)
    reader = reader_of(tmp_path, failOnDataLoss="false", maxMessagesPerTrigger="20")

    found = []
    while (end := next_offset(reader, offset)) != offset:
        found += payloads(reader, offset, end)
        offset = end

    with open_store(tmp_path) as manager:
        left = manager.find("S")
        assert len(found) == (left.available_from(0) if left else 0)
    assert len(caplog.messages) == 1
    assert caplog.records[0].levelno == logging.WARNING
    caplog.clear()


def test_a_place_that_the_options_no_longer_name_is_a_loss(tmp_path: Path) -> None:
    make_store(tmp_path / "a", S=[b"x"])
    start = {f"{tmp_path}/a": {"S": 0}, f"{tmp_path}/b": {"S": 7}}

    with pytest.raises(DataLoss, match=f"from 7 on of stream S at {tmp_path}/b .* no longer name"):
        reader_of(tmp_path / "a").latestOffset(start, ReadAllAvailable())

    kept = reader_of(tmp_path / "a", failOnDataLoss="false").latestOffset(start, ReadAllAvailable())
    assert kept == {f"{tmp_path}/a": {"S": 1}, f"{tmp_path}/b": {"S": 7}}


def test_a_start_that_was_overwritten_is_a_loss_unless_the_option_says_so(tmp_path: Path) -> None:
    store_with_small_stream(tmp_path)
    overwritten(tmp_path)

    with pytest.raises(DataLoss, match=r"messages 5 to \d+ .*startingSequence asks for them"):
        reader_of(tmp_path, startingSequence="5").initialOffset()
    begun = reader_of(tmp_path, startingSequence="5", failOnDataLoss="false").initialOffset()
    assert begun[str(tmp_path)]["S"] >= 100


# --- servers ------------------------------------------------------------------------------------


def test_a_missing_stream_is_named_with_those_there_are(tmp_path: Path) -> None:
    make_store(tmp_path, S=[b"x"], T=[b"x"])

    with pytest.raises(SourceError, match=r"no stream U at .*; there are S, T"):
        reader_of(tmp_path, stream="S,U").initialOffset()


def test_a_server_that_is_down_does_not_stop_the_others_and_is_picked_up_again(
    tmp_path: Path, server: ServerProcess, client: StreamManagerClient, make_stream: Any
) -> None:
    name = make_stream([b"here"])
    definition = MessageStreamDefinition(name, strategy_on_full=StrategyOnFull.RejectNewData)
    with ServerProcess(tmp_path) as other:
        with StreamManagerClient(port=other.port) as own:
            own.create_message_stream(definition)
            own.append_message(name, b"there")
        other.kill()
        servers = f"here=127.0.0.1:{server.port},there=127.0.0.1:{other.port}"
        options = {"servers": servers, "stream": name}

        strict = PenstockStreamReader(parse_options(options))
        with pytest.raises(Unreachable, match=r"server there cannot be reached.*option servers"):
            strict.initialOffset()
        strict.stop()

        clock = [0.0]
        parsed = parse_options(options | {"failOnUnreachable": "false"})
        reader = PenstockStreamReader(parsed)
        reader._places = Places(parsed, now_s=lambda: clock[0])
        end = next_offset(reader, reader.initialOffset())
        assert payloads(reader, {"here": {name: 0}}, end) == [b"here"]
        report = reader.reportLatestOffset()
        assert report is not None
        assert report["there"].startswith("server there cannot be reached")

        other.restart()
        assert next_offset(reader, end) == end  # it is left alone for a second
        clock[0] = 2.0
        noted = next_offset(reader, end)
        assert payloads(reader, noted, next_offset(reader, noted)) == [b"there"]
        reader.stop()


def test_a_server_that_restarts_between_two_batches_is_waited_for(tmp_path: Path) -> None:
    definition = MessageStreamDefinition("S", strategy_on_full=StrategyOnFull.RejectNewData)
    with ServerProcess(tmp_path) as server:
        with StreamManagerClient(port=server.port) as own:
            own.create_message_stream(definition)
            own.append_message("S", b"x")
        parsed = parse_options({"servers": f"127.0.0.1:{server.port}", "stream": "S"})
        reader = PenstockStreamReader(parsed)
        start = reader.initialOffset()
        server.kill()
        server.restart()

        assert payloads(reader, start, next_offset(reader, start)) == [b"x"]
        reader.stop()


def test_a_token_is_shown_and_a_wrong_one_is_an_error_that_names_the_option(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, env={"PENSTOCK_TOKENS": "right"}) as server:
        options = {"servers": f"127.0.0.1:{server.port}", "stream": "*"}

        for token, remedy in (({}, "give one"), ({"token": "wrong"}, "correct option token")):
            with pytest.raises(SourceError, match=f"refuses us: .*{remedy}"):
                PenstockStreamReader(parse_options(options | token)).initialOffset()
        reader = PenstockStreamReader(parse_options(options | {"token": "right"}))
        assert reader.initialOffset() == {}
        reader.stop()


def test_a_range_over_tcp_is_cut_where_it_ends_though_numbers_are_missing(
    server: ServerProcess, client: StreamManagerClient, make_stream: Any
) -> None:
    name = make_stream(numbered(20_000))
    address = f"127.0.0.1:{server.port}"
    reader = PenstockStreamReader(parse_options({"servers": address, "stream": name}))

    found = payloads(reader, {address: {name: 5}}, {address: {name: 19_990}})

    assert found == numbered(19_985, 5)
    reader.stop()


def test_a_copy_is_read_like_the_store_itself(tmp_path: Path) -> None:
    make_store(tmp_path / "store", S=numbered(1000))
    shutil.copytree(tmp_path / "store", tmp_path / "copy")

    reader = reader_of(tmp_path / "copy")
    start = reader.initialOffset()

    assert payloads(reader, start, next_offset(reader, start)) == numbered(1000)
