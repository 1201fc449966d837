"""Types of the fixtures that client tests share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

Connect = Callable[..., Any]


class Belongings(Protocol):
    """What this process has open."""

    def __call__(self) -> tuple[set[threading.Thread], int]: ...
