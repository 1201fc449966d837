"""The exceptions: AWS's names and tree, and the way from a status to one of them."""

from __future__ import annotations

import inspect

import pytest

from penstock import errors
from penstock.errors import (
    EXCEPTION_BY_STATUS,
    ClientException,
    ConnectFailedException,
    ConnectionLostException,
    DataDamaged,
    InvalidRequestException,
    PenstockError,
    RequestTimeoutException,
    ResponseStatusCode,
    ServerUnreachableException,
    StreamManagerException,
    exception_for,
)

AWS_NAMES = {
    "UnknownFailureException": 1,
    "UnauthorizedException": 2,
    "InvalidRequestException": 3,
    "RequestPayloadTooLargeException": 4,
    "ResourceNotFoundException": 5,
    "ServerTimeoutException": 6,
    "ResponsePayloadTooLargeException": 7,
    "NotEnoughMessagesException": 13,
    "MessageStoreReadErrorException": 14,
    "ServerOutOfMemoryException": 15,
    "UpdateFailedException": 16,
    "UpdateNotAllowedException": 17,
    "UnknownOperationException": 18,
}
OF_THE_HANDSHAKE = {8, 9, 10, 11, 12}

AWS_PARENTS = {
    **dict.fromkeys(AWS_NAMES, "StreamManagerException"),
    "UpdateNotAllowedException": "InvalidRequestException",
    "ClientException": "StreamManagerException",
    "ValidationException": "ClientException",
    "ConnectFailedException": "ClientException",
}


def all_exceptions() -> list[type[Exception]]:
    found = (item for _, item in inspect.getmembers(errors, inspect.isclass))
    return [item for item in found if issubclass(item, Exception)]


@pytest.mark.parametrize(("name", "status"), AWS_NAMES.items())
def test_a_status_becomes_the_exception_that_sdks_raise(name: str, status: int) -> None:
    error = exception_for(status, "why", "request-1")

    assert type(error).__name__ == name
    assert str(error) == error.message == "why"
    assert error.status == status
    assert error.request_id == "request-1"


def test_every_status_is_mapped_or_belongs_to_the_handshake() -> None:
    mapped = {int(status) for status in EXCEPTION_BY_STATUS}

    assert mapped == set(AWS_NAMES.values())
    assert mapped | OF_THE_HANDSHAKE | {0} == {int(status) for status in ResponseStatusCode}


@pytest.mark.parametrize("status", sorted(OF_THE_HANDSHAKE))
def test_a_status_of_the_handshake_in_any_other_answer_is_the_plain_exception(status: int) -> None:
    error = exception_for(status, "why")

    assert type(error) is StreamManagerException
    assert error.status == status


@pytest.mark.parametrize("status", [None, 19, 99, -1])
def test_a_status_that_nobody_knows_is_told_as_it_is(status: int | None) -> None:
    error = exception_for(status, "why", "request-1")

    assert type(error) is StreamManagerException
    assert f"status {status}" in str(error)
    assert str(error).endswith("why")
    assert error.status is None
    assert error.request_id == "request-1"
    assert str(exception_for(status, None)).endswith("unknown.")


@pytest.mark.parametrize(("name", "parent"), AWS_PARENTS.items())
def test_the_tree_is_that_of_awss_python_sdk(name: str, parent: str) -> None:
    assert getattr(errors, name).__bases__[0].__name__ == parent


@pytest.mark.parametrize("name", AWS_NAMES)
def test_the_server_raises_an_exception_with_its_status_by_itself(name: str) -> None:
    assert getattr(errors, name)("why").status == AWS_NAMES[name]


def test_an_exception_without_a_text_of_the_server_carries_none() -> None:
    assert exception_for(5, None).message is None


def test_everything_raised_on_purpose_has_one_root() -> None:
    assert all(issubclass(found, PenstockError) for found in all_exceptions())


def test_network_trouble_is_caught_by_the_names_of_the_standard_library_too() -> None:
    assert issubclass(ServerUnreachableException, ConnectionError)
    assert issubclass(ServerUnreachableException, ConnectFailedException)
    assert issubclass(ConnectionLostException, ConnectionError)
    assert issubclass(RequestTimeoutException, TimeoutError)
    for found in (ServerUnreachableException, ConnectionLostException, RequestTimeoutException):
        assert issubclass(found, ClientException)
        error = found("why", None, "request-1")
        assert (str(error), error.status, error.request_id) == ("why", None, "request-1")


def test_a_handler_of_invalid_requests_sees_forbidden_updates() -> None:
    with pytest.raises(InvalidRequestException):
        raise exception_for(17, "persistence may not change")


def test_damage_names_the_messages_that_it_affects() -> None:
    error = DataDamaged("segment 7 fails its check", 70, 79)

    assert (error.first_sequence, error.last_sequence) == (70, 79)
    assert "segment 7" in str(error)
