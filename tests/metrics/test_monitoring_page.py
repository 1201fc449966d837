"""The page about monitoring says what is true of the declaration and of the alerts."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from penstock.console.metric_table import as_markdown

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "monitoring.md").read_text()


def test_the_table_of_metrics_is_current() -> None:
    assert PAGE.endswith("\n\n" + as_markdown()), (
        "replace the table with what `python -m penstock.console.metric_table` prints"
    )


def test_the_page_explains_every_alert() -> None:
    alerts = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yml").read_text())
    declared = [rule["alert"] for group in alerts["groups"] for rule in group["rules"]]
    assert re.findall(r"^\| (Penstock\w+) \|", PAGE, re.MULTILINE) == declared
