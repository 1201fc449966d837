"""Every exception, grouped by who has to act.

The caller of an operation     StreamManagerException and its children, under AWS's names. The
                               server raises them, the status travels, the client raises them again.
The user of a client           ClientException and its children: the request never got an answer.
The operator                   StoreError and its children: the data directory needs a person.
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar


class ResponseStatusCode(IntEnum):
    """What a response says about its request."""

    Success = 0
    UnknownFailure = 1
    Unauthorized = 2
    InvalidRequest = 3
    RequestPayloadTooLarge = 4
    ResourceNotFound = 5
    ServerTimeout = 6
    ResponsePayloadTooLarge = 7
    UnsupportedConnectVersion = 8
    UnexpectedOperation = 9
    UnsupportedProtocolVersion = 10
    InvalidProtocolVersion = 11
    FailedToConnect = 12
    NotEnoughMessages = 13
    MessageStoreReadError = 14
    OutOfMemoryError = 15
    UpdateFailed = 16
    UpdateNotAllowed = 17
    UnknownOperation = 18


class PenstockError(Exception):
    """Root of everything that Penstock raises on purpose."""


class StreamManagerException(PenstockError):
    """An operation was refused or failed; `status` says how, the text says why."""

    status_code: ClassVar[ResponseStatusCode | None] = None

    def __init__(
        self,
        message: str | None = "",
        status: ResponseStatusCode | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = self.status_code if status is None else status
        self.request_id = request_id


class UnknownFailureException(StreamManagerException):
    """The server failed in a way it did not expect, for example a disk error."""

    status_code = ResponseStatusCode.UnknownFailure


class UnauthorizedException(StreamManagerException):
    """The client has no right to do this."""

    status_code = ResponseStatusCode.Unauthorized


class InvalidRequestException(StreamManagerException):
    """The caller must change the request."""

    status_code = ResponseStatusCode.InvalidRequest


class RequestPayloadTooLargeException(StreamManagerException):
    """The message or the frame is larger than a limit that the text names."""

    status_code = ResponseStatusCode.RequestPayloadTooLarge


class ResourceNotFoundException(StreamManagerException):
    """There is no stream of that name."""

    status_code = ResponseStatusCode.ResourceNotFound


class ServerTimeoutException(StreamManagerException):
    """The server could not finish in time."""

    status_code = ResponseStatusCode.ServerTimeout


class ResponsePayloadTooLargeException(StreamManagerException):
    """The smallest possible answer would exceed the frame limit."""

    status_code = ResponseStatusCode.ResponsePayloadTooLarge


class NotEnoughMessagesException(StreamManagerException):
    """A read could not reach its minimum in the time it was given."""

    status_code = ResponseStatusCode.NotEnoughMessages


class MessageStoreReadErrorException(StreamManagerException):
    """Stored data is damaged; the text names the messages and where to read on."""

    status_code = ResponseStatusCode.MessageStoreReadError


class ServerOutOfMemoryException(StreamManagerException):
    """The server could not allocate memory for the request."""

    status_code = ResponseStatusCode.OutOfMemoryError


class UpdateFailedException(StreamManagerException):
    """An update did not succeed; the old definition is in force."""

    status_code = ResponseStatusCode.UpdateFailed


class UpdateNotAllowedException(InvalidRequestException):
    """A changed field may not change in this way."""

    status_code = ResponseStatusCode.UpdateNotAllowed


class UnknownOperationException(StreamManagerException):
    """The server does not know the operation."""

    status_code = ResponseStatusCode.UnknownOperation


class ClientException(StreamManagerException):
    """The client could not get an answer."""


class ValidationException(ClientException):
    """A value breaks a rule of the data model; nothing was sent."""


class InvalidDefinitionException(ValidationException, InvalidRequestException):
    """Both, because AWS's clients leave rules over several fields to the server."""


class ConnectFailedException(ClientException):
    """No connection: the server refused the handshake."""


class ServerUnreachableException(ConnectFailedException, ConnectionError):
    """No connection: nobody answered at the address."""


class ConnectionLostException(ClientException, ConnectionError):
    """The connection went while the request was on its way: it may or may not have been done."""


class RequestTimeoutException(ClientException, TimeoutError):
    """No answer within the client's request timeout: it may or may not have been done."""


class ClientClosedException(ClientException):
    """The client was closed before or during the call."""


class StoreError(PenstockError):
    """The data directory needs an operator."""


class StoreInUse(StoreError):
    """Another server owns the data directory."""


class ListenFailed(PenstockError):
    """The server's address cannot be used."""


class SettingsError(PenstockError):
    """A setting is unknown or out of range; the text names it, its source and the remedy."""


class DataDamaged(StoreError):
    """Stored bytes fail their check. Messages `first_sequence`..`last_sequence` are affected."""

    def __init__(self, message: str, first_sequence: int, last_sequence: int) -> None:
        super().__init__(message)
        self.first_sequence = first_sequence
        self.last_sequence = last_sequence


class DiskFailed(StoreError):
    """The operating system refused a write; what was half written has been taken back."""


EXCEPTION_BY_STATUS: dict[ResponseStatusCode, type[StreamManagerException]] = {
    exception.status_code: exception
    for exception in (
        UnknownFailureException,
        UnauthorizedException,
        InvalidRequestException,
        RequestPayloadTooLargeException,
        ResourceNotFoundException,
        ServerTimeoutException,
        ResponsePayloadTooLargeException,
        NotEnoughMessagesException,
        MessageStoreReadErrorException,
        ServerOutOfMemoryException,
        UpdateFailedException,
        UpdateNotAllowedException,
        UnknownOperationException,
    )
    if exception.status_code is not None
}
"""Statuses of the handshake (8 to 12) have no entry: there they become ConnectFailedException."""


def exception_for(
    status: int | None, message: str | None, request_id: str | None = None
) -> StreamManagerException:
    """The exception a client raises for a response that is not a success."""
    try:
        code = ResponseStatusCode(status)  # type: ignore[arg-type]  # None is not a code either
    except ValueError:
        return StreamManagerException(
            f"The server answered with status {status}, which is unknown. {message or ''}".rstrip(),
            None,
            request_id,
        )
    exception = EXCEPTION_BY_STATUS.get(code, StreamManagerException)
    return exception(message, code, request_id)
