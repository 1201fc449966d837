"""Where the server is, how long to wait for it, and when to try again."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from socket import gaierror
from typing import Any, TypeVar

from penstock.errors import StreamManagerException, ValidationException
from penstock.protocol.operations import Extension

HOST_VARIABLE = "STREAM_MANAGER_SERVER_HOST"
PORT_VARIABLE = "STREAM_MANAGER_SERVER_PORT"
TOKEN_VARIABLE = "AWS_CONTAINER_AUTHORIZATION_TOKEN"
HOST_DEFAULT = "127.0.0.1"
PORT_DEFAULT = 8088
# 23 days. More is a mistake in the unit, and poll() counts at most 2^31 ms.
TIMEOUT_S_MAX = 2_000_000

# The first failure may be a server that is just restarting; after some, look every few seconds.
PAUSE_S_MIN = 0.05
PAUSE_S_MAX = 5.0

AnyStreamManagerException = TypeVar("AnyStreamManagerException", bound=StreamManagerException)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address, the token to show there, and the two timeouts."""

    host: str
    port: int
    auth_token: str | None = field(repr=False)
    connect_timeout_s: float
    request_timeout_s: float
    extensions: tuple[str, ...] = Extension.CLIENTS  # to ask for

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def reason_of(error: Exception) -> str:
    """What keeps a connection from being made, in the system's words and without its numbers."""
    if isinstance(error, OSError) and not isinstance(error, gaierror) and (error.errno or 0) > 0:
        return os.strerror(error.errno or 0)
    return getattr(error, "strerror", None) or str(error) or "it took too long"


def endpoint_for(
    host: str | None,
    port: int | None,
    auth_token: str | None,
    connect_timeout: float,
    request_timeout: float,
    variables: Mapping[str, str] | None = None,
) -> Endpoint:
    """Arguments first, then variables (empty means unset), then defaults."""
    variables = os.environ if variables is None else variables
    return Endpoint(
        host=host or variables.get(HOST_VARIABLE) or HOST_DEFAULT,
        port=_port(port, variables),
        auth_token=auth_token or variables.get(TOKEN_VARIABLE) or None,
        connect_timeout_s=_timeout_s("connect_timeout", connect_timeout),
        request_timeout_s=_timeout_s("request_timeout", request_timeout),
    )


def _port(port: Any, variables: Mapping[str, str]) -> int:
    origin = "port"
    if port is None:
        origin = PORT_VARIABLE
        text = variables.get(PORT_VARIABLE, "").strip()
        if not text:
            return PORT_DEFAULT
        port = int(text) if text.isascii() and text.isdigit() else text
    if not isinstance(port, int) or isinstance(port, bool) or not 1 <= port <= 65535:
        raise ValidationException(f"{origin}: must be a number within 1..65535, not {port!r}")
    return port


def _timeout_s(name: str, timeout: Any) -> float:
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not is_number or not 0 < timeout <= TIMEOUT_S_MAX:
        raise ValidationException(
            f"{name}: must be a number of seconds above 0 and at most {TIMEOUT_S_MAX}, "
            f"not {timeout!r}"
        )
    return float(timeout)


class Backoff:
    """When the next attempt to connect may begin. Has no clock of its own: callers bring the time.

    An attempt counts as failed until the connection has answered a request: a server that accepts
    and hangs up again and again is not to be hammered either.
    """

    def __init__(self, chance: Callable[[], float] = random.random) -> None:
        self._chance = chance
        self._attempt_count = 0
        self._not_before_s = 0.0

    def attempted(self, now_s: float) -> None:
        """Double the pause. The random part keeps the clients of one server from coming at once."""
        whole_s = min(PAUSE_S_MAX, PAUSE_S_MIN * 2 ** min(self._attempt_count, 16))
        self._attempt_count += 1
        self._not_before_s = now_s + whole_s * (0.5 + self._chance() / 2)

    def reset(self) -> None:
        """The last connection was good."""
        self._attempt_count = 0
        self._not_before_s = 0.0

    def pause_s(self, now_s: float) -> float:
        """What is left of the pause."""
        return max(0.0, self._not_before_s - now_s)


def fresh(error: AnyStreamManagerException) -> AnyStreamManagerException:
    """The same error for another caller, who needs a traceback of their own."""
    return type(error)(error.message, error.status, error.request_id)
