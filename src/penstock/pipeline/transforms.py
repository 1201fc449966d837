"""The declared transforms of a server: which of them run is the server's to say."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from penstock.client.worker import WorkerClient
from penstock.errors import StreamManagerException
from penstock.pipeline.context import session_of
from penstock.pipeline.task import Address
from penstock.pipeline.transform_run import Surroundings, TransformRun
from penstock.transforms.reports import Order

if TYPE_CHECKING:
    from pyspark import SparkContext

log = logging.getLogger(__name__)

REPORT_INTERVAL_S = 1.0


class Transforms:
    """Runs what the server orders, and reports."""

    def __init__(self, context: SparkContext, address: Address) -> None:
        self._context = context
        self._address = address
        self._runs: dict[str, TransformRun] = {}
        self._starting = threading.Lock()
        self._stopped = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._run, daemon=True, name="penstock-transforms").start()

    def stop(self) -> None:
        """Without waiting: a query that Spark takes down with it goes on from its checkpoint."""
        self._stopped.set()
        for run in list(self._runs.values()):
            run.stop()

    def _run(self) -> None:
        # A connection of its own: its end tells the server that the transforms have ended.
        client = WorkerClient(
            self._address.host, self._address.port, auth_token=self._address.token
        )
        while not self._stopped.is_set():
            try:
                orders, folder = client.report_transforms(
                    [run.report() for run in self._runs.values()]
                )
            except StreamManagerException as error:
                if not self._stopped.is_set():
                    log.warning("The transforms could not be reported: %s", error)
            else:
                around = Surroundings(
                    lambda: session_of(self._context),
                    client,
                    self._address,
                    folder,
                    self._starting,
                )
                self._follow(orders, around)
            self._stopped.wait(REPORT_INTERVAL_S)

    def _follow(self, orders: list[Order], around: Surroundings) -> None:
        """End what is not ordered any more or was changed, begin what is new."""
        for name in self._runs.keys() - {order.transform.name for order in orders}:
            self._runs.pop(name).stop()
        for order in orders:
            known = self._runs.get(order.transform.name)
            if known is not None and known.is_for(order):
                continue
            if known is not None:
                known.stop()
            self._runs[order.transform.name] = TransformRun(order, around, known)
