"""The mechanics of uploads: parts, bodies, threads."""

from __future__ import annotations

import base64
import hashlib
import os
import threading
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_service import Answer, Request, ScriptedService

from penstock.destinations.aws import Service
from penstock.destinations.base import LeaseLost, Transient
from penstock.destinations.s3_task import TaskInvalid
from penstock.destinations.s3_upload import (
    PARTS_MAX,
    REQUESTS_MAX,
    Body,
    ObjectUpload,
    Part,
    Source,
    Stopped,
    parts_of,
    same_content,
    side_by_side,
)
from penstock.model import GIB, MIB

TIB = 1024 * GIB


@given(st.integers(1, 6 * TIB), st.integers(5 * MIB, 5 * GIB))
def test_parts_cover_the_file_and_are_neither_too_small_nor_too_many(
    size_bytes: int, part_bytes_min: int
) -> None:
    parts = parts_of(size_bytes, part_bytes_min)

    assert len(parts) <= PARTS_MAX
    assert [part.number for part in parts] == list(range(1, len(parts) + 1))
    ends = [part.offset + part.size_bytes for part in parts]
    assert [part.offset for part in parts] == [0, *ends[:-1]]
    assert ends[-1] == size_bytes
    assert all(part.size_bytes >= part_bytes_min for part in parts[:-1])
    assert len({part.size_bytes for part in parts[:-1]}) <= 1


def test_a_part_is_as_small_as_it_may_be() -> None:
    assert [part.size_bytes for part in parts_of(12 * MIB, 5 * MIB)] == [5 * MIB, 5 * MIB, 2 * MIB]
    assert parts_of(100_000 * MIB, 5 * MIB)[0].size_bytes == 10 * MIB


# --- bodies -------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(100)))
    return path


@pytest.fixture
def body(path: Path) -> Iterator[Body]:
    with Source.at(str(path)).open() as file:
        yield Body(file, Part(2, 10, 20), threading.Event())


def test_a_body_is_its_part_of_the_file(body: Body) -> None:
    assert len(body) == 20
    assert body.read(5) == bytes(range(10, 15))
    assert body.tell() == 5
    assert body.read() == bytes(range(15, 30))
    assert body.read(5) == b""
    assert body.seek(0) == 0
    assert body.read(None) == bytes(range(10, 30))
    assert body.seek(-3, os.SEEK_END) == 17
    assert body.seek(1, os.SEEK_CUR) == 18
    assert body.read(-1) == bytes(range(28, 30))
    assert b"".join(body.chunks()) == bytes(range(10, 30))


def test_a_file_that_becomes_shorter_is_noticed(path: Path, body: Body) -> None:
    os.truncate(path, 15)

    assert body.read(100) == bytes(range(10, 15))
    with pytest.raises(TaskInvalid, match="became shorter"):
        body.read(100)
    assert isinstance(body.error, TaskInvalid)


def test_a_body_that_is_told_to_stop_stops(path: Path) -> None:
    stop = threading.Event()
    with Source.at(str(path)).open() as file:
        body = Body(file, Part(1, 0, 100), stop)
        body.read(10)
        stop.set()
        with pytest.raises(Stopped):
            body.read(10)


def test_a_source_is_a_file_that_can_be_read(tmp_path: Path, path: Path) -> None:
    with pytest.raises(TaskInvalid, match="No such file"):
        Source.at(str(tmp_path / "nothing"))
    with pytest.raises(TaskInvalid, match="is not a file"):
        Source.at(str(tmp_path))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TaskInvalid, match="is not a file"):
        Source.at(str(tmp_path / "pipe"))
    source = Source.at(str(path))
    path.unlink()
    with pytest.raises(TaskInvalid, match="No such file"):
        source.open()


def test_a_changed_source_is_noticed(path: Path) -> None:
    source = Source.at(str(path))
    assert source.unchanged()
    path.write_bytes(b"other")
    assert not source.unchanged()
    path.unlink()
    assert not source.unchanged()


def test_a_part_that_the_service_has_is_told_by_size_and_checksum(body: Body) -> None:
    content = bytes(range(10, 30))
    md5 = hashlib.md5(content).hexdigest()
    crc32 = base64.b64encode(zlib.crc32(content).to_bytes(4, "big")).decode()

    assert same_content({"Size": 20, "ETag": f'"{md5}"'}, body)
    assert same_content({"Size": 20, "ETag": '"by-kms"', "ChecksumCRC32": crc32}, body)
    assert not same_content({"Size": 21, "ETag": f'"{md5}"'}, body)
    assert not same_content({"Size": 20, "ETag": '"other"'}, body)
    assert not same_content({"Size": 20, "ETag": '"by-kms"', "ChecksumCRC32": "AAAAAA=="}, body)
    assert not same_content({}, body)


