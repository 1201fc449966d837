"""The handshake and what it settles, for both sides, without a socket."""

from __future__ import annotations

import struct
from typing import Any

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import (
    ConnectFailedException,
    ResponseStatusCode,
    UnauthorizedException,
)
from penstock.protocol.connection import (
    CONNECT_BYTES_MAX,
    ClientConnection,
    ServerConnection,
    negotiated_version,
)
from penstock.protocol.framing import FrameDecoder, FramingError, Oversized, frame
from penstock.protocol.operations import OPERATIONS, Extension, Operation

no_deadline = settings(deadline=None)

HELLO = {"requestId": "r", "protocolVersion": "1.1.0", "sdkVersion": "1.1.2"}
LIST_STREAMS = frame(Operation.ListStreams, cbor2.dumps({"requestId": "r"}))


def connection_with(token: str | None = None, **options: Any) -> ServerConnection:
    return ServerConnection(lambda given: given == (token or given), "1.1.0", "id-1", **options)


def hello(**changes: Any) -> bytes:
    values = {name: value for name, value in (HELLO | changes).items() if value is not None}
    return b"\x01" + frame(Operation.Connect, cbor2.dumps(values))


def connected(**changes: Any) -> ServerConnection:
    connection = connection_with()
    connection.receive(hello(**changes))
    assert connection.refused is None
    return connection


def answer(connection: ServerConnection) -> dict[str, Any]:
    """The map of the reply, after checking that it is a version byte and one whole frame."""
    assert connection.reply[:1] == b"\x01"
    ((operation, payload),) = FrameDecoder().feed(connection.reply[1:])
    assert operation == Operation.ConnectResponse
    assert isinstance(payload, bytes)
    values = cbor2.loads(payload)
    assert isinstance(values, dict)
    assert None not in values.values()
    return values


# --- versions -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "others", "expected"),
    [
        ("1.1.0", [], "1.1.0"),
        ("1.0.0", [], "1.0.0"),
        ("1.0.0", ["1.1.0"], "1.0.0"),
        ("1.2.0", ["1.0.0", "1.1.0"], "1.1.0"),
        ("2.0.0", ["1.0.0"], "1.0.0"),
        ("2.0.0", ["3.0.0"], None),
        ("1.2.0", [], None),
    ],
)
def test_the_wanted_version_wins_then_the_highest_of_the_others(
    wanted: str, others: list[str], expected: str | None
) -> None:
    assert negotiated_version(wanted, others) == expected

    connection = connection_with()
    connection.receive(hello(protocolVersion=wanted, otherSupportedProtocolVersions=others))
    if expected is None:
        assert answer(connection)["status"] == ResponseStatusCode.UnsupportedProtocolVersion
        assert "1.1.0 and 1.0.0" in answer(connection)["errorMessage"]
    else:
        assert answer(connection)["status"] == ResponseStatusCode.Success
        assert answer(connection)["protocolVersion"] == connection.protocol_version == expected
        assert answer(connection)["supportedProtocolVersions"] == ["1.1.0", "1.0.0"]


@pytest.mark.parametrize(
    "version", ["", "1", "1.1", "1.1.0.0", "v1.1.0", "1.1.x", "1.1.0\n", "\u0661.\u0661.\u0660"]
)
def test_a_version_of_another_form_is_invalid(version: str) -> None:
    connection = connection_with()

    connection.receive(hello(protocolVersion=version, otherSupportedProtocolVersions=["1.1.0"]))

    assert answer(connection)["status"] == ResponseStatusCode.InvalidProtocolVersion
    assert repr(version) in answer(connection)["errorMessage"]


def test_an_old_client_gets_the_nearest_status_that_it_knows() -> None:
    old, new = connected(protocolVersion="1.0.0"), connected()

    for status in ResponseStatusCode:
        assert new.status_for_client(status) == status
        assert old.status_for_client(status) <= ResponseStatusCode.MessageStoreReadError
    assert old.status_for_client(ResponseStatusCode.ResourceNotFound) == 5
    assert old.status_for_client(ResponseStatusCode.OutOfMemoryError) == 1
    assert old.status_for_client(ResponseStatusCode.UpdateNotAllowed) == 3


# --- tokens -------------------------------------------------------------------------------------


def test_the_right_token_opens() -> None:
    connection = connection_with("secret")

    connection.receive(hello(authToken="secret"))

    assert connection.refused is None
    assert answer(connection)["clientIdentifier"] == "id-1"


