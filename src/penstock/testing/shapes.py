"""Checks a request against a botocore service model: types, limits, patterns, required members.

botocore's clients check little of this before they send (no patterns, few limits), the services
check all of it.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Any

# Of botocore's numbers, as the services take them.
INTEGER_LIMITS = {"integer": 2**31 - 1, "long": 2**63 - 1}
SPECIAL_DOUBLES = ("NaN", "Infinity", "-Infinity")


def violations(value: Any, shape: Any, path: str = "") -> Iterator[str]:
    """One sentence for each way in which a JSON value breaks its shape."""
    yield from CHECKS[shape.type_name](value, shape, path)


def _structure(value: Any, shape: Any, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path or 'the request'} is not an object"
        return
    for name in shape.required_members:
        if value.get(name) is None:
            yield f"{_member(path, name)} is required"
    for name, content in value.items():
        if name not in shape.members:
            yield f"{_member(path, name)} is unknown"
        elif content is not None:
            yield from violations(content, shape.members[name], _member(path, name))


def _list(value: Any, shape: Any, path: str) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{path} is not a list"
        return
    yield from _length(len(value), shape, path)
    for index, content in enumerate(value):
        yield from violations(content, shape.member, f"{path}[{index}]")


def _string(value: Any, shape: Any, path: str) -> Iterator[str]:
    if not isinstance(value, str):
        yield f"{path} is not a string"
        return
    yield from _length(len(value), shape, path)
    pattern = shape.metadata.get("pattern")
    if pattern is not None and not re.fullmatch(pattern, value):
        yield f"{path} does not match {pattern}"
    choices = shape.metadata.get("enum")
    if choices and value not in choices:
        yield f"{path} is none of {', '.join(choices)}"


def _blob(value: Any, shape: Any, path: str) -> Iterator[str]:
    try:
        content = base64.b64decode(value, validate=True)
    except (TypeError, binascii.Error, ValueError):
        yield f"{path} is not base64"
        return
    yield from _length(len(content), shape, path)


def _integer(value: Any, shape: Any, path: str) -> Iterator[str]:
    if isinstance(value, bool) or not isinstance(value, int):
        yield f"{path} is not a whole number"
        return
    limit = INTEGER_LIMITS[shape.type_name]
    yield from _between(value, -limit - 1, limit, path)
    yield from _between(value, shape.metadata.get("min"), shape.metadata.get("max"), path)


def _double(value: Any, shape: Any, path: str) -> Iterator[str]:
    if value in SPECIAL_DOUBLES:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        yield f"{path} is not a number"


def _boolean(value: Any, shape: Any, path: str) -> Iterator[str]:
    if not isinstance(value, bool):
        yield f"{path} is neither true nor false"


CHECKS = {
    "structure": _structure,
    "list": _list,
    "string": _string,
    "blob": _blob,
    "integer": _integer,
    "long": _integer,
    "double": _double,
    "boolean": _boolean,
}


def _length(length: int, shape: Any, path: str) -> Iterator[str]:
    minimum, maximum = shape.metadata.get("min"), shape.metadata.get("max")
    yield from _between(length, minimum, maximum, f"the length of {path}")


def _between(value: int, minimum: int | None, maximum: int | None, what: str) -> Iterator[str]:
    if minimum is not None and value < minimum:
        yield f"{what} is {value}, below {minimum}"
    if maximum is not None and value > maximum:
        yield f"{what} is {value}, above {maximum}"


def _member(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
