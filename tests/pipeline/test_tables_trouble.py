"""What went wrong with a table, in a sentence, and whether to wait for a person."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from penstock.destinations.base import Blocked, LeaseLost, Transient
from penstock.errors import StoreError
from penstock.export_model import Lease
from penstock.pipeline.tables import (
    Damaged,
    check_files,
    table_of,
    trouble_with_job,
    trouble_with_table,
)


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.EACCES, Blocked),
        (errno.EROFS, Blocked),
        (errno.ENOSPC, Blocked),
        (errno.ENOTDIR, Blocked),
        (errno.EIO, Transient),
        (errno.ENOTEMPTY, Transient),
    ],
)
def test_an_error_of_the_disk_is_named_with_its_place(number: int, kind: type[Exception]) -> None:
    trouble = trouble_with_table("/t", OSError(number, os.strerror(number), "/t/_penstock"))
    assert type(trouble) is kind
    assert str(trouble) == f"table /t cannot be written: {os.strerror(number)}: /t/_penstock"


def test_lost_notes_on_what_is_written_are_for_a_person() -> None:
    trouble = trouble_with_table("/t", StoreError("cannot be read: /t/_penstock/k/written"))
    assert type(trouble) is Blocked
    assert str(trouble) == "table /t: cannot be read: /t/_penstock/k/written"


class JavaError:
    """As much of a Java exception as is looked at."""

    def __init__(self, message: str | None, cause: JavaError | None = None) -> None:
        self._message = message
        self._cause = cause

    def getMessage(self) -> str | None:
        return self._message

    def getCause(self) -> JavaError | None:
        return self._cause

    def toString(self) -> str:
        return f"java.lang.Error: {self._message}"


class JobFailed(Exception):
    def __init__(self, java_exception: JavaError) -> None:
        self.java_exception = java_exception


@pytest.mark.parametrize(
    ("cause", "kind", "text"),
    [
        (
            "No space left on device",
            Blocked,
            "table /t cannot be written: No space left on device",
        ),
        ("Connection refused", Transient, "table /t: Connection refused"),
        ("stream s: messages 4 to 4 are damaged", Damaged, "damaged"),
        ("Job 9 cancelled because SparkContext was shut down", LeaseLost, "the pipeline stops"),
        (None, Transient, "table /t: java.lang.Error: None"),
    ],
)
def test_a_failed_job_tells_its_first_cause(
    cause: str | None, kind: type[Exception], text: str
) -> None:
    error = JobFailed(JavaError("Job aborted", JavaError("Task failed", JavaError(cause))))
    trouble = trouble_with_job("/t", error)
    assert type(trouble) is kind
    assert text in str(trouble)


def test_rows_that_are_not_on_this_machine_are_missed(tmp_path: Path) -> None:
    folder = tmp_path / "day=2026-01-31"
    folder.mkdir()
    parquet.write_table(pyarrow.table({"n": [1, 2]}), folder / "part-0.parquet")
    (folder / ".part-0.parquet.crc").touch()
    check_files(str(tmp_path), 2, "/t")
    with pytest.raises(Blocked, match="has written 3 rows and 2 of them are in its folder"):
        check_files(str(tmp_path), 3, "/t")


def test_only_leases_of_redirected_channels_go_to_tables() -> None:
    settings = {"tables_by_channel": {"turbines": "/t"}}
    turbines = Lease(1, "s", "IoTAnalyticsConfig", {"iotChannel": "turbines"}, 0, 1)
    pumps = Lease(2, "s", "IoTAnalyticsConfig", {"iotChannel": "pumps"}, 0, 1)
    http = Lease(3, "s", "HTTPConfig", {"uri": "turbines"}, 0, 1)
    assert [table_of(lease, settings) for lease in (turbines, pumps, http)] == ["/t", None, None]
    assert table_of(turbines, {}) is None
