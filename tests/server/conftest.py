"""One server for all tests of a file, and a client that talks to it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from in_process import ServerInThread
from raw_client import ALL_EXTENSIONS, RawClient

from failure_logs import show_on_failure
from server_process import ServerProcess

names = (f"stream {number}" for number in itertools.count())


@pytest.fixture(scope="module")
def shared_server(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[ServerProcess]:
    """A server that many tests use, each with streams of its own. Nothing may surprise it."""
    process = ServerProcess(tmp_path_factory.mktemp("shared"))
    show_on_failure(request, process.log_path)
    with process:
        yield process
    assert "Traceback" not in process.log


@pytest.fixture
def connect(shared_server: ServerProcess) -> Iterator[Callable[..., RawClient]]:
    """Make connections to the shared server; they are closed at the end."""
    made: list[RawClient] = []

    def make(**options: Any) -> RawClient:
        made.append(RawClient(shared_server.port, **options))
        return made[-1]

    yield make
    for client in made:
        client.close()


@pytest.fixture
def client(connect: Callable[..., RawClient]) -> RawClient:
    """A client as AWS's SDKs are: without extensions."""
    return connect()


@pytest.fixture
def extended(connect: Callable[..., RawClient]) -> RawClient:
    """A client that asked for Penstock's extensions."""
    return connect(extensions=ALL_EXTENSIONS)


@pytest.fixture
def name() -> str:
    """A stream name that no other test uses."""
    return next(names)


@pytest.fixture
def stream(client: RawClient, name: str) -> str:
    """An empty stream with the defaults of the SDKs."""
    client.create(name)
    return name


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., ServerInThread]]:
    """Start a server in this process, with settings and a disk of the test's choice."""
    with ExitStack() as stack:
        folders = (tmp_path / f"data {number}" for number in itertools.count())

        def start(**options: Any) -> ServerInThread:
            return stack.enter_context(ServerInThread(next(folders), **options))

        yield start
