"""What a connection still has to send.

AWS's Python SDK reads the four length bytes of a frame with one read that may return fewer, and
never recovers if it does. So a frame goes out with one system call of its own, begun only when the
kernel has taken all of the frame before and has room for more than the length bytes. Penstock's own
clients read properly and get everything of a turn in one call.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
from collections import deque
from collections.abc import Callable, Sequence

# The system refuses more pieces than this in one call.
PIECES_MAX = 1024
# Below this, one copy is cheaper than handing over many pieces.
JOIN_BYTES_MAX = 64 * 1024
# What the kernel spends on a frame besides its bytes; generous, see _kernel_has_room.
KERNEL_OVERHEAD_BYTES = 2048


class Outbox:
    """Frames on their way to one client, in order."""

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        on_sent: Callable[[], None],
    ) -> None:
        # The transport only ever holds the rest of one write; it tells when that is gone.
        transport.set_write_buffer_limits(high=0)
        connection = transport.get_extra_info("socket")
        self._transport = transport
        self._descriptor: int = connection.fileno()
        self._kernel_bytes_max = connection.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        self._poll = select.poll()
        self._poll.register(self._descriptor, select.POLLOUT)
        self._spare_bytes = 0  # what the kernel has room for, as far as we know
        self._watched: int | None = None  # a second descriptor, while we wait for room
        self._loop = loop
        self._on_sent = on_sent
        self._pieces: deque[bytes] = deque()
        self._blocked = False
        self._scheduled = False
        self.together = False  # several frames may share a system call
        self.unsent_bytes = 0

    def put(self, *pieces: bytes) -> None:
        """Send a frame at the end of this turn; in several pieces only if `together`."""
        self._pieces.extend(pieces)
        for piece in pieces:
            self.unsent_bytes += len(piece)
        if not self._scheduled and not self._blocked:
            self._scheduled = True
            self._loop.call_soon(self.flush)

    def send(self, frame: bytes) -> None:
        """Send a frame now, if nothing stands before it and the kernel has room."""
        if (
            self._pieces
            or self._blocked
            or self._transport.is_closing()
            or not (self.together or self._kernel_has_room())
        ):
            self.put(frame)
            return
        self.unsent_bytes += len(frame)
        self._write([frame])

    def flush(self) -> None:
        """Send what the kernel takes now."""
        self._scheduled = False
        while self._pieces and not self._blocked and not self._transport.is_closing():
            if self.together or self._kernel_has_room():
                self._write(self._next_pieces())
            else:
                self._wait_for_room()
        self._on_sent()

    def blocked(self) -> None:
        """The kernel does not take more."""
        self._blocked = True

    def unblocked(self) -> None:
        """The rest of the last write is gone, or there is room for another."""
        self._blocked = False
        self.unsent_bytes = sum(map(len, self._pieces))
        self.flush()

    def close(self) -> None:
        """The connection is gone."""
        if self._watched is not None:
            self._loop.remove_writer(self._watched)
            os.close(self._watched)
            self._watched = None

    def _next_pieces(self) -> list[bytes]:
        if not self.together:
            return [self._pieces.popleft()]
        count = min(len(self._pieces), PIECES_MAX)
        return [self._pieces.popleft() for _ in range(count)]

    def _kernel_has_room(self) -> bool:
        """Whether the kernel will take the start of a frame whole.

        A nearly full buffer takes a byte or two. The kernel calls a socket writable when a third
        of its buffer is free; until that is used up it need not be asked again.
        """
        if self._spare_bytes <= 0 and self._poll.poll(0):
            self._spare_bytes = self._kernel_bytes_max // 3
        return self._spare_bytes > 0

    def _wait_for_room(self) -> None:
        """The loop does not watch a transport's descriptor for us, but a copy of it."""
        try:
            self._watched = os.dup(self._descriptor)
        except OSError:
            self._transport.abort()
            return
        self._blocked = True
        self._loop.add_writer(self._watched, self._room_again)

    def _room_again(self) -> None:
        self.close()
        self.unblocked()

    def _write(self, pieces: list[bytes]) -> None:
        total = len(pieces[0]) if len(pieces) == 1 else sum(map(len, pieces))
        if len(pieces) > 1 and total <= JOIN_BYTES_MAX:
            pieces = [b"".join(pieces)]
        try:
            written = os.writev(self._descriptor, pieces)
        except BlockingIOError:
            written = 0
        except OSError:
            # The peer is gone; the transport notices by itself and tells the session.
            self._transport.abort()
            return
        self._spare_bytes -= total + KERNEL_OVERHEAD_BYTES
        self.unsent_bytes -= written
        if written < total:
            self._transport.writelines(_behind(pieces, written))
            if not self._blocked:
                self.unsent_bytes -= total - written  # it went out at once, after all


def _behind(pieces: Sequence[bytes], written: int) -> list[bytes | memoryview]:
    """What is left of some pieces, without copying them."""
    for position, piece in enumerate(pieces):
        if written < len(piece):
            return [memoryview(piece)[written:], *pieces[position + 1 :]]
        written -= len(piece)
    return []
