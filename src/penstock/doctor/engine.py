"""Java and Spark: what exports and transforms run on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata

from penstock.doctor.finding import Finding
from penstock.pipeline.jvm import SparkUnavailable, find_java

SPARK_LIBRARIES = ("pyspark", "pyarrow", "numpy")
# A cold import on a small device reads some hundred megabytes.
IMPORT_TIMEOUT_S = 60.0
REMEDY_SPARK = "Run `pip install 'penstock[spark]'`."


def check_java(*, matters: bool) -> Finding:
    """The Java that the pipeline would take, and where it is from."""
    try:
        java = find_java()
    except SparkUnavailable as error:
        text, _, remedy = str(error).partition(": ")
        return Finding.missing("java", _said(text), f"{_capital(remedy)}.", matters=matters)
    return Finding.ok("java", f"Java {java.full_version}, {java.command}.")


def check_spark(
    *, matters: bool, python: str = sys.executable, libraries: Sequence[str] = SPARK_LIBRARIES
) -> Finding:
    """Whether Spark's libraries are there, and can be imported.

    In a process of its own: a library that was built for another processor kills who imports it.
    """
    missing = [name for name in libraries if _version(name) is None]
    if missing:
        text = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed."
        return Finding.missing("spark", text, REMEDY_SPARK, matters=matters)
    program = f"import {', '.join(libraries)}"
    try:
        done = subprocess.run(
            [python, "-c", program], capture_output=True, text=True, timeout=IMPORT_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        text = f"`{program}` did not end within {IMPORT_TIMEOUT_S:g} s."
        return Finding.problem("spark", text, "Look at the disk, and run it again.")
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        remedy = "Run `pip install --force-reinstall 'penstock[spark]'`."
        return Finding.missing("spark", f"`{program}` fails: {said}", remedy, matters=matters)
    versions = ", ".join(f"{name} {_version(name)}" for name in libraries)
    return Finding.ok("spark", f"{versions}.")


def _version(library: str) -> str | None:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None


def _said(text: str) -> str:
    return f"{_capital(text)}."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