# --- threads ------------------------------------------------------------------------------------


def test_jobs_run_a_few_at_a_time_and_all_are_told() -> None:
    together = threading.Barrier(REQUESTS_MAX, timeout=20)
    told: list[int] = []

    def job(number: int) -> int:
        if number < REQUESTS_MAX:
            together.wait()
        return number

    jobs = [lambda n=n: job(n) for n in range(10)]
    side_by_side(jobs, told.append, threading.Event(), lambda: None)

    assert sorted(told) == list(range(10))


def test_the_first_failure_stops_the_others_and_nothing_runs_afterwards() -> None:
    stop = threading.Event()
    ended: list[bool] = []

    def fail() -> None:
        raise Transient("broken")

    def work() -> None:
        ended.append(stop.wait(20))

    started = iter([work, work, fail, work, work, work])
    with pytest.raises(Transient, match="broken"):
        side_by_side(started, lambda _: None, stop, lambda: None)

    assert ended == [True] * 3
    assert len(list(started)) == 2, "what had not started never starts"


def test_a_lost_lease_stops_the_work() -> None:
    stop = threading.Event()

    def lose() -> None:
        raise LeaseLost("gone")

    def work() -> None:
        assert stop.wait(20)

    with pytest.raises(LeaseLost):
        side_by_side([work], lambda _: None, stop, lose)


def test_the_lease_is_looked_after_while_a_long_request_is_under_way() -> None:
    looked = threading.Semaphore(0)

    def work() -> None:
        for _ in range(2):
            assert looked.acquire(timeout=20)

    side_by_side([work], lambda _: None, threading.Event(), looked.release)


# --- looking for what an earlier run left -------------------------------------------------------

UPLOADS_PAGE = """<ListMultipartUploadsResult>
<IsTruncated>{truncated}</IsTruncated><NextKeyMarker>k</NextKeyMarker>
<NextUploadIdMarker>{marker}</NextUploadIdMarker>
<Upload><Key>{key}</Key><UploadId>{id}</UploadId><Initiated>{begun}</Initiated></Upload>
</ListMultipartUploadsResult>"""
PARTS_PAGE = """<ListPartsResult><IsTruncated>{truncated}</IsTruncated>
<NextPartNumberMarker>{number}</NextPartNumberMarker>
<Part><PartNumber>{number}</PartNumber><Size>5</Size><ETag>e{number}</ETag></Part>
</ListPartsResult>"""


def test_all_pages_of_uploads_and_parts_are_read_and_the_newest_upload_is_taken(
    aws: None, service: ScriptedService, monkeypatch: pytest.MonkeyPatch, path: Path
) -> None:
    uploads = [
        ("data/object", "old", "2026-01-01T00:00:00.000Z"),
        ("data/object", "newest", "2026-01-01T02:00:00.000Z"),
        ("data/object/other", "other", "2026-01-01T03:00:00.000Z"),
    ]

    def answer(request: Request) -> Answer:
        query = parse_qs(urlsplit(request.target).query)
        if "uploadId" in query:
            assert query["uploadId"] == ["newest"]
            number = int(query.get("part-number-marker", ["0"])[0]) + 1
            page = PARTS_PAGE.format(number=number, truncated=str(number < 3).lower())
        else:
            at = int(query.get("upload-id-marker", ["0"])[0])
            key, upload_id, begun = uploads[at]
            page = UPLOADS_PAGE.format(
                key=key,
                id=upload_id,
                begun=begun,
                marker=at + 1,
                truncated=str(at < 2).lower(),
            )
        return Answer(200, page.encode())

    monkeypatch.setenv("AWS_ENDPOINT_URL", service.url)
    service.answer = answer
    opened = Service("s3", "S3")
    sent: list[int] = []
    upload = ObjectUpload(opened, "bucket", "data/object", {}, Source.at(str(path)), sent.append)

    found = upload.unfinished(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
    too_late = upload.unfinished(datetime(2026, 1, 2, tzinfo=UTC).timestamp())
    opened.close()

    assert found is not None
    assert found.upload_id == "newest"
    assert {number: part["ETag"] for number, part in found.listed.items()} == {
        1: "e1",
        2: "e2",
        3: "e3",
    }
    assert too_late is None
