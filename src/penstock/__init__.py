"""Durable local streams for the edge.

The names of AWS's Python SDK for stream manager, and a few more:

    from penstock import MessageStreamDefinition, StrategyOnFull, StreamManagerClient

    with StreamManagerClient() as client:
        client.create_message_stream(
            MessageStreamDefinition(name="s", strategy_on_full=StrategyOnFull.OverwriteOldestData)
        )
        client.append_message("s", b"hello")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from penstock.block import Block
from penstock.errors import (
    ClientClosedException,
    ClientException,
    ConnectFailedException,
    ConnectionLostException,
    InvalidDefinitionException,
    InvalidRequestException,
    MessageStoreReadErrorException,
    NotEnoughMessagesException,
    PenstockError,
    RequestPayloadTooLargeException,
    RequestTimeoutException,
    ResourceNotFoundException,
    ResponsePayloadTooLargeException,
    ResponseStatusCode,
    ServerOutOfMemoryException,
    ServerTimeoutException,
    ServerUnreachableException,
    StreamManagerException,
    UnauthorizedException,
    UnknownFailureException,
    UnknownOperationException,
    UpdateFailedException,
    UpdateNotAllowedException,
    ValidationException,
)
from penstock.model import (
    AssetPropertyValue,
    EventType,
    ExportDefinition,
    ExportFormat,
    ExportStatus,
    HTTPConfig,
    IoTAnalyticsConfig,
    IoTSiteWiseConfig,
    KinesisConfig,
    Message,
    MessageStreamDefinition,
    MessageStreamInfo,
    Persistence,
    PutAssetPropertyValueEntry,
    Quality,
    ReadMessagesOptions,
    S3ExportTaskDefinition,
    S3ExportTaskExecutorConfig,
    Status,
    StatusConfig,
    StatusContext,
    StatusLevel,
    StatusMessage,
    StorageStatus,
    StrategyOnFull,
    TimeInNanos,
    Variant,
)
from penstock.util import Util
from penstock.version import __version__

if TYPE_CHECKING:
    from penstock.client.aio import AsyncStreamManagerClient
    from penstock.client.calls import AppendedOnce, AppendedRange
    from penstock.client.sync import StreamManagerClient

SDK_VERSION = __version__

# Loaded when first used: who only wants the model pays neither for sockets nor for asyncio.
_HOMES = {
    "AppendedOnce": "penstock.client.calls",
    "AppendedRange": "penstock.client.calls",
    "AsyncStreamManagerClient": "penstock.client.aio",
    "StreamManagerClient": "penstock.client.sync",
}

__all__ = [
    "SDK_VERSION",
    "AppendedOnce",
    "AppendedRange",
    "AssetPropertyValue",
    "AsyncStreamManagerClient",
    "Block",
    "ClientClosedException",
    "ClientException",
    "ConnectFailedException",
    "ConnectionLostException",
    "EventType",
    "ExportDefinition",
    "ExportFormat",
    "ExportStatus",
    "HTTPConfig",
    "InvalidDefinitionException",
    "InvalidRequestException",
    "IoTAnalyticsConfig",
    "IoTSiteWiseConfig",
    "KinesisConfig",
    "Message",
    "MessageStoreReadErrorException",
    "MessageStreamDefinition",
    "MessageStreamInfo",
    "NotEnoughMessagesException",
    "PenstockError",
    "Persistence",
    "PutAssetPropertyValueEntry",
    "Quality",
    "ReadMessagesOptions",
    "RequestPayloadTooLargeException",
    "RequestTimeoutException",
    "ResourceNotFoundException",
    "ResponsePayloadTooLargeException",
    "ResponseStatusCode",
    "S3ExportTaskDefinition",
    "S3ExportTaskExecutorConfig",
    "ServerOutOfMemoryException",
    "ServerTimeoutException",
    "ServerUnreachableException",
    "Status",
    "StatusConfig",
    "StatusContext",
    "StatusLevel",
    "StatusMessage",
    "StorageStatus",
    "StrategyOnFull",
    "StreamManagerClient",
    "StreamManagerException",
    "TimeInNanos",
    "UnauthorizedException",
    "UnknownFailureException",
    "UnknownOperationException",
    "UpdateFailedException",
    "UpdateNotAllowedException",
    "Util",
    "ValidationException",
    "Variant",
    "__version__",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(home), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
