"""moto's real services behind the local cloud: the only file that knows moto's insides.

moto keeps the state of all its services in module variables. Each cloud has an account of its own
there, so that two clouds in one process do not see each other; `close` gives its state back.
A program must not use moto's `mock_aws` in the same process: it resets every account.
"""

from __future__ import annotations

import io
import itertools
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias
from urllib.parse import unquote_to_bytes

from penstock.testing.errors import LocalCloudError, load
from penstock.testing.http_server import Request, Response

StartResponse: TypeAlias = Callable[..., None]
Application: TypeAlias = Callable[[dict[str, Any], StartResponse], Iterable[bytes]]

PARTITION = "aws"
# Above every account that a test is likely to name; moto wants twelve digits.
_ACCOUNTS = itertools.count(900_000_000_000)
# moto has no locks of its own, and all clouds of a process share its module variables.
_LOCK = threading.RLock()


class MotoAccount:
    """moto's Kinesis and S3 for one cloud. Services are loaded when they are first used."""

    def __init__(self) -> None:
        if "MOTO_ACCOUNT_ID" in os.environ:
            raise LocalCloudError("MOTO_ACCOUNT_ID is set: all local clouds would share an account")
        self.account = str(next(_ACCOUNTS))
        # Whoever wants several calls, or a call and its record, in one piece takes it around them.
        self.lock = _LOCK
        self._applications: dict[str, Application] = {}

    def call(self, service: str, request: Request) -> Response:
        """Let moto do a request."""
        with self.lock:
            application = self._application(service)
            return wsgi_call(application, environment_of(request, self.account))

    @contextmanager
    def own_bucket_names(self, bucket: str) -> Iterator[None]:
        """Let moto see this bucket name only as far as it is this cloud's.

        moto has one table of bucket names for all accounts, and refuses a name that is in it, as
        S3 refuses the name of another customer's bucket. Own buckets it finds without that table.
        """
        backends = load("moto.s3.models").s3_backends
        with self.lock:
            if bucket in backends[self.account][PARTITION].buckets:
                backends.bucket_accounts[bucket] = (PARTITION, self.account)
            try:
                yield
            finally:
                backends.bucket_accounts.pop(bucket, None)

    def has_upload(self, bucket: str, upload_id: str) -> bool:
        """True for a multipart upload that is neither complete nor aborted."""
        with self.lock:
            return any(
                upload_id in found.multiparts for found in self._buckets() if found.name == bucket
            )

    def keep_last_records(self, region: str, stream: str) -> None:
        """Drop all records of a stream but the last of each shard, which holds the number."""
        with self.lock:
            kinesis = load("moto.kinesis.models")
            found = kinesis.kinesis_backends[self.account][region].streams.get(stream)
            for shard in found.shards.values() if found else ():
                while len(shard.records) > 1:
                    shard.records.popitem(last=False)
            # moto counts each request in CloudWatch.
            load("moto.cloudwatch.models").cloudwatch_backends[self.account][region].reset()
            _forget_instances()

    def drop_objects(self, bytes_max: int) -> None:
        """Drop the oldest objects until the rest has at most so many bytes."""
        with self.lock:
            keys = [
                (bucket, name, key)
                for bucket in self._buckets()
                for name, key in bucket.keys.items()
            ]
            keys.sort(key=lambda found: found[2].last_modified)
            kept_bytes = sum(key.size for *_, key in keys)
            for bucket, name, key in keys:
                if kept_bytes <= bytes_max:
                    break
                kept_bytes -= key.size
                bucket.keys.pop(name)
            self._dispose(in_use=self._objects_in_use())

    def close(self) -> None:
        """Give back what this cloud's account holds: memory and temporary files."""
        with self.lock:
            if "s3" in self._applications:
                self._dispose(in_use=())
                load("moto.s3.models").s3_backends.pop(self.account, None)
            if "kinesis" in self._applications:
                load("moto.kinesis.models").kinesis_backends.pop(self.account, None)
                load("moto.cloudwatch.models").cloudwatch_backends.pop(self.account, None)
                _forget_instances()
            self._applications.clear()

    def _application(self, service: str) -> Application:
        if service not in self._applications:
            server = load("moto.moto_server.werkzeug_app")
            self._applications[service] = server.create_backend_app(service)
        return self._applications[service]

    def _buckets(self) -> list[Any]:
        backend = load("moto.s3.models").s3_backends[self.account][PARTITION]
        return list(backend.buckets.values())

    def _objects_in_use(self) -> Iterator[Any]:
        """Objects, uploads that are not complete, and the parts of these."""
        for bucket in self._buckets():
            for name in bucket.keys:
                yield from bucket.keys.getlist(name)
            for upload in bucket.multiparts.values():
                yield upload
                yield from upload.parts.values()

    def _dispose(self, in_use: Iterable[Any]) -> None:
        """Close this account's files that are not in use, and let moto forget them.

        moto keeps a list of all objects ever made; its own reset would close every cloud's files.
        """
        models = load("moto.s3.models")
        used = {id(thing) for thing in in_use}
        for kind in (models.FakeKey, models.FakeMultipart):
            kept = []
            for made in kind.instances_tracked:
                if made.account_id != self.account or id(made) in used:
                    kept.append(made)
                else:
                    made.dispose()
            kind.instances_tracked[:] = kept


def environment_of(request: Request, account: str) -> dict[str, Any]:
    """A request in the form that WSGI applications take."""
    environment: dict[str, Any] = {
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(request.path).decode("latin-1"),
        "QUERY_STRING": request.query,
        # moto reads the path from here where the encoding matters: keys with slashes or percents.
        "RAW_URI": _target(request),
        "REQUEST_URI": _target(request),
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "CONTENT_LENGTH": str(len(request.body)),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(request.body),
        "wsgi.errors": io.StringIO(),
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
        **_header_variables(request.headers),
    }
    environment["HTTP_X_MOTO_ACCOUNT_ID"] = account
    return environment


def wsgi_call(application: Application, environment: dict[str, Any]) -> Response:
    """Run a WSGI application on one request."""
    started: list[tuple[str, list[tuple[str, str]]]] = []

    def start(status: str, headers: list[tuple[str, str]], error: object = None) -> None:
        started.append((status, headers))

    parts = application(environment, start)
    try:
        body = b"".join(parts)
    finally:
        closing = getattr(parts, "close", None)
        if closing is not None:
            closing()
    status, headers = started[-1]
    return Response(int(status.split()[0]), body, {name.lower(): value for name, value in headers})


def _target(request: Request) -> str:
    return f"{request.path}?{request.query}" if request.query else request.path


def _header_variables(headers: Mapping[str, str]) -> dict[str, Any]:
    variables: dict[str, Any] = {}
    # WSGI cannot tell x-amz-meta-a_b from x-amz-meta-a-b; this is how moto is told.
    original_names: dict[str, str] = {}
    for name, value in headers.items():
        if name in ("content-length", "transfer-encoding"):
            continue
        key = name.upper().replace("-", "_")
        key = key if key == "CONTENT_TYPE" else f"HTTP_{key}"
        variables[key] = value
        if "_" in name:
            original_names[key] = name
    variables["moto.preserved_header_names"] = original_names
    return variables


def _forget_instances() -> None:
    """Empty the lists of all objects that moto ever made, which only its dashboard shows."""
    models = load("moto.core.model_instances").model_data
    for service in ("kinesis", "cloudwatch"):
        for model in models[service].values():
            model.instances_tracked.clear()
