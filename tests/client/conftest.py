"""Clients of every kind, closed when the test ends, and what they may not leave behind."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import uvloop
from blocking_twin import BlockingTwin
from client_kinds import Belongings, Connect

from penstock import StreamManagerClient


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this machine's variables say must not reach the clients under test."""
    for name in ("SERVER_HOST", "SERVER_PORT"):
        monkeypatch.delenv(f"STREAM_MANAGER_{name}", raising=False)
    monkeypatch.delenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", raising=False)


@pytest.fixture(params=["sync", "asyncio", "uvloop"])
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Makes clients of one kind; all of them have the methods of StreamManagerClient."""
    made: list[Any] = []

    def connected(**arguments: Any) -> Any:
        if request.param == "sync":
            client: Any = StreamManagerClient(**arguments)
        else:
            loop_factory = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
            client = BlockingTwin(loop_factory[request.param], **arguments)
        made.append(client)
        return client

    yield connected
    for client in made:
        if isinstance(client, BlockingTwin):
            client.stop()
        else:
            client.close()


@pytest.fixture
def belongings() -> Belongings:
    """Running threads and the number of open file descriptors."""
    return lambda: (set(threading.enumerate()), len(os.listdir("/proc/self/fd")))
