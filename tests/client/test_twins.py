"""The two clients have the same methods with the same arguments."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Iterator
from typing import Any, get_args, get_type_hints

import pytest

from penstock import AsyncStreamManagerClient, StreamManagerClient

# The sync client connects in its constructor; the async one cannot.
ONLY_ASYNC = {"connect"}
# append_message gives a future instead of being a coroutine function: no task per call.
FUTURES = {"append_message"}


def public_methods(kind: type) -> dict[str, Any]:
    return {
        name: method
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
    }


SYNC, ASYNC = public_methods(StreamManagerClient), public_methods(AsyncStreamManagerClient)


def test_both_have_the_same_methods() -> None:
    assert set(ASYNC) - set(SYNC) == ONLY_ASYNC
    assert set(SYNC) - set(ASYNC) == set()


@pytest.mark.parametrize("name", [*sorted(SYNC), "__init__"])
def test_both_take_the_same_arguments(name: str) -> None:
    sync, twin = getattr(StreamManagerClient, name), getattr(AsyncStreamManagerClient, name)
    assert inspect.signature(sync).parameters == inspect.signature(twin).parameters


@pytest.mark.parametrize("name", sorted(SYNC))
def test_both_give_the_same_result_except_for_the_awaiting(name: str) -> None:
    result = get_type_hints(SYNC[name])["return"]
    awaited = get_type_hints(ASYNC[name])["return"]
    if name in FUTURES:
        assert get_args(awaited) == (result,)
    elif result is not None and getattr(result, "__origin__", None) is Iterator:
        assert awaited == AsyncIterator[get_args(result)]
    else:
        assert awaited == result
        assert inspect.iscoroutinefunction(ASYNC[name])


@pytest.mark.parametrize("name", sorted(SYNC))
def test_both_are_documented_alike(name: str) -> None:
    first_line, twin_line = (
        (inspect.getdoc(methods[name]) or "").split("\n")[0] for methods in (SYNC, ASYNC)
    )
    assert first_line
    if name not in FUTURES:
        assert first_line == twin_line


def test_the_arguments_are_those_of_awss_sdk() -> None:
    expected = {
        "__init__": ["host", "port", "connect_timeout", "request_timeout", "logger"],
        "create_message_stream": ["definition"],
        "update_message_stream": ["definition"],
        "delete_message_stream": ["stream_name"],
        "describe_message_stream": ["stream_name"],
        "append_message": ["stream_name", "data"],
        "read_messages": ["stream_name", "options"],
        "list_streams": [],
        "close": [],
    }
    for name, arguments in expected.items():
        parameters = inspect.signature(getattr(StreamManagerClient, name)).parameters.values()
        positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        assert positional == ["self", *arguments], name