@pytest.mark.parametrize(
    ("token", "text"),
    [("wrong", "the token is wrong"), ("", "a token is needed"), (None, "a token is needed")],
)
def test_without_the_right_token_the_client_is_unauthorized(token: str | None, text: str) -> None:
    connection = connection_with("secret")

    assert connection.receive(hello(authToken=token) + LIST_STREAMS) == []

    assert answer(connection)["status"] == ResponseStatusCode.Unauthorized
    assert answer(connection)["requestId"] == "r"
    assert text in answer(connection)["errorMessage"]
    assert "secret" not in answer(connection)["errorMessage"]
    assert "clientIdentifier" not in answer(connection)


def test_the_version_is_judged_before_the_token() -> None:
    connection = connection_with("secret")

    connection.receive(hello(protocolVersion="9.0.0", authToken="wrong"))

    assert answer(connection)["status"] == ResponseStatusCode.UnsupportedProtocolVersion


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "status", "text"),
    [
        (b"\x02", 8, "connect version 2 is not supported"),
        (b"\x00" + hello()[1:], 8, "connect version 0"),
        (b"GET / HTTP/1.1\r\n\r\n", 8, "connect version 71"),
        (b"\x01" + LIST_STREAMS, 9, "must be Connect (1), not 11"),
        (b"\x01" + frame(1, b"\xff"), 3, "not CBOR"),
        (b"\x01" + frame(1, b"\x80"), 3, "not a CBOR map"),
        (b"\x01" + frame(1, b"\xa0"), 3, "requestId"),
        (hello(protocolVersion=None), 3, "protocolVersion: is required"),
        (hello(protocolVersion=11), 3, "protocolVersion: Expected `str`"),
        (hello(authToken=5), 3, "authToken"),
        (hello(penstock="read-blocks"), 3, "penstock"),
        (hello(requestId=5), 3, "requestId"),
        (b"\x01" + struct.pack(">ib", 1, 1), 3, "frame length 1"),
        (b"\x01" + struct.pack(">ib", 2**30 + 1, 1), 3, "frame length 1073741825"),
        (hello(authToken="x" * CONNECT_BYTES_MAX), 4, f"exceeds {CONNECT_BYTES_MAX}"),
    ],
)
@pytest.mark.parametrize("chunk_bytes", [1, 10**6])
def test_a_broken_handshake_is_refused_with_a_whole_answer(
    sent: bytes, status: int, text: str, chunk_bytes: int
) -> None:
    connection = connection_with()

    for at in range(0, len(sent), chunk_bytes):
        assert connection.receive(sent[at : at + chunk_bytes]) == []

    assert answer(connection)["status"] == status
    assert text in answer(connection)["errorMessage"]
    assert connection.refused == answer(connection)["errorMessage"]
    assert connection.protocol_version is None


def test_a_refusal_repeats_the_request_id_where_there_is_one() -> None:
    connection = connection_with()

    connection.receive(hello(requestId=" ", protocolVersion="1"))

    assert answer(connection)["requestId"] == " "


@pytest.mark.parametrize("first", [b"\x02", hello(authToken="wrong")])
def test_who_was_refused_stays_refused(first: bytes) -> None:
    connection = connection_with("secret")
    connection.receive(first)
    refusal = connection.reply

    assert connection.receive(hello(authToken="secret") + LIST_STREAMS) == []

    assert connection.reply == refusal
    assert connection.refused is not None
    assert connection.protocol_version is None


def test_a_server_can_refuse_before_anything_arrived() -> None:
    connection = connection_with()

    connection.refuse_at_once("1000 clients are connected already")

    assert answer(connection)["status"] == ResponseStatusCode.FailedToConnect
    assert answer(connection)["errorMessage"] == "1000 clients are connected already"
    assert "requestId" not in answer(connection)
    assert connection.receive(hello() + LIST_STREAMS) == []


@no_deadline
@given(st.binary(max_size=300), st.booleans())
def test_whatever_comes_first_is_waited_for_or_refused(data: bytes, with_version: bool) -> None:
    connection = connection_with("secret")

    frames = connection.receive(b"\x01" * with_version + data)

    assert frames == []
    assert connection.protocol_version is None
    assert (connection.reply != b"") == (connection.refused is not None)
    if connection.refused is not None:
        assert answer(connection)["status"] != ResponseStatusCode.Success


# --- after the handshake ------------------------------------------------------------------------


