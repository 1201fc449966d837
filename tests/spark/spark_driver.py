"""A Spark session as the pipeline starts one: any Java will do, and it is quick."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import penstock.spark
from penstock.pipeline.context import start_context

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def running_spark(
    log: Path, cores: int = 2, *, master: str = "", conf: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """A session with the settings we ship; the JVM and Python's workers write to `log`."""
    from pyspark.sql import SparkSession

    with _errors_into(log):
        context, gateway = start_context(master or f"local[{cores}]", conf=conf)
    session = SparkSession(context)
    try:
        for key, value in penstock.spark.settings().items():
            if session.conf.isModifiable(key):
                session.conf.set(key, value)
        session.conf.set("spark.sql.shuffle.partitions", "2")
        penstock.spark.register(session)
        yield session
    finally:
        session.stop()
        gateway.stop()


@contextmanager
def _errors_into(log: Path) -> Iterator[None]:
    """What is started here has this file as its standard error."""
    kept = os.dup(2)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.dup2(file, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(file)
