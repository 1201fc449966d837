"""Bytes that nobody meant: whatever comes, the server lives, and serves the others."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path

import cbor2
import pytest
from raw_client import ALL_EXTENSIONS, RawClient, hello, request

from penstock.protocol.framing import frame
from penstock.protocol.operations import Operation
from server_process import ServerProcess

VECTORS = json.loads((Path(__file__).parent.parent / "golden" / "vectors.json").read_text())
HANDSHAKES = [
    bytes.fromhex(vector["hex"]) for vector in VECTORS if vector["operation"] == "Connect"
]
REQUESTS = [
    bytes.fromhex(vector["hex"])
    for vector in VECTORS
    if vector["direction"] == "client->server" and vector["operation"] != "Connect"
]
BATCH = {"name": "fuzz", "sizes": b"\x01\0\0\0\x02\0\0\0", "data": b"abc"}
REQUESTS += [
    request(Operation.AppendMessages, "batch", **BATCH),
    request(Operation.ReadBlocks, "blocks", streamName="fuzz", readMessagesOptions={}),
]
FUZZ_S = 1.2


def mutated(chance: random.Random, data: bytes) -> bytes:
    """The same bytes with one to three accidents."""
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(data))
        accident = chance.randrange(6)
        if accident == 0:
            data = data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
        elif accident == 1:
            data = data[:at] + chance.randbytes(chance.randint(1, 9)) + data[at:]
        elif accident == 2:
            data = data[:at] + data[at + chance.randint(1, 9) :] or b"\x00"
        elif accident == 3:
            data = data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
        elif accident == 4:
            other = chance.choice(REQUESTS)
            data = data[:at] + other[chance.randrange(len(other)) :]
        else:
            data = data[:at] + data[at : at + 9] * chance.randint(2, 40) + data[at + 9 :]
    return data


def with_right_length(chance: random.Random, data: bytes) -> bytes:
    """A frame whose content is damaged but whose length is right, so that the codec sees it."""
    payload = mutated(chance, data[5:])
    return frame(data[4], payload)


def random_value(chance: random.Random, depth: int = 0) -> object:
    """Any value that CBOR knows."""
    kind = chance.randrange(7 if depth > 3 else 9)
    if kind == 7:
        return [random_value(chance, depth + 1) for _ in range(chance.randrange(4))]
    if kind == 8:
        return {random_text(chance): random_value(chance, depth + 1) for _ in range(3)}
    return (
        None,
        chance.random() < 0.5,
        chance.choice([0, 1, -1, 2**31, 2**53, 2**63 - 1, 2**63, -(2**63), 60_000]),
        chance.choice([0.0, 1.5, -1.0, 2.0**63, 1e300, float("inf"), float("nan")]),
        random_text(chance),
        chance.randbytes(chance.randrange(20)),
        chance.randrange(2000),
    )[kind]


def random_text(chance: random.Random) -> str:
    known = ["name", "fuzz", "definition", "payload", "sizes", "data", "é", "", "x" * 300]
    return chance.choice([*known, "streamName", "readMessagesOptions", "exportDefinition", "http"])


def well_formed_nonsense(chance: random.Random) -> bytes:
    """A request of a known operation whose fields hold anything."""
    operation = chance.choice([2, 3, 4, 5, 11, 13, 15, 64, 66])
    names = ["name", "payload", "streamName", "readMessagesOptions", "definition", "sizes", "data"]
    definition = ["name", "maxSize", "strategyOnFull", "exportDefinition", "persistence"]
    fields = {name: random_value(chance) for name in chance.sample(names, 4)}
    if chance.random() < 0.5:
        fields["definition"] = {key: random_value(chance) for key in definition}
    return frame(operation, cbor2.dumps({"requestId": "nonsense", **fields}))


def attacks(chance: random.Random) -> Iterator[bytes]:
    """What one connection sends, after the version byte."""
    while True:
        yield mutated(chance, chance.choice(HANDSHAKES))
        yield chance.randbytes(chance.randint(1, 200))
        greeting = hello(penstock=list(ALL_EXTENSIONS))
        yield greeting + b"".join(mutated(chance, chance.choice(REQUESTS)) for _ in range(5))
        yield greeting + b"".join(
            with_right_length(chance, chance.choice(REQUESTS)) for _ in range(5)
        )
        yield greeting + b"".join(well_formed_nonsense(chance) for _ in range(30))


def attack(port: int, data: bytes) -> None:
    """Send, say that this was all, and take whatever comes until the server closes."""
    with RawClient(port, handshake=False) as client:
        try:
            client.send(data)
            client.socket.shutdown(1)
            while client.socket.recv(1 << 16):
                pass
        except (ConnectionResetError, BrokenPipeError):
            pass  # the server may have seen enough before we were done


@pytest.mark.parametrize("seed", [1, 2])
def test_no_bytes_whatsoever_disturb_the_server(server: ServerProcess, seed: int) -> None:
    chance = random.Random(seed)
    with RawClient(server.port) as witness:
        witness.create("witness")
        witness.append("witness", b"before")
        until = time.monotonic() + FUZZ_S
        for data in attacks(chance):
            attack(server.port, data)
            if time.monotonic() > until:
                break
        assert witness.append("witness", b"after") == [1]
        assert witness.read("witness", 0, 2).payloads == [b"before", b"after"]
    server.stop()
    assert "Traceback" not in server.log
    assert "unexpectedly" not in server.log
    server.restart()
    with RawClient(server.port) as client:
        assert client.read("witness", 0, 2).payloads == [b"before", b"after"]
