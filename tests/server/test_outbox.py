"""How frames leave: one system call each for AWS's clients, never with a split length."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import struct
from collections.abc import Awaitable, Callable, Iterable
from typing import cast

import pytest

from penstock.protocol.framing import FrameDecoder, frame
from penstock.server import outbox as outbox_module
from penstock.server.app import _loop_factory
from penstock.server.outbox import Outbox

LENGTH_BYTES = 4


class Sender(asyncio.Protocol):
    """The server's end of a connection, with an outbox and nothing else."""

    def __init__(self) -> None:
        self.made = asyncio.get_running_loop().create_future()
        self.changed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.outbox = Outbox(self.transport, asyncio.get_running_loop(), self.on_sent)
        self.made.set_result(None)

    def pause_writing(self) -> None:
        self.outbox.blocked()

    def resume_writing(self) -> None:
        self.outbox.unblocked()

    def connection_lost(self, error: Exception | None) -> None:
        self.outbox.close()
        self.changed.set()

    def on_sent(self) -> None:
        self.changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Look again whenever the outbox has done something."""
        while not condition():
            self.changed.clear()
            await self.changed.wait()


class Calls:
    """Every writev of an outbox: what was offered, and how much the kernel took."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.taken: list[tuple[bytes, int]] = []
        writev = os.writev

        def recorded(descriptor: int, pieces: list[bytes]) -> int:
            taken = writev(descriptor, pieces)
            self.taken.append((b"".join(pieces), taken))
            return taken

        monkeypatch.setattr(outbox_module.os, "writev", recorded)


def with_connection(
    talk: Callable[[Sender, socket.socket], Awaitable[None]], *, small: bool = False
) -> None:
    """Run a conversation between an outbox and a plain socket, over TCP and the server's loop."""

    async def run() -> None:
        loop = asyncio.get_running_loop()
        sender = Sender()
        listener = socket.create_server(("127.0.0.1", 0))
        listener.setblocking(False)
        if small:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 20_000)
        server = await loop.create_server(lambda: sender, sock=listener)
        reader = socket.socket()
        if small:
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.setblocking(False)
        await loop.sock_connect(reader, listener.getsockname())
        try:
            async with asyncio.timeout(20):
                await sender.made
                await talk(sender, reader)
        finally:
            sender.transport.abort()
            reader.close()
            server.close()
            await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(run())


async def read_frames(reader: socket.socket, count: int, at_once: int = 1 << 16) -> list[bytes]:
    loop = asyncio.get_running_loop()
    decoder = FrameDecoder()
    frames: list[bytes] = []
    while len(frames) < count:
        data = await loop.sock_recv(reader, at_once)
        assert data, "the connection ended early"
        for _, payload in decoder.feed(data):
            assert isinstance(payload, bytes)
            frames.append(payload)
    return frames


def payloads(sizes: Iterable[int]) -> list[bytes]:
    return [struct.pack(">I", number) + bytes(size) for number, size in enumerate(sizes)]


def test_each_frame_of_a_turn_is_a_system_call_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = Calls(monkeypatch)
    sent = payloads(range(1, 50))

    async def talk(sender: Sender, reader: socket.socket) -> None:
        for payload in sent:
            sender.outbox.put(frame(9, payload))
        assert await read_frames(reader, len(sent)) == sent

    with_connection(talk)
    assert [offered for offered, _ in calls.taken] == [frame(9, payload) for payload in sent]


def test_frames_of_a_turn_go_together_to_clients_that_can_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = Calls(monkeypatch)
    sent = payloads(range(1, 50))

    async def talk(sender: Sender, reader: socket.socket) -> None:
        sender.outbox.together = True
        for payload in sent:
            whole = frame(9, payload)
            sender.outbox.put(whole[:7], whole[7:])
        assert await read_frames(reader, len(sent)) == sent

    with_connection(talk)
    assert len(calls.taken) == 1


@pytest.mark.parametrize("seed", range(6))
def test_the_length_of_a_frame_is_never_split_by_a_full_kernel_buffer(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """The reader falls behind again and again; sizes are such that any split could happen."""
    chance = random.Random(seed)
    calls = Calls(monkeypatch)
    sent = payloads([chance.choice([80, 91, 107, 300]) for _ in range(3000)])

    async def talk(sender: Sender, reader: socket.socket) -> None:
        for payload in sent:
            sender.outbox.put(frame(9, payload))
        await sender.changed.wait()
        assert sender.outbox.unsent_bytes > 0, "it ran into the wall"
        assert await read_frames(reader, len(sent), at_once=700) == sent
        await sender.until(lambda: sender.outbox.unsent_bytes == 0)

    with_connection(talk, small=True)
    taken = [taken for _, taken in calls.taken]
    assert not [count for count in taken if 0 < count < LENGTH_BYTES]
    starts = {offered[LENGTH_BYTES + 1 : LENGTH_BYTES + 5] for offered, _ in calls.taken}
    assert len(starts) == len(sent), "every frame began with a call of its own"


def test_a_waiting_outbox_watches_the_kernel_and_lets_go_when_the_client_does() -> None:
    async def talk(sender: Sender, reader: socket.socket) -> None:
        for payload in payloads([100] * 3000):
            sender.outbox.put(frame(9, payload))
        await sender.until(lambda: sender.outbox._watched is not None)
        watched = sender.outbox._watched
        assert watched is not None
        reader.close()
        await sender.until(lambda: sender.outbox._watched is None)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(watched)

    with_connection(talk, small=True)


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("small", [False, True])
def test_unsent_bytes_are_what_the_kernel_has_not_taken(together: bool, small: bool) -> None:
    """Otherwise a connection would pause for ever, or a stop would wait in vain."""
    chance = random.Random(2)
    sent = payloads([chance.choice([10, 1000, 70_000, 3_000_000]) for _ in range(40)])

    async def talk(sender: Sender, reader: socket.socket) -> None:
        sender.outbox.together = together
        received = asyncio.create_task(read_frames(reader, len(sent)))
        for payload in sent:
            sender.outbox.put(frame(9, payload))
            if chance.random() < 0.5:
                await asyncio.sleep(0)
        assert await received == sent
        await sender.until(lambda: sender.outbox.unsent_bytes == 0)

    with_connection(talk, small=small)


@pytest.mark.parametrize("together", [False, True])
def test_a_rest_that_goes_out_at_once_is_not_counted_as_unsent(
    monkeypatch: pytest.MonkeyPatch, together: bool
) -> None:
    """The kernel takes half of a frame and, a moment later, all of the rest."""
    writev = os.writev

    def half(descriptor: int, pieces: list[bytes]) -> int:
        whole = b"".join(pieces)
        return writev(descriptor, [whole[: max(LENGTH_BYTES, len(whole) // 2)]])

    monkeypatch.setattr(outbox_module.os, "writev", half)
    sent = payloads([10, 500, 90_000])

    async def talk(sender: Sender, reader: socket.socket) -> None:
        sender.outbox.together = together
        for payload in sent:
            whole = frame(9, payload)
            sender.outbox.put(*((whole[:5], whole[5:]) if together else (whole,)))
            assert await read_frames(reader, 1) == [payload]
            await sender.until(lambda: sender.outbox.unsent_bytes == 0)

    with_connection(talk)
