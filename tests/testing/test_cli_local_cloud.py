"""`penstock local-cloud` as a process."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.testing.server import own_environment

COMMAND = [sys.executable, "-m", "penstock", "local-cloud"]


@contextmanager
def running(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    """The process, and the variables that it prints; killed if the test leaves it running."""
    process = subprocess.Popen(
        [*COMMAND, "--port", "0", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=own_environment(),
    )
    try:
        yield process, exported(process)
    finally:
        process.kill()
        process.communicate()


def exported(process: subprocess.Popen[str]) -> dict[str, str]:
    """The variables up to the line that says that the cloud is ready."""
    assert process.stdout is not None
    variables = {}
    for line in process.stdout:
        if found := re.fullmatch(r"export (\w+)=(\S+)\n", line):
            variables[found[1]] = found[2]
        elif "Ctrl-C ends the cloud" in line:
            break
    return variables


def next_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().rstrip()


def ended(process: subprocess.Popen[str], how: signal.Signals) -> tuple[int, str]:
    """Exit status, and what was said on standard error."""
    process.send_signal(how)
    errors = process.communicate(timeout=30)[1]
    return process.returncode, errors


def refused(*arguments: str) -> str:
    """What a command that must fail says."""
    done = subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=own_environment(),
    )
    assert done.returncode != 0
    return done.stderr


SDK_PROGRAM = """
import boto3
boto3.client("kinesis").put_record(StreamName="telemetry", Data=b"x", PartitionKey="k")
boto3.client("s3").put_object(Bucket="reports", Key="k", Body=b"x")
"""


def test_a_program_with_the_printed_variables_reaches_the_targets() -> None:
    targets = ("--stream", "telemetry", "--bucket", "reports", "--channel", "readings")
    with running(*targets) as (process, variables):
        subprocess.run(
            [sys.executable, "-c", SDK_PROGRAM],
            env=own_environment() | variables,
            check=True,
            timeout=60,
        )
        lines = [next_line(process) for _ in range(2)]
        assert re.fullmatch(r"\S+Z kinesis PutRecord telemetry 200 1 taken \d+\.\d ms", lines[0])
        assert re.fullmatch(r"\S+Z s3 PutObject reports 200 1 taken \d+\.\d ms", lines[1])
        assert ended(process, signal.SIGINT) == (0, "")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_even_with_a_request_that_hangs(how: signal.Signals) -> None:
    with running("--quiet") as (process, variables):
        endpoint = variables["AWS_ENDPOINT_URL"]
        knob = json.dumps({"kind": "hang", "service": "sink"}).encode()
        with urllib.request.urlopen(f"{endpoint}/_local-cloud/knobs", knob, timeout=10):
            pass
        with pytest.raises(TimeoutError):
            urllib.request.urlopen(f"{endpoint}/sink/s", b"x", timeout=0.2)
        assert ended(process, how) == (0, "")


def test_a_script_sets_and_releases_knobs(tmp_path: Path) -> None:
    script = tmp_path / "outage.toml"
    script.write_text('[[knob]]\nuntil_s = 0.1\nkind = "fail"\nservice = "sink"\n')
    with running("--script", str(script)) as (process, _):
        lines = [next_line(process) for _ in range(2)]
    assert lines[0].endswith("Z knob fail on sink set")
    assert lines[1].endswith("Z knob fail on sink released")


def test_it_can_keep_counts_only() -> None:
    with running("--keep", "0", "--quiet") as (_, variables):
        endpoint = variables["AWS_ENDPOINT_URL"]
        with urllib.request.urlopen(f"{endpoint}/sink/s", b"x", timeout=10):
            pass
        with urllib.request.urlopen(f"{endpoint}/_local-cloud/received/sink/s") as answer:
            assert json.load(answer) == []
        with urllib.request.urlopen(f"{endpoint}/_local-cloud") as answer:
            assert json.load(answer)["received"][0]["count"] == 1


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--keep", "much"), '"much" is not a size'),
        (("--script", "no-such-file"), "no-such-file"),
        (("--port", "0", "--bucket", "x"), "InvalidBucketName"),
        (("--port", "0", "--stream", "s", "--stream", "s"), "No stream s"),
    ],
)
def test_a_wrong_argument_is_explained_in_one_line(arguments: tuple[str, ...], reason: str) -> None:
    said = refused(*arguments)
    assert reason in said
    assert len(said.splitlines()) == 1
    assert said.startswith("penstock: ")


def test_a_port_in_use_is_explained() -> None:
    with running("--quiet") as (_, variables):
        port = variables["AWS_ENDPOINT_URL"].rpartition(":")[2]
        assert f"Cannot listen on 127.0.0.1:{port}" in refused("--port", port)


def test_a_reader_that_goes_away_does_not_end_it() -> None:
    with running() as (process, variables):
        assert process.stdout is not None
        process.stdout.close()
        for _ in range(3):
            with urllib.request.urlopen(
                f"{variables['AWS_ENDPOINT_URL']}/sink/s", b"x", timeout=10
            ) as answer:
                assert answer.status == 200
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(30) == 0
