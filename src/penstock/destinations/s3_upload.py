"""One file to one S3 object: in one request, or in parts that can be taken up again."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import stat
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any, TypeVar

from penstock.destinations.aws import Service
from penstock.destinations.base import Blocked, DestinationError, Transient
from penstock.destinations.parts import RequestRefused
from penstock.destinations.s3_task import TaskInvalid

# A limit of the service.
PARTS_MAX = 10_000
# Requests of one task at the same time. One is seldom enough to fill a line to the cloud; each
# holds a few hundred kilobytes, whatever the size of a part.
REQUESTS_MAX = 4
# How often the lease is looked after while requests are under way.
KEEP_ALIVE_S = 1.0
CHUNK_BYTES = 1024 * 1024
# Pages of open uploads of one key that are looked through, a thousand in each: more are not ours.
UPLOAD_PAGES_MAX = 3
# Requests of a machine whose clock is off by more than this are refused anyway.
CLOCK_SLACK_S = 900.0
# What the service says of a part and wants to hear again when the upload is completed.
PART_KEYS = (
    *("ETag", "ChecksumCRC32", "ChecksumCRC32C", "ChecksumCRC64NVME"),
    *("ChecksumSHA1", "ChecksumSHA256"),
)


JobResult = TypeVar("JobResult")


class Stopped(Exception):
    """Another request of the same task failed, or its lease is lost."""


@dataclass(frozen=True)
class Source:
    """A file as it was when its upload began."""

    path: str
    size_bytes: int
    modified_ns: int
    inode: int

    @classmethod
    def at(cls, path: str) -> Source:
        """TaskInvalid if there is nothing to upload."""
        try:
            found = os.stat(path)
        except OSError as error:
            raise TaskInvalid(f"the file {path} cannot be read: {error.strerror}") from error
        if not stat.S_ISREG(found.st_mode):
            raise TaskInvalid(f"{path} is not a file")
        return cls(path, found.st_size, found.st_mtime_ns, found.st_ino)

    def unchanged(self) -> bool:
        try:
            return Source.at(self.path) == self
        except TaskInvalid:
            return False

    def open(self) -> io.FileIO:
        try:
            return io.FileIO(self.path)
        except OSError as error:
            raise TaskInvalid(f"the file {self.path} cannot be read: {error.strerror}") from error


@dataclass(frozen=True)
class Part:
    """A piece of the file. Numbers start with 1."""

    number: int
    offset: int
    size_bytes: int


def parts_of(size_bytes: int, part_bytes_min: int) -> list[Part]:
    """As small as allowed, but not more of them than the service takes."""
    part_bytes = max(part_bytes_min, -(-size_bytes // PARTS_MAX))
    return [
        Part(number, offset, min(part_bytes, size_bytes - offset))
        for number, offset in enumerate(range(0, size_bytes, part_bytes), 1)
    ]


class Body:
    """A piece of an open file, as botocore reads it: from memory it takes what is being sent."""

    def __init__(self, file: io.FileIO, part: Part, stop: threading.Event) -> None:
        self._file = file
        self._part = part
        self._stop = stop
        self._position = 0
        # botocore turns whatever happens here into a failure of the network.
        self.error: TaskInvalid | Stopped | None = None

    def __len__(self) -> int:
        return self._part.size_bytes

    def read(self, size: int | None = None) -> bytes:
        rest = self._part.size_bytes - self._position
        wanted = rest if size is None or size < 0 else min(size, rest)
        if self._stop.is_set():
            self.error = Stopped()
            raise self.error
        try:
            data = os.pread(self._file.fileno(), wanted, self._part.offset + self._position)
        except OSError as error:
            self.error = TaskInvalid(f"{self._file.name!s} cannot be read: {error.strerror}")
            raise self.error from error
        if wanted and not data:
            self.error = TaskInvalid(f"{self._file.name!s} became shorter while it was uploaded")
            raise self.error
        self._position += len(data)
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: len(self)}[whence]
        self._position = min(max(start + offset, 0), len(self))
        return self._position

    def tell(self) -> int:
        return self._position

    def chunks(self) -> Iterator[bytes]:
        self.seek(0)
        while chunk := self.read(CHUNK_BYTES):
            yield chunk


@dataclass
class Multipart:
    """An open upload: what the service has of it."""

    upload_id: str
    # Parts that an earlier run sent, by number, as the service lists them. Not compared yet.
    listed: dict[int, dict[str, Any]] = field(default_factory=dict)
    # Parts that need not be sent any more, by number, as they must be named at the end.
    done: dict[int, dict[str, Any]] = field(default_factory=dict)


class ObjectUpload:
    """The requests for one object."""

    def __init__(
        self,
        service: Service,
        bucket: str,
        key: str,
        metadata: dict[str, str],
        source: Source,
        count_bytes: Callable[[int], None],
    ) -> None:
        self._service = service
        self._object = {"Bucket": bucket, "Key": key}
        self._metadata = metadata
        self._count_bytes = count_bytes
        self.key = key
        self.source = source
        self.place = f"s3://{bucket}/{key}"

    def put(self, file: io.FileIO, stop: threading.Event) -> None:
        body = Body(file, Part(1, 0, self.source.size_bytes), stop)
        self._send(body, "put_object", Metadata=self._metadata)

    def begin(self) -> Multipart:
        answer = self._service.call(
            "create_multipart_upload", **self._object, Metadata=self._metadata
        )
        return Multipart(_found(answer, "UploadId"))

    def unfinished(self, not_before_s: float) -> Multipart | None:
        """An upload of this object that was begun since then, with the parts that arrived.

        Metadata belongs to an upload, and nobody can ask for it. But one that was begun after the
        task was appended is the task's own. Without the right to look, there is none.
        """
        try:
            upload_id = self._newest_upload_id(not_before_s)
            if upload_id is None:
                return None
            return Multipart(upload_id, dict(self._listed_parts(upload_id)))
        except (Blocked, RequestRefused):
            return None

    def put_part(
        self, multipart: Multipart, part: Part, file: io.FileIO, stop: threading.Event
    ) -> bool:
        """Send a part, unless the service has it already. Says whether it was sent."""
        body = Body(file, part, stop)
        listed = multipart.listed.get(part.number)
        sent = False
        if listed is None or not same_content(listed, body):
            body.seek(0)
            listed = self._send(
                body, "upload_part", UploadId=multipart.upload_id, PartNumber=part.number
            )
            _found(listed, "ETag")
            sent = True
        multipart.done[part.number] = {
            "PartNumber": part.number,
            **{name: listed[name] for name in PART_KEYS if name in listed},
        }
        return sent

    def complete(self, multipart: Multipart) -> None:
        parts = [multipart.done[number] for number in sorted(multipart.done)]
        answer = self._service.call(
            "complete_multipart_upload",
            **self._object,
            UploadId=multipart.upload_id,
            MultipartUpload={"Parts": parts},
        )
        _found(answer, "ETag")

    def abort(self, multipart: Multipart) -> None:
        self._service.call("abort_multipart_upload", **self._object, UploadId=multipart.upload_id)

    def _send(self, body: Body, operation: str, **parameters: Any) -> dict[str, Any]:
        try:
            return self._service.call(
                operation, **self._object, Body=body, ContentLength=len(body), **parameters
            )
        except (DestinationError, TaskInvalid, Stopped) as error:
            if body.error is not None and body.error is not error:
                raise body.error from error
            raise
        finally:
            self._count_bytes(body.tell())

    def _newest_upload_id(self, not_before_s: float) -> str | None:
        page: dict[str, Any] = {}
        found: list[dict[str, Any]] = []
        for _ in range(UPLOAD_PAGES_MAX):
            answer = self._service.call(
                "list_multipart_uploads",
                Bucket=self._object["Bucket"],
                Prefix=self.key,
                **page,
            )
            found += [
                upload
                for upload in answer.get("Uploads", ())
                if upload["Key"] == self.key
                and upload["Initiated"].timestamp() >= not_before_s - CLOCK_SLACK_S
            ]
            if not answer.get("IsTruncated"):
                break
            page = {
                "KeyMarker": answer["NextKeyMarker"],
                "UploadIdMarker": answer["NextUploadIdMarker"],
            }
        newest = max(found, key=lambda upload: upload["Initiated"], default=None)
        return None if newest is None else str(newest["UploadId"])

    def _listed_parts(self, upload_id: str) -> Iterator[tuple[int, dict[str, Any]]]:
        page: dict[str, Any] = {}
        while True:
            answer = self._service.call("list_parts", **self._object, UploadId=upload_id, **page)
            for part in answer.get("Parts", ()):
                yield int(part["PartNumber"]), part
            if not answer.get("IsTruncated"):
                return
            page = {"PartNumberMarker": answer["NextPartNumberMarker"]}


def _found(answer: dict[str, Any], name: str) -> str:
    """What an answer must hold, unless it was cut off on its way."""
    if not answer.get(name):
        raise Transient(f"the answer of S3 has no {name}")
    return str(answer[name])


def same_content(listed: dict[str, Any], body: Body) -> bool:
    """Whether the service has exactly these bytes.

    Its ETag is their MD5, except under encryption with a key of one's own; there the checksum
    counts that botocore adds to every part.
    """
    if listed.get("Size") != len(body):
        return False
    md5, crc32 = hashlib.md5(usedforsecurity=False), 0
    for chunk in body.chunks():
        md5.update(chunk)
        crc32 = zlib.crc32(chunk, crc32)
    if str(listed.get("ETag", "")).strip('"') == md5.hexdigest():
        return True
    return listed.get("ChecksumCRC32") == base64.b64encode(crc32.to_bytes(4, "big")).decode()


def side_by_side(
    jobs: Iterable[Callable[[], JobResult]],
    finished: Callable[[JobResult], None],
    stop: threading.Event,
    keep_alive: Callable[[], None],
) -> None:
    """Run jobs in a few threads, started in order. The first failure ends all of them.

    Nothing runs any more when this returns or raises. `jobs`, `finished` and `keep_alive` are used
    by the calling thread only; what they raise counts as a failure too.
    """
    waiting = iter(jobs)
    running: set[Future[JobResult]] = set()
    with ThreadPoolExecutor(REQUESTS_MAX, thread_name_prefix="s3-upload") as pool:
        try:
            while True:
                while len(running) < REQUESTS_MAX and (job := next(waiting, None)) is not None:
                    running.add(pool.submit(job))
                if not running:
                    return
                done, running = wait(running, KEEP_ALIVE_S, FIRST_COMPLETED)
                for future in done:
                    finished(future.result())
                keep_alive()
        finally:
            stop.set()
