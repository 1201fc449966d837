"""Metrics by OTLP, from a real server and its console to a real receiver."""

from __future__ import annotations

import json
import logging
import re
import socket
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator

import pytest
from observations import NOW_MS, everything, large
from otlp_receiver import OtlpReceiver, attributes, metrics_of, value_of
from prometheus_client.parser import text_string_to_metric_families

import penstock
from penstock import MessageStreamDefinition, StreamManagerClient
from penstock.console import telemetry
from penstock.console.metric_table import families
from penstock.console.otlp import exporter_to, metrics_data
from penstock.console.telemetry import Telemetry, TelemetryUnavailable, instance_of, interval_s
from penstock.model import StrategyOnFull
from server_process import ServerProcess

PATIENCE_S = 20
OFTEN = {"OTEL_METRIC_EXPORT_INTERVAL": "100", "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT": "1"}


@pytest.fixture(scope="module")
def receiver() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def server(
    receiver: OtlpReceiver, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    """A server with its console, which sends often and logs in JSON."""
    flags = ("--console", "--console-port", "0", "--log-format", "json")
    endpoint = ("--otel-endpoint", receiver.endpoint)
    folder = tmp_path_factory.mktemp("otel")
    with ServerProcess(folder, *flags, *endpoint, env=OFTEN) as server:
        with StreamManagerClient(port=server.port) as client:
            client.create_message_stream(
                MessageStreamDefinition("s", strategy_on_full=StrategyOnFull.RejectNewData)
            )
            client.append_message("s", b"12345")
        yield server


def until(condition: Callable[[], bool]) -> None:
    """Another process does it, so there is no event to wait for."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def logged(server: ServerProcess) -> list[dict[str, str]]:
    """Every line of the log; what is not JSON is what `penstock serve` says on standard output."""
    *lines, _ = server.log.split("\n")  # the last one may not be whole yet
    said = re.compile(r"Penstock listens on|Console on")
    return [json.loads(line) for line in lines if not said.match(line)]


def told_of_sending(server: ServerProcess) -> list[dict[str, str]]:
    return [entry for entry in logged(server) if entry["logger"] == "penstock.console.telemetry"]


def test_a_server_sends_the_metrics_that_it_also_shows(
    server: ServerProcess, receiver: OtlpReceiver
) -> None:
    request = receiver.next()
    while value_of(metrics_of(request).get("penstock.stream.messages"), stream="s") != 1:
        request = receiver.next()

    metrics = metrics_of(request)
    appended = metrics["penstock.stream.appended_bytes"]
    assert (appended.unit, appended.sum.is_monotonic) == ("By", True)
    assert value_of(appended, stream="s") == 5
    assert value_of(metrics["penstock.telemetry.bytes_appended"]) == 5
    assert value_of(metrics["penstock.pipeline.state"], state="off") == 1
    (point,) = appended.sum.data_points
    assert 0 < point.start_time_unix_nano <= point.time_unix_nano

    (resource,) = [each.resource for each in request.resource_metrics]
    told = attributes(resource.attributes)
    assert (told["service.name"], told["service.version"]) == ("penstock", penstock.__version__)
    assert told["service.instance.id"] == f"{socket.gethostname()}:{server.port}"
    assert receiver.paths == {"/v1/metrics"}

    until(lambda: "Console on" in server.log)
    address = re.findall(r"Console on (http://\S+)", server.log)[0]
    with urllib.request.urlopen(f"{address}/metrics", timeout=PATIENCE_S) as answer:
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        shown = list(text_string_to_metric_families(answer.read().decode()))
    names = {metric.name: metric.otel_name for _, (metric, *_) in families()}
    assert {names[sample.name] for family in shown for sample in family.samples} == metrics.keys()


def test_trouble_with_the_receiver_is_logged_once_per_change(
    server: ServerProcess, receiver: OtlpReceiver
) -> None:
    until(lambda: bool(told_of_sending(server)))
    receiver.status = 400
    until(lambda: receiver.answered[400] >= 5)
    until(lambda: told_of_sending(server)[-1]["level"] == "WARN")
    receiver.status = 200
    until(lambda: told_of_sending(server)[-1]["level"] == "INFO")
    count = receiver.answered[200]
    until(lambda: receiver.answered[200] >= count + 3)

    entries = told_of_sending(server)
    assert [entry["level"] for entry in entries] == ["INFO", "WARN", "INFO"]
    assert entries[1]["endpoint"] == receiver.endpoint
    assert "400" in entries[1]["error"]


def test_every_line_of_the_server_and_its_console_is_an_object(server: ServerProcess) -> None:
    loggers = {entry["logger"] for entry in logged(server)}
    assert {"penstock.server", "penstock.console"} <= loggers
    assert all(entry.keys() >= {"time", "level", "logger", "message"} for entry in logged(server))


def test_a_receiver_that_is_not_there_is_named_with_the_reason(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "2")  # one retry, after 1 s
    with OtlpReceiver() as gone:
        pass  # its port is free again
    sending = Telemetry(gone.endpoint, "i", everything, OFTEN)
    caplog.set_level(logging.INFO, "penstock")
    sending.start()
    until(lambda: bool(caplog.messages))
    sending.stop()

    assert caplog.messages[0].startswith(
        f"Metrics cannot be sent to {gone.endpoint}; it is tried again every 0.1 s: "
    )
    assert "refused" in caplog.messages[0]


def test_nothing_is_sent_while_the_server_is_away() -> None:
    with OtlpReceiver() as receiver:
        asked = iter([None, None, everything()])
        sending = Telemetry(receiver.endpoint, "i", lambda: next(asked, None), OFTEN)
        sending.start()
        receiver.next()
        sending.stop()
        assert receiver.requests.empty()


def test_a_thousand_exports_in_all_their_states_are_sent() -> None:
    """The SDK's own instruments would stop at 2,000 sets of labels."""
    with OtlpReceiver() as receiver:
        exporter = exporter_to(receiver.endpoint)
        assert exporter.export(metrics_data(large(1000), "i")).name == "SUCCESS"
        exporter.shutdown()
        points = metrics_of(receiver.next())["penstock.export.state"].gauge.data_points
    assert len(points) == 8000
    assert sum(point.as_int for point in points) == 1000


def test_counters_say_since_when_they_count_where_that_is_known() -> None:
    (resource,) = metrics_data(everything(), "i").resource_metrics
    starts = {
        metric.name: {point.start_time_unix_nano for point in metric.data.data_points}
        for metric in resource.scope_metrics[0].metrics
    }
    assert starts["penstock.stream.appended_bytes"] == {(NOW_MS - 60_000) * 1_000_000}
    assert starts["penstock.export.delivered_bytes"] == {0}


def test_what_the_operator_says_of_the_resource_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.instance.id=line-7,site=hamburg")
    (resource,) = metrics_data(everything(), "i").resource_metrics
    told = resource.resource.attributes
    assert (told["service.instance.id"], told["site"]) == ("line-7", "hamburg")
    assert told["service.name"] == "penstock"


@pytest.mark.parametrize(
    ("endpoint", "path"),
    [("", "/v1/metrics"), ("/", "/v1/metrics"), ("/otlp/v1/metrics", "/otlp/v1/metrics")],
)
def test_an_address_without_a_path_means_the_usual_one(endpoint: str, path: str) -> None:
    with OtlpReceiver() as receiver:
        exporter = exporter_to(receiver.endpoint + endpoint)
        exporter.export(metrics_data(everything(), "i"))
        exporter.shutdown()
    assert receiver.paths == {path}


def test_a_missing_library_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("opentelemetry.exporter")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "penstock.console.otlp")
    monkeypatch.delattr(telemetry.__package__ + ".otlp")
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter", None)
    with pytest.raises(TelemetryUnavailable) as caught:
        Telemetry("http://127.0.0.1:4318", "i", everything)
    assert "pip install 'penstock[otel]'" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["0", "-1", "often", "1.5"])
def test_an_interval_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(TelemetryUnavailable, match="Give milliseconds"):
        interval_s({"OTEL_METRIC_EXPORT_INTERVAL": text})


def test_the_usual_interval_is_a_minute() -> None:
    assert interval_s({}) == 60
    assert interval_s({"OTEL_METRIC_EXPORT_INTERVAL": ""}) == 60


def test_loopback_is_named_after_the_machine() -> None:
    for host in ("127.0.0.1", "127.1.2.3", "::1", "localhost"):
        assert instance_of(host, 8088) == f"{socket.gethostname()}:8088"
    assert instance_of("plant-7.example", 8088) == "plant-7.example:8088"
