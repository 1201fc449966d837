"""A connection to one URI: kept alive, with deadlines, straight or through a proxy."""

from __future__ import annotations

import base64
import io
import ssl
import time
import urllib.request
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message as Headers
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from socket import socket
from typing import Any
from urllib.parse import SplitResult, quote, unquote, urlsplit

from penstock.destinations.base import Blocked, DestinationError, Timeouts, Transient

# An answer is read up to here, so that the connection can be used again; from a receiver that says
# more we hang up.
ANSWER_BYTES_MAX = 64 * 1024
# What of it is shown, and kept with a dead letter.
TEXT_LENGTH_MAX = 200
# What an idle connection looks like that the other side has closed meanwhile.
STALE = (BrokenPipeError, ConnectionResetError, ConnectionAbortedError)
PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Reply:
    """What the receiver said."""

    status: int
    reason: str
    headers: Headers
    text: str


class Link:
    """Posts to one URI, one request at a time."""

    def __init__(self, uri: str, timeouts: Timeouts) -> None:
        self._address = parsed_uri(uri)
        self.shown_uri = without_credentials(self._address)
        self._timeouts = timeouts
        self._proxy = proxy_for(self._address)
        self._headers = {"User-Agent": "penstock", **authorization("Authorization", self._address)}
        self._target = path_and_query(self._address)
        if self._proxy is not None and self._address.scheme == "http":
            self._target = self.shown_uri
            self._headers |= authorization("Proxy-Authorization", self._proxy)
        self._connection: HTTPConnection | None = None

    def post(self, body: bytes, content_type: str) -> Reply:
        """Raises Transient when there was no answer, Blocked when there can be none."""
        headers = {**self._headers, "Content-Type": content_type}
        try:
            return self._on_fresh_or_reused(body, headers)
        except (OSError, HTTPException) as error:
            self.close()
            raise self._translated(error) from error

    def connect(self) -> None:
        """Raises like post."""
        try:
            self._connected()
        except (OSError, HTTPException) as error:
            self.close()
            raise self._translated(error) from error

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _on_fresh_or_reused(self, body: bytes, headers: dict[str, str]) -> Reply:
        reused = self._connection is not None
        try:
            return self._exchange(body, headers)
        except STALE:
            if not reused:
                raise
        # Nothing was wrong but the age of the connection. Should the receiver have had the request
        # all the same, it gets it twice.
        self.close()
        return self._exchange(body, headers)

    def _exchange(self, body: bytes, headers: dict[str, str]) -> Reply:
        connection = self._connected()
        deadline_s = time.monotonic() + self._timeouts.read_s
        connection.sock.settimeout(self._timeouts.read_s)
        timed: Any = partial(TimedResponse, deadline_s=deadline_s)
        connection.response_class = timed
        # When it stops reading, perhaps it has said why: that it is too much, for instance.
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.request("POST", self._target, body, headers)
        response = connection.getresponse()
        answer = response.read(ANSWER_BYTES_MAX)
        if response.will_close or not response.isclosed():
            self.close()
        return Reply(response.status, response.reason, response.headers, one_line(answer))

    def _connected(self) -> HTTPConnection:
        if self._connection is None:
            self._connection = self._new_connection()
            self._connection.connect()
        return self._connection

    def _new_connection(self) -> HTTPConnection:
        peer = self._proxy or self._address
        host, port = peer.hostname or "", peer.port or PORTS[peer.scheme]
        if self._address.scheme == "http":
            return HTTPConnection(host, port, timeout=self._timeouts.connect_s)
        connection = HTTPSConnection(
            host, port, timeout=self._timeouts.connect_s, context=ssl.create_default_context()
        )
        if self._proxy is not None:
            connection.set_tunnel(
                self._address.hostname or "",
                self._address.port or PORTS["https"],
                authorization("Proxy-Authorization", self._proxy),
            )
        return connection

    def _translated(self, error: Exception) -> DestinationError:
        if isinstance(error, ssl.SSLCertVerificationError):
            return Blocked(
                f"{self.shown_uri}: the certificate cannot be trusted ({error.verify_message}); "
                "check the clock, or name the authority's file in SSL_CERT_FILE"
            )
        if isinstance(error, TimeoutError):
            return Transient(
                f"{self.shown_uri}: no connection within {self._timeouts.connect_s:g} s, or no "
                f"answer within {self._timeouts.read_s:g} s"
            )
        return Transient(f"{self.shown_uri}: {error or type(error).__name__}")


class TimedResponse(HTTPResponse):
    """An answer that must be complete at a point in time, however slowly it drips."""

    def __init__(self, sock: socket, *arguments: Any, deadline_s: float, **named: Any) -> None:
        super().__init__(sock, *arguments, **named)
        reader: Any = self.fp
        self.fp = io.BufferedReader(TimedReader(sock, reader.detach(), deadline_s))


class TimedReader(io.RawIOBase):
    """Reads from a socket until a point in time."""

    def __init__(self, sock: socket, raw: io.RawIOBase, deadline_s: float) -> None:
        self._socket = sock
        self._raw = raw
        self._deadline_s = deadline_s

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        remaining_s = self._deadline_s - time.monotonic()
        if remaining_s <= 0:
            raise TimeoutError
        self._socket.settimeout(remaining_s)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        super().close()
        self._raw.close()


def parsed_uri(uri: str) -> SplitResult:
    """Blocked if nothing could ever be posted there."""
    try:
        address = urlsplit(uri)
        port_is_sane = address.port != 0
    except ValueError as error:
        raise Blocked(f"the uri of the export is wrong ({error}); change it") from error
    if address.scheme not in PORTS or not address.hostname or not port_is_sane:
        raise Blocked(
            f"the uri of the export must be like http://host:port/path, not {uri:.100}; change it"
        )
    return address


def proxy_for(address: SplitResult) -> SplitResult | None:
    """What http_proxy, https_proxy and no_proxy say about an address."""
    host = f"{address.hostname}:{address.port or PORTS[address.scheme]}"
    proxies = urllib.request.getproxies()
    proxy = proxies.get(address.scheme) or proxies.get("all")
    if not proxy or urllib.request.proxy_bypass(host):
        return None
    found = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    if found.scheme != "http" or not found.hostname:
        raise Blocked(
            f"the proxy for {address.scheme} must be like http://host:port; change "
            f"{address.scheme}_proxy, or exempt {address.hostname} in no_proxy"
        )
    return found


def authorization(header: str, address: SplitResult) -> dict[str, str]:
    """Basic authentication, if the address has a user in it."""
    if address.username is None:
        return {}
    pair = f"{unquote(address.username)}:{unquote(address.password or '')}"
    return {header: f"Basic {base64.b64encode(pair.encode()).decode()}"}


def without_credentials(address: SplitResult) -> str:
    """The address as it may be shown and logged."""
    host = address.netloc.rpartition("@")[2]
    return f"{address.scheme}://{host}{path_and_query(address)}"


def path_and_query(address: SplitResult) -> str:
    """What stands in the request line: nothing that could break it."""
    target = (address.path or "/") + (f"?{address.query}" if address.query else "")
    return quote(target, safe="/%?=&:;,+!$'()*@~[]")


def one_line(answer: bytes) -> str:
    text = answer[: 4 * TEXT_LENGTH_MAX].decode(errors="replace")
    return " ".join(text.split())[:TEXT_LENGTH_MAX]
