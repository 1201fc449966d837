"""`penstock status --watch` on a terminal: one picture that follows the server."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.live import Live

from penstock.cli.output import terminal_console
from penstock.cli.picture import Pace, numbers_of, picture
from penstock.errors import (
    ConnectionLostException,
    RequestTimeoutException,
    ServerUnreachableException,
)

if TYPE_CHECKING:
    from penstock.client.sync import StreamManagerClient

WATCH_INTERVAL_S = 1.0
# A new size of the window is noticed within this.
GLANCE_INTERVAL_S = 0.2
GONE = (ConnectionLostException, RequestTimeoutException, ServerUnreachableException)


def watch(client: StreamManagerClient, address: str) -> None:
    """Show the server until Ctrl-C. One that goes away meanwhile is waited for."""
    console = terminal_console()
    pace = Pace()
    # A server that is not there at all is an error, told outside of the picture.
    observation, trouble = client.observe_server(), ""
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            if not trouble:
                pace.note(time.monotonic(), numbers_of(observation))
            size = console.size
            live.update(picture(observation, pace, size, address, trouble), refresh=True)
            next_s = time.monotonic() + WATCH_INTERVAL_S
            while time.monotonic() < next_s:
                time.sleep(GLANCE_INTERVAL_S)
                if console.size != size:
                    size = console.size
                    live.update(picture(observation, pace, size, address, trouble), refresh=True)
            try:
                observation, trouble = client.observe_server(), ""
            except GONE as error:
                trouble = f"{address} does not answer, as seen last: {error}"
