"""The ports that a server listens on: free, or taken by whom they should be taken."""

from __future__ import annotations

import errno
import http.client
import os
import socket

from penstock.doctor.finding import Finding

# Everything here is on this machine.
ANSWER_TIMEOUT_S = 2.0
REMEDY_TAKEN = "Stop what uses it (`ss -ltnp` shows it), or choose another with {flag}."


def check_port(
    check: str, host: str, port: int, *, flag: str, server_runs: bool = False
) -> Finding:
    """Whether a server could listen there. One that runs there already is fine."""
    if port == 0:
        return Finding.ok(check, "any free port.")
    place = f"{host}:{port}"
    if server_runs:
        return Finding.ok(check, f"a Penstock server answers on {place}.")
    try:
        _listen(host, port)
    except OSError as error:
        # A name that cannot be looked up has a number of its own kind, below 0.
        number = error.errno or 0
        reason = os.strerror(number) if number > 0 else str(error.strerror)
        if error.errno == errno.EADDRINUSE:
            reason, remedy = "taken by another program", REMEDY_TAKEN.format(flag=flag)
        elif error.errno == errno.EACCES:
            remedy = f"Choose a port above 1023 with {flag}."
        else:
            remedy = "Correct the address: it must be one of this machine."
        return Finding.problem(check, f"{place} cannot be used: {reason}.", remedy)
    return Finding.ok(check, f"{place} is free.")


def check_console(host: str, port: int, *, enabled: bool, server_runs: bool) -> Finding:
    """The console's port; if the server runs, whether the console answers there."""
    if not enabled:
        return Finding.ok("console", "off, by the setting console.")
    if not server_runs or port == 0:
        return check_port("console", host, port, flag="--console-port")
    try:
        status, text = _health(host, port)
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return Finding.note(
            "console",
            f"the server runs, but no console answers on {host}:{port}: {reason}.",
            "Fine if it was started with --no-console; otherwise its log has the console's words.",
        )
    if status != http.HTTPStatus.OK:
        return Finding.problem(
            "console",
            f"{host}:{port} answers with status {status}: {text}",
            REMEDY_TAKEN.format(flag="--console-port"),
        )
    return Finding.ok("console", f"answers on http://{host}:{port}.")


def _listen(host: str, port: int) -> None:
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as listener:
        # As the server does it: connections that have just ended do not count.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()


def _health(host: str, port: int) -> tuple[int, str]:
    connection = http.client.HTTPConnection(host, port, timeout=ANSWER_TIMEOUT_S)
    try:
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        return answer.status, " ".join(answer.read(200).decode(errors="replace").split())
    finally:
        connection.close()