def test_nothing_is_said_until_the_connect_request_is_whole() -> None:
    connection = connection_with()

    for byte in hello()[:-1]:
        assert connection.receive(bytes((byte,))) == []
        assert connection.reply == b""
    assert connection.receive(b"") == []
    connection.receive(hello()[-1:])

    assert answer(connection)["status"] == ResponseStatusCode.Success
    assert connection.sdk_version == "1.1.2"


def test_an_sdk_that_does_not_tell_its_version_is_unknown() -> None:
    assert connected(sdkVersion=None).sdk_version == "unknown"


def test_frames_behind_the_connect_request_are_not_lost() -> None:
    connection = connection_with()

    frames = connection.receive(hello() + LIST_STREAMS + LIST_STREAMS[:3])
    frames += connection.receive(LIST_STREAMS[3:])

    assert [operation for operation, _ in frames] == [11, 11]


def test_the_limit_on_frames_rises_with_the_handshake() -> None:
    connection = connection_with(frame_bytes_max=2 * CONNECT_BYTES_MAX)
    connection.receive(hello())
    within = frame(4, bytes(2 * CONNECT_BYTES_MAX - 1))
    above = frame(4, bytes(2 * CONNECT_BYTES_MAX))

    assert connection.receive(within) == [(4, within[5:])]
    ((_, oversized),) = connection.receive(above)
    assert isinstance(oversized, Oversized)
    assert oversized.length == 2 * CONNECT_BYTES_MAX + 1


def test_a_bad_length_after_the_handshake_is_the_callers_to_end() -> None:
    with pytest.raises(FramingError):
        connected().receive(struct.pack(">ib", 0, 4))


def test_a_second_connect_is_only_a_frame() -> None:
    """Its answer, status 9 without a version byte, is the server's to give."""
    connection = connected()
    connection.reply = b""

    assert connection.receive(hello()[1:]) == [(Operation.Connect, hello()[6:])]
    assert connection.reply == b""
    assert connection.known(Operation.Connect) is not None


# --- what a connection may use ------------------------------------------------------------------

REQUESTS_OF_1_0_0 = {1, 2, 3, 4, 5, 11, 13}


def known_operations(connection: ServerConnection) -> set[int]:
    return {number for number in range(256) if connection.known(number) is not None}


@pytest.mark.parametrize(
    ("changes", "more"),
    [
        ({}, {15}),
        ({"protocolVersion": "1.0.0"}, set()),
        ({"penstock": ["append-messages"]}, {15, 64}),
        ({"penstock": ["read-blocks"]}, {15, 66}),
        ({"penstock": ["read-blocks", "append-messages"]}, {15, 64, 66}),
        ({"penstock": ["from-the-future"]}, {15}),
        ({"penstock": []}, {15}),
    ],
)
def test_a_connection_knows_what_its_version_and_its_extensions_allow(
    changes: dict[str, Any], more: set[int]
) -> None:
    connection = connected(**changes)

    assert known_operations(connection) == REQUESTS_OF_1_0_0 | more
    for number in known_operations(connection):
        assert connection.known(number) == (Operation(number), OPERATIONS[Operation(number)])


def test_the_answer_names_the_extensions_that_were_granted() -> None:
    wanted = ["read-blocks", "from-the-future", "append-messages"]

    assert answer(connected(penstock=wanted))["penstock"] == ["append-messages", "read-blocks"]
    assert answer(connected(penstock=["read-blocks"]))["penstock"] == ["read-blocks"]


@pytest.mark.parametrize("penstock", [None, [], ["from-the-future"]])
def test_who_asks_for_no_extension_never_hears_of_them(penstock: list[str] | None) -> None:
    assert "penstock" not in answer(connected(penstock=penstock))


# --- the client's side --------------------------------------------------------------------------


@pytest.mark.parametrize("chunk_bytes", [1, 3, 10**6])
@pytest.mark.parametrize("wanted", [Extension.CLIENTS, (Extension.READ_BLOCKS,), ()])
def test_our_client_and_our_server_agree(chunk_bytes: int, wanted: tuple[str, ...]) -> None:
    server = connection_with("secret")
    client = ClientConnection("0.1.0", "secret", wanted)

    assert server.receive(client.hello()) == []
    raw = server.reply + LIST_STREAMS
    frames = []
    for at in range(0, len(raw), chunk_bytes):
        frames += client.receive(raw[at : at + chunk_bytes])

    assert client.connected is not None
    assert client.connected.protocol_version == "1.1.0"
    assert client.extensions == set(server.extensions) == set(wanted)
    assert frames == [(Operation.ListStreams, LIST_STREAMS[5:])]
    assert client.receive(LIST_STREAMS) == frames


