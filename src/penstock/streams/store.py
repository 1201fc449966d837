"""Who owns a data directory: one server at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from penstock.errors import StoreError, StoreInUse
from penstock.log.disk import Disk, locked_file, overwrite

LOCK_NAME = "penstock.lock"


@contextmanager
def owned(root: str, process_id: int) -> Iterator[bool]:
    """Own the store for a while. Yields whether the machine was restarted since the last owner."""
    try:
        Disk().make_folder(root)
    except OSError as error:
        raise StoreError(f"the data directory {root} cannot be made: {error.strerror}") from error
    with locked(root) as descriptor:
        last_boot = read_owner(root).get("boot", "")
        this_boot = boot_id()
        overwrite(descriptor, json.dumps({"process": process_id, "boot": this_boot}).encode())
        yield last_boot not in ("", this_boot)


@contextmanager
def locked(root: str) -> Iterator[int]:
    """Hold the store's lock, without a word in it."""
    with ExitStack() as stack:
        try:
            descriptor = stack.enter_context(locked_file(f"{root}/{LOCK_NAME}"))
        except BlockingIOError as error:
            owner = read_owner(root).get("process", "unknown")
            raise StoreInUse(
                f"the data directory {root} is in use by process {owner}; stop that server or "
                f"choose another directory"
            ) from error
        except OSError as error:
            raise StoreError(
                f"the data directory {root} cannot be used: {error.strerror}"
            ) from error
        yield descriptor


def read_owner(root: str) -> dict[str, str]:
    """What the lock file says about its owner; nothing if it cannot be read."""
    try:
        found = json.loads(Disk().read_file(f"{root}/{LOCK_NAME}"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def boot_id() -> str:
    """Names the time since the machine was started; empty where the system does not tell."""
    try:
        return Disk().read_file("/proc/sys/kernel/random/boot_id").decode("ascii").strip()
    except OSError:
        return ""
