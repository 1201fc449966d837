"""Starts and stops everything, in order."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import logging
import os
import secrets
import signal
import socket
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from penstock.errors import ListenFailed
from penstock.export_model import PipelineView
from penstock.server.exports import ExportService
from penstock.server.notify import ALIVE, READY, STOPPING, tell
from penstock.server.observe import Observer
from penstock.server.streams import LiveStreams, wall_clock_ms
from penstock.server.supervisor import Command, Supervisor
from penstock.server.tcp import Authenticator, Limits, Session
from penstock.settings import Settings
from penstock.streams.manager import StreamManager
from penstock.streams.store import owned

log = logging.getLogger(__name__)

IO_THREADS = 8
HOUSEKEEPING_INTERVAL_S = 1.0
EXPIRE_INTERVAL_S = 10.0
# What destinations are told of the server's settings.
DESTINATION_SETTINGS = ("s3_part_bytes_min", "kinesis_inter_call_delay_ms", "read_only_dirs")
# An orderly stop waits this long for answers to leave; a client that does not read them is cut.
STOP_WITHIN_S = 10.0


def run(
    settings: Settings, on_ready: Callable[[str, int], None], on_console: Callable[[str], None]
) -> int:
    """Serve until SIGINT or SIGTERM. `on_console` gets the console's address whenever it starts."""
    with (
        owned(settings.data_dir, os.getpid()) as power_lost,
        asyncio.Runner(loop_factory=_loop_factory()) as runner,
    ):
        return runner.run(_serve(settings, on_ready, on_console, power_lost))


