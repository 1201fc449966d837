"""What can go wrong with a demo."""

from __future__ import annotations

from penstock.errors import PenstockError


class DemoFailed(PenstockError):
    """A part of the demo does not work on this machine; the text says which, and what to do."""


class DemoEnded(Exception):
    """The person at the keyboard has seen enough, in the middle of something."""
