"""What an update may change. Pure."""

from __future__ import annotations

from penstock.model import MessageStreamDefinition, StorageStatus
from penstock.streams.exports import start_of


def segment_bytes_for(definition: MessageStreamDefinition) -> int:
    """At which size a segment is sealed.

    SDKs always send 16 MiB, also for streams that are smaller as a whole. Such a stream gets four
    segments, so that overwriting the oldest data does not throw away all of it.
    """
    if definition.stream_segment_size <= definition.max_size:
        return definition.stream_segment_size
    return definition.max_size // 4


def forbidden_change(
    old: MessageStreamDefinition, new: MessageStreamDefinition, storage: StorageStatus
) -> str | None:
    """Why an update is not allowed, or None. What describe returned is always allowed."""
    if new.persistence != old.persistence:
        return (
            f"persistence cannot change from {old.persistence.name} to {new.persistence.name}; "
            f"create another stream"
        )
    if new.max_size != old.max_size and new.max_size < storage.total_bytes:
        return (
            f"maxSize {new.max_size} is less than the {storage.total_bytes} bytes that the stream "
            f"holds"
        )
    sizes_changed = (new.max_size, new.stream_segment_size) != (
        old.max_size,
        old.stream_segment_size,
    )
    if sizes_changed and new.max_size < new.stream_segment_size:
        return f"maxSize {new.max_size} is less than streamSegmentSize {new.stream_segment_size}"
    return _forbidden_start(old, new, storage)


def _forbidden_start(
    old: MessageStreamDefinition, new: MessageStreamDefinition, storage: StorageStatus
) -> str | None:
    starts = {
        (type(config), config.identifier): start_of(config)
        for config in old.export_definition.configs()
    }
    for config in new.export_definition.configs():
        start = start_of(config)
        if start == starts.get((type(config), config.identifier), 0):
            continue
        if start >= storage.newest_sequence_number:
            return (
                f"export {config.identifier}: startSequenceNumber {start} must be less than the "
                f"newest sequence number, {storage.newest_sequence_number}"
            )
    return None
