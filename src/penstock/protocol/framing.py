"""Cut the byte stream into frames."""

from __future__ import annotations

import struct
from dataclasses import dataclass

LENGTH = struct.Struct(">i")
HEADER_BYTES = LENGTH.size + 1
# Fixed by the protocol. What a server accepts is usually less, see `frame_bytes_max`.
FRAME_LENGTH_MAX = 2**30
# All SDKs send requestId first, so this much of a frame that is too large names the request.
OVERSIZED_HEAD_BYTES = 1024
# Payloads above this are not copied by FrameBuffer.
VIEW_FROM_BYTES = 64 * 1024


class FramingError(ValueError):
    """The bytes cannot be cut into frames; the connection is of no further use."""


@dataclass(frozen=True)
class Oversized:
    """A frame above the limit: its length and how it began. The rest was thrown away."""

    length: int
    head: bytes


Frame = tuple[int, bytes | Oversized]


class FrameDecoder:
    """Turn a stream of bytes into frames, keeping the incomplete rest."""

    def __init__(self, frame_bytes_max: int = FRAME_LENGTH_MAX) -> None:
        self.frame_bytes_max = frame_bytes_max
        self._rest = bytearray()
        self._wanted = HEADER_BYTES  # with fewer bytes than this nothing new can come out
        self._skipping: tuple[int, Oversized] | None = None
        self._skip_bytes = 0

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that these bytes complete, in order."""
        frames: list[Frame] = []
        if self._skip_bytes:
            data = self._skip(data, frames)
        if self._rest:
            self._rest += data
            if len(self._rest) < self._wanted:
                return frames
            data = bytes(self._rest)
            self._rest.clear()
        at = 0
        end = len(data)
        while end - at >= HEADER_BYTES:
            (length,) = LENGTH.unpack_from(data, at)
            stop = at + LENGTH.size + length
            if not 2 <= length <= self.frame_bytes_max:
                at = self._begin_skip(data, at, length, frames)
                continue
            if stop > end:
                break
            frames.append((data[at + 4], data[at + HEADER_BYTES : stop]))
            at = stop
        if at < end:
            self._keep(data[at:])
        return frames

    def _keep(self, rest: bytes) -> None:
        self._rest += rest
        self._wanted = HEADER_BYTES
        if len(rest) >= HEADER_BYTES:
            self._wanted = LENGTH.size + LENGTH.unpack_from(rest)[0]

    def _begin_skip(self, data: bytes, at: int, length: int, frames: list[Frame]) -> int:
        if not 2 <= length <= FRAME_LENGTH_MAX:
            raise FramingError(f"frame length {length} is not within 2..{FRAME_LENGTH_MAX}")
        head = at + HEADER_BYTES
        stop = at + LENGTH.size + length
        if stop > len(data) and len(data) - head < OVERSIZED_HEAD_BYTES:
            # Wait for the whole head; it is small, so waiting costs nothing.
            self._rest += data[at:]
            self._wanted = min(HEADER_BYTES + OVERSIZED_HEAD_BYTES, LENGTH.size + length)
            return len(data)
        oversized = Oversized(length, data[head : min(stop, head + OVERSIZED_HEAD_BYTES)])
        self._skipping = (data[at + 4], oversized)
        self._skip_bytes = length - 1
        return len(data) - len(self._skip(data[head:], frames))

    def _skip(self, data: bytes, frames: list[Frame]) -> bytes:
        skipped = min(self._skip_bytes, len(data))
        self._skip_bytes -= skipped
        if self._skip_bytes == 0 and self._skipping is not None:
            frames.append(self._skipping)
            self._skipping = None
        return data[skipped:]


class FrameBuffer:
    """Memory to receive into, kept for the next frame, and the frames that are complete in it.

    A large frame is received where it stays: to let it grow in pieces and to copy it costs several
    times what the network does, because each copy is made of memory that the system has to clear.
    """

    def __init__(self, size: int) -> None:
        self._view = memoryview(bytearray(size))
        self._start = self._end = 0
        self._missing = HEADER_BYTES  # with fewer bytes than this nothing new can come out

    def space(self) -> memoryview:
        """Where the next bytes go. Ends the life of large payloads returned before."""
        if self._start == self._end:
            self._start = self._end = 0
        if self._end + self._missing > len(self._view):
            self._make_room()
        return self._view[self._end :]

    def received(self, count: int) -> list[tuple[int, bytes | memoryview]]:
        """The frames that these bytes complete; a large payload is a view, to be used at once."""
        self._end += count
        self._missing -= count
        if self._missing > 0:
            return []
        frames: list[tuple[int, bytes | memoryview]] = []
        view, at, end = self._view, self._start, self._end
        self._missing = 0
        while end - at >= HEADER_BYTES:
            (length,) = LENGTH.unpack_from(view, at)
            if not 2 <= length <= FRAME_LENGTH_MAX:
                raise FramingError(f"frame length {length} is not within 2..{FRAME_LENGTH_MAX}")
            stop = at + LENGTH.size + length
            if stop > end:
                self._missing = stop - end
                break
            payload = view[at + HEADER_BYTES : stop]
            frames.append((view[at + 4], payload if length > VIEW_FROM_BYTES else bytes(payload)))
            at = stop
        self._start = at
        self._missing = self._missing or HEADER_BYTES - (end - at)
        return frames

    def _make_room(self) -> None:
        begun = bytes(self._view[self._start : self._end])
        needed_bytes = len(begun) + self._missing
        if needed_bytes > len(self._view):
            # A little more, for the next one that is a little larger.
            self._view = memoryview(bytearray(needed_bytes + needed_bytes // 8))
        self._view[: len(begun)] = begun
        self._start, self._end = 0, len(begun)


def frame(operation: int, payload: bytes) -> bytes:
    """One frame, ready to be written at once."""
    return LENGTH.pack(len(payload) + 1) + bytes((operation,)) + payload
