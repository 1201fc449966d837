"""Credentials, and each destination of the exports that are configured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from penstock.destinations import destination_for, redirected
from penstock.destinations.base import Blocked, Context, DestinationError, Timeouts, Transient
from penstock.destinations.http_link import Link, parsed_uri, without_credentials
from penstock.doctor.finding import Finding
from penstock.doctor.storage import check_storage
from penstock.model import (
    ExportConfig,
    HTTPConfig,
    IoTAnalyticsConfig,
    IoTSiteWiseConfig,
    KinesisConfig,
    MessageStreamDefinition,
    S3ExportTaskExecutorConfig,
)

TIMEOUTS = Timeouts(connect_s=3.0, read_s=5.0)
CHECKS_AT_ONCE = 8
REMEDY_AWS = "Run `pip install 'penstock[aws]'`."
REMEDY_NETWORK = "Look at network, firewall and proxy; exports try again by themselves."
REMEDY_DESTINATION = "Correct what is named there; `penstock status` tells when it works."


@dataclass(frozen=True)
class Target:
    """A place that one or several exports go to."""

    config: ExportConfig
    exports: tuple[str, ...]  # "export of stream"

    @property
    def name(self) -> str:
        """For people."""
        if isinstance(self.config, HTTPConfig):
            return without_credentials(parsed_uri(self.config.uri))
        return address_of(self.config)

    @property
    def used_by(self) -> str:
        more = len(self.exports) - 1
        return f"export {self.exports[0]}" + (f" and {more} more" if more else "")


# --- what is configured -------------------------------------------------------------------------


def targets_of(
    definitions: Sequence[MessageStreamDefinition], settings: Mapping[str, Any]
) -> list[Target]:
    """Every target once; paused exports count, since they will be resumed."""
    exports: dict[str, list[str]] = {}
    configs: dict[str, ExportConfig] = {}
    for definition in definitions:
        for given in definition.export_definition.configs():
            config = redirected(given, _context(settings))
            address = address_of(config)
            configs.setdefault(address, config)
            exports.setdefault(address, []).append(f"{config.identifier} of {definition.name}")
    return [Target(config, tuple(exports[address])) for address, config in configs.items()]


def address_of(config: ExportConfig) -> str:
    """Where an export goes. An HTTP address may hold a password: not to be shown."""
    match config:
        case HTTPConfig():
            return config.uri
        case KinesisConfig():
            return f"Kinesis stream {config.kinesis_stream_name}"
        case IoTAnalyticsConfig():
            return f"IoT Analytics channel {config.iot_channel}"
        case IoTSiteWiseConfig():
            return "SiteWise"
    return "S3"


def needs_aws(target: Target, tables: Mapping[str, str]) -> bool:
    """Whether requests to it are signed with credentials."""
    return not isinstance(target.config, HTTPConfig) and table_of(target, tables) is None


def table_of(target: Target, tables: Mapping[str, str]) -> str | None:
    """The folder of the table that it goes to instead, if the settings say so."""
    config = target.config
    return tables.get(config.iot_channel) if isinstance(config, IoTAnalyticsConfig) else None


# --- the checks ---------------------------------------------------------------------------------


def check_credentials(*, matters: bool) -> Finding:
    """Which kind of credentials botocore finds for this user; nothing of their content."""
    try:
        from penstock.destinations.aws_setup import find_setup
    except ImportError as error:
        return Finding.missing(
            "credentials",
            f"the library {error.name} is not installed.",
            REMEDY_AWS,
            matters=matters,
        )
    try:
        setup = find_setup()
    except Blocked as error:
        text, _, remedy = str(error).partition("; ")
        remedy = f"{remedy[:1].upper()}{remedy[1:]}." if remedy else "Correct the AWS set-up."
        return Finding.missing("credentials", f"{text}.", remedy, matters=matters)
    text = f"found by this user: {setup.kind}"
    if setup.region is None:
        remedy = "Set AWS_DEFAULT_REGION."
        return Finding.missing(
            "credentials", f"{text}; but no AWS region is set.", remedy, matters=matters
        )
    return Finding.ok("credentials", f"{text}; region {setup.region}.")


def check_targets(
    targets: Sequence[Target], settings: Mapping[str, Any], tables: Mapping[str, str]
) -> list[Finding]:
    """All of them side by side, in their order."""
    with ThreadPoolExecutor(CHECKS_AT_ONCE) as pool:
        found = pool.map(lambda target: list(check_target(target, settings, tables)), targets)
        return [finding for findings in found for finding in findings]


def check_target(
    target: Target, settings: Mapping[str, Any], tables: Mapping[str, str]
) -> Iterator[Finding]:
    """Ask the destination itself whether it would work; no data is sent."""
    folder = table_of(target, tables)
    if folder is not None:
        yield from check_storage(folder)
        return
    try:
        _ask(target.config, settings)
    except DestinationError as error:
        remedy = REMEDY_NETWORK if isinstance(error, Transient) else REMEDY_DESTINATION
        yield Finding.problem("destination", f"{error} ({target.used_by}).", remedy)
    else:
        yield Finding.ok("destination", f"{target.name} ({target.used_by}).")


def _ask(config: ExportConfig, settings: Mapping[str, Any]) -> None:
    """Raises what the destination says."""
    destination = destination_for(config, _context(settings, config.identifier), TIMEOUTS)
    try:
        destination.check()
    finally:
        destination.close()
    if isinstance(config, S3ExportTaskExecutorConfig):
        # Its buckets are in messages, so that check() can only look for credentials.
        for url in _endpoints(["s3"]):
            link = Link(url, TIMEOUTS)
            link.connect()
            link.close()


def clock_urls(targets: Sequence[Target], tables: Mapping[str, str]) -> Iterator[str]:
    """Addresses that may tell the time, those of AWS first."""
    services = {"KinesisConfig": "kinesis", "IoTSiteWiseConfig": "iotsitewise"}
    names = [
        services.get(type(each.config).__name__, "s3")
        for each in targets
        if needs_aws(each, tables)
    ]
    if names:
        yield from _endpoints(names)
    for each in targets:
        if isinstance(each.config, HTTPConfig) and each.config.uri.startswith(("http:", "https:")):
            yield each.config.uri


def _endpoints(services: Sequence[str]) -> Iterator[str]:
    try:
        from penstock.destinations.aws_setup import endpoint_of
    except ImportError:  # told by check_credentials
        return
    for service in dict.fromkeys(services):
        url = endpoint_of(service)
        if url is not None:
            yield url


def _context(settings: Mapping[str, Any], export_identifier: str = "") -> Context:
    return Context(
        stream_name="",
        export_identifier=export_identifier,
        settings=dict(settings),
        keep_alive=_nothing,
        append=_nothing,
        count_file_bytes=_nothing,
    )


def _nothing(*_: object) -> None:
    """A check sends nothing, so there is nothing to do."""
