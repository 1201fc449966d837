"""What a connection still has to send.

AWS's Python SDK reads the four length bytes of a frame with one read that may return fewer, and
never recovers if it does. So a frame goes out with one system call of its own, begun only when the
kernel has taken all of the frame before. Penstock's own clients read properly and get everything of
a turn in one call.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable

# The system refuses more pieces than this in one call.
PIECES_MAX = 1024
# Below this, one copy is cheaper than handing over many pieces.
JOIN_BYTES_MAX = 64 * 1024


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
        self._transport = transport
        self._descriptor: int = transport.get_extra_info("socket").fileno()
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

    def flush(self) -> None:
        """Send what the kernel takes now."""
        self._scheduled = False
        while self._pieces and not self._blocked and not self._transport.is_closing():
            self._write(self._next_pieces())
        self._on_sent()

    def blocked(self) -> None:
        """The kernel does not take more."""
        self._blocked = True

    def unblocked(self) -> None:
        """The rest of the last write is gone."""
        self._blocked = False
        self.unsent_bytes = sum(map(len, self._pieces))
        self.flush()

    def _next_pieces(self) -> list[bytes]:
        if not self.together:
            return [self._pieces.popleft()]
        count = min(len(self._pieces), PIECES_MAX)
        return [self._pieces.popleft() for _ in range(count)]

    def _write(self, pieces: list[bytes]) -> None:
        total = sum(map(len, pieces))
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
        self.unsent_bytes -= written
        if written < total:
            self._transport.write(b"".join(pieces)[written:])
