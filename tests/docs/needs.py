"""What each page needs beforehand, and what must be true when it was followed to its end."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from walk import Prepared, Walk

from penstock import (
    ExportDefinition,
    HTTPConfig,
    MessageStreamDefinition,
    Status,
    StrategyOnFull,
    StreamManagerClient,
)
from penstock.testing import LocalCloud, PenstockServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

READINGS = [
    b'{"ts": "2026-03-02T10:00:%02dZ", "rpm": %d.5, "machine": "m%d"}'
    % (second, second, second % 3)
    for second in range(60)
]


# An export that waits for the start of Spark takes 10 s.
ARRIVAL_S = 60
POLL_S = 0.05


class World:
    """One server with a pipeline, one cloud that it exports to, one Spark session; all lazy."""

    def __init__(self, request: pytest.FixtureRequest, folder: Path) -> None:
        self._request = request
        self.folder = folder

    @property
    def cloud(self) -> LocalCloud:
        return self._get("cloud")

    @property
    def server(self) -> PenstockServer:
        return self._get("server")

    @property
    def client(self) -> StreamManagerClient:
        return self._get("client")

    @property
    def spark(self) -> SparkSession:
        return self._get("spark")

    def _get(self, name: str) -> Any:
        return self._request.getfixturevalue(name)

    def stream(self, name: str, *payloads: bytes, **exports: Any) -> None:
        self.client.create_message_stream(
            MessageStreamDefinition(
                name=name,
                strategy_on_full=StrategyOnFull.OverwriteOldestData,
                export_definition=ExportDefinition(**exports),
            )
        )
        if payloads:
            self.client.append_messages(name, payloads)


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + ARRIVAL_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {ARRIVAL_S} s in vain for {what}"
        time.sleep(POLL_S)


Before = Callable[[World], Prepared]
After = Callable[[World, Walk], None]


@dataclass(frozen=True)
class Needs:
    before: Before = lambda world: Prepared()
    after: After = lambda world, walk: None
    # Whether the page starts its server itself, with `penstock serve`.
    own_server: bool = False


def a_client(world: World) -> Prepared:
    return Prepared({"client": world.client})


# --- exports ------------------------------------------------------------------------------------


def kinesis_stream(world: World) -> Prepared:
    make_kinesis_stream(world, "plant-7")
    return a_client(world)


def make_kinesis_stream(world: World, name: str) -> None:
    if name not in world.cloud.client("kinesis").list_streams()["StreamNames"]:
        world.cloud.kinesis.create_stream(name)


def make_bucket(world: World, name: str) -> None:
    buckets = world.cloud.client("s3").list_buckets()["Buckets"]
    if name not in [bucket["Name"] for bucket in buckets]:
        world.cloud.s3.create_bucket(name)


def the_message_reaches_kinesis(world: World, walk: Walk) -> None:
    world.client.append_message("Turbine7", b"by the page on Kinesis")
    wait_until(
        lambda: b"by the page on Kinesis" in kinesis_payloads(world, "plant-7"),
        "the message in Kinesis",
    )


def kinesis_payloads(world: World, name: str) -> list[bytes]:
    return [record.data for record in world.cloud.kinesis.records(name)]


def the_value_reaches_sitewise(world: World, walk: Walk) -> None:
    wait_until(lambda: "/plant-7/pump/speed" in sitewise_properties(world), "the value in SiteWise")


def sitewise_properties(world: World) -> list[str]:
    return [entry.property_name for entry in world.cloud.sitewise.entries()]


def a_picture_to_upload(world: World) -> Prepared:
    make_bucket(world, "reports")
    picture = world.folder / "picture.jpg"
    picture.write_bytes(b"a picture")
    return Prepared(
        {"client": world.client}, {"file:///var/lib/camera/picture.jpg": f"file://{picture}"}
    )


def the_picture_was_uploaded(world: World, walk: Walk) -> None:
    assert statuses_in(walk.output) == ["InProgress", "Success"], walk.output


def statuses_in(output: str) -> list[str]:
    """The first words of lines that begin with a status."""
    words = [line.split(" ")[0] for line in output.splitlines()]
    return [word for word in words if word in Status.__members__]


def a_collector(world: World) -> Prepared:
    address = world.cloud.sink("alarms").url
    return Prepared({"client": world.client}, {"http://collector.example/alarms": address})


def the_alarm_is_collected(world: World, walk: Walk) -> None:
    world.client.append_message("Alarms", b"too hot")
    sink = world.cloud.sink("alarms")
    wait_until(lambda: sink.message_count == 1, "the alarm")


def a_dead_letter(world: World) -> Prepared:
    world.cloud.sink("picky").refuse("refused", times=1)
    exports = [HTTPConfig("collector", world.cloud.sink("picky").url)]
    world.stream("Turbine7", b"refused", http=exports)
    wait_until(lambda: bool(world.client.find_dead_letters("Turbine7")), "a dead letter")
    (letter,) = world.client.find_dead_letters("Turbine7")
    return Prepared(replaced={"dead-letters show 1": f"dead-letters show {letter.id}"})


def no_letter_is_left(world: World, walk: Walk) -> None:
    assert world.client.find_dead_letters() == []


def targets_of_the_samples(world: World) -> Prepared:
    make_kinesis_stream(world, "plant-7")
    make_bucket(world, "reports")
    return Prepared()


def the_samples_arrived(world: World, walk: Walk) -> None:
    assert walk.output.split("\n")[:2] == ["0 b'reading 0 of Python'", "1 b'reading 1 of Python'"]
    assert statuses_in(walk.output) == ["InProgress", "Success"], walk.output
    assert world.cloud.s3.object("reports", "reports/first.txt").body == b"all is well"
    wanted = [b"reading %d of Python" % number for number in range(10)]
    wait_until(
        lambda: (
            [each for each in kinesis_payloads(world, "plant-7") if b"of Python" in each] == wanted
        ),
        "ten readings in Kinesis",
    )
    wait_until(
        lambda: sitewise_properties(world).count("/plant-7/speed") == 10, "ten values in SiteWise"
    )


# --- Spark --------------------------------------------------------------------------------------


def readings_and_spark(world: World) -> Prepared:
    """A stream of JSON, read by the session that the page's Python calls `spark`."""
    world.stream("Turbine7", *READINGS)
    world.stream("S", b"a message")
    here = f"127.0.0.1:{world.server.port}"
    frame = world.spark.createDataFrame([("written",)], "payload STRING")
    changes = world.spark.readStream.format("penstock").options(servers=here, stream="S").load()
    return Prepared(
        {"spark": world.spark, "rows": frame, "changes": changes, "token": ""},
        {
            "/var/lib/penstock": str(world.server.data_dir),
            "10.0.0.1:8088": here,
            "10.0.0.2:8088": here,
            "plant-7:8088": here,
            "telemetry": "Turbine7",
            "/lake": str(world.folder / "lake"),
            "/var/lib/query": str(world.folder / "query"),
        },
    )


