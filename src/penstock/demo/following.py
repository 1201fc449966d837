"""`python -m penstock.demo.following serve ...`: a command that ends when its parent does.

Standard input is a pipe from the parent. It ends with the parent, however that died, and this
process is then told to stop as by hand.
"""

from __future__ import annotations

import os
import runpy
import select
import signal
import sys
import threading


def main() -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    runpy.run_module("penstock", run_name="__main__")


def _end_with_parent() -> None:
    select.select([sys.stdin], [], [])
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
