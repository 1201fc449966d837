"""The HTTP server below the local cloud, byte by byte."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from penstock.errors import ListenFailed
from penstock.testing.errors import LocalCloudError
from penstock.testing.http_server import HEAD_BYTES_MAX, Cut, HttpServer, Request, Response

POST = b"POST /path?q=1 HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody"


class Echo:
    """Remembers requests and answers with what it is told."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.response = Response(200, b"answer", {"x-test": "1"})

    def __call__(self, request: Request) -> Response:
        self.requests.append(request)
        return self.response


@pytest.fixture
def echo() -> Echo:
    return Echo()


@pytest.fixture
def server(echo: Echo) -> Iterator[HttpServer]:
    running = HttpServer(echo, "127.0.0.1", 0)
    running.start()
    yield running
    running.stop()


@contextmanager
def connected(server: HttpServer) -> Iterator[socket.socket]:
    with socket.create_connection(server.address, timeout=10) as connection:
        yield connection


def answers(connection: socket.socket) -> bytes:
    """Everything that comes until the server closes."""
    received = b""
    while data := connection.recv(65536):
        received += data
    return received


def exchange(server: HttpServer, sent: bytes) -> bytes:
    """Send, say that nothing more comes, and read to the end."""
    with connected(server) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        return answers(connection)


def test_a_request_arrives_and_its_answer_leaves(server: HttpServer, echo: Echo) -> None:
    answer = exchange(server, POST)

    head, _, body = answer.partition(b"\r\n\r\n")
    assert re.fullmatch(rb"HTTP/1.1 200 OK\r\nx-test: 1\r\ndate: .+ GMT\r\ncontent-length: 6", head)
    assert body == b"answer"
    request = echo.requests[0]
    assert (request.method, request.path, request.query) == ("POST", "/path", "q=1")
    assert request.headers == {"host": "h", "content-length": "4"}
    assert request.body == b"body"


def test_fragmentation_does_not_matter(server: HttpServer, echo: Echo) -> None:
    with connected(server) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for position in range(len(POST)):
            connection.sendall(POST[position : position + 1])
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
    assert echo.requests[0].body == b"body"


def test_requests_that_arrive_together_are_answered_one_after_another(
    server: HttpServer, echo: Echo
) -> None:
    assert exchange(server, POST * 3).count(b"HTTP/1.1 200") == 3
    assert [request.body for request in echo.requests] == [b"body"] * 3


def test_a_large_body_goes_both_ways(server: HttpServer, echo: Echo) -> None:
    large = bytes(range(256)) * 20_000
    echo.response = Response(200, large)
    head = f"PUT / HTTP/1.1\r\nContent-Length: {len(large)}\r\nConnection: close\r\n\r\n"
    with connected(server) as connection:
        sender = threading.Thread(target=connection.sendall, args=(head.encode() + large,))
        sender.start()
        answer = answers(connection)
        sender.join()
    assert answer.partition(b"\r\n\r\n")[2] == large
    assert echo.requests[0].body == large


def test_a_body_in_chunks_is_put_together(server: HttpServer, echo: Echo) -> None:
    head = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    exchange(server, head + b"3;ext=1\r\nabc\r\nA\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n" + POST)
    assert [request.body for request in echo.requests] == [b"abc0123456789", b"body"]


def test_a_client_that_waits_for_leave_gets_it(server: HttpServer, echo: Echo) -> None:
    with connected(server) as connection:
        connection.sendall(b"PUT / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"ok")
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
    assert echo.requests[0].body == b"ok"


def test_a_head_request_gets_no_body(server: HttpServer) -> None:
    answer = exchange(server, b"HEAD / HTTP/1.1\r\n\r\n")
    assert answer.endswith(b"content-length: 6\r\n\r\n")


def test_a_header_that_comes_twice_has_both_values(server: HttpServer, echo: Echo) -> None:
    exchange(server, b"GET / HTTP/1.1\r\nA: 1\r\na:2\r\n\r\n")
    assert echo.requests[0].headers["a"] == "1,2"


@pytest.mark.parametrize(
    "head", [b"GET / HTTP/1.1\r\nConnection: Close\r\n\r\n", b"GET / HTTP/1.0\r\n\r\n"]
)
def test_a_connection_ends_when_the_client_wants_it(server: HttpServer, head: bytes) -> None:
    with connected(server) as connection:
        connection.sendall(head)
        assert b"\r\nconnection: close\r\n" in answers(connection)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/2\r\n\r\n", 505),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n folded: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", 413),
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400),
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", 400),
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFF\r\n", 413),
        (b"x" * (HEAD_BYTES_MAX + 1), 431),
    ],
)
def test_what_is_no_request_is_refused_and_the_connection_closed(
    server: HttpServer, echo: Echo, sent: bytes, status: int
) -> None:
    with connected(server) as connection:
        connection.sendall(sent)
        answer = answers(connection)
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert echo.requests == []


@pytest.mark.parametrize("sent", [b"", b"GET /", POST[:-1]])
def test_a_client_that_goes_away_harms_nobody(server: HttpServer, echo: Echo, sent: bytes) -> None:
    assert exchange(server, sent) == b""
    assert echo.requests == []
    assert exchange(server, POST).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("cut", "expected"),
    [
        (Cut.BEFORE_ANSWER, b""),
        (Cut.WITHIN_ANSWER, rb"HTTP/1.1 200 OK\r\n.*content-length: 6\r\n\r\nans"),
    ],
)
def test_an_answer_can_be_cut(server: HttpServer, echo: Echo, cut: Cut, expected: bytes) -> None:
    echo.response = Response(200, b"answer", cut=cut)
    with connected(server) as connection:
        connection.sendall(POST)
        assert re.fullmatch(expected, answers(connection), re.DOTALL)


def test_stopping_closes_idle_connections_and_ends_all_threads(echo: Echo) -> None:
    before = set(threading.enumerate())
    server = HttpServer(echo, "127.0.0.1", 0)
    server.start()
    with connected(server) as idle, connected(server) as used:
        used.sendall(POST)
        assert used.recv(100).startswith(b"HTTP/1.1 200")
        address = server.address
        server.stop()
        assert (answers(idle), answers(used)) == (b"", b"")
    assert set(threading.enumerate()) == before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, timeout=10)


def test_a_mistake_of_ours_is_answered_with_500_and_told_at_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(request: Request) -> Response:
        raise ZeroDivisionError("ours")

    server = HttpServer(broken, "127.0.0.1", 0)
    server.start()
    assert exchange(server, POST).startswith(b"HTTP/1.1 500")
    with pytest.raises(LocalCloudError, match="ours") as caught:
        server.stop()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert "failed on POST /path" in caplog.text


def test_an_address_in_use_is_a_clear_error(server: HttpServer, echo: Echo) -> None:
    with pytest.raises(ListenFailed, match=f"127.0.0.1:{server.address[1]}"):
        HttpServer(echo, *server.address).start()
