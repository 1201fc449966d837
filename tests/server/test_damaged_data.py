"""Damage on disk: a reader is told which messages it hit and where to read on, and can."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from in_process import ServerInThread
from raw_client import ALL_EXTENSIONS, Answer, RawClient

from penstock.protocol.operations import Operation
from server_process import ServerProcess

COUNT = 30
DAMAGED = 12
PAYLOAD_BYTES = 100


def payload(number: int) -> bytes:
    return b"%02d" % number * (PAYLOAD_BYTES // 2)


def fill(client: RawClient) -> None:
    client.create("s")
    client.append("s", *(payload(number) for number in range(COUNT)))


def flip_a_bit(data_dir: Path, kind: str) -> None:
    """In the payload or in the index entry of one message."""
    (path,) = data_dir.glob(f"streams/*/*.{kind}")
    content = bytearray(path.read_bytes())
    position = DAMAGED * (PAYLOAD_BYTES if kind == "data" else 32) + 7
    content[position] ^= 0x10
    path.write_bytes(content)


def damaged(answer: Answer) -> int:
    """Check the refusal; the number it says to read on from."""
    assert answer.status == 14
    assert f"messages {DAMAGED} to" in answer.text
    assert "damaged" in answer.text
    found = re.search(r"read on from (\d+)", answer.text)
    assert found is not None
    return int(found[1])


@pytest.mark.parametrize("kind", ["data", "index"])
def test_a_damaged_message_is_named_and_those_before_and_after_it_can_be_read(
    server: ServerProcess, kind: str
) -> None:
    with RawClient(server.port) as client:
        fill(client)
    server.stop()
    flip_a_bit(server.data_dir, kind)
    server.restart()

    with RawClient(server.port, extensions=ALL_EXTENSIONS) as client:
        go_on = damaged(client.read("s", DAMAGED))
        assert go_on == DAMAGED + 1
        assert damaged(client.read("s", 5, 20)) == go_on
        assert damaged(client.call(Operation.ReadBlocks, **start_at(DAMAGED))) == go_on

        before = client.read("s", 0, DAMAGED)
        assert before.payloads == [payload(number) for number in range(DAMAGED)]
        after = client.read("s", go_on, COUNT - go_on)
        assert after.payloads == [payload(number) for number in range(go_on, COUNT)]
        (block,) = client.call(Operation.ReadBlocks, **start_at(go_on)).blocks
        assert block.intact()

        # Up to the damage without a word of it: the minimum is met.
        answer = client.read("s", 5, 1, maxMessageCount=20)
        assert answer.sequences == list(range(5, DAMAGED))
        assert client.append("s", b"new") == [COUNT]
        assert client.read("s", COUNT).payloads == [b"new"]
    server.stop()
    assert "Traceback" not in server.log
    assert re.search(r"ERROR .* Damaged data: messages 12 to 12", server.log)


def start_at(number: int) -> dict[str, object]:
    options = {"desiredStartSequenceNumber": number, "maxMessageCount": COUNT}
    return {"streamName": "s", "readMessagesOptions": options}


def test_a_minimum_beyond_the_soft_limit_that_meets_damage_says_so(
    serve: Callable[..., ServerInThread],
) -> None:
    """The first part of the answer is fetched, then more of it, then comes the damage."""
    server = serve(response_bytes_max=4096)
    with RawClient(server.port) as client:
        client.create("s")
        client.append_many("s", [bytes(1000)] * COUNT)
        (path,) = server.folder.glob("streams/*/*.data")
        with open(path, "r+b") as file:
            file.seek(DAMAGED * 1000)
            file.write(b"\x01")
        assert damaged(client.read("s", 0, 20)) == DAMAGED + 1
        assert client.read("s", 0, 10).status == 0
