"""What a browser or a scraper says to the console, over a real socket."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

PATIENCE_S = 30


class Reply(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)

    @property
    def error(self) -> str:
        return str(self.json["error"])


class Event(NamedTuple):
    name: str
    document: Any


class Events:
    """The events of one connection, as they come."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.response = response

    def next(self) -> Event:
        fields: dict[str, str] = {}
        while True:
            line = self.response.readline().decode()
            assert line, "the console ended the events"
            key, _, value = line.rstrip("\n").partition(": ")
            if key:
                fields[key] = value
            elif "event" in fields:
                return Event(fields["event"], json.loads(fields["data"]))
            else:
                fields = {}

    def until(self, name: str) -> Any:
        """The document of the next event of that name."""
        while (event := self.next()).name != name:
            pass
        return event.document


class Caller:
    """Sends requests to one console. `headers` go with all of them."""

    def __init__(self, url: str, headers: dict[str, str] | None = None) -> None:
        self.address = urlsplit(url).netloc
        self.headers = headers or {}

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: dict[str, str] | None = None,
        **query: Any,
    ) -> Reply:
        """A body that is not bytes is sent as JSON."""
        sent = {**self.headers}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        elif body is None and method not in ("GET", "HEAD"):
            sent["X-Penstock"] = "1"
        target = f"{path}?{urlencode(query)}" if query else path
        connection = http.client.HTTPConnection(self.address, timeout=PATIENCE_S)
        try:
            connection.request(method, target, body, {**sent, **(headers or {})})
            response = connection.getresponse()
            return Reply(response.status, response.headers, response.read())
        finally:
            connection.close()

    def get(self, path: str, **query: Any) -> Any:
        reply = self("GET", path, **query)
        assert reply.status == 200, reply
        return reply.json

    @contextmanager
    def events(self) -> Iterator[Events]:
        connection = http.client.HTTPConnection(self.address, timeout=PATIENCE_S)
        try:
            connection.request("GET", "/api/events", headers=self.headers)
            response = connection.getresponse()
            assert response.status == 200, response.read()
            assert response.headers["Content-Type"].startswith("text/event-stream")
            yield Events(response)
        finally:
            connection.close()
