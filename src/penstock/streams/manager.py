"""All streams: create, update, delete, list; and the store they live in."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator
from contextlib import suppress

from penstock.errors import (
    InvalidRequestException,
    PenstockError,
    ResourceNotFoundException,
    StoreError,
    UnknownFailureException,
    UpdateFailedException,
)
from penstock.log.disk import Disk
from penstock.log.document import Document, read_document, write_document
from penstock.log.memory import Memory
from penstock.model import MessageStreamDefinition, Persistence, from_wire, to_wire
from penstock.streams.store import note_opened
from penstock.streams.stream import Stream

log = logging.getLogger(__name__)

FORMAT_VERSION = 1
STREAMS_NAME = "streams"
DOCUMENT_NAME = "stream.json"
HALF_MADE = ".creating"
HALF_DELETED = ".deleting"


class StreamManager:
    """The streams of one store. Use it inside `store.owned`."""

    def __init__(self, root: str, *, power_lost: bool = False, disk: Disk | None = None) -> None:
        self._disk = disk or Disk()
        self._folder = f"{root}/{STREAMS_NAME}"
        self._disk.make_folder(self._folder)
        self._streams: dict[str, Stream] = {}
        is_complete = True
        for folder in self._disk.list_folders(self._folder):
            path = f"{self._folder}/{folder}"
            if folder.endswith((HALF_MADE, HALF_DELETED)):
                self._remove_half(path)
            else:
                is_complete &= self._open_stream(path, power_lost)
        if power_lost and is_complete:
            self._note_opened(root)

    def __iter__(self) -> Iterator[Stream]:
        return iter(list(self._streams.values()))

    def names(self) -> list[str]:
        return sorted(self._streams)

    def find(self, name: str) -> Stream | None:
        return self._streams.get(name)

    def get(self, name: str) -> Stream:
        stream = self._streams.get(name)
        if stream is None:
            raise ResourceNotFoundException(f"stream {name} does not exist")
        return stream

    def create(self, definition: MessageStreamDefinition) -> Stream:
        """A new stream; if it is a file stream it is durable."""
        if definition.name in self._streams:
            raise InvalidRequestException(f"stream {definition.name} already exists")
        self._warn_of_missing_status_streams(definition)
        if definition.persistence == Persistence.Memory:
            stream = Stream(Memory(), f"/memory/{secrets.token_hex(8)}", definition)
        else:
            try:
                stream = self._create_on_disk(definition)
            except OSError as error:
                raise UnknownFailureException(
                    f"stream {definition.name} could not be created: {error}"
                ) from error
        self._streams[definition.name] = stream
        return stream

    def update(self, definition: MessageStreamDefinition) -> Stream:
        stream = self.get(definition.name)
        stream.check_update(definition)
        self._warn_of_missing_status_streams(definition)
        try:
            if definition.persistence == Persistence.File:
                self._write_definition(stream.folder, definition)
        except OSError as error:
            with suppress(OSError):  # it may have come as far as the main copy
                self._write_definition(stream.folder, stream.definition)
            raise UpdateFailedException(
                f"stream {definition.name} could not be updated: {error}"
            ) from error
        try:
            stream.apply_update(definition)
        except OSError as error:
            # The update is in force, for ever: the journal only follows the definition.
            log.warning(
                "Stream %s: the positions of its exports cannot be written anew yet: %s",
                definition.name,
                error,
            )
        return stream

    def delete(self, name: str) -> Stream:
        """Remove a stream and its data; what was begun on it can still be finished."""
        stream = self.get(name)
        stream.abandon()
        if stream.definition.persistence == Persistence.File:
            doomed = f"{stream.folder}{HALF_DELETED}"
            try:
                # From here on it is deleted, whatever happens to the rest.
                self._disk.rename(stream.folder, doomed)
            except OSError as error:
                with suppress(OSError):  # it may have been renamed, and only the sync failed
                    self._disk.rename(doomed, stream.folder)
                raise UnknownFailureException(
                    f"stream {name} could not be deleted: {error}"
                ) from error
            with suppress(OSError):  # the next start tries again
                self._disk.remove_folder(doomed)
        del self._streams[name]
        return stream

    def close(self) -> list[str]:
        """Close all streams; what went wrong with which."""
        problems = []
        for stream in self._streams.values():
            try:
                stream.close()
            except PenstockError as error:
                problems.append(f"stream {stream.name}: {error}")
        self._streams.clear()
        return problems

    def _create_on_disk(self, definition: MessageStreamDefinition) -> Stream:
        path = f"{self._folder}/{secrets.token_hex(8)}"
        half_made = path + HALF_MADE
        self._disk.make_folder(half_made)
        try:
            self._write_definition(half_made, definition)
            self._disk.rename(half_made, path)
            return Stream(self._disk, path, definition)
        except OSError:
            for folder in (half_made, path):
                with suppress(OSError):
                    self._disk.remove_folder(folder)
            raise

    def _write_definition(self, folder: str, definition: MessageStreamDefinition) -> None:
        document = {"format": FORMAT_VERSION, "definition": to_wire(definition)}
        write_document(self._disk, f"{folder}/{DOCUMENT_NAME}", document)

    def _open_stream(self, path: str, power_lost: bool) -> bool:
        """Open a stream; one that cannot be opened is reported and left as it is."""
        try:
            definition, document = read_definition(self._disk, path)
            if definition.name in self._streams:
                other = self._streams[definition.name].folder
                raise StoreError(f"its name {definition.name} is that of the stream in {other}")
            stream = Stream(self._disk, path, definition, power_lost=power_lost)
        except (StoreError, OSError) as error:
            log.error("The stream in %s cannot be opened and is left out: %s", path, error)
            return False
        problems = document.damage + document.notes
        if problems:
            problems += self._mend_definition(path, definition)
        for notice in problems + stream.notices:
            log.warning("Stream %s: %s", stream.name, notice)
        self._streams[stream.name] = stream
        return True

    def _mend_definition(self, path: str, definition: MessageStreamDefinition) -> list[str]:
        """Make two sound copies of one; says what kept us from it."""
        try:
            self._write_definition(path, definition)
        except OSError as error:
            return [f"{path}/{DOCUMENT_NAME} cannot be written anew yet: {error.strerror}"]
        return []

    def _remove_half(self, path: str) -> None:
        try:
            self._disk.remove_folder(path)
        except OSError as error:
            log.warning("%s cannot be removed yet: %s", path, error)

    def _note_opened(self, root: str) -> None:
        try:
            note_opened(root)
        except OSError as error:
            log.warning("The lock file in %s cannot be written to: %s", root, error)

    def _warn_of_missing_status_streams(self, definition: MessageStreamDefinition) -> None:
        for config in definition.export_definition.s3_task_executor:
            name = config.status_config and config.status_config.status_stream_name
            if name and name not in self._streams:
                log.warning(
                    "Export %s of stream %s wants its statuses in stream %s, which does not exist "
                    "yet; they are dropped until it does.",
                    config.identifier,
                    definition.name,
                    name,
                )


def read_definition(disk: Disk, folder: str) -> tuple[MessageStreamDefinition, Document]:
    """A stream's definition, and the document it stands in."""
    document = read_document(disk, f"{folder}/{DOCUMENT_NAME}")
    value = document.value
    if not isinstance(value, dict) or value.get("format") != FORMAT_VERSION:
        raise StoreError(
            f"{folder}/{DOCUMENT_NAME} is not of format {FORMAT_VERSION}, which this version reads"
        )
    try:
        return from_wire(value.get("definition"), MessageStreamDefinition), document
    except ValueError as error:
        raise StoreError(f"{folder}/{DOCUMENT_NAME}: {error}") from error
