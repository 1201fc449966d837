"""What a new user does, from the clone on."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "fresh-clone"


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_a_fresh_clone_shows_data_in_the_console_within_the_promised_time() -> None:
    done = subprocess.run([SCRIPT], capture_output=True, text=True, timeout=1400)

    assert done.returncode == 0, done.stdout + done.stderr
