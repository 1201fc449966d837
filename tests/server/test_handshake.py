"""The first frames of a connection, over a real socket."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import cbor2
import pytest
from in_process import ServerInThread
from raw_client import RawClient, hello, request

from penstock.protocol.connection import CONNECT_BYTES_MAX
from penstock.protocol.framing import frame
from penstock.protocol.operations import Operation
from penstock.server import tcp

Connect = Callable[..., RawClient]
Serve = Callable[..., ServerInThread]


def refusal(client: RawClient, status: int) -> str:
    """The text of the refusal that must come now, followed by the end of the connection."""
    answer = client.next_answer()
    assert (answer.operation, answer.status) == (Operation.ConnectResponse, status)
    assert client.at_end()
    return answer.text


def test_a_client_is_told_what_the_server_speaks(client: RawClient) -> None:
    values = dict(client.connected.values)
    assert values.pop("clientIdentifier")
    assert values == {
        "requestId": "connect",
        "status": 0,
        "errorMessage": "",
        "protocolVersion": "1.1.0",
        "supportedProtocolVersions": ["1.1.0", "1.0.0"],
        "serverVersion": "1.1.0",
    }


def test_every_connection_gets_an_identifier_of_its_own(connect: Connect) -> None:
    identifiers = {connect().connected.values["clientIdentifier"] for _ in range(3)}
    assert len(identifiers) == 3


def test_everything_may_arrive_byte_by_byte(connect: Connect, name: str) -> None:
    client = connect(handshake=False)
    client.dribble(hello())
    assert client.next_answer().status == 0
    definition = {"name": name, "strategyOnFull": 0}
    client.dribble(request(Operation.CreateMessageStream, "create", definition=definition))
    assert client.next_answer().request_id == "create"
    client.dribble(request(Operation.AppendMessage, "append", name=name, payload=b"whole"))
    assert client.next_answer().request_id == "append"
    assert client.read(name).payloads == [b"whole"]


@pytest.mark.parametrize("piece_bytes", [2, 3, 5, 7])
def test_pieces_of_any_size_make_the_same_frames(connect: Connect, piece_bytes: int) -> None:
    client = connect(handshake=False)
    client.dribble(hello(), piece_bytes)
    assert client.next_answer().status == 0
    client.dribble(request(Operation.ListStreams, "first"), piece_bytes)
    assert client.next_answer().request_id == "first"


@pytest.mark.parametrize("version", [0, 2, 0x7F, 0xFF])
def test_another_connect_version_is_refused_with_the_version_that_is_spoken(
    connect: Connect, version: int
) -> None:
    client = connect(handshake=False)
    client.send(bytes([version]))
    assert f"connect version {version} is not supported" in refusal(client, 8)


@pytest.mark.parametrize("operation", [0, 2, 4, 6, 17, 64, 255])
def test_the_first_operation_must_be_connect(connect: Connect, operation: int) -> None:
    client = connect(handshake=False)
    client.send(b"\x01", request(operation, "early", name="any"))
    assert f"must be Connect (1), not {operation}" in refusal(client, 9)


@pytest.mark.parametrize(
    ("wanted", "others", "spoken"),
    [
        ("1.1.0", [], "1.1.0"),
        ("1.0.0", None, "1.0.0"),
        ("1.0.0", ["1.1.0"], "1.0.0"),
        ("9.0.0", ["1.0.0", "1.1.0"], "1.1.0"),
        ("1.2.0", ["1.0.0"], "1.0.0"),
    ],
)
def test_both_sides_agree_on_a_version(
    connect: Connect, wanted: str, others: list[str] | None, spoken: str
) -> None:
    client = connect(protocolVersion=wanted, otherSupportedProtocolVersions=others)
    assert (client.connected.status, client.connected.values["protocolVersion"]) == (0, spoken)
    assert client.is_served()


def test_a_version_that_nobody_speaks_is_refused(connect: Connect) -> None:
    client = connect(handshake=False)
    client.send(hello(protocolVersion="2.0.0", otherSupportedProtocolVersions=["3.0.0"]))
    assert "this server speaks 1.1.0 and 1.0.0" in refusal(client, 10)


@pytest.mark.parametrize("version", ["", "1", "1.1", "1.1.0.0", "v1.1.0", "1.1.x", "1.1.0\n"])
def test_a_version_of_another_form_is_refused(connect: Connect, version: str) -> None:
    client = connect(handshake=False)
    client.send(hello(protocolVersion=version))
    assert "is not of the form 1.1.0" in refusal(client, 11)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"protocolVersion": None}, "protocolVersion: is required"),
        ({"protocolVersion": 11}, "protocolVersion"),
        ({"otherSupportedProtocolVersions": "1.0.0"}, "otherSupportedProtocolVersions"),
        ({"authToken": 7}, "authToken"),
        ({"requestId": None}, "requestId"),
        ({"requestId": "a/b"}, "requestId"),
        ({"requestId": 5}, "requestId"),
    ],
)
def test_a_malformed_connect_is_refused_with_the_name_of_its_field(
    connect: Connect, changes: dict[str, Any], field: str
) -> None:
    client = connect(handshake=False)
    client.send(hello(**changes))
    assert field in refusal(client, 3)


@pytest.mark.parametrize("payload", [b"\xff", b"\x80", b"\xa1", b"\xc0\xa0", b"\x1c" * 9])
def test_a_connect_that_is_no_map_is_refused(connect: Connect, payload: bytes) -> None:
    client = connect(handshake=False)
    client.send(b"\x01", frame(Operation.Connect, payload))
    assert refusal(client, 3)


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 1, 2**30 + 1, 2**31 - 1])
def test_a_length_that_cannot_be_is_refused_before_the_handshake(
    connect: Connect, length: int
) -> None:
    client = connect(handshake=False)
    client.send(b"\x01", struct.pack(">ib", length, 1))
    assert f"frame length {length} is not within 2..1073741824" in refusal(client, 3)


def test_a_connect_above_the_limit_for_strangers_is_refused(connect: Connect) -> None:
    client = connect(handshake=False)
    client.send(hello(authToken="x" * CONNECT_BYTES_MAX))
    assert f"exceeds {CONNECT_BYTES_MAX}" in refusal(client, 4)


def test_a_connect_just_below_the_limit_is_served(connect: Connect) -> None:
    client = connect(authToken="x" * (CONNECT_BYTES_MAX - 200))
    assert client.is_served()


def test_a_refused_client_can_read_why_although_it_goes_on_sending(connect: Connect) -> None:
    client = connect(handshake=False)
    client.send(b"\x02")
    client.send(bytes(300_000))
    assert "connect version 2" in refusal(client, 8)


def test_a_second_connect_is_refused_without_a_version_byte_and_the_connection_lives(
    client: RawClient,
) -> None:
    client.send(frame(Operation.Connect, cbor2.dumps({"requestId": "again"})))
    answer = client.next_answer()
    assert (answer.operation, answer.status) == (Operation.ConnectResponse, 9)
    assert answer.request_id == "again"
    assert "connected already" in answer.text
    assert client.is_served()


def test_a_client_that_says_nothing_does_not_delay_others(
    connect: Connect, client: RawClient
) -> None:
    silent = [connect(handshake=False) for _ in range(20)]
    half = connect(handshake=False)
    half.send(hello()[:9])
    assert client.is_served()
    silent[0].send(hello())
    assert silent[0].next_answer().status == 0
    half.send(hello()[9:])
    assert half.next_answer().status == 0


def test_a_client_that_says_nothing_for_too_long_is_told_and_loses_its_place(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tcp, "HANDSHAKE_WITHIN_S", 0.2)
    server = serve(connections_max=1)
    with RawClient(server.port, handshake=False) as silent:
        assert "no Connect request came within 0.2 seconds" in refusal(silent, 12)
        with RawClient(server.port) as client:
            assert client.is_served()
            assert client.hears_nothing_for(0.4), "a connected client may be silent for ever"
            assert client.is_served()


def test_one_client_too_many_is_refused_with_the_limit(serve: Serve) -> None:
    server = serve(connections_max=2)
    with RawClient(server.port) as first, RawClient(server.port) as second:
        for _ in range(3):
            with RawClient(server.port, handshake=False) as third:
                text = "2 clients are connected already; that is the limit (connections_max)"
                assert text in refusal(third, 12)
        assert first.is_served()
        assert second.is_served()


def test_refused_clients_that_linger_take_nobodys_place(serve: Serve) -> None:
    server = serve(connections_max=2)
    with RawClient(server.port) as first, RawClient(server.port) as second:
        lingering = [RawClient(server.port, handshake=False) for _ in range(5)]
        assert all(client.next_answer().status == 12 for client in lingering)
        second.socket.close()
        assert eventually_connected(server.port)
        assert first.is_served()
        for client in lingering:
            client.close()


def eventually_connected(port: int) -> bool:
    """The server sees another client's end soon, but not before we can ask; ask a few times."""
    for _ in range(20):
        with RawClient(port) as client:
            if client.connected.status == 0:
                return True
    return False
