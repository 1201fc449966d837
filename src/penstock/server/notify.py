"""What systemd is told of a server that it started: ready, alive, stopping."""

from __future__ import annotations

import logging
import os
import socket

log = logging.getLogger(__name__)

READY = "READY=1"
ALIVE = "WATCHDOG=1"
STOPPING = "STOPPING=1"


def tell(state: str) -> None:
    """One datagram to the socket that systemd named, if it did. Nobody waits for an answer."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):  # a name in the abstract space, which has no file
        address = f"\0{address[1:]}"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as connection:
            connection.setblocking(False)
            connection.sendto(state.encode(), address)
    except OSError as error:
        log.warning("systemd cannot be told %s: %s.", state, error.strerror)
