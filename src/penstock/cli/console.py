"""`penstock console`: the console by itself, for a server that runs elsewhere."""

from __future__ import annotations

import logging
import os
import select
import signal
import sys
import threading
from collections.abc import Mapping

import click

from penstock import logs
from penstock.cli.child import child_options
from penstock.cli.connection import find_server
from penstock.cli.output import CommandFailed, Status, say
from penstock.errors import ListenFailed
from penstock.settings import SETTINGS
from penstock.settings.declaration import is_loopback

log = logging.getLogger("penstock.console")

# What a server tells the console that it starts: the token to show, and by which hashes the tokens
# of browsers are known; without the second one browsers need none.
TOKEN_VARIABLE = "PENSTOCK_CONSOLE_TOKEN"
HASHES_VARIABLE = "PENSTOCK_CONSOLE_TOKEN_HASHES"
CLIENT_TOKEN_VARIABLE = "AWS_CONTAINER_AUTHORIZATION_TOKEN"
READY_TEXT = "The console is ready"  # what the supervisor of the server waits for


@click.command()
@click.option(
    "--server", metavar="HOST:PORT", help="The server to show.  [default: 127.0.0.1:8088]"
)
@click.option(
    "--console-host",
    default=SETTINGS["console_host"].default,
    show_default=True,
    metavar="TEXT",
    help="Address to listen on. Any other than loopback needs a token.",
)
@click.option(
    "--console-port",
    default=SETTINGS["console_port"].default,
    show_default=True,
    type=click.IntRange(0, 65535),
    metavar="NUMBER",
    help="TCP port to listen on; 0 picks a free one.",
)
@click.option("--otel-endpoint", default="", metavar="URL", help="Send metrics there by OTLP/HTTP.")
@child_options
def console(
    server: str | None,
    console_host: str,
    console_port: int,
    otel_endpoint: str,
    log_level: str,
    log_format: str,
    follow_parent: bool,
) -> int:
    """Show a server in a browser, and serve its metrics.

    A server starts this by itself; run it yourself to have it elsewhere, or with another port. If
    the server wants a token, it is expected in the variable AWS_CONTAINER_AUTHORIZATION_TOKEN, and
    browsers have to show the same one.
    """
    host, port = _address(server)
    hashes = _hashes(os.environ)
    if not is_loopback(console_host) and not hashes:
        raise CommandFailed(
            f"--console-host is {console_host}, which other machines can reach, but there is no "
            f"token. Set {CLIENT_TOKEN_VARIABLE}, or listen on 127.0.0.1.",
            Status.WRONG_USAGE,
        )
    logs.configure(log_level, log_format=log_format)
    from penstock.console.app import ConsoleSettings
    from penstock.console.run import run

    settings = ConsoleSettings(
        host=console_host,
        port=console_port,
        server_host=host,
        server_port=port,
        server_token=os.environ.get(TOKEN_VARIABLE) or None,
        authentication=hashes is not None,
        token_hashes=hashes or (),
        otel_endpoint=otel_endpoint,
    )
    if not follow_parent:
        return run(settings, lambda url: say(f"Console on {url}"))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        return run(settings, lambda url: log.info("%s: %s", READY_TEXT, url))
    except ListenFailed as error:
        log.error("%s", error)  # the server reads this, and shows it
        return Status.FAILED


def _address(server: str | None) -> tuple[str, int]:
    if server is None:
        found = find_server(None, None, None, os.environ)
        return found.host, found.port
    host, _, port = server.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise CommandFailed(f"--server {server} is not HOST:PORT.", Status.WRONG_USAGE)
    return host.strip("[]"), int(port)


def _hashes(environ: Mapping[str, str]) -> tuple[bytes, ...] | None:
    """By which browsers are known; None: everybody may look."""
    told = environ.get(HASHES_VARIABLE)
    if told is not None:
        return tuple(bytes.fromhex(each) for each in told.split(",") if each)
    token = environ.get(CLIENT_TOKEN_VARIABLE)
    if TOKEN_VARIABLE in environ or not token:
        return None
    from penstock.console.access import token_hash

    return (token_hash(token),)


def _end_with_parent() -> None:
    """Standard input is a pipe from the server: when it ends, so do we."""
    select.select([sys.stdin], [], [])
    os.kill(os.getpid(), signal.SIGTERM)
