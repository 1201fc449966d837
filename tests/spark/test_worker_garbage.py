"""What a worker has loaded is not looked through after every task."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import gc, time
import penstock.spark.reader
from penstock.spark.garbage import spare_what_is_loaded

def collect_s():
    started_s = time.perf_counter()
    gc.collect()
    return time.perf_counter() - started_s

before_s = min(collect_s() for _ in range(3))
spare_what_is_loaded()
print(min(collect_s() for _ in range(3)) / before_s)
"""


def test_a_collection_after_a_task_costs_a_fraction_of_what_it_did():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=60
    )
    assert float(done.stdout) < 0.3
