"""How a query over many servers grows: 10, 100, 1,000 offsets. No Spark: its share is apart."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.fleet.many_servers import STREAM, many_servers, payloads_of

from bench.figures import Figure

if TYPE_CHECKING:
    from bench.cases import Effort

SERVER_COUNTS = (10, 100, 1000)
# A server has about seven files open, and its side of every connection.
FILES_PER_SERVER = 12
ROUNDS = 10


def measure(folder: Path, effort: Effort) -> list[Figure]:
    """Time of asking and planning, and size of the offsets, by number of servers."""
    return [
        figure
        for count in SERVER_COUNTS
        for figure in _measured(folder / str(count), count, max(2, round(ROUNDS * effort.share)))
    ]


def _measured(folder: Path, count: int, rounds: int) -> Iterator[Figure]:
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    from penstock.spark.options import parse_options
    from penstock.spark.stream_reader import PenstockStreamReader

    with _servers(folder, count) as names:
        options = {"servers": ",".join(names), "stream": STREAM, "startingSequence": "earliest"}
        reader = PenstockStreamReader(parse_options(options))
        began = time.perf_counter()
        start = reader.initialOffset()
        connecting_s = time.perf_counter() - began
        latest_ms, planning_ms = [], []
        for _ in range(rounds):
            began = time.perf_counter()
            end = reader.latestOffset(start, ReadAllAvailable())
            asked = time.perf_counter()
            reader.partitions(start, end)
            latest_ms.append((asked - began) * 1000)
            planning_ms.append((time.perf_counter() - asked) * 1000)
        reader.stop()
        report_s = [_report_s(names) for _ in range(2)]
    size = len(json.dumps(end, separators=(",", ":")))
    what = f"{count:,} servers with one stream each"
    yield Figure(f"{what}: connecting and first offsets", "s", [connecting_s])
    yield Figure(f"{what}: latestOffset", "ms", latest_ms)
    yield Figure(f"{what}: partitions", "ms", planning_ms)
    yield Figure(f"{what}: offsets in the checkpoint, each", "bytes", [size / count])
    yield Figure(f"{what}: penstock fleet report, whole command", "s", report_s)


def _report_s(names: list[str]) -> float:
    command = [sys.executable, "-m", "penstock", "fleet", "report", "--servers", ",".join(names)]
    began = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


@contextmanager
def _servers(folder: Path, count: int) -> Iterator[list[str]]:
    """They share a process of their own, so that they do not share our interpreter."""
    folder.mkdir()
    command = [sys.executable, "-m", "bench.fleet", str(folder), str(count)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        names: Any = json.loads(process.stdout.readline())
        yield names
        process.stdin.close()
        assert process.wait(120) == 0


def _serve(folder: Path, count: int) -> None:
    """Serve until standard input ends."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 1024 + FILES_PER_SERVER * count), most))
    with many_servers(folder, count) as servers:
        for number in range(count):
            servers.fill(number, payloads_of(number))
        print(json.dumps(servers.names()), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), int(sys.argv[2]))
