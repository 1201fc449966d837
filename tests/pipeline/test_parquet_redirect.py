"""IoT Analytics channels that go to Parquet tables, with a real server and real Spark.

The streams are made before the server starts, with ingest times of long ago: nothing has to wait
for messages to gather, and days can be chosen.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import NamedTuple

import pyarrow
import pytest
from exports_rig import Rig, definition, java_process, kill, numbered, running_rig, wait_until
from pyarrow import dataset

from failure_logs import show_on_failure
from penstock.exporting.dead_letters import DeadLetters
from penstock.exporting.tables import FILE_MESSAGES_MAX
from penstock.model import IoTAnalyticsConfig
from penstock.pipeline.context import session_of, start_context
from penstock.streams.manager import StreamManager
from penstock.streams.store import owned
from penstock.streams.stream import Stream

MIDNIGHT_MS = int(datetime(2026, 2, 1, tzinfo=UTC).timestamp() * 1000)
# A session, its first job, and a restart of all that, on a machine that is busy with other tests.
WRITTEN_S = 120.0


class Prepared(NamedTuple):
    """A rig whose server found these streams, and where the tables are."""

    rig: Rig
    table: Path
    blocked_table: Path


def channel(name: str, **options: object) -> IoTAnalyticsConfig:
    return IoTAnalyticsConfig("export", name, **options)  # type: ignore[arg-type]


def fill(stream: Stream, payloads: Sequence[bytes], first_time_ms: int, step_ms: int = 0) -> None:
    if not step_ms:
        stream.append(b"".join(payloads), list(map(len, payloads)), first_time_ms)
        return
    for number, payload in enumerate(payloads):
        stream.append(payload, [len(payload)], first_time_ms + number * step_ms)


def prepare(root: Path) -> None:
    """The store, before there is a server."""
    with owned(str(root), os.getpid()) as power_lost:
        manager = StreamManager(str(root), power_lost=power_lost)

        def create(name: str, config: IoTAnalyticsConfig) -> Stream:
            return manager.create(definition(name, iot_analytics=[config]))

        two_days = create("two days, with a comma", channel("turbines"))
        fill(two_days, numbered(10), MIDNIGHT_MS - 5_000, step_ms=1_000)
        fill(create("bytes", channel("turbines")), [b"\x00\xff", b""], MIDNIGHT_MS)
        fill(create("other channel", channel("pumps")), [b"pump"], MIDNIGHT_MS)
        fill(create("blocked", channel("blocked")), [b"stuck"], MIDNIGHT_MS)
        letters = create("letters", channel("letters", start_sequence_number=5))
        fill(letters, numbered(10), MIDNIGHT_MS)
        damaged = create("damaged", channel("damaged"))
        fill(damaged, numbered(10), MIDNIGHT_MS)
        spoil(damaged, 4)
        manager.close()
    store = DeadLetters(str(root / "dead-letters.sqlite"))
    refused = [(n, MIDNIGHT_MS, "refused by the service", b"%d" % n) for n in (2, 7)]
    store.add("letters", "export", time.time_ns() // 10**6, refused)
    store.close()


def spoil(stream: Stream, offset: int) -> None:
    """Change a byte of the stored payloads."""
    (path,) = Path(stream.folder).glob("*.data")
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)


@pytest.fixture(scope="module")
def prepared(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Prepared]:
    folder = tmp_path_factory.mktemp("tables")
    show_on_failure(request, folder / "server.log")
    table, blocked_table = folder / "analytics", folder / "in the way"
    blocked_table.touch()
    prepare(folder / "data")
    redirects = [f"blocked=parquet:{blocked_table}"]
    names = ("turbines", "pumps", "letters", "damaged", "backlog_1", "backlog_9")
    redirects += [f"{name}=parquet:{table}" for name in names]
    with running_rig(folder, {"PENSTOCK_IOT_ANALYTICS_REDIRECTS": ",".join(redirects)}) as rig:
        yield Prepared(rig, table, blocked_table)


def read(table: Path, channel_name: str) -> pyarrow.Table:
    """What a reader of the table sees at this moment, in order."""
    days = pyarrow.schema([("day", pyarrow.date32())])
    found = dataset.dataset(
        table / f"channel={channel_name}",
        partitioning=dataset.partitioning(days, flavor="hive"),
        format="parquet",
    )
    return found.to_table().sort_by([("stream", "ascending"), ("sequence_number", "ascending")])


def rows_of(table: Path, channel_name: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = read(table, channel_name).to_pylist()
    return rows


def numbers_of(table: Path, channel_name: str) -> list[int]:
    numbers: list[int] = read(table, channel_name)["sequence_number"].to_pylist()
    return numbers


def test_rows_are_the_messages_in_folders_by_channel_and_utc_day(prepared: Prepared) -> None:
    rig, table, _ = prepared
    for name, count in (("two days, with a comma", 10), ("bytes", 2), ("other channel", 1)):
        view = rig.wait_until_exported(name, count, timeout_s=WRITTEN_S)
        assert view.delivered_messages == count

    assert rows_of(table, "turbines") == [
        *(row("bytes", n, payload, 0) for n, payload in enumerate((b"\x00\xff", b""))),
        *(row("two days, with a comma", n, b"%d" % n, (n - 5) * 1000) for n in range(10)),
    ]
    assert rows_of(table, "pumps") == [row("other channel", 0, b"pump", 0)]
    days = sorted(path.name for path in (table / "channel=turbines").iterdir())
    assert days == ["day=2026-01-31", "day=2026-02-01"]
    view = rig.export("two days, with a comma")
    assert view.target == f"turbines -> Parquet {table}"
    assert (view.delivered_bytes, view.state) == (10, "idle")


def row(stream: str, number: int, payload: bytes, after_midnight_ms: int) -> dict[str, object]:
    moment = datetime.fromtimestamp((MIDNIGHT_MS + after_midnight_ms) / 1000, UTC)
    return {
        "stream": stream,
        "sequence_number": number,
        "ingest_time": moment,
        "payload": payload,
        "day": moment.date(),
    }


def test_a_damaged_message_is_a_dead_letter_and_the_others_are_rows(prepared: Prepared) -> None:
    rig, table, _ = prepared
    view = rig.wait_until_exported("damaged", 10, timeout_s=WRITTEN_S)
    assert (view.refused_messages, view.dead_letters, view.delivered_messages) == (1, 1, 9)
    assert numbers_of(table, "damaged") == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    (letter,) = rig.client.find_dead_letters("damaged")
    assert "damaged" in letter.reason


def test_letters_of_the_time_before_the_redirect_are_replayed_into_the_table(
    prepared: Prepared,
) -> None:
    rig, table, _ = prepared
    rig.wait_until_exported("letters", 10, timeout_s=WRITTEN_S)
    assert numbers_of(table, "letters") == [5, 6, 7, 8, 9]

    assert rig.client.replay_dead_letters("letters") == 2

    wait_until(lambda: rig.export("letters").dead_letters == 0, "the letters to go", WRITTEN_S)
    assert numbers_of(table, "letters") == [2, 5, 6, 7, 8, 9]
    assert rows_of(table, "letters")[0] == row("letters", 2, b"2", 0)


def test_a_moved_start_writes_nothing_twice(prepared: Prepared) -> None:
    rig, table, _ = prepared
    rig.wait_until_exported("letters", 10, timeout_s=WRITTEN_S)
    rig.update("letters", iot_analytics=[channel("letters", start_sequence_number=1)])
    rig.wait_until_exported("letters", 10, timeout_s=WRITTEN_S)
    assert numbers_of(table, "letters") == list(range(1, 10))


def test_a_table_that_cannot_be_written_blocks_its_export_until_it_can(prepared: Prepared) -> None:
    rig, _, blocked_table = prepared
    view = rig.wait_for_state("blocked", "blocked", WRITTEN_S)
    assert view.last_error is not None
    assert view.last_error.startswith(f"table {blocked_table} cannot be written: File exists")
    assert view.next_retry_time is not None

    blocked_table.unlink()
    # A changed export is tried at once.
    rig.update("blocked", iot_analytics=[channel("blocked", priority=1)])

    rig.wait_until_exported("blocked", 1, timeout_s=WRITTEN_S)
    assert rows_of(blocked_table, "blocked") == [row("blocked", 0, b"stuck", 0)]


def test_new_messages_gather_and_the_other_exports_do_not_wait(prepared: Prepared) -> None:
    rig = prepared.rig
    rig.create("new", iot_analytics=[channel("turbines", batch_interval_millis=60_000)])
    rig.append("new", [b"one"])
    rig.create("neighbour", http=[rig.json_export("neighbour")])
    rig.append("neighbour", [b"now"])

    rig.wait_until_exported("neighbour", 1)

    view = rig.export("new")
    assert (view.state, view.lag_messages) == ("waiting", 1)
    assert view.waiting_for is not None
    assert "the interval of 60000 ms" in view.waiting_for


# --- kills ----------------------------------------------------------------------------------------


def kill_java(rig: Rig) -> None:
    kill(java_process(rig))


def kill_server(rig: Rig) -> None:
    rig.server.kill()
    rig.server.restart()


def kill_driver(rig: Rig) -> None:
    process_id = rig.wait_until_running().process_id
    assert process_id is not None
    kill(process_id)


LONG = pytest.param((kill_driver, kill_java, kill_server) * 3, marks=pytest.mark.slow)


@pytest.mark.timeout(600)  # after each kill Spark starts anew, and loads all of its SQL
@pytest.mark.parametrize("kills", [(kill_java,), LONG])
def test_whatever_is_killed_no_row_is_there_twice_and_none_is_missing(
    prepared: Prepared, kills: Sequence[Callable[[Rig], None]]
) -> None:
    rig, table, _ = prepared
    name = f"backlog_{len(kills)}"
    # So many messages do not wait for more. Each file but the first is a chance to kill something.
    total = (len(kills) + 3) * FILE_MESSAGES_MAX
    rig.create(name, iot_analytics=[channel(name)])
    rig.append(name, numbered(total))

    arrived = table / f"channel={name}"
    for kill_some in kills:
        wait_for_unfinished_file(rig, table, arrived, len(list(arrived.glob("*/*"))))
        kill_some(rig)
        seen = numbers_of(table, name)
        assert len(seen) == len(set(seen)) < total

    view = rig.wait_until_exported(name, total, timeout_s=WRITTEN_S)
    assert numbers_of(table, name) == list(range(total))
    assert read(table, name)["payload"].to_pylist() == numbered(total)
    assert (view.refused_messages, view.lost_messages) == (0, 0)


def wait_for_unfinished_file(rig: Rig, table: Path, arrived: Path, count: int) -> None:
    """Until one more file has arrived, and Spark has made its folder for the next."""
    wait_until(
        lambda: (
            len(list(arrived.glob("*/*"))) > count
            and any((table / "_penstock").glob("*/*/_temporary"))
        ),
        "a file that is being written",
        WRITTEN_S,
        rig.pipeline,
    )


# The last one: it takes a Java process of its own.
def test_spark_reads_the_table_as_one(prepared: Prepared) -> None:
    rig, table, _ = prepared
    rig.wait_until_exported("two days, with a comma", 10, timeout_s=WRITTEN_S)
    context, gateway = start_context("local[1]")
    try:
        frame = session_of(context).read.parquet(str(table))
        types = {field.name: field.dataType.simpleString() for field in frame.schema}
        found = frame.where("channel = 'turbines' and stream like 'two%'").collect()
    finally:
        context.stop()
        gateway.stop()
    assert types == {
        "stream": "string",
        "sequence_number": "bigint",
        "ingest_time": "timestamp",
        "payload": "binary",
        "channel": "string",
        "day": "date",
    }
    assert sorted((each.sequence_number, bytes(each.payload), each.day) for each in found) == [
        (n, b"%d" % n, date(2026, 1, 31) if n < 5 else date(2026, 2, 1)) for n in range(10)
    ]
