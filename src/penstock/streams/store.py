"""Who owns a data directory: one server at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from penstock.errors import StoreError, StoreInUse
from penstock.log.disk import Disk, locked_file

LOCK_NAME = "penstock.lock"


@contextmanager
def owned(root: str, process_id: int) -> Iterator[bool]:
    """Own the store for a while. Yields whether power may have been lost since the last owner.

    It stays so for the next owner too, until `note_opened` says that all streams are open.
    """
    try:
        Disk().make_folder(root)
    except OSError as error:
        raise StoreError(f"the data directory {root} cannot be made: {error.strerror}") from error
    with locked(root):
        last_boot = read_owner(root).get("boot", "")
        try:
            _write_owner(root, {"process": process_id, "boot": last_boot})
        except OSError as error:
            raise _unusable(root, error) from error
        # If the boot is not known, it may have been another one: a power cut can take what was
        # written to the lock file.
        yield last_boot == "" or last_boot != boot_id()


def note_opened(root: str) -> None:
    """What a power cut took has been dealt with."""
    _write_owner(root, read_owner(root) | {"boot": boot_id()})


@contextmanager
def locked(root: str, *, write: bool = True) -> Iterator[None]:
    """Hold the store's lock; without `write` together with others, and changing nothing."""
    with ExitStack() as stack:
        try:
            stack.enter_context(locked_file(f"{root}/{LOCK_NAME}", write=write))
        except BlockingIOError as error:
            owner = read_owner(root).get("process", "unknown")
            raise StoreInUse(
                f"the data directory {root} is in use by process {owner}; stop that server or "
                f"choose another directory"
            ) from error
        except OSError as error:
            # A store without a lock file has no owner.
            if write or not isinstance(error, FileNotFoundError):
                raise _unusable(root, error) from error
        yield


def read_owner(root: str) -> dict[str, Any]:
    """What the lock file says about its owner; nothing if it cannot be read."""
    try:
        found = json.loads(Disk().read_file(f"{root}/{LOCK_NAME}"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write_owner(root: str, owner: dict[str, Any]) -> None:
    """Write in place, because the lock is on this file. Not durably: old content does no harm."""
    content = json.dumps(owner).encode()
    file = Disk().open(f"{root}/{LOCK_NAME}")
    try:
        file.write_at(content, 0)
        file.truncate(len(content))
    finally:
        file.close()


def _unusable(root: str, error: OSError) -> StoreError:
    return StoreError(f"the data directory {root} cannot be used: {error.strerror}")


def boot_id() -> str:
    """Names the time since the machine was started; empty where the system does not tell."""
    try:
        return Disk().read_file("/proc/sys/kernel/random/boot_id").decode("ascii").strip()
    except OSError:
        return ""
