"""A Spark standalone cluster on loopback: a master and nodes, each its own process."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlencode
from urllib.request import urlopen

from exports_rig import descendants, kill, wait_until

from penstock.pipeline.jvm import find_java, spark_home

# All is up within 15 s; the rest is for a machine that is busy with other tests.
START_S = 120.0
STOP_S = 20.0
MASTER_READY = re.compile(r"Starting Spark master at (spark://\S+)")
NODE_READY = re.compile(r"Successfully registered with master (\S+)")
# Small and quick to start: they do nothing but begin executors.
DAEMON_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dspark.master.rest.enabled=false"
# What fits a node of 512 MB; and a dead peer is noticed in seconds rather than minutes.
EXECUTOR_CONF = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}


class Daemon:
    """A process of Spark's that says on standard error when it is ready."""

    def __init__(self, log_path: Path, ready: re.Pattern[str], command: list[str]) -> None:
        self.log_path = log_path
        self._answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.process = subprocess.Popen(
            [os.path.join(spark_home(), "bin", "spark-class"), *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=_daemon_environment(log_path.parent),
        )
        self._reader = threading.Thread(target=self._keep_output, args=(ready,))
        self._reader.start()

    def wait_until_ready(self) -> str:
        """What the line that says so names."""
        try:
            answer = self._answers.get(timeout=START_S)
        except queue.Empty:
            answer = None
        assert answer is not None, f"it did not start:\n{self.log_path.read_text()}"
        return answer

    def kill(self) -> None:
        """With all that it has started, as when a machine loses its power."""
        if self.process.poll() is None:
            for each in (self.process.pid, *descendants(self.process.pid)):
                kill(each)
        self._forget()

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self._forget()

    def _forget(self) -> None:
        self.process.wait(STOP_S)
        self._reader.join(STOP_S)

    def _keep_output(self, ready: re.Pattern[str]) -> None:
        assert self.process.stderr is not None
        with self.process.stderr, open(self.log_path, "a") as log:
            for line in self.process.stderr:
                log.write(line)
                log.flush()
                if found := ready.search(line):
                    self._answers.put(found[1])
        self._answers.put(None)


class SparkCluster:
    """A master and as many nodes as are wanted; a node has one core and 512 MB."""

    def __init__(self, folder: Path, node_count: int = 2) -> None:
        self._folder = folder
        self._node_count = node_count
        self.nodes: list[Daemon] = []

    def __enter__(self) -> Self:
        self._master = Daemon(
            self._folder / "master.log",
            MASTER_READY,
            ["org.apache.spark.deploy.master.Master", *_on_loopback()],
        )
        try:
            self.url = self._master.wait_until_ready()
            started = [self._begin_node() for _ in range(self._node_count)]
            for node in started:
                node.wait_until_ready()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for node in self.nodes:
            node.kill()
        self._master.kill()

    def add_node(self) -> Daemon:
        node = self._begin_node()
        node.wait_until_ready()
        return node

    def kill_node(self, node: Daemon) -> None:
        self.nodes.remove(node)
        node.kill()

    def end_applications(self) -> None:
        """Press the button that the master's web page has for each."""
        (port,) = re.findall(r"'MasterUI' on port (\d+)", self._master.log_path.read_text())
        address = f"http://127.0.0.1:{port}/"
        with urlopen(address) as page:
            forms = re.findall(r'<form action="app/kill/".*?</form>', page.read().decode(), re.S)
        for form in forms:
            fields = re.findall(r'name="(\w+)" value="([^"]*)"', form)
            with urlopen(f"{address}app/kill/", urlencode(fields).encode()) as answer:
                answer.read()

    def executors(self) -> dict[int, Daemon]:
        """The processes that run tasks, and on which node each is."""
        return {
            process_id: node
            for node in self.nodes
            for process_id, line in descendants(node.process.pid).items()
            if "CoarseGrainedExecutorBackend" in line
        }

    def wait_for_executors(self, count: int) -> None:
        wait_until(
            lambda: len(self.executors()) >= count, f"{count} executors", START_S, self.executors
        )

    def _begin_node(self) -> Daemon:
        number = len(list(self._folder.glob("node-*.log")))
        options = ["--cores", "1", "--memory", "512m"]
        options += ["--work-dir", str(self._folder / f"node-{number}")]
        node = Daemon(
            self._folder / f"node-{number}.log",
            NODE_READY,
            ["org.apache.spark.deploy.worker.Worker", *_on_loopback(), *options, self.url],
        )
        self.nodes.append(node)
        return node


def conf_options(conf: Mapping[str, str]) -> list[str]:
    return [f"--conf={key}={value}" for key, value in conf.items()]


def executor_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Environment variables of executors, as Spark's settings say it."""
    return {f"spark.executorEnv.{name}": value for name, value in variables.items()}


def _on_loopback() -> list[str]:
    return ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]


def _daemon_environment(folder: Path) -> dict[str, str]:
    """Nodes do not get the variables of this process: what executors need, Spark brings them."""
    java_home = os.path.dirname(os.path.dirname(os.path.realpath(find_java().command)))
    return {
        "PATH": os.environ["PATH"],
        "JAVA_HOME": java_home,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_DAEMON_MEMORY": "128m",
        "SPARK_DAEMON_JAVA_OPTS": DAEMON_OPTIONS,
    }
