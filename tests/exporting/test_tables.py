"""When exports to tables are due, and how much goes into one file."""

from __future__ import annotations

from penstock.export_model import ExportReport, Lease
from penstock.exporting.bandwidth import Bandwidth
from penstock.exporting.dead_letters import DeadLetters
from penstock.exporting.desk import ExportDesk
from penstock.exporting.tables import (
    FILE_BYTES_MAX,
    FILE_MESSAGES_MAX,
    GATHER_MS,
    stop_of_file,
    table_of,
)
from penstock.log.memory import Memory
from penstock.model import (
    ExportDefinition,
    HTTPConfig,
    IoTAnalyticsConfig,
    MessageStreamDefinition,
    StrategyOnFull,
)
from penstock.streams.stream import Stream

TABLES = {"turbines": "/tables/analytics"}
MINUTE_MS = 60_000


class Office:
    """A desk, one stream that goes to a table, and a clock."""

    def __init__(self, bandwidth_kbps: int | None = None, **options: object) -> None:
        self.now_ms = 1_000_000
        letters = DeadLetters(":memory:")
        self.desk = ExportDesk(
            letters,
            letters,
            Bandwidth(bandwidth_kbps, self.now_ms),
            lambda: self.now_ms,
            lambda: None,
            tables_by_channel=TABLES,
        )
        config = IoTAnalyticsConfig("e", "turbines", **options)  # type: ignore[arg-type]
        self.stream = Stream(Memory(), "/memory/cafe", definition(config))
        self.desk.stream_changed(self.stream)

    def append(self, count: int = 1, size: int = 10) -> None:
        self.stream.append(b"x" * size * count, [size] * count, self.now_ms)
        self.stream.show_appended(self.stream.log.next_sequence)
        self.desk.appended(self.stream)

    def take(self) -> list[Lease]:
        return self.desk.take(self, 10)

    def finish(self, lease: Lease) -> None:
        count = lease.stop - lease.start
        report = ExportReport(
            lease.lease_id,
            next_sequence_number=lease.stop,
            messages=count,
            sent_bytes=10 * count,
            done=True,
        )
        assert self.desk.report(report, self)


def definition(config: IoTAnalyticsConfig, segment_bytes: int = 1 << 20) -> MessageStreamDefinition:
    return MessageStreamDefinition(
        name="s",
        max_size=1 << 30,
        stream_segment_size=segment_bytes,
        strategy_on_full=StrategyOnFull.OverwriteOldestData,
        export_definition=ExportDefinition(iot_analytics=[config]),
    )


def test_only_a_redirected_channel_goes_to_a_table() -> None:
    assert table_of(IoTAnalyticsConfig("e", "turbines"), TABLES) == "/tables/analytics"
    assert table_of(IoTAnalyticsConfig("e", "pumps"), TABLES) == ""
    assert table_of(HTTPConfig("e", "http://turbines/"), TABLES) == ""


def test_the_status_shows_both_names() -> None:
    (view,) = Office().desk.views()
    assert (view.destination, view.target) == (
        "IoTAnalytics",
        "turbines -> Parquet /tables/analytics",
    )


def test_messages_gather_before_they_become_a_file_and_the_status_tells() -> None:
    office = Office()
    office.append()
    office.now_ms += GATHER_MS - 1
    office.append(5)
    assert office.take() == []
    (view,) = office.desk.views()
    assert (view.state, view.lag_messages) == ("waiting", 6)
    assert view.waiting_for is not None
    assert f"the interval of {GATHER_MS} ms" in view.waiting_for
    office.now_ms += 1
    (lease,) = office.take()
    assert (lease.start, lease.stop) == (0, 6)


def test_an_interval_of_the_export_counts_and_its_batch_size_does_not() -> None:
    office = Office(batch_size=1, batch_interval_millis=MINUTE_MS)
    office.append(200)
    office.now_ms += MINUTE_MS - 1
    assert office.take() == []
    office.now_ms += 1
    (lease,) = office.take()
    assert (lease.start, lease.stop) == (0, 200)


def test_a_full_file_does_not_wait_and_a_backlog_goes_file_by_file() -> None:
    office = Office()
    office.append(2 * FILE_MESSAGES_MAX + 7)
    for start in (0, FILE_MESSAGES_MAX):
        (lease,) = office.take()
        assert (lease.start, lease.stop) == (start, start + FILE_MESSAGES_MAX)
        office.finish(lease)
    assert office.take() == []
    assert office.desk.views()[0].state == "waiting"


def test_a_lease_names_the_stream_by_more_than_its_name() -> None:
    office = Office()
    office.append()
    office.now_ms += GATHER_MS
    assert office.take()[0].stream_id == "cafe"


def test_a_table_takes_no_bandwidth() -> None:
    office = Office(bandwidth_kbps=1)
    office.append(5_000)
    office.now_ms += GATHER_MS
    (lease,) = office.take()
    assert (lease.stop, lease.bytes_max) == (5_000, None)


# --- how much goes into a file --------------------------------------------------------------------


def stream_of(*sizes: tuple[int, int], segment_bytes: int = 1 << 20) -> Stream:
    """A stream with so many messages of such a size, one after another."""
    config = IoTAnalyticsConfig("e", "turbines")
    stream = Stream(Memory(), "/m", definition(config, segment_bytes))
    for count, size in sizes:
        for _ in range(count):
            stream.append(bytes(size), [size], 0)
    return stream


def test_a_file_ends_at_its_bytes_estimated_segment_by_segment() -> None:
    size = 256 * 1024
    stream = stream_of((400, size))
    stop = stop_of_file(stream, 3, 400)
    assert (stop - 3) * size <= FILE_BYTES_MAX < (stop - 3 + 1) * size


def test_large_messages_behind_small_ones_are_seen() -> None:
    size = 4 << 20
    stream = stream_of((1000, 10), (20, size), segment_bytes=size)
    stop = stop_of_file(stream, 0, 1020)
    assert 1000 <= stop <= 1000 + FILE_BYTES_MAX // size + 1


def test_a_message_above_all_limits_is_a_file_of_its_own() -> None:
    stream = stream_of((2, FILE_BYTES_MAX + 1), segment_bytes=64 << 20)
    assert stop_of_file(stream, 0, 2) == 1
    assert stop_of_file(stream, 1, 2) == 2
