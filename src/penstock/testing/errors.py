"""What can go wrong with a local cloud itself; the errors that it plays are answers, not these."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from penstock.errors import PenstockError


class LocalCloudError(PenstockError):
    """The local cloud cannot do what it was asked for."""


class ExtraMissing(LocalCloudError):
    """A library of the extra `penstock[testing]` is not installed."""


# What the extra brings: moto, and the two that its server needs.
LIBRARIES = ("botocore", "moto", "flask", "flask_cors")


def require_extra() -> None:
    """Raise ExtraMissing at once, rather than in the middle of the first request."""
    missing = [library for library in LIBRARIES if find_spec(library) is None]
    if missing:
        raise ExtraMissing(
            f"The local cloud needs {', '.join(missing)}, not installed here. "
            f"Install what it needs with `pip install 'penstock[testing]'`"
        )


def load(module: str) -> Any:
    """Import a module of the extra when it is first needed: moto takes a third of a second."""
    return import_module(module)