def test_our_client_asks_for_both_versions_and_sends_no_empty_fields() -> None:
    plain = cbor2.loads(ClientConnection("0.1.0", "", ()).hello()[6:])
    full = cbor2.loads(ClientConnection("0.1.0", "secret").hello()[6:])

    assert plain == {
        "requestId": "connect",
        "protocolVersion": "1.1.0",
        "otherSupportedProtocolVersions": ["1.0.0"],
        "sdkVersion": "0.1.0",
    }
    assert full == plain | {
        "authToken": "secret",
        "penstock": [
            "append-messages",
            "read-blocks",
            "append-once",
            "survey",
            "observe",
            "export-status",
        ],
    }


def test_a_server_without_extensions_grants_none() -> None:
    client = ClientConnection("0.1.0")

    client.receive(b"\x01" + frame(6, cbor2.dumps({"requestId": "connect", "status": 0})))

    assert client.extensions == frozenset()


def test_a_refused_token_is_both_exceptions_that_sdks_raise() -> None:
    server = connection_with("secret")
    client = ClientConnection("0.1.0", "wrong")
    server.receive(client.hello())

    with pytest.raises(UnauthorizedException, match="the token is wrong") as raised:
        client.receive(server.reply)

    assert isinstance(raised.value, ConnectFailedException)
    assert raised.value.status == ResponseStatusCode.Unauthorized


@pytest.mark.parametrize("status", [1, 8, 9, 10, 11, 12])
def test_any_other_refusal_is_a_failed_connect_with_status_and_reason(status: int) -> None:
    values = {"requestId": "connect", "status": status, "errorMessage": "because"}

    with pytest.raises(ConnectFailedException, match="because") as raised:
        ClientConnection("0.1.0").receive(b"\x01" + frame(6, cbor2.dumps(values)))

    assert raised.value.status == status
    assert raised.value.request_id == "connect"
    assert not isinstance(raised.value, UnauthorizedException)


@pytest.mark.parametrize("status", [2, 3])
def test_a_refusal_without_a_reason_still_has_a_text(status: int) -> None:
    with pytest.raises(ConnectFailedException, match="the server refused the connection"):
        ClientConnection("0.1.0").receive(b"\x01" + frame(6, cbor2.dumps({"status": status})))


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        (b"H", "began with byte 72, not 1"),
        (b"\x01" + struct.pack(">ib", 0, 6), "unreadable: frame length 0"),
        (b"\x01" + LIST_STREAMS, "expected ConnectResponse (6), got operation 11"),
        (b"\x01" + frame(6, b"\xff"), "not CBOR"),
        (b"\x01" + frame(6, cbor2.dumps({"status": 99})), "status: Invalid enum value 99"),
        (b"\x01" + frame(6, cbor2.dumps({"requestId": "connect"})), "the server refused"),
    ],
)
def test_what_is_no_stream_manager_is_a_failed_connect(sent: bytes, text: str) -> None:
    client = ClientConnection("0.1.0")

    with pytest.raises(ConnectFailedException) as raised:
        client.receive(sent)

    assert text in str(raised.value)
    assert client.connected is None


JUNK = st.dictionaries(st.sampled_from(["requestId", "status", "penstock"]), st.integers(0, 20))
ANSWERS = st.one_of(
    st.binary(max_size=100),
    st.builds(frame, st.sampled_from([6, 9]), st.binary(min_size=1, max_size=100)),
    st.builds(frame, st.just(6), JUNK.map(cbor2.dumps)),
)


@no_deadline
@given(ANSWERS)
def test_no_answer_can_raise_anything_but_a_failed_connect(data: bytes) -> None:
    client = ClientConnection("0.1.0")
    try:
        frames = client.receive(b"\x01" + data)
    except ConnectFailedException:
        assert client.connected is None
    else:
        assert frames == []


def test_work_on_exports_is_only_for_those_whose_token_gives_the_right() -> None:
    wanted = (*Extension.CLIENTS, Extension.EXPORT_WORK)
    for token, granted in (("anybody", Extension.CLIENTS), ("pipeline", Extension.ALL)):
        server = ServerConnection(
            lambda token: True,
            "1.1.0",
            "x",
            rights=lambda token: Extension.ALL if token == "pipeline" else Extension.CLIENTS,
        )
        server.receive(ClientConnection("0.1.0", token, wanted).hello())
        assert server.extensions == granted
