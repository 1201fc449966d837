"""The benchmark of the Spark source measures what it says. Not whether it was fast."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
# Twenty seconds each; the first run of all has to fetch Kafka, and machines are busy.
RUN_TIMEOUT_S = 280
# Nothing runs long enough here for the better compiler to pay.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

PROGRAM = """
import json, sys
from pathlib import Path
from bench import kafka, spark_cases, spark_latency
from bench.cases import Effort

folder = Path(sys.argv[1])
effort = Effort(repeats=1, starts=1, share=0.003, flush_s=0.1)
spark_cases.WARM_UP_ROUNDS = 0
spark_cases.PAYLOAD_SIZES = {256: "256 B"}
spark_latency.WARM_UP_SAMPLES = 1
spark_latency.PAUSE_S = 0.0
figures = []

def measure(case):
    (place := folder / case.__name__).mkdir()
    figures.extend(figure.as_json(case.__name__) for figure in case(place, effort))

"""


def measured(folder: Path, program: str) -> tuple[list[dict[str, Any]], str]:
    """The figures of the cases that a program measures, and what it says meanwhile."""
    done = subprocess.run(
        [sys.executable, "-c", f"{PROGRAM}{program}\nprint(json.dumps(figures))", str(folder)],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(folder), "JAVA_TOOL_OPTIONS": QUICK_JAVA},
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    figures: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    assert all(min(figure["values"]) > 0 for figure in figures)
    return figures, done.stderr


def demands(figures: list[dict[str, Any]]) -> dict[str, float]:
    """What is demanded of the figures, by their title."""
    bounds = {figure["title"]: figure["at_least"] or figure["at_most"] for figure in figures}
    return {title: bound for title, bound in bounds.items() if bound is not None}


@pytest.mark.slow
def test_a_batch_is_compared_with_parquet_and_a_real_kafka(tmp_path: Path) -> None:
    figures, _ = measured(tmp_path, "measure(spark_cases.batch)")

    ours = "batch, messages of 256 B, our source, local files"
    assert demands(figures) == {f"{ours} : Parquet": 0.9, f"{ours} : Kafka, 2 partitions": 3}
    rates = {figure["title"]: figure["value"] for figure in figures if figure["unit"] == "rows/s"}
    ratio = rates["... our source, local files"] / rates["... Kafka, 2 partitions"]
    assert figures[1]["value"] == ratio
    assert "... text" in rates


def test_without_kafka_the_rest_is_measured_and_a_word_is_said(tmp_path: Path) -> None:
    no_kafka = "kafka.BROKER = 'org.apache.kafka:kafka_2.13:0.0.0'"
    figures, said = measured(tmp_path, f"{no_kafka}\nmeasure(spark_cases.stream)")

    assert demands(figures) == {
        "availableNow, messages of 256 B, our source, local files : Parquet": 0.6,
    }
    assert "Kafka cannot be had and is left out" in said
    assert "kafka_2.13;0.0.0: not found" in said


@pytest.mark.slow
def test_the_latency_is_measured_from_files_and_over_tcp(tmp_path: Path) -> None:
    figures, _ = measured(tmp_path, "measure(spark_latency.latency)")

    assert demands(figures) == {
        "one message, from append to sink, our source, local files": 80,
        "one message, from append to sink, our source, over TCP": 80,
    }
