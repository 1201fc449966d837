"""AWS's helpers for messages whose payload is JSON: S3 tasks, their statuses, SiteWise entries."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from penstock.errors import ValidationException
from penstock.model import Model, from_wire, to_wire

ModelType = TypeVar("ModelType", bound=Model)


class Util:
    """A namespace, as in AWS's SDK."""

    @staticmethod
    def validate_and_serialize_to_json_bytes(data: Model) -> bytes:
        """The JSON of a checked object. ValidationException names the field that is wrong."""
        if not isinstance(data, Model):
            raise ValidationException(f"data must be one of Penstock's types, not {data!r:.80}")
        try:
            return msgspec.json.encode(_without_empty_lists(to_wire(data.validated())))
        except (ValueError, TypeError, RecursionError) as error:
            raise ValidationException(f"{type(data).__name__}: {error}") from error

    @staticmethod
    def deserialize_json_bytes_to_obj(
        bytes: bytes | bytearray | memoryview | str, type: type[ModelType]
    ) -> ModelType:
        """The checked object that the JSON describes; unknown keys are ignored."""
        try:
            return from_wire(msgspec.json.decode(bytes), type)
        except (ValueError, msgspec.DecodeError, RecursionError) as error:
            raise ValidationException(f"{type.__name__}: {error}") from error


def _without_empty_lists(value: Any) -> Any:
    """AWS's writers leave empty lists out, and their readers rely on it."""
    if isinstance(value, dict):
        return {key: _without_empty_lists(item) for key, item in value.items() if item != []}
    if isinstance(value, list):
        return [_without_empty_lists(item) for item in value]
    return value
