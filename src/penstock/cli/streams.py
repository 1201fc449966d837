"""`penstock streams`: list, describe, create, update, delete."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.connection import Server, connection_options, stream_names
from penstock.cli.definition import (
    PERSISTENCES,
    definition_facts,
    definition_of,
    definition_options,
    given_values,
)
from penstock.cli.output import (
    Column,
    CommandFailed,
    Status,
    plural,
    say,
    show_facts,
    show_json,
    show_table,
)
from penstock.errors import InvalidRequestException, ResourceNotFoundException
from penstock.model import (
    ExportConfig,
    ExportStatus,
    HTTPConfig,
    IoTAnalyticsConfig,
    IoTSiteWiseConfig,
    KinesisConfig,
    MessageStreamInfo,
    StorageStatus,
    StrategyOnFull,
)
from penstock.units import rounded_bytes, shown_time

if TYPE_CHECKING:
    from penstock.client.sync import StreamManagerClient

LIST_COLUMNS = (
    Column("Stream"),
    Column("Messages", is_number=True),
    Column("Oldest", is_number=True),
    Column("Newest", is_number=True),
    Column("Size", is_number=True),
    Column("Limit", is_number=True),
    Column("When full"),
    Column("Kept in"),
    Column("Exports", is_number=True),
)
EXPORT_COLUMNS = (
    Column("Export"),
    Column("Target"),
    Column("Up to", is_number=True),
    Column("Messages", is_number=True),
    Column("Size", is_number=True),
    Column("Last attempt"),
    Column("State"),
)
existing_stream = click.argument("name", shell_complete=stream_names)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def streams() -> None:
    """List, describe, create, update and delete streams."""


@streams.command("list")
@json_option
@connection_options
def list_streams(server: Server, as_json: bool) -> None:
    """Show all streams."""
    with server.connected() as client:
        found = [info for name in sorted(client.list_streams()) if (info := _info(client, name))]
    if as_json:
        show_json([info.as_dict() for info in found])
    elif found:
        show_table(LIST_COLUMNS, [_list_row(info) for info in found])
    else:
        say("There is no stream yet. `penstock streams create NAME` makes one.")


@streams.command()
@existing_stream
@json_option
@connection_options
def describe(server: Server, name: str, as_json: bool) -> None:
    """Show a stream: what it holds, its definition, its exports."""
    with server.connected() as client:
        info = client.describe_message_stream(name)
    if as_json:
        show_json(info.as_dict())
    else:
        _show_stream(info)


@streams.command()
@click.argument("name")
@definition_options
@click.option(
    "--persistence",
    type=click.Choice(list(PERSISTENCES)),
    help="Keep it in files, or in the server's memory until it stops.",
)
@json_option
@connection_options
def create(server: Server, name: str, as_json: bool, **options: Any) -> None:
    """Create a stream.

    Without options: 256MiB in files, segments of 16MiB, messages kept until the stream is deleted,
    new messages rejected when it is full.
    """
    values = {"strategyOnFull": StrategyOnFull.RejectNewData, **given_values(**options)}
    definition = definition_of(name, values)
    with server.connected() as client:
        try:
            client.create_message_stream(definition)
        except InvalidRequestException as error:
            if name not in client.list_streams():
                raise
            raise CommandFailed(f"{error}. `penstock streams update` changes it.") from error
        info = client.describe_message_stream(name)
    if as_json:
        show_json(info.as_dict())
    else:
        say(f"Created stream {name}.")


@streams.command()
@existing_stream
@definition_options
@json_option
@connection_options
def update(server: Server, name: str, as_json: bool, **options: Any) -> None:
    """Change a stream; what no option and no key of --definition names stays as it is.

    A key of --definition replaces its old value as a whole: an exportDefinition must list every
    export that is to stay.
    """
    changes = given_values(**options)
    if not changes:
        raise click.UsageError("Nothing to change was given.", click.get_current_context())
    with server.connected() as client:
        old = client.describe_message_stream(name).definition
        new = definition_of(name, {**old.as_dict(), **changes})
        client.update_message_stream(new)
        info = client.describe_message_stream(name)
    if as_json:
        show_json(info.as_dict())
        return
    say(f"Updated stream {name}.")
    before, after = definition_facts(old), definition_facts(info.definition)
    changed = [key for key in after if before[key] != after[key]]
    if changed:
        show_facts((f"  {key}", f"{before[key]} -> {after[key]}") for key in changed)


@streams.command()
@existing_stream
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@connection_options
def delete(server: Server, name: str, yes: bool, as_json: bool) -> int:
    """Delete a stream and all of its messages."""
    with server.connected() as client:
        if not yes and not _confirmed(client.describe_message_stream(name)):
            say("Nothing was deleted.")
            return Status.FAILED
        client.delete_message_stream(name)
    if as_json:
        show_json({"name": name, "deleted": True})
    else:
        say(f"Deleted stream {name}.")
    return Status.DONE


def _confirmed(info: MessageStreamInfo) -> bool:
    if sys.stdin is None or not sys.stdin.isatty():
        raise click.UsageError(
            "A deletion must be confirmed, and there is no terminal to ask on: give --yes.",
            click.get_current_context(),
        )
    held = plural(message_count(info.storage_status), "message")
    return click.confirm(f"Delete stream {info.definition.name} with {held}?", err=True)


def _info(client: StreamManagerClient, name: str) -> MessageStreamInfo | None:
    """None for a stream that was deleted since it was listed."""
    try:
        return client.describe_message_stream(name)
    except ResourceNotFoundException:
        return None


# --- words --------------------------------------------------------------------------------------


def message_count(storage: StorageStatus) -> int:
    return storage.newest_sequence_number - storage.oldest_sequence_number + 1


def _list_row(info: MessageStreamInfo) -> list[str]:
    definition, storage = info.definition, info.storage_status
    facts = definition_facts(definition)
    is_empty = message_count(storage) == 0
    return [
        definition.name,
        f"{message_count(storage):,}",
        "-" if is_empty else str(storage.oldest_sequence_number),
        "-" if is_empty else str(storage.newest_sequence_number),
        rounded_bytes(storage.total_bytes),
        rounded_bytes(definition.max_size),
        "overwrite" if definition.strategy_on_full else "reject",
        facts["Kept in"],
        str(len(definition.export_definition.configs())),
    ]


def _show_stream(info: MessageStreamInfo) -> None:
    storage = info.storage_status
    oldest, newest = storage.oldest_sequence_number, storage.newest_sequence_number
    count = message_count(storage)
    exports = info.definition.export_definition.configs()
    show_facts(
        [
            ("Stream", info.definition.name),
            ("Messages", f"{count:,} ({oldest} to {newest})" if count else "none"),
            ("Next number", str(newest + 1)),
            ("Size", f"{rounded_bytes(storage.total_bytes)} ({storage.total_bytes:,} bytes)"),
            *definition_facts(info.definition).items(),
            ("Exports", str(len(exports)) if exports else "none"),
        ]
    )
    if exports:
        say("")
        statuses = {status.export_config_identifier: status for status in info.export_statuses}
        show_table(
            EXPORT_COLUMNS,
            [_export_row(export, statuses.get(export.identifier)) for export in exports],
        )


def _export_row(export: ExportConfig, status: ExportStatus | None) -> list[str]:
    status = status or ExportStatus(export_config_identifier=export.identifier)
    up_to = status.last_exported_sequence_number
    state = "ok" if status.last_export_time else "not started"
    return [
        export.identifier,
        _target(export),
        str(up_to) if up_to >= 0 else "-",
        f"{status.exported_messages_count or 0:,}",
        rounded_bytes(status.exported_bytes_from_stream or 0),
        shown_time(status.last_export_time) if status.last_export_time else "never",
        "paused" if export.disabled else status.error_message or state,
    ]


def _target(export: ExportConfig) -> str:
    if isinstance(export, HTTPConfig):
        return export.uri
    if isinstance(export, IoTAnalyticsConfig):
        return f"iotAnalytics {export.iot_channel}"
    if isinstance(export, KinesisConfig):
        return f"kinesis {export.kinesis_stream_name}"
    return "IotSitewise" if isinstance(export, IoTSiteWiseConfig) else "s3TaskExecutor"
