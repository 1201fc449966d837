"""docs/client-api.md, made from signatures and docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from enum import Enum
from typing import Any

import msgspec

import penstock
from penstock import errors, model

INTRODUCTION = """\
# The client's reference

*Made by `python tests/docs/client_reference.py` from signatures and docstrings; a test fails when
this page is out of date. [The client](client.md) shows how it is used.*

## StreamManagerClient

`AsyncStreamManagerClient` has the same methods with the same arguments, to be awaited, and
`connect()`; a test compares the two.
"""
MODEL = """\
## Model

Names, defaults and limits. Objects can be built empty and filled later, as users of AWS's SDK do.
A call checks what it sends and names the field that is wrong; `validated()` checks before.
"""
ERRORS = """\
## Errors

| Exception | Kind of | |
|---|---|---|
"""


def page() -> str:
    """The whole page."""
    parts = [INTRODUCTION, *_client(penstock.StreamManagerClient), *_tuples(), MODEL]
    return "\n".join([*parts, *_model(), ERRORS.rstrip("\n"), *_errors()]) + "\n"


def _client(client: type) -> Iterator[str]:
    yield _signature("StreamManagerClient", client.__init__)
    yield f"{_text(client)}\n"
    for name, method in vars(client).items():
        if inspect.isfunction(method) and not name.startswith("_"):
            yield f"### {name}\n"
            yield _signature(name, method)
            yield f"{_text(method)}\n"


def _tuples() -> Iterator[str]:
    for kind in (penstock.AppendedRange, penstock.AppendedOnce):
        yield f"### {kind.__name__}\n"
        fields = ", ".join(f"`{name}`" for name in kind._fields)
        yield f"{_text(kind)}\n\nFields: {fields}.\n"


def _signature(name: str, function: Any) -> str:
    """As a stub would have it, one line if it fits."""
    signature = inspect.signature(function)
    parameters = [each for each in signature.parameters.values() if each.name != "self"]
    plain = signature.replace(parameters=parameters)
    if plain.return_annotation == "None" and name == "StreamManagerClient":
        plain = plain.replace(return_annotation=inspect.Signature.empty)
    text = f"{name}{plain}".replace("'", "")
    if len(text) > 90:
        inner, _, end = text.partition("(")[2].rpartition(")")
        arguments = "".join(f"    {part},\n" for part in re.split(r", (?![^\[(]*[\])])", inner))
        text = f"{name}(\n{arguments}){end}"
    return f"```text\n{text}\n```\n"


def _model() -> Iterator[str]:
    for name in penstock.__all__:
        kind = getattr(model, name, None)
        if not inspect.isclass(kind):
            continue
        yield f"### {name}\n"
        yield f"{_text(kind)}\n"
        if issubclass(kind, Enum):
            yield ", ".join(f"`{each.name}` ({each.value})" for each in kind) + ".\n"
        else:
            yield from _fields(kind)


def _fields(kind: type[msgspec.Struct]) -> Iterator[str]:
    yield "| Field | Type | Default |\n|---|---|---|"
    for field in msgspec.structs.fields(kind):
        is_required = field.default is None and not _is_optional(field.type)
        default = "required" if is_required else f"`{_default(field)}`"
        yield f"| `{field.name}` | {_shown(field.type)} | {default} |"
    yield ""


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default is not msgspec.NODEFAULT:
        return field.default.name if isinstance(field.default, Enum) else field.default
    return "[]" if field.default_factory is list else "empty"


def _is_optional(kind: Any) -> bool:
    return isinstance(msgspec.inspect.type_info(kind), msgspec.inspect.UnionType)


def _shown(kind: Any) -> str:
    """A type in words: limits are what a reader looks for."""
    info = msgspec.inspect.type_info(kind)
    if isinstance(info, msgspec.inspect.UnionType):
        info = next(each for each in info.types if not isinstance(each, msgspec.inspect.NoneType))
    return _words(info)


def _words(info: msgspec.inspect.Type) -> str:
    match info:
        case msgspec.inspect.IntType(ge=low, le=high):
            return f"number{_range(low, high)}"
        case msgspec.inspect.StrType(min_length=low, max_length=high):
            return f"text{_range(low, high, ' characters') if high else ''}"
        case msgspec.inspect.ListType(item_type=item):
            return f"list of {_words(item)}"
        case msgspec.inspect.EnumType(cls=cls) | msgspec.inspect.StructType(cls=cls):
            return f"[{cls.__name__}](#{cls.__name__.lower()})"
        case msgspec.inspect.DictType():
            return "dictionary of texts"
        case msgspec.inspect.BytesType():
            return "bytes"
        case msgspec.inspect.BoolType():
            return "true or false"
        case msgspec.inspect.FloatType():
            return "number"
    raise NotImplementedError(f"no words for {info}")


def _range(low: int | None, high: int | None, unit: str = "") -> str:
    if low is None and high is None:
        return ""
    if high is None or high >= model.MILLIS_MAX:
        return "" if low is None or low < 0 else f" from {low:,}{unit}"
    return f", {low or 0:,} to {high:,}{unit}"


def _errors() -> Iterator[str]:
    for name in penstock.__all__:
        kind = getattr(errors, name, None)
        if inspect.isclass(kind) and issubclass(kind, Exception):
            parents = ", ".join(f"`{parent.__name__}`" for parent in kind.__bases__)
            yield f"| `{name}` | {parents} | {' '.join(_text(kind).split())} |"


def _text(thing: Any) -> str:
    return inspect.getdoc(thing) or ""


if __name__ == "__main__":
    print(page(), end="")
