"""The command line in a folder of its own, and one server for all tests of a file."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import CommandLine
from export_office import ExportOffice

from failure_logs import show_on_failure
from server_process import ServerProcess


@pytest.fixture
def penstock(tmp_path: Path) -> CommandLine:
    """The command line, without a server."""
    return CommandLine(tmp_path)


@pytest.fixture(scope="module")
def shared_server(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[ServerProcess]:
    """A server that many tests use, each with a stream of its own."""
    process = ServerProcess(tmp_path_factory.mktemp("shared"))
    show_on_failure(request, process.log_path)
    with process:
        yield process


@pytest.fixture
def connected(tmp_path: Path, shared_server: ServerProcess) -> CommandLine:
    """The command line, with variables that lead to the shared server."""
    return CommandLine(tmp_path, STREAM_MANAGER_SERVER_PORT=str(shared_server.port))


@pytest.fixture
def stream(connected: CommandLine, request: pytest.FixtureRequest) -> str:
    """The name of a new stream."""
    name = request.node.name[:200].replace("[", " ").replace("]", " ")
    connected.succeeds("streams", "create", name)
    return name


@pytest.fixture
def unused_port() -> Iterator[int]:
    """A port that is taken, so that nobody else gets it, but on which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.fixture(scope="module")
def shared_office(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[ExportOffice]:
    office = ExportOffice(tmp_path_factory.mktemp("office"))
    show_on_failure(request, office.server.log_path)
    yield office
    office.close()


@pytest.fixture
def office(shared_office: ExportOffice) -> Iterator[ExportOffice]:
    """A server without streams and dead letters, and a worker for the exports to come."""
    yield shared_office
    shared_office.forget_everything()


@pytest.fixture
def at_office(tmp_path: Path, office: ExportOffice) -> CommandLine:
    """The command line, with variables that lead to the office's server."""
    return CommandLine(tmp_path, STREAM_MANAGER_SERVER_PORT=str(office.server.port))