class Server:
    """A listening server."""

    def __init__(
        self,
        settings: Settings,
        manager: StreamManager,
        on_console: Callable[[str], None] = lambda url: None,
    ) -> None:
        self._settings = settings
        self._manager = manager
        self._loop = asyncio.get_running_loop()
        self._executor = ThreadPoolExecutor(IO_THREADS, thread_name_prefix="penstock-io")
        self._exports = ExportService(
            settings.data_dir,
            self._loop,
            wall_clock_ms,
            settings.exporter_bandwidth_kbps_max,
            {key: getattr(settings, key) for key in DESTINATION_SETTINGS},
            settings.kinesis_streams_by_channel(),
            settings.tables_by_channel(),
            settings.transforms,
        )
        self._supervisor = Supervisor(
            self._exports.pipeline, self._exports.wants_pipeline, wall_clock_ms
        )
        self._exports.look = self._supervisor.look
        self._console = Supervisor(
            PipelineView(state="off"), lambda: True, wall_clock_ms, "console", on_console
        )
        self._pipeline_token = settings.pipeline_token or secrets.token_urlsafe(32)
        self._console_token = secrets.token_urlsafe(32)
        self._streams = LiveStreams(
            self._manager, self._loop, self._executor, settings.response_bytes_max, self._exports
        )
        self._exports.transforms.stream_named = self._streams.find
        self._sessions: set[Session] = set()
        self._streams.observe = Observer(
            self._streams, self._sessions, settings.data_dir, wall_clock_ms
        )
        self._limits = Limits(
            settings.frame_bytes_max,
            settings.unsent_bytes_max,
            settings.waiting_reads_max,
            settings.requests_in_flight_max,
        )
        self._authenticate = Authenticator(
            (*settings.tokens, self._console_token),
            settings.authentication_required(),
            (self._pipeline_token,),
        )

    async def start(self) -> tuple[str, int]:
        """Listen; the answer is where."""
        try:
            self._listener = await self._loop.create_server(
                self._new_session, self._settings.host, self._settings.port, backlog=1024
            )
        except OSError as error:
            raise ListenFailed(
                f"cannot listen on {self._settings.host}:{self._settings.port}: {_reason(error)}"
            ) from error
        self._streams.expire()
        self._housekeeping = self._loop.create_task(self._keep_house())
        host, port = self._listener.sockets[0].getsockname()[:2]
        own_address = f"{reachable(self._settings.host)}:{port}"
        self._start_pipeline(own_address)
        self._start_console(own_address)
        return host, port

    def _start_pipeline(self, own_address: str) -> None:
        """Have the exports done, as soon as there are any."""
        settings = self._settings
        if settings.pipeline == "external":
            self._exports.pipeline.state = "external"
            return
        if settings.pipeline == "off":
            self._exports.pipeline.state = "off"
            return
        options = [
            f"--threads={settings.exporter_threads}",
            f"--log-level={settings.log_level}",
            f"--log-format={settings.log_format}",
            f"--master={settings.spark_master}",
            f"--jvm-args={settings.jvm_args}",
            "--ui" if settings.spark_ui else "--no-ui",
            *(f"--conf={each}" for each in settings.spark_conf),
        ]
        token = {"PENSTOCK_PIPELINE_TOKEN": self._pipeline_token}
        self._supervisor.start(Command.embedded("pipeline", own_address, options, token))

    def _start_console(self, own_address: str) -> None:
        settings = self._settings
        if not settings.console:
            return
        options = [
            f"--console-host={settings.console_host}",
            f"--console-port={settings.console_port}",
            f"--log-level={settings.log_level}",
            f"--log-format={settings.log_format}",
            f"--otel-endpoint={settings.otel_endpoint}",
        ]
        variables = {"PENSTOCK_CONSOLE_TOKEN": self._console_token}
        if settings.authentication_required():
            # It can check the tokens that browsers show, and does not know them.
            hashes = (hashlib.sha256(token.encode()).hexdigest() for token in settings.tokens)
            variables["PENSTOCK_CONSOLE_TOKEN_HASHES"] = ",".join(hashes)
        self._console.start(Command.embedded("console", own_address, options, variables))

    async def stop(self) -> int:
        """Answer everything in flight, close, and leave the store in order."""
        self._listener.close()
        self._housekeeping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._housekeeping
        await asyncio.gather(self._console.stop(), self._supervisor.stop())
        await self._finish_requests()
        self._exports.close()
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
        """Answer what was asked, and see the clients off; cut those who take too long."""
        leaving = [session.finish() for session in list(self._sessions)]
        for writer in self._streams:
            writer.reads.server_stops()
        self._exports.stop()
        settled = [self._loop.create_task(writer.settled()) for writer in self._streams]
        if leaving or settled:
            await asyncio.wait([*leaving, *settled], timeout=STOP_WITHIN_S)
        for session in list(self._sessions):
            session.cut()

    async def _keep_house(self) -> None:
        expired_at = self._loop.time()
        while True:
            await asyncio.sleep(HOUSEKEEPING_INTERVAL_S)
            tell(ALIVE)
            now = self._loop.time()
            for writer in self._streams:
                writer.check_deadline(now)
            if now - expired_at >= EXPIRE_INTERVAL_S:
                expired_at = now
                self._streams.expire()
                self._exports.keep_house()


async def _serve(
    settings: Settings,
    on_ready: Callable[[str, int], None],
    on_console: Callable[[str], None],
    power_lost: bool,
) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signal_number, stop.set)
    manager = StreamManager(settings.data_dir, power_lost=power_lost)
    server = Server(settings, manager, on_console)
    host, port = await server.start()
    on_ready(host, port)
    tell(READY)
    await stop.wait()
    log.info("Stopping.")
    tell(STOPPING)
    return await server.stop()


def reachable(host: str) -> str:
    """The address under which a process of this machine finds who listens on `host`."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)


def _reason(error: OSError) -> str:
    """Why an address cannot be used, and what to do about it."""
    if error.errno is None or isinstance(error, socket.gaierror):
        return f"{error.strerror or error}; check host and port"
    remedy = "check host and port"
    if error.errno == errno.EADDRINUSE:
        remedy = "choose another port or stop what uses it"
    return f"{os.strerror(error.errno)}; {remedy}"


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop where it installs; it is about twice as fast."""
    if sys.platform == "win32" or sys.implementation.name != "cpython":
        return asyncio.new_event_loop
    import uvloop

    return uvloop.new_event_loop
