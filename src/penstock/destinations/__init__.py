"""Where messages are exported to. No Spark, no asyncio.

Each destination is one file and one line in DESTINATIONS; it is imported when it is first used, so
that a missing library hurts only the exports that need it.

Promise         every message of a batch is delivered, to be retried, or refused with a reason.
Always          requests have timeouts; no destination retries by itself; payloads are never logged.
Read in order   base, batching, retry, parts, http, aws, then any other.
"""

from __future__ import annotations

from importlib import import_module
from typing import cast

from penstock.destinations.base import Blocked, Context, Destination, Timeouts
from penstock.model import ExportConfig, IoTAnalyticsConfig, KinesisConfig

# The type of the configuration, and what exports for it.
DESTINATIONS = {
    "HTTPConfig": "penstock.destinations.http:HTTPDestination",
    "IoTAnalyticsConfig": "penstock.destinations.iot_analytics:IoTAnalyticsDestination",
    "KinesisConfig": "penstock.destinations.kinesis:KinesisDestination",
    "IoTSiteWiseConfig": "penstock.destinations.sitewise:SiteWiseDestination",
    "S3ExportTaskExecutorConfig": "penstock.destinations.s3:S3Destination",
}


def destination_for(
    config: ExportConfig, context: Context, timeouts: Timeouts | None = None
) -> Destination:
    """The destination of one export. Blocked says what is missing or wrong in its configuration."""
    config = redirected(config, context)
    module_name, _, class_name = DESTINATIONS[type(config).__name__].partition(":")
    try:
        module = import_module(module_name)
    except ImportError as error:
        raise Blocked(
            f"export {context.export_identifier} needs the library {error.name}; "
            "install penstock[aws]"
        ) from error
    return cast(Destination, getattr(module, class_name)(config, context, timeouts=timeouts))


def redirected(config: ExportConfig, context: Context) -> ExportConfig:
    """IoT Analytics has ended: the operator may have named a Kinesis stream for a channel."""
    if not isinstance(config, IoTAnalyticsConfig):
        return config
    stream = context.settings.get("kinesis_streams_by_channel", {}).get(config.iot_channel)
    return config if stream is None else KinesisConfig(config.identifier, stream)
