"""The benchmark runs and says what it measured. Not whether it was fast: machines are noisy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
RUN_TIMEOUT_S = 60
FIGURE_KEYS = {
    *("case", "title", "unit", "value", "met", "repeats", "values"),
    *("at_least", "at_most", "note"),
}


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run("-m", "bench", "--quick", *arguments)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=os.environ | {"COLUMNS": "160"},
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
    )


def judged(figure_arguments: str) -> str:
    """What a figure made of these arguments says about its demand."""
    done = run("-c", f"from bench.figures import Figure; print(Figure({figure_arguments}).met)")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_report_has_every_figure_with_its_raw_values_and_the_machine(tmp_path: Path) -> None:
    done = bench("--only", "idle", "--only", "read", "--output", str(tmp_path / "bench.json"))

    assert done.returncode in (0, 1), done.stderr
    report: dict[str, Any] = json.loads((tmp_path / "bench.json").read_text())
    assert [figure["case"] for figure in report["figures"]] == ["idle", "idle", "read"]
    for figure in report["figures"]:
        assert set(figure) == FIGURE_KEYS
        assert len(figure["values"]) == figure["repeats"] == 2
        assert min(figure["values"]) <= figure["value"] <= max(figure["values"])
        assert min(figure["values"]) > 0
        assert figure["title"] in done.stdout
    assert done.returncode == any(figure["met"] is False for figure in report["figures"])
    assert {"cores", "cpu", "memory", "kernel", "python", "libraries"} <= set(report["machine"])
    assert report["machine"]["libraries"]["cbor2"]
    assert "--only idle" in report["command"]
    assert report["date"].endswith("+00:00")
    assert [len(report["load_average"][when]) for when in ("before", "after")] == [3, 3]
    assert all(text in done.stdout for text in report["not_shown"])


def test_the_median_decides_whether_a_demand_is_met() -> None:
    assert judged("'', '', [1, 5, 900], at_least=5") == "True"
    assert judged("'', '', [1, 4, 900], at_least=5") == "False"
    assert judged("'', '', [1, 5, 900], at_most=5") == "True"
    assert judged("'', '', [1, 6, 900], at_most=5") == "False"
    assert judged("'', '', [1]") == "None"


def test_a_missed_demand_gives_exit_status_1(tmp_path: Path) -> None:
    program = f"""
import sys
from bench.__main__ import ALL_CASES, main
from bench.figures import Figure

ALL_CASES["idle"] = lambda folder, effort: [Figure("too slow", "s", [2.0], at_most=1)]
sys.argv = ["bench", "--only", "idle", "--output", {str(tmp_path / "bench.json")!r}]
main()
"""
    done = run("-c", program)

    assert done.returncode == 1, done.stderr
    assert "too slow" in done.stdout
    assert "NO" in done.stdout


def test_a_case_that_does_not_exist_is_refused_with_those_that_do() -> None:
    done = bench("--only", "everything")

    assert done.returncode == 2
    assert "'segments'" in done.stderr
