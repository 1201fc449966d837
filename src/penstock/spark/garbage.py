"""Keeps Spark's Python workers from looking through everything that they have loaded."""

from __future__ import annotations

import gc
from functools import cache


@cache
def spare_what_is_loaded() -> None:
    """Take what a worker has loaded by now out of the search for garbage, once.

    A worker of Spark collects garbage after every task. With the modules of Spark, Arrow and ours
    that took 25 ms, in which it could have begun the next one; without them it takes one.
    """
    gc.collect()
    gc.freeze()
