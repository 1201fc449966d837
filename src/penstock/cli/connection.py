"""How the client commands find their server: --host, --port, --token, or the client's variables."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from penstock.errors import PenstockError, SettingsError
from penstock.settings import SETTINGS, Source
from penstock.settings.sources import from_environment, refusal

if TYPE_CHECKING:
    from penstock.client.sync import StreamManagerClient

# Somebody waits with a finger on the key: rather no names than late ones.
COMPLETION_TIMEOUT_S = 0.5


class Server(NamedTuple):
    """Where a command finds its server, and what it shows there."""

    host: str
    port: int
    token: str | None

    @contextmanager
    def connected(self) -> Iterator[StreamManagerClient]:
        """A client, closed at the end."""
        from penstock.client.sync import StreamManagerClient

        client = StreamManagerClient(
            host=self.host, port=self.port, auth_token=self.token, logger=_warnings_on_stderr()
        )
        try:
            yield client
        finally:
            client.close()


def _warnings_on_stderr() -> logging.Logger:
    """The client's logger, in the form of our own complaints."""
    logger = logging.getLogger("penstock.client")
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("penstock: %(message)s"))
        logger.addHandler(handler)
    return logger


def connection_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a client command; the function gets them as its argument `server`."""

    @click.option("--host", metavar="TEXT", help="Server to use.  [default: 127.0.0.1]")
    @click.option("--port", metavar="NUMBER", help="Its port.  [default: 8088]")
    @click.option(
        "--token",
        metavar="TEXT",
        help="Token to show.  [default: variable AWS_CONTAINER_AUTHORIZATION_TOKEN]",
    )
    @wraps(function)
    def with_server(
        *args: Any, host: str | None, port: str | None, token: str | None, **kwargs: Any
    ) -> Any:
        server = find_server(host, port, token, os.environ)
        return function(*args, server=server, **kwargs)

    return with_server


def find_server(
    host: str | None, port: str | None, token: str | None, environ: Mapping[str, str]
) -> Server:
    """Options first, then the variables that the server knows too, then the defaults."""
    return Server(
        host=_value("host", host, environ), port=_port(port, environ), token=token or None
    )


def _port(given: str | None, environ: Mapping[str, str]) -> int:
    port = _value("port", given, environ)
    if port == 0:
        raise SettingsError(
            "port is 0, which means any free port to a server. Give the port that the server "
            "printed when it started."
        )
    return int(port)


def _value(key: str, given: str | None, environ: Mapping[str, str]) -> Any:
    """An empty option counts as not given, like an empty variable."""
    setting = SETTINGS[key]
    if given:
        try:
            return setting.from_text(given)
        except ValueError:
            raise SettingsError(refusal(setting, given, Source("flag", setting.flag))) from None
    found = from_environment(setting, environ)
    return setting.default if found is None else found[0]


# --- for shells that complete ------------------------------------------------------------------


def stream_names(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """The streams that a server has, to complete what was begun. Never an error."""
    from penstock.client.sync import StreamManagerClient

    silent = logging.Logger("completion", logging.CRITICAL + 1)
    given = context.params
    try:
        server = find_server(given.get("host"), given.get("port"), given.get("token"), os.environ)
        client = StreamManagerClient(
            host=server.host,
            port=server.port,
            connect_timeout=COMPLETION_TIMEOUT_S,
            request_timeout=COMPLETION_TIMEOUT_S,
            logger=silent,
            auth_token=server.token,
        )
        try:
            return sorted(name for name in client.list_streams() if name.startswith(begun))
        finally:
            client.close()
    except (PenstockError, OSError):
        return []
