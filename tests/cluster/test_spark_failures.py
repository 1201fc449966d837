"""What Spark says of a failed job, in words for an operator."""

from __future__ import annotations

import pytest

from penstock.pipeline.failure import shortened, unfit_executors

ABORTED = (
    "An error occurred while calling o74.count.\n"
    ": org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 "
    "failed 4 times, most recent failure: Lost task 0.3 in stage 0.0 (TID 3) (10.0.0.7 executor 1)"
    ": "
)


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        (
            'java.io.IOException: Cannot run program "/opt/python": error=2, No such file\n\tat x',
            "the Spark executors have no Python at /opt/python: install ",
        ),
        (
            "[PYTHON_EXCEPTION] Traceback (most recent call last):\n"
            "ModuleNotFoundError: No module named 'cbor2'\n SQLSTATE: 38000",
            "the Python of the Spark executors has no module cbor2: install ",
        ),
        (
            "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python "
            "in worker has different version: 3.12 than that in driver: 3.11.\n",
            "the Python of the Spark executors is another version: Python in worker has different "
            "version: 3.12 than that in driver: 3.11. install ",
        ),
        (
            "penstock.errors.ServerUnreachableException: no stream manager can be reached at "
            "127.0.0.1:8088\n",
            "the Spark executors cannot use the server's address, which is what --server says: no "
            "stream manager can be reached at 127.0.0.1:8088",
        ),
    ],
)
def test_executors_that_cannot_begin_are_explained(reason: str, told: str) -> None:
    explained = unfit_executors(ABORTED + reason)
    assert explained is not None
    assert explained.startswith(told)


def test_a_task_that_was_lost_while_it_worked_is_no_fault_of_the_set_up() -> None:
    text = f"{ABORTED}ExecutorLostFailure (executor 1 exited) Reason: Command exited with code 137"
    assert unfit_executors(text) is None
    assert shortened(f"{text}\nDriver stacktrace:\n\tat x") == (
        "Lost task 0.3 in stage 0.0 (TID 3) (10.0.0.7 executor 1): ExecutorLostFailure "
        "(executor 1 exited) Reason: Command exited with code 137"
    )
    assert shortened("Something else\nwith lines") == "Something else"
    text = "An error occurred while calling o7.count.\n: java.lang.Error: told\n\tat x"
    assert shortened(text) == "java.lang.Error: told"
