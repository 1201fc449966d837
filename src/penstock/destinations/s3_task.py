"""S3 tasks: what a message asks for, checked before anything is uploaded. Pure."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from urllib.parse import unquote_to_bytes, urlsplit

from penstock.destinations.java_time import PatternError, formatted
from penstock.errors import ValidationException
from penstock.model import S3ExportTaskDefinition
from penstock.util import Util

PLACEHOLDER = re.compile(r"!\{([a-zA-Z]+):([a-zA-Z/]+)\}")
# The service counts bytes of the finished key.
KEY_BYTES_MAX = 1024
RESERVED_METADATA_PREFIX = "$aws-gg-"
# What can stand in a header's name, and in its value, whatever lies between us and the service.
METADATA_KEY = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
METADATA_VALUE = re.compile(r"[ -~]*\Z")


class TaskInvalid(ValueError):
    """The task can never be executed; the text says why."""


def parsed_task(payload: bytes) -> S3ExportTaskDefinition:
    try:
        return Util.deserialize_json_bytes_to_obj(payload, S3ExportTaskDefinition)
    except ValidationException as error:
        raise TaskInvalid(str(error)) from error


def path_of(input_url: str) -> str:
    """The file that file:/path, file:///path or file://localhost/path names."""
    try:
        parts = urlsplit(input_url)
    except ValueError as error:
        raise TaskInvalid(f"inputUrl {input_url!r} is no URL: {error}") from error
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        raise TaskInvalid(f"inputUrl {input_url!r} must name a local file, as in file:/path/name")
    if parts.query or parts.fragment:
        raise TaskInvalid(
            f"inputUrl {input_url!r} has a ? or # in it; in a file's name they are %3F and %23"
        )
    path = unquote_to_bytes(parts.path)
    if not path.startswith(b"/") or b"\0" in path:
        raise TaskInvalid(f"inputUrl {input_url!r} must hold an absolute path")
    return os.fsdecode(path)


def allowed_path(path: str, folders: Sequence[str]) -> str:
    """The file behind all symbolic links, if it is below one of these folders; or without any."""
    if not folders:
        return path
    real_path = os.path.realpath(path)
    for folder in map(os.path.realpath, folders):
        if os.path.commonpath((folder, real_path)) == folder:
            return real_path
    behind = "" if real_path == path else f", which is {real_path},"
    raise TaskInvalid(
        f"the file {path}{behind} is not below {' or '.join(folders)}: move it there, or add its "
        f"folder to the setting read_only_dirs"
    )


def key_at(template: str, epoch_ns: int) -> str:
    """The key with its placeholders filled in."""

    def filled(placeholder: re.Match[str]) -> str:
        name, pattern = placeholder.groups()
        if name != "timestamp":
            raise TaskInvalid(f"key: !{{{name}:...}} is unknown; there is !{{timestamp:...}} only")
        try:
            return formatted(pattern, epoch_ns)
        except PatternError as error:
            raise TaskInvalid(f"key: {placeholder[0]} is no pattern of Java: {error}") from error

    key = PLACEHOLDER.sub(filled, template)
    if len(key.encode()) > KEY_BYTES_MAX:
        raise TaskInvalid(f"key: {len(key.encode())} bytes; S3 takes {KEY_BYTES_MAX} at most")
    return key


def metadata_of(task: S3ExportTaskDefinition) -> dict[str, str]:
    """What is stored with the object. S3 keeps names in lower case."""
    metadata: dict[str, str] = {}
    for name, value in (task.user_metadata or {}).items():
        lower = name.lower()
        if lower.startswith(RESERVED_METADATA_PREFIX):
            raise TaskInvalid(
                f"userMetadata: {name} begins with {RESERVED_METADATA_PREFIX}, which is reserved"
            )
        if lower in metadata:
            raise TaskInvalid(f"userMetadata: {name} is there twice; S3 does not tell cases apart")
        if not METADATA_KEY.match(name) or not METADATA_VALUE.match(value):
            raise TaskInvalid(
                f"userMetadata: {name!r} or its value cannot stand in a header of HTTP"
            )
        metadata[lower] = value
    return metadata
