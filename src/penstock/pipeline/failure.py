"""What a failed Spark job means, in words for an operator. Pure."""

from __future__ import annotations

import re

REMEDY = (
    "install penstock[aws,spark] for it on every node, or name another Python with "
    "spark.pyspark.python (--conf, spark_conf)"
)
# Executors that cannot even begin: no lease of the job was touched. What Spark says, what we say.
UNFIT = (
    (
        re.compile(r"ModuleNotFoundError: No module named '(?P<name>[^']+)'"),
        "the Python of the Spark executors has no module {name}: " + REMEDY,
    ),
    (
        re.compile(r'Cannot run program "(?P<name>[^"]+)"'),
        "the Spark executors have no Python at {name}: " + REMEDY,
    ),
    (
        re.compile(r"PYTHON_VERSION_MISMATCH\] ?(?P<name>[^\n]+)"),
        "the Python of the Spark executors is another version: {name} " + REMEDY,
    ),
    (
        re.compile(r"\b(?:ServerUnreachable|ConnectFailed)Exception: (?P<name>[^\n]+)"),
        "the Spark executors cannot use the server's address, which is what --server says: {name}",
    ),
)
LOST_TASK = re.compile(r"most recent failure: (?P<reason>[^\n]+)")
# What Spark says of a context that it has stopped by itself, because the cluster ended it.
STOPPED_CONTEXT = re.compile(r"stopped SparkContext|SparkContext (has been|was) shut ?down")
PYTHON_SIDE = re.compile(r"An error occurred while calling \S+\s*:? *")


def unfit_executors(text: str) -> str | None:
    """Why no task of a job could begin, and what to do; None if they did, or nobody knows."""
    for pattern, sentence in UNFIT:
        if found := pattern.search(text):
            return sentence.format(name=found["name"].strip())
    return None


def context_stopped(text: str) -> bool:
    """Whether no job will ever run again in this process."""
    return STOPPED_CONTEXT.search(text) is not None


def shortened(text: str) -> str:
    """The line that says something, of the many that Spark writes."""
    found = LOST_TASK.search(text)
    return found["reason"] if found else PYTHON_SIDE.sub("", text).partition("\n")[0]
