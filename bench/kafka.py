"""A real Kafka broker to compare with, and Spark's connector for it.

Promise     `installed` gives the jars of both, or raises InstallationFailed with the reason.
Place       build/environments/kafka-...; Spark's own resolver fetches them by name from where it
            is set up to look: a mirror belongs into the spark-defaults.conf of SPARK_CONF_DIR.
Always      one broker in one JVM in KRaft mode, on free ports of the loopback address.
"""

from __future__ import annotations

import base64
import glob
import shlex
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.environments import ENVIRONMENTS, ready, run

from penstock.pipeline.jvm import find_java, spark_home

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BROKER = "org.apache.kafka:kafka_2.13:4.3.1"
# The newest connector that Maven Central has. It works with Spark 4.3, whose own is not there; nor
# is this one's token provider, which only matters to brokers that ask who one is.
CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
TOKEN_PROVIDER = "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0"
START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 30
# Larger batches than a producer's usual 16 KiB are cheaper to read.
PRODUCER = {"kafka.batch.size": str(1 << 18), "kafka.linger.ms": "50"}

BROKER_SETTINGS = """
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{controller_port}
log.dirs={folder}/log
offsets.topic.replication.factor=1
"""


@dataclass(frozen=True)
class KafkaJars:
    """Class paths: one for the broker's JVM, one for Spark's."""

    broker: str
    connector: str


@dataclass(frozen=True)
class Topic:
    """Messages in a broker."""

    address: str
    name: str
    partition_count: int

    @property
    def options(self) -> dict[str, str]:
        """For Spark's reader."""
        return {
            "kafka.bootstrap.servers": self.address,
            "subscribe": self.name,
            "startingOffsets": "earliest",
        }


def installed() -> KafkaJars:
    """Fetched by the first run, kept for the next ones."""
    name = " ".join(package.rpartition(":")[2] for package in (BROKER, CONNECTOR, TOKEN_PROVIDER))
    folder = ready(ENVIRONMENTS, f"kafka {name}", "jars", _install)
    return KafkaJars(
        # Spark's resolver leaves Scala out, since Spark has it.
        broker=_class_path(f"{folder}/broker/jars/*", f"{spark_home()}/jars/scala-library-*"),
        connector=_class_path(
            f"{folder}/connector/jars/*kafka*",
            f"{folder}/connector/jars/*commons-pool2*",
            f"{folder}/token-provider/jars/*kafka*",
        ),
    )


def _install(folder: Path, _: str) -> None:
    _fetch(folder / "broker", BROKER)
    # A package without its version, as an exclusion, is a package in any version.
    _fetch(folder / "connector", CONNECTOR, exclude=TOKEN_PROVIDER.rpartition(":")[0])
    _fetch(folder / "token-provider", TOKEN_PROVIDER, exclude="org.apache.hadoop:*")


def _fetch(folder: Path, package: str, *, exclude: str = "") -> None:
    """Let spark-submit fetch a package with all it needs, for a program that does nothing."""
    folder.mkdir(parents=True)
    program = folder / "nothing.py"
    program.touch()
    command = [f"{spark_home()}/bin/spark-submit", "--master", "local", "--packages", package]
    command += [
        "--conf",
        f"spark.jars.ivy={folder}",
        "--conf",
        f"spark.pyspark.python={sys.executable}",
    ]
    run([*command, *(["--exclude-packages", exclude] if exclude else []), str(program)])


def _class_path(*patterns: str) -> str:
    found = [path for pattern in patterns for path in sorted(glob.glob(f"{pattern}.jar"))]
    assert found, patterns
    return ":".join(found)


@contextmanager
def broker(jars: KafkaJars, folder: Path) -> Iterator[str]:
    """A broker that keeps its data in the folder; gives its address."""
    folder.mkdir()
    port, controller_port = _free_ports(2)
    settings = folder / "server.properties"
    settings.write_text(
        BROKER_SETTINGS.format(port=port, controller_port=controller_port, folder=folder)
    )
    java = [find_java().command, "-Xms256m", "-Xmx1g", "-cp", jars.broker]
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    run([*java, "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(settings)])
    command = [*java, "kafka.Kafka", str(settings)]
    with open(folder / "broker.log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        _wait_until_listening(process, port, command)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_ports(count: int) -> list[int]:
    """All at once, so that they differ."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _wait_until_listening(process: subprocess.Popen[bytes], port: int, command: list[str]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    with closing(socket.socket()) as probe:
        while probe.connect_ex(("127.0.0.1", port)) != 0:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the broker did not start: {shlex.join(command[-2:])}")
            time.sleep(0.1)


def filled_topic(
    spark: SparkSession, address: str, values: DataFrame, partition_count: int
) -> Topic:
    """A new topic with these values in it; they are the frame's one column, `value`."""
    topic = Topic(address, f"bench-{uuid.uuid4().hex[:8]}-{partition_count}", partition_count)
    _create(spark, topic)
    writer = values.write.format("kafka").options(**PRODUCER)
    writer.option("kafka.bootstrap.servers", address).option("topic", topic.name).save()
    return topic


def _create(spark: SparkSession, topic: Topic) -> None:
    """Through the admin client that the connector brought into Spark's JVM."""
    java = spark.sparkContext._jvm
    assert java is not None
    properties = java.java.util.Properties()
    properties.put("bootstrap.servers", topic.address)
    admin = java.org.apache.kafka.clients.admin.AdminClient.create(properties)
    with closing(admin):
        wanted = java.java.util.ArrayList()
        wanted.add(
            java.org.apache.kafka.clients.admin.NewTopic(topic.name, topic.partition_count, 1)
        )
        admin.createTopics(wanted).all().get()
