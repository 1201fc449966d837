"""What `import penstock` gives, and what it costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import penstock
from penstock import errors

# Every public name of AWS's package stream_manager.
AWS_NAMES = [
    "AssetPropertyValue",
    "ClientException",
    "ConnectFailedException",
    "EventType",
    "ExportDefinition",
    "ExportFormat",
    "HTTPConfig",
    "InvalidRequestException",
    "IoTAnalyticsConfig",
    "IoTSiteWiseConfig",
    "KinesisConfig",
    "MessageStoreReadErrorException",
    "MessageStreamDefinition",
    "NotEnoughMessagesException",
    "Persistence",
    "PutAssetPropertyValueEntry",
    "Quality",
    "ReadMessagesOptions",
    "RequestPayloadTooLargeException",
    "ResourceNotFoundException",
    "ResponsePayloadTooLargeException",
    "S3ExportTaskDefinition",
    "S3ExportTaskExecutorConfig",
    "SDK_VERSION",
    "ServerOutOfMemoryException",
    "ServerTimeoutException",
    "Status",
    "StatusConfig",
    "StatusContext",
    "StatusLevel",
    "StatusMessage",
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
]
OUR_NAMES = [
    "AppendedOnce",
    "AppendedRange",
    "AsyncStreamManagerClient",
    "Block",
    "Message",
    "MessageStreamInfo",
    "ResponseStatusCode",
    "__version__",
]
# What the operator of a server sees, not the user of a client.
OPERATOR_ERRORS = {
    "DataDamaged",
    "DiskFailed",
    "ListenFailed",
    "SettingsError",
    "StoreError",
    "StoreInUse",
}


@pytest.mark.parametrize("name", AWS_NAMES + OUR_NAMES)
def test_a_public_name_is_there(name: str) -> None:
    assert name in penstock.__all__
    assert name in dir(penstock)
    assert getattr(penstock, name) is not None


def test_everything_that_is_announced_exists_once() -> None:
    assert len(set(penstock.__all__)) == len(penstock.__all__)
    for name in penstock.__all__:
        assert getattr(penstock, name) is not None


def test_every_exception_that_a_client_can_raise_is_public() -> None:
    declared = {
        name
        for name, found in vars(errors).items()
        if isinstance(found, type) and issubclass(found, errors.PenstockError)
    }
    assert declared - OPERATOR_ERRORS <= set(penstock.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="StreamManager"):
        _ = penstock.StreamManager  # type: ignore[attr-defined]


def modules_after(statement: str) -> set[str]:
    program = f"import sys; {statement}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    return set(done.stdout.split())


def test_the_import_loads_neither_asyncio_nor_sockets() -> None:
    loaded = modules_after("import penstock")
    assert not loaded & {"asyncio", "socket", "uvloop", "cbor2", "click", "rich", "logging"}


def test_the_sync_client_loads_no_asyncio() -> None:
    loaded = modules_after("from penstock import StreamManagerClient")
    assert "penstock.client.sync" in loaded
    assert not loaded & {"asyncio", "uvloop", "click", "rich"}


def test_a_star_import_gives_the_clients_too() -> None:
    assert "penstock.client.aio" in modules_after("from penstock import *")
