"""The files for Grafana and Prometheus use metrics that exist, with labels that they have."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from observations import everything
from prometheus_client.parser import text_string_to_metric_families

from penstock.console.metrics import exposition

DEPLOY = Path(__file__).parents[2] / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana" / "penstock.json").read_text())
ALERTS = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
SCRAPES = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())

ADDED_BY_PROMETHEUS = {"instance", "job"}
SELECTOR = re.compile(r"(?P<name>penstock_\w+)(?:\{(?P<labels>[^}]*)\})?")
LABEL = re.compile(r'(\w+)\s*=~?\s*"([^"]*)"')


def labels_by_metric() -> dict[str, dict[str, set[str]]]:
    """What the server really tells: metric -> label -> values."""
    found: dict[str, dict[str, set[str]]] = {}
    for family in text_string_to_metric_families(exposition(everything()).decode()):
        for sample in family.samples:
            labels = found.setdefault(sample.name, {})
            for label, value in sample.labels.items():
                labels.setdefault(label, set()).add(value)
    return found


TOLD = labels_by_metric()
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
EXPRESSIONS = [
    *((panel["title"], target["expr"]) for panel in PANELS for target in panel["targets"]),
    *((rule["alert"], rule["expr"]) for rule in RULES),
    *(
        (variable["name"], variable["definition"])
        for variable in DASHBOARD["templating"]["list"]
        if variable["type"] == "query"
    ),
]


@pytest.mark.parametrize(("title", "expression"), EXPRESSIONS)
def test_an_expression_asks_only_for_what_is_told(title: str, expression: str) -> None:
    for selector in SELECTOR.finditer(expression):
        name = selector["name"]
        assert name in TOLD, f"{title}: there is no metric {name}"
        for label, wanted in LABEL.findall(selector["labels"] or ""):
            assert label in {*TOLD[name], *ADDED_BY_PROMETHEUS}, f"{title}: {name} has no {label}"
            if label == "state":
                assert set(wanted.split("|")) <= TOLD[name]["state"], title
    if title != "PenstockDown":
        assert SELECTOR.search(expression)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_says_how_bad_it_is_and_what_it_means(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert rule["annotations"].keys() == {"summary", "description"}
    used = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
    told = [set(TOLD.get(found["name"], ())) for found in SELECTOR.finditer(rule["expr"])]
    assert all(used <= labels | ADDED_BY_PROMETHEUS for labels in told)


def test_the_alerts_cover_what_goes_wrong() -> None:
    assert {rule["alert"] for rule in RULES} >= {
        "PenstockDown",
        "PenstockExportLagGrowing",
        "PenstockDeadLetters",
        "PenstockPipelineRestarting",
        "PenstockDiskNearlyFull",
    }


def test_what_is_scraped_is_what_the_alerts_look_for() -> None:
    (scrape,) = SCRAPES["scrape_configs"]
    assert (scrape["job_name"], scrape["metrics_path"]) == ("penstock", "/metrics")
    assert SCRAPES["rule_files"] == ["alerts.yml"]
    (down,) = [rule for rule in RULES if rule["alert"] == "PenstockDown"]
    assert 'job="penstock"' in down["expr"]


def test_the_legend_of_a_panel_names_labels_that_its_metrics_have() -> None:
    for panel in PANELS:
        for target in panel["targets"]:
            told = {
                label
                for found in SELECTOR.finditer(target["expr"])
                for label in TOLD[found["name"]]
            }
            used = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert used <= told | ADDED_BY_PROMETHEUS, panel["title"]


def test_the_dashboard_has_what_grafana_needs_to_load_it() -> None:
    assert DASHBOARD["uid"] == "penstock"
    assert DASHBOARD["schemaVersion"] >= 36
    assert "id" not in DASHBOARD  # Grafana's own number: a file with one replaces a stranger
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    for panel in PANELS:
        assert panel["type"] in ("stat", "gauge", "table", "timeseries")
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert panel["fieldConfig"]["defaults"]["unit"]
        references = [target["refId"] for target in panel["targets"]]
        assert references
        assert len(references) == len(set(references))


def test_panels_do_not_overlap_and_stay_on_the_page() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells


def test_variables_that_expressions_use_are_declared() -> None:
    declared = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    built_in = {"__rate_interval", "__all"}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD)))
    assert used <= declared | built_in
    assert declared <= used


def test_every_kind_of_thing_is_on_the_dashboard() -> None:
    used = {found["name"] for _, text in EXPRESSIONS for found in SELECTOR.finditer(text)}
    kinds = {"_".join(name.split("_")[:2]) for name in used}
    assert kinds == {"_".join(name.split("_")[:2]) for name in TOLD}
