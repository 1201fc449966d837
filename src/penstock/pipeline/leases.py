"""Keeping leases while there is work on them."""

from __future__ import annotations

import logging
import threading
import time
from typing import Protocol

from penstock.client.worker import WorkerClient
from penstock.errors import StreamManagerException
from penstock.export_model import Lease

log = logging.getLogger(__name__)

# A lease belongs to the driver's connection until this process speaks of it: soon, so that it is
# free at once if this process dies.
RENEW_INTERVAL_S = 1.0


class Run(Protocol):
    """Work on a lease, and how it learns that the lease is lost."""

    lease: Lease
    lost: threading.Event
    canceled: bool


class HeldLeases:
    """The leases of this process. A thread renews them."""

    def __init__(self, client: WorkerClient) -> None:
        self._client = client
        self._runs: dict[int, Run] = {}
        self._lock = threading.Lock()
        threading.Thread(target=self._renew, daemon=True, name="penstock-leases").start()

    def add(self, run: Run) -> None:
        with self._lock:
            self._runs[run.lease.lease_id] = run

    def remove(self, run: Run) -> None:
        with self._lock:
            del self._runs[run.lease.lease_id]

    def _renew(self) -> None:
        """Tell the server that we are alive, and the runs which leases are lost."""
        while True:
            time.sleep(RENEW_INTERVAL_S)
            with self._lock:
                runs = dict(self._runs)
            if not runs:
                continue
            try:
                lost = self._client.renew_leases(list(runs))
            except StreamManagerException as error:
                log.warning("Leases could not be renewed: %s", error)
                continue
            for lease_id in lost.ids:
                runs[lease_id].canceled = lease_id in lost.canceled_ids
                runs[lease_id].lost.set()
