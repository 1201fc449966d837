"""What Prometheus reads, read back by its own parser."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from observations import NOW_MS, everything, export, large, observation, server, stream, transform
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from penstock.console.metric_table import (
    EXPORT_STATES,
    PIPELINE_STATES,
    TRANSFORM_STATES,
    families,
)
from penstock.console.metrics import CONTENT_TYPE, exposition
from penstock.export_model import PipelineView
from penstock.observe_model import Observation

# Much more than names of streams may hold: the text must stay whole whatever they become.
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)


def samples(seen: Observation) -> list[Sample]:
    found = text_string_to_metric_families(exposition(seen).decode())
    return [sample for family in found for sample in family.samples]


def values(seen: Observation, name: str) -> list[float]:
    return [sample.value for sample in samples(seen) if sample.name == name]


def value(seen: Observation, name: str, **labels: str) -> float:
    (found,) = [
        sample.value
        for sample in samples(seen)
        if sample.name == name and labels.items() <= sample.labels.items()
    ]
    return found


def test_every_declared_metric_is_told_with_kind_and_meaning() -> None:
    told = {
        sample.name: (family.type, family.documentation)
        for family in text_string_to_metric_families(exposition(everything()).decode())
        for sample in family.samples
    }

    declared = {
        metric.name: ("counter" if metric.is_counter else "gauge", metric.text)
        for _, (metric, *_) in families()
    }
    assert told == declared


def test_names_have_units_and_no_metric_is_declared_twice() -> None:
    names = [metric.name for _, (metric, *_) in families()]
    assert len(names) == len(set(names))
    for _, (metric, *_) in families():
        if metric.unit in ("By", "s"):
            assert {"By": "bytes", "s": "seconds"}[metric.unit] in metric.name.split("_")
        assert metric.text.endswith(".")


def test_a_stream_is_told_with_counts_sizes_and_ages() -> None:
    seen = observation(
        stream(
            "s",
            oldest_sequence_number=10,
            newest_sequence_number=12,
            total_bytes=300,
            oldest_time=NOW_MS - 1500,
            newest_time=NOW_MS - 500,
            appended_messages=13,
            appended_bytes=1300,
            refused_appends=2,
        )
    )
    expected = {
        "messages": 3,
        "bytes": 300,
        "max_bytes": 4096,
        "oldest_sequence_number": 10,
        "newest_sequence_number": 12,
        "oldest_message_age_seconds": 1.5,
        "newest_message_age_seconds": 0.5,
        "appended_messages_total": 13,
        "appended_bytes_total": 1300,
        "refused_appends_total": 2,
    }
    assert {
        sample.name.removeprefix("penstock_stream_"): sample.value
        for sample in samples(seen)
        if sample.labels == {"stream": "s"}
    } == expected


def test_an_empty_stream_has_no_messages_and_no_age() -> None:
    for oldest, newest in ((0, -1), (8, 7)):
        seen = observation(
            stream("s", oldest_sequence_number=oldest, newest_sequence_number=newest)
        )
        assert values(seen, "penstock_stream_messages") == [0]
        assert values(seen, "penstock_stream_oldest_message_age_seconds") == []


def test_an_age_is_never_negative_when_the_clock_was_set_back() -> None:
    seen = observation(stream("s", oldest_time=NOW_MS + 5000))
    assert values(seen, "penstock_stream_oldest_message_age_seconds") == [0]


def test_an_export_is_told_with_lag_and_outcome() -> None:
    seen = observation(
        export(
            "s",
            "e",
            state="backing off",
            lag_messages=7,
            lag_bytes=70,
            lag_age_millis=2500,
            last_exported_sequence_number=4,
            delivered_messages=5,
            delivered_bytes=50,
            refused_messages=1,
            lost_messages=2,
            dead_letters=3,
            tries=6,
            next_retry_time=NOW_MS + 1500,
        )
    )
    labels = {"stream": "s", "export": "e", "destination": "Kinesis"}
    assert {
        sample.name.removeprefix("penstock_export_"): sample.value
        for sample in samples(seen)
        if sample.labels == labels
    } == {
        "lag_messages": 7,
        "lag_bytes": 70,
        "lag_age_seconds": 2.5,
        "last_exported_sequence_number": 4,
        "delivered_messages_total": 5,
        "delivered_bytes_total": 50,
        "refused_messages_total": 1,
        "lost_messages_total": 2,
        "dead_letters": 3,
        "failed_tries": 6,
        "next_retry_timestamp_seconds": (NOW_MS + 1500) / 1000,
    }


@pytest.mark.parametrize("state", [*EXPORT_STATES, "something newer"])
def test_an_export_is_in_exactly_one_state(state: str) -> None:
    seen = observation(export(state=state))
    told = {
        sample.labels["state"]: sample.value
        for sample in samples(seen)
        if sample.name == "penstock_export_state"
    }
    assert told == dict.fromkeys((*EXPORT_STATES, "other"), 0) | {
        state if state in EXPORT_STATES else "other": 1
    }


def test_pipeline_and_transforms_have_states_too() -> None:
    for state in PIPELINE_STATES:
        seen = observation(pipeline=PipelineView(state, restarts=3))
        assert value(seen, "penstock_pipeline_state", state=state) == 1
        assert sum(values(seen, "penstock_pipeline_state")) == 1
        assert value(seen, "penstock_pipeline_restarts_total") == 3
    for state in TRANSFORM_STATES:
        seen = observation(transform("t", state=state, rows_in=9, batch_millis=250))
        assert value(seen, "penstock_transform_state", transform="t", state=state) == 1
        assert value(seen, "penstock_transform_rows_in_total", stream="s") == 9
        assert value(seen, "penstock_transform_batch_seconds") == 0.25


def test_aws_counters_have_the_bytes_of_their_destination() -> None:
    uploaded = {
        "IoTAnalytics": 1,
        "Kinesis": 2,
        "IoTSiteWise": 3,
        "S3ExportTaskExecutor": 4,
        "HTTP": 5,
    }
    seen = observation(process=server(appended_bytes=6, uploaded_bytes_by_destination=uploaded))
    assert {
        sample.name.removeprefix("penstock_telemetry_bytes_"): sample.value
        for sample in samples(seen)
        if "telemetry" in sample.name
    } == {
        "appended_total": 6,
        "uploaded_to_iot_analytics_total": 1,
        "uploaded_to_kinesis_total": 2,
        "uploaded_to_iot_sitewise_total": 3,
        "uploaded_to_s3_total": 4,
        "uploaded_to_http_total": 5,
    }


@given(st.lists(st.tuples(NAMES, NAMES), unique=True, max_size=5))
def test_any_name_comes_back_as_it_was(names: list[tuple[str, str]]) -> None:
    seen = observation(
        *(stream(name) for name, _ in names),
        *(export(name, identifier, destination=identifier) for name, identifier in names),
    )

    told = samples(seen)
    assert [s.labels["stream"] for s in told if s.name == "penstock_stream_bytes"] == [
        name for name, _ in names
    ]
    assert [
        (s.labels["stream"], s.labels["export"], s.labels["destination"])
        for s in told
        if s.name == "penstock_export_lag_bytes"
    ] == [(name, identifier, identifier) for name, identifier in names]


@given(st.integers(0, 2**63 - 1))
def test_numbers_are_not_rounded_on_the_way(number: int) -> None:
    text = exposition(observation(stream(newest_sequence_number=number))).decode()
    assert f'penstock_stream_newest_sequence_number{{stream="s"}} {number}\n' in text


def test_the_format_is_the_one_that_is_announced() -> None:
    assert CONTENT_TYPE == "text/plain; version=0.0.4; charset=utf-8"
    assert exposition(everything()).endswith(b"\n")


def test_a_thousand_streams_and_exports_are_told_fast() -> None:
    """About 35 ms of one quiet core; the limit leaves room for a busy one."""
    seen = large(1000)
    best_s = min(_seconds_for(seen) for _ in range(5))
    assert best_s < 0.15


def _seconds_for(seen: Observation) -> float:
    begun = time.process_time()
    exposition(seen)
    return time.process_time() - begun
