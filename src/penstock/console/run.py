"""The console as a process: listen, look at the server, serve, stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Callable, Iterator

import uvicorn

from penstock.client.aio import AsyncStreamManagerClient
from penstock.console.app import ConsoleSettings, application
from penstock.console.events import Hub
from penstock.console.poll import Poller
from penstock.console.telemetry import Telemetry, TelemetryUnavailable, instance_of
from penstock.errors import ListenFailed

log = logging.getLogger(__name__)

# Browsers and scrapers of one server. More than this are refused with 503.
CONNECTIONS_MAX = 500
# An observation takes milliseconds. A server that needs longer is in trouble, and so it is shown.
LOOK_WITHIN_S = 5
STOP_WITHIN_S = 3


class Server(uvicorn.Server):
    """uvicorn's, with the signals left to us."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def run(settings: ConsoleSettings, on_ready: Callable[[str], None]) -> int:
    """Serve until SIGINT or SIGTERM."""
    with listening(settings.host, settings.port) as listener:
        asyncio.run(_serve(settings, listener, on_ready))
    return 0


@contextlib.contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """A socket that takes connections; ListenFailed says why not."""
    try:
        # With its protocol, or asyncio would not know that it is TCP and leave Nagle's delay on.
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise _listen_failed(host, port, error) from error
    with listener:
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(128)
        except OSError as error:
            raise _listen_failed(host, port, error) from error
        yield listener


def _listen_failed(host: str, port: int, error: OSError) -> ListenFailed:
    reason = error.strerror or str(error)
    return ListenFailed(
        f"the console cannot listen on {host}:{port}: {reason}; set console_port to another port "
        f"(0 picks a free one), or console to false"
    )


async def _serve(
    settings: ConsoleSettings, listener: socket.socket, on_ready: Callable[[str], None]
) -> None:
    loop = asyncio.get_running_loop()
    hub = Hub()
    address = (settings.server_host, settings.server_port)
    token = settings.server_token
    # Two connections: a large read must not make the server look as if it did not answer.
    client = AsyncStreamManagerClient(*address, auth_token=token)
    watcher = AsyncStreamManagerClient(*address, request_timeout=LOOK_WITHIN_S, auth_token=token)
    poller = Poller(watcher, hub)
    server = Server(
        uvicorn.Config(
            application(client, poller, hub, settings),
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            limit_concurrency=CONNECTIONS_MAX,
            timeout_graceful_shutdown=STOP_WITHIN_S,
        )
    )

    def stop() -> None:
        hub.stop()
        server.should_exit = True

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    on_ready(_url(listener))
    with _sending_metrics(settings, poller):
        # If the poller ends by a mistake of ours, so does the process, and is started again.
        async with asyncio.TaskGroup() as group:
            polling = group.create_task(poller.run())
            await server.serve(sockets=[listener])
            polling.cancel()
    await client.close()
    await watcher.close()


@contextlib.contextmanager
def _sending_metrics(settings: ConsoleSettings, poller: Poller) -> Iterator[None]:
    """By OpenTelemetry, if that is wanted. The console goes on where it cannot be had."""
    if not settings.otel_endpoint:
        yield
        return
    instance = instance_of(settings.server_host, settings.server_port)
    try:
        telemetry = Telemetry(settings.otel_endpoint, instance, poller.latest)
    except TelemetryUnavailable as error:
        log.error("%s", error)
        yield
        return
    telemetry.start()
    try:
        yield
    finally:
        telemetry.stop()


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
