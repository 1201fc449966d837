"""Metrics as OpenTelemetry sends them. Only telemetry.py imports this: the library is an extra.

Observations become data points directly, not through the SDK's instruments. Those keep every set
of labels they ever saw, take 2,000 sets each at most (1,000 exports in 8 states have 8,000), and
cannot be told that the counters of a server began with its start.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from penstock.console import metric as ours
from penstock.console.metric_table import families
from penstock.observe_model import Observation

METRICS_PATH = "/v1/metrics"
NANOS_PER_MILLI = 1_000_000


def exporter_to(endpoint: str) -> OTLPMetricExporter:
    """Who sends to an address. One without a path means the usual path."""
    if urlsplit(endpoint).path in ("", "/"):
        endpoint = endpoint.rstrip("/") + METRICS_PATH
    return OTLPMetricExporter(endpoint=endpoint)


def metrics_data(observation: Observation, instance: str) -> MetricsData:
    """Everything that an observation tells, with `instance` as the name of the server."""
    version = observation.server.version
    resource = Resource.create(
        {
            "service.name": "penstock",
            "service.version": version,
            "service.instance.id": instance,
        }
    ).merge(OTELResourceDetector().detect())  # what the operator set has the last word
    metrics = [
        converted
        for table, members in families()
        if (converted := _metric(table, members, observation)) is not None
    ]
    scope = ScopeMetrics(InstrumentationScope("penstock", version), metrics, "")
    return MetricsData([ResourceMetrics(resource, [scope], "")])


def _metric(
    table: ours.Table[Any], members: list[ours.Metric[Any]], observation: Observation
) -> Metric | None:
    points = _points(table, members, observation)
    if not points:
        return None
    first = members[0]
    data = (
        Sum(points, AggregationTemporality.CUMULATIVE, is_monotonic=True)
        if first.is_counter
        else Gauge(points)
    )
    return Metric(first.otel_name, first.text, first.unit, data)


def _points(
    table: ours.Table[Any], members: list[ours.Metric[Any]], observation: Observation
) -> list[NumberDataPoint]:
    server = observation.server
    now_ns = server.server_time * NANOS_PER_MILLI
    # Zero says that it is not known when the counting began.
    start_ns = server.started_time * NANOS_PER_MILLI if table.counts_from_start else 0
    points = []
    for row in table.rows(observation):
        attributes = {name: value(row) for name, value in table.labels.items()}
        for metric in members:
            number = metric.value(row)
            if number is not None:
                named = {**attributes, **dict([metric.member] if metric.member else [])}
                points.append(NumberDataPoint(named, start_ns, now_ns, number))
    return points