def the_queries_are_stopped(world: World, walk: Walk) -> None:
    for query in world.spark.streams.active:
        query.stop()


def devices_and_copies(world: World) -> Prepared:
    prepared = readings_and_spark(world)
    (world.folder / "devices.txt").write_text(f"pump-1=127.0.0.1:{world.server.port}\n")
    copies = world.folder / "copies"
    copies.mkdir()
    copied_store(world.folder / "device").rename(copies / "pump-1")
    prepared.replaced["/copies"] = str(copies)
    return prepared


def copied_store(folder: Path) -> Path:
    """The data directory of a server that has been stopped."""
    server = PenstockServer(folder, environment={"PENSTOCK_PIPELINE": "off"})
    with server, server.client() as client:
        definition = MessageStreamDefinition("S", strategy_on_full=StrategyOnFull.RejectNewData)
        client.create_message_stream(definition)
        client.append_messages("S", READINGS)
    return server.data_dir


def readings(world: World) -> Prepared:
    """And no pipeline for the page's own server: the checks before have shown the transform."""
    world.stream("Turbine7", *READINGS)
    return Prepared(variables={"PENSTOCK_PIPELINE": "off"})


def the_transform_was_listed(world: World, walk: Walk) -> None:
    assert "Averages" in walk.output, "list"


# --- the others ---------------------------------------------------------------------------------


def the_cloud_s_address(world: World) -> Prepared:
    return Prepared(replaced={"http://127.0.0.1:4566": world.cloud.endpoint})


def the_link_is_mended(world: World, walk: Walk) -> None:
    world.cloud.client("s3").list_buckets()


def a_folder_for_lines(world: World) -> Prepared:
    return Prepared(replaced={"file:///tmp/": f"file://{world.folder}/"})


def a_data_directory(world: World) -> Prepared:
    return Prepared(variables={"DATA_DIR": str(copied_store(world.folder / "device"))})


def the_copy_is_sound(world: World, walk: Walk) -> None:
    assert "60 messages: sound." in walk.output


def a_free_port(world: World) -> Prepared:
    return Prepared(replaced={"penstock local-cloud ": "penstock local-cloud --port 0 "})


def the_export_arrives(world: World, walk: Walk) -> None:
    """As the shell of the cloud shows it. The page has it throttle three times before."""
    assert walk.output.splitlines().count('{"rpm": 14.3}') == 1
    done = re.compile(r"kinesis PutRecords plant-7 200")
    wait_until(
        lambda: done.search(walk.shells.log("penstock local-cloud")) is not None,
        "a request in the log of the cloud",
    )


def spark_alone(world: World) -> Prepared:
    return Prepared({"spark": world.spark})


def the_ten_lines_printed_three(world: World, walk: Walk) -> None:
    assert walk.output.splitlines()[:3] == [
        "0 b'{\"rpm\": 14.2}'",
        "1 b'{\"rpm\": 14.3}'",
        "2 b'{\"rpm\": 14.1}'",
    ]
    assert "first message" in walk.output
    assert "|Turbine7|" in walk.output.replace(" ", ""), "what Spark shows"


NEEDS: dict[str, Needs] = {
    "README.md": Needs(spark_alone, the_ten_lines_printed_three),
    "docs/adding-a-destination.md": Needs(a_folder_for_lines),
    "docs/demo.md": Needs(the_cloud_s_address, the_link_is_mended),
    "docs/destinations/http.md": Needs(a_collector, the_alarm_is_collected),
    "docs/destinations/kinesis.md": Needs(kinesis_stream, the_message_reaches_kinesis),
    "docs/destinations/s3.md": Needs(a_picture_to_upload, the_picture_was_uploaded),
    "docs/destinations/sitewise.md": Needs(a_client, the_value_reaches_sitewise),
    "docs/exports.md": Needs(a_dead_letter, no_letter_is_left),
    "docs/moving-from-aws.md": Needs(targets_of_the_samples, the_samples_arrived),
    "docs/operating.md": Needs(a_data_directory, the_copy_is_sound),
    "docs/quick-start.md": Needs(a_free_port, the_export_arrives, own_server=True),
    "docs/cluster.md": Needs(readings_and_spark),
    "docs/fleet.md": Needs(devices_and_copies, the_queries_are_stopped),
    "docs/spark.md": Needs(readings_and_spark, the_queries_are_stopped),
    "docs/transforms.md": Needs(readings, the_transform_was_listed),
}
