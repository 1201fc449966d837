"""Errors that a person reads in the middle of Spark's own."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from penstock.errors import PenstockError

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class SourceError(PenstockError):
    """A read cannot be done; the text names the option, its value and the remedy."""


class DataLoss(SourceError):
    """Messages that a query has not read yet are gone."""


def said_plainly(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Let our own errors reach the user as their sentence, without Python's stack trace before it.

    Spark's worker processes look at this variable when they report an error, and end then; so
    nobody else's errors are touched.
    """

    @functools.wraps(function)
    def guarded(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        try:
            return function(*args, **kwargs)
        except PenstockError:
            speak_plainly()
            raise

    return guarded


def speak_plainly() -> None:
    if os.environ.get("SPARK_PYTHON_RUNTIME") == "PYTHON_WORKER":
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
