"""Types that msgspec knows all about.

It looks at the fields of a type when the type is first used, and runs Python while it does so. A
second thread that uses the type meanwhile finds the half of it, and the process ends with SIGSEGV.
So a type is first used here, by one thread at a time. Decoders that modules make when they are
imported need no such care.
"""

from __future__ import annotations

from threading import Lock
from typing import Any

import msgspec

_types: set[Any] = set()
_lock = Lock()


def learn(kind: Any) -> None:
    """Return when any thread may use the type."""
    if kind in _types:
        return
    with _lock:
        msgspec.json.Decoder(kind)
        _types.add(kind)
