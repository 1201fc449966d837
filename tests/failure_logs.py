"""Files whose content belongs into the report of a failed test."""

from __future__ import annotations

from pathlib import Path

import pytest

LOGS = pytest.StashKey[list[tuple[str | None, Path]]]()


def show_on_failure(request: pytest.FixtureRequest, *logs: Path) -> None:
    """Print these files when a test fails that uses the asking fixture, or that asked itself."""
    entries = [(request.fixturename, log) for log in logs]
    kept = request.node.stash.setdefault(LOGS, [])
    kept.extend(entries)

    def forget() -> None:
        """A module's fixture is made anew for each parameter; show what belongs to the last."""
        for entry in entries:
            kept.remove(entry)

    request.addfinalizer(forget)


def add_logs(item: pytest.Item, report: pytest.TestReport) -> None:
    """Append what the test and the fixtures it uses asked for."""
    used = {None, *getattr(item, "fixturenames", ())}
    for node in item.listchain():
        for fixture, log in node.stash.get(LOGS, []):
            if fixture in used and log.exists():
                report.sections.append((f"{log.name} of {log.parent.name}", log.read_text()))
