"""Starts and stops everything, in order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from penstock.errors import ListenFailed
from penstock.server.streams import LiveStreams
from penstock.server.tcp import Authenticator, Limits, Session
from penstock.settings import Settings
from penstock.streams.manager import StreamManager
from penstock.streams.store import owned

log = logging.getLogger(__name__)

IO_THREADS = 8
HOUSEKEEPING_INTERVAL_S = 1.0
EXPIRE_INTERVAL_S = 10.0
# An orderly stop waits this long for answers to leave; a client that does not read them is cut.
STOP_WITHIN_S = 10.0


def run(settings: Settings, on_ready: Callable[[str, int], None]) -> int:
    """Serve until SIGINT or SIGTERM."""
    with (
        owned(settings.data_dir, os.getpid()) as power_lost,
        asyncio.Runner(loop_factory=_loop_factory()) as runner,
    ):
        return runner.run(_serve(settings, on_ready, power_lost))


class Server:
    """A listening server."""

    def __init__(self, settings: Settings, *, power_lost: bool = False) -> None:
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._executor = ThreadPoolExecutor(IO_THREADS, thread_name_prefix="penstock-io")
        self._manager = StreamManager(settings.data_dir, power_lost=power_lost)
        self._streams = LiveStreams(
            self._manager, self._loop, self._executor, settings.response_bytes_max
        )
        self._sessions: set[Session] = set()
        self._limits = Limits(
            settings.frame_bytes_max,
            settings.unsent_bytes_max,
            settings.waiting_reads_max,
            settings.requests_in_flight_max,
        )
        self._authenticate = Authenticator(
            tuple(settings.tokens), settings.authentication_required()
        )

    async def start(self) -> tuple[str, int]:
        """Listen; the answer is where."""
        try:
            self._listener = await self._loop.create_server(
                self._new_session, self._settings.host, self._settings.port, backlog=1024
            )
        except OSError as error:
            raise ListenFailed(
                f"cannot listen on {self._settings.host}:{self._settings.port}: "
                f"{os.strerror(error.errno) if error.errno else error}; choose another port or "
                f"stop what uses it"
            ) from error
        self._streams.expire()
        self._housekeeping = self._loop.create_task(self._keep_house())
        host, port = self._listener.sockets[0].getsockname()[:2]
        return host, port

    async def stop(self) -> int:
        """Answer everything in flight, close, and leave the store in order."""
        self._listener.close()
        self._housekeeping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._housekeeping
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_WITHIN_S):
                await self._finish_requests()
        for session in list(self._sessions):
            session.close()
        problems = self._manager.close()
        self._executor.shutdown(wait=not problems)
        for problem in problems:
            log.error("Not closed in order: %s", problem)
        return 1 if problems else 0

    def _new_session(self) -> Session:
        return Session(
            self._streams,
            self._limits,
            self._authenticate,
            self._sessions,
            self._settings.connections_max,
        )

    async def _finish_requests(self) -> None:
        finishing = [self._loop.create_task(session.finish()) for session in self._sessions]
        for writer in self._streams:
            writer.reads.server_stops()
        await asyncio.gather(*(writer.settled() for writer in self._streams), *finishing)

    async def _keep_house(self) -> None:
        expired_at = self._loop.time()
        while True:
            await asyncio.sleep(HOUSEKEEPING_INTERVAL_S)
            now = self._loop.time()
            for writer in self._streams:
                writer.check_deadline(now)
            if now - expired_at >= EXPIRE_INTERVAL_S:
                expired_at = now
                self._streams.expire()


async def _serve(settings: Settings, on_ready: Callable[[str, int], None], power_lost: bool) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signal_number, stop.set)
    server = Server(settings, power_lost=power_lost)
    host, port = await server.start()
    on_ready(host, port)
    await stop.wait()
    log.info("Stopping.")
    return await server.stop()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop where it installs; it is about twice as fast."""
    if sys.platform == "win32" or sys.implementation.name != "cpython":
        return asyncio.new_event_loop
    import uvloop

    return uvloop.new_event_loop
