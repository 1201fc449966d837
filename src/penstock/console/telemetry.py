"""Sends the metrics by OpenTelemetry's OTLP over HTTP, every minute, in a thread of its own."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, Mapping

from penstock.observe_model import Observation

log = logging.getLogger(__name__)

INTERVAL_VARIABLE = "OTEL_METRIC_EXPORT_INTERVAL"  # OpenTelemetry's own, in milliseconds
INTERVAL_MS = 60_000


class TelemetryUnavailable(Exception):
    """The operator must act before metrics can be sent; the text says how."""


class Telemetry:
    """Sends what was seen last, again and again. `latest` is called in the thread that sends."""

    def __init__(
        self,
        endpoint: str,
        instance: str,
        latest: Callable[[], Observation | None],
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        try:
            from penstock.console import otlp
        except ImportError as error:
            raise TelemetryUnavailable(
                f"Metrics are not sent to {endpoint}: OpenTelemetry is not installed ({error}). "
                f"Run pip install 'penstock[otel]', or unset otel_endpoint."
            ) from error
        self._endpoint = endpoint
        self._instance = instance
        self._latest = latest
        self._interval_s = interval_s(environ)
        self._metrics_data = otlp.metrics_data
        self._exporter = otlp.exporter_to(endpoint)
        self._complaints = Complaints()
        self._is_sent: bool | None = None
        self._stopping = threading.Event()

    def start(self) -> None:
        # A receiver that hangs must not keep the process from ending.
        threading.Thread(target=self._run, name="telemetry", daemon=True).start()

    def stop(self) -> None:
        self._stopping.set()
        self._exporter.shutdown()

    def _run(self) -> None:
        while not self._stopping.wait(self._interval_s):
            observation = self._latest()
            if observation is not None:  # else the server is away, which others tell
                self._send(observation)

    def _send(self, observation: Observation) -> None:
        self._complaints.texts.clear()
        try:
            result = self._exporter.export(self._metrics_data(observation, self._instance))
            sent, reason = result.name == "SUCCESS", ""
        except Exception as error:  # noqa: BLE001  whatever it is, the next interval tries again
            sent, reason = False, repr(error)
        if not self._stopping.is_set():
            self._tell(sent, reason or " ".join(self._complaints.texts[:1]))

    def _tell(self, sent: bool, reason: str) -> None:
        """Log a change of state, not every try."""
        if sent == self._is_sent:
            return
        self._is_sent = sent
        fields = {"endpoint": self._endpoint}
        if sent:
            log.info("Metrics are sent to %s.", self._endpoint, extra=fields)
        else:
            log.warning(
                "Metrics cannot be sent to %s; it is tried again every %g s: %s",
                self._endpoint,
                self._interval_s,
                reason,
                extra={**fields, "error": reason},
            )


class Complaints(logging.Handler):
    """What OpenTelemetry would log at every try; the first one of a try is kept as the reason."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []
        library = logging.getLogger("opentelemetry")
        library.handlers = [self]
        library.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def interval_s(environ: Mapping[str, str]) -> float:
    """How often to send."""
    text = environ.get(INTERVAL_VARIABLE) or str(INTERVAL_MS)
    if not text.isdecimal() or int(text) == 0:
        raise TelemetryUnavailable(
            f"Metrics are not sent: {INTERVAL_VARIABLE} is {text}. Give milliseconds, such as "
            f"{INTERVAL_MS}."
        )
    return int(text) / 1000


def instance_of(host: str, port: int) -> str:
    """A name for a server that no other one has: loopback is every machine's own."""
    if host == "localhost" or host == "::1" or host.startswith("127."):
        host = socket.gethostname()
    return f"{host}:{port}"
