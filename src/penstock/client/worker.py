"""What the pipeline says to the server besides what every client can say."""

from __future__ import annotations

from typing import Any, NamedTuple

from penstock.client import calls
from penstock.client.sync import StreamManagerClient
from penstock.export_model import ExportReport, Lease
from penstock.protocol.operations import (
    Extension,
    Operation,
    RenewLeasesResponse,
    ReportExportResponse,
    ReportTransformsResponse,
    WatchExportsResponse,
)
from penstock.transforms.reports import Order, TransformReport


class Work(NamedTuple):
    """Leases, and the server's settings that concern destinations."""

    leases: list[Lease]
    settings: dict[str, Any]


class LostLeases(NamedTuple):
    """Leases that somebody else may have now, and among them those nobody will have again."""

    ids: list[int]
    canceled_ids: list[int]


class Orders(NamedTuple):
    """Transforms that are to run, and the folder for their checkpoints."""

    orders: list[Order]
    folder: str


class WorkerClient(StreamManagerClient):
    """A client that shows the pipeline's token and may therefore work on exports."""

    EXTENSIONS = (*StreamManagerClient.EXTENSIONS, Extension.EXPORT_WORK)

    def watch_exports(self, count_max: int, wait_ms: int) -> Work:
        """Leases on due exports, most urgent first; none if there were none in time."""
        return self._perform(
            calls.checked_call(
                Operation.WatchExports, _work, count_max=count_max, wait_millis=wait_ms
            )
        )

    def report_export(self, report: ExportReport) -> tuple[bool, bool]:
        """Tell what was done: (is the lease held, was the export canceled).

        Under a lease that is not held any more it counts for nothing.
        """
        return self._perform(calls.checked_call(Operation.ReportExport, _held, report=report))

    def report_transforms(self, reports: list[TransformReport]) -> Orders:
        """Tell what the transforms do; which ones are to run."""
        return self._perform(
            calls.checked_call(Operation.ReportTransforms, _orders, reports=reports)
        )

    def renew_leases(self, lease_ids: list[int]) -> LostLeases:
        """Keep leases; those that are lost."""
        return self._perform(calls.checked_call(Operation.RenewLeases, _lost, lease_ids=lease_ids))

    def give_back_leases(self, lease_ids: list[int]) -> None:
        """Leases that this client took, except those that another one reported of or renewed."""
        self._perform(calls.checked_call(Operation.RenewLeases, _lost, unused_ids=lease_ids))


def _work(response: WatchExportsResponse) -> Work:
    return Work(response.leases or [], response.settings or {})


def _held(response: ReportExportResponse) -> tuple[bool, bool]:
    return bool(response.lease_held), bool(response.canceled)


def _orders(response: ReportTransformsResponse) -> Orders:
    return Orders(response.orders or [], response.folder or "")


def _lost(response: RenewLeasesResponse) -> LostLeases:
    return LostLeases(response.lost_ids or [], response.canceled_ids or [])
