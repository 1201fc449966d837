"""A receiver of OTLP over HTTP: decodes what comes, and answers what it is told to."""

from __future__ import annotations

import queue
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

PATIENCE_S = 20


class OtlpReceiver:
    """Requests in the order in which they came; `status` is what the next ones are answered."""

    def __init__(self) -> None:
        self.status = 200
        self.requests: queue.SimpleQueue[ExportMetricsServiceRequest] = queue.SimpleQueue()
        self.paths: set[str] = set()
        self.answered: Counter[int] = Counter()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                assert self.headers["Content-Type"] == "application/x-protobuf"
                receiver.paths.add(self.path)
                receiver.answered[receiver.status] += 1
                answer = ExportMetricsServiceResponse().SerializeToString()
                self.send_response(receiver.status)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)
                receiver.requests.put(ExportMetricsServiceRequest.FromString(body))

            def log_message(self, format: str, *args: Any) -> None:
                """Not on the terminal of the tests."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def next(self) -> ExportMetricsServiceRequest:
        return self.requests.get(timeout=PATIENCE_S)


def attributes(pairs: Any) -> dict[str, str]:
    """Protobuf's pairs as a dict."""
    found: list[KeyValue] = list(pairs)
    return {pair.key: pair.value.string_value for pair in found}


def metrics_of(request: ExportMetricsServiceRequest) -> dict[str, Any]:
    """Metrics of a request by name."""
    ((scope,),) = [each.scope_metrics for each in request.resource_metrics]
    return {metric.name: metric for metric in scope.metrics}


def value_of(metric: Any, **wanted: str) -> float | None:
    """The value of the first point that has these attributes; None if there is none."""
    if metric is None:
        return None
    for point in (metric.sum if metric.HasField("sum") else metric.gauge).data_points:
        if wanted.items() <= attributes(point.attributes).items():
            return point.as_int if point.HasField("as_int") else point.as_double
    return None
