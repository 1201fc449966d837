"""The first use of a type by several threads at once."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys, threading
from typing import Annotated
import msgspec
from penstock.model import Model, from_wire

sys.setswitchinterval(1e-6)

def use_first(number):
    count = Annotated[int, msgspec.Meta(ge=0)]
    fields = [(f"field{at}", count | None, None) for at in range(40)]
    kind = msgspec.defstruct(f"Kind{number}", fields, bases=(Model,))
    together = threading.Barrier(8)
    def use():
        together.wait()
        assert from_wire({"field19": 7}, kind).field19 == 7
    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()

for number in range(500):
    use_first(number)
"""


def test_threads_may_use_a_type_for_the_first_time_together() -> None:
    # In a process of its own: without care it ends with SIGSEGV.
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
