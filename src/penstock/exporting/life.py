"""What the log tells of exports: each change of their state once, however often they are tried."""

from __future__ import annotations

import logging

from penstock.export_model import ExportReport
from penstock.exporting.state import Export
from penstock.exporting.views import destination_of
from penstock.model import ExportConfig

log = logging.getLogger(__name__)

# A producer of bad messages makes thousands of dead letters; one line a minute says as much.
REFUSALS_TOLD_EVERY_MS = 60_000


def fields_of(export: Export) -> dict[str, str]:
    """What a log line about an export carries for machines."""
    return {
        "stream": export.stream.name,
        "export": export.config.identifier,
        "destination": destination_of(export.config),
    }


def tell_report(export: Export, report: ExportReport, now_ms: int) -> None:
    """Log what a report changes, before it does."""
    if report.refused and not (export.lease and export.lease.replay):
        _tell_refused(export, report, now_ms)
    if report.error:
        if not export.tries or export.blocked != report.blocked:
            _tell_trouble(export, report)
    elif report.messages and export.tries:
        log.info(
            "Export %s of stream %s works again after %d failed tries.",
            export.config.identifier,
            export.stream.name,
            export.tries,
            extra=fields_of(export),
        )


def tell_configuration(export: Export, config: ExportConfig) -> None:
    """Log that an export is paused, or goes on, because of its new configuration."""
    if export.config.disabled != config.disabled:
        log.info(
            "Export %s of stream %s %s.",
            export.config.identifier,
            export.stream.name,
            "is paused" if config.disabled else "goes on after a pause",
            extra=fields_of(export),
        )


def _tell_trouble(export: Export, report: ExportReport) -> None:
    log.warning(
        "Export %s of stream %s %s; the next try is in %g s: %s",
        export.config.identifier,
        export.stream.name,
        "is blocked until somebody acts" if report.blocked else "fails",
        report.retry_after_millis / 1000,
        report.error,
        extra={**fields_of(export), "error": report.error},
    )


def _tell_refused(export: Export, report: ExportReport, now_ms: int) -> None:
    export.refusals_untold += len(report.refused)
    if now_ms < export.refusals_told_again_ms:
        return
    last = report.refused[-1]
    log.warning(
        "Export %s of stream %s: %d messages were refused and are dead letters; the last, number "
        "%d: %s",
        export.config.identifier,
        export.stream.name,
        export.refusals_untold,
        last.number,
        last.reason,
        extra={**fields_of(export), "error": last.reason},
    )
    export.refusals_untold = 0
    export.refusals_told_again_ms = now_ms + REFUSALS_TOLD_EVERY_MS
