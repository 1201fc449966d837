"""Who may do what: tokens and sessions, Host and Origin, and the headers of every answer."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import secrets
import time
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.console.answers import refusal

COOKIE = "penstock-session"
SESSION_S = 12 * 3600
# Each takes 100 bytes; who signs in more often than this within 12 hours loses the oldest ones.
SESSIONS_MAX = 10_000
# Wrong tokens are answered one after another, this far apart: nobody finds one by trying.
WRONG_TOKEN_PAUSE_S = 0.5

PUBLIC_PATHS = ("/", "/healthz", "/readyz", "/api/session", "/favicon.ico")
PUBLIC_FOLDER = "/static/"
SAFE_METHODS = ("GET", "HEAD")
LOOPBACK_NAMES = ("localhost", "localhost.localdomain")
ANY_ADDRESS = ("0.0.0.0", "::")

SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; object-src 'none'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def token_hash(token: str) -> bytes:
    """What the console keeps of a token, and of the name of a session."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


class Sessions:
    """Knows the tokens by their hashes, and who has shown one."""

    def __init__(self, required: bool, token_hashes: tuple[bytes, ...]) -> None:
        self.required = required
        self._token_hashes = token_hashes
        self._ends_at_s: dict[bytes, float] = {}  # by hash of the session's name
        self._wrong = asyncio.Lock()

    async def sign_in(self, token: str) -> str | None:
        """The name of a new session; None if the token is wrong."""
        if not self._is_known(token_hash(token)):
            async with self._wrong:
                await asyncio.sleep(WRONG_TOKEN_PAUSE_S)
            return None
        while len(self._ends_at_s) >= SESSIONS_MAX:
            del self._ends_at_s[next(iter(self._ends_at_s))]
        name = secrets.token_urlsafe(32)
        self._ends_at_s[token_hash(name)] = time.monotonic() + SESSION_S
        return name

    def sign_out(self, name: str) -> None:
        self._ends_at_s.pop(token_hash(name), None)

    def admits(self, connection: HTTPConnection) -> bool:
        """Whether a request shows a session or a token."""
        if not self.required:
            return True
        # Names are found by their hash, which tells a stranger's clock nothing about them.
        ends_at_s = self._ends_at_s.get(token_hash(connection.cookies.get(COOKIE, "")), 0.0)
        if ends_at_s > time.monotonic():
            return True
        scheme, _, token = connection.headers.get("authorization", "").partition(" ")
        sent = token.strip().encode("latin-1")  # the bytes that came, whatever they stand for
        return scheme.lower() == "bearer" and self._is_known(hashlib.sha256(sent).digest())

    def _is_known(self, given: bytes) -> bool:
        """Every token is compared, so that the time says nothing about which one came near."""
        return sum(hmac.compare_digest(given, known) for known in self._token_hashes) > 0


class Guard:
    """Stands before everything else."""

    def __init__(self, app: ASGIApp, sessions: Sessions, host: str) -> None:
        self._app = app
        self._sessions = sessions
        self._host = host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        sender = _with_headers(send, scope["path"])
        reason = self._reason_against(HTTPConnection(scope))
        if reason is None:
            await self._app(scope, receive, sender)
        else:
            await refusal(*reason)(scope, receive, sender)

    def _reason_against(self, connection: HTTPConnection) -> tuple[int, str] | None:
        """Status and text of what is wrong with a request."""
        headers, path = connection.headers, connection.scope["path"]
        host = headers.get("host", "")
        if not self._is_own(host):
            return 403, (
                f"Host {host!r} is not the console's. Open it by its own address, or set "
                f"console_host."
            )
        if connection.scope["method"] not in SAFE_METHODS:
            origin = headers.get("origin")
            if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
                return 403, f"Origin {origin!r} may not change anything here."
            if not _is_deliberate(headers):
                return 400, (
                    "Send Content-Type: application/json, or an empty body with X-Penstock: 1."
                )
        is_public = path in PUBLIC_PATHS or path.startswith(PUBLIC_FOLDER)
        if not is_public and not self._sessions.admits(connection):
            return 401, "A token is needed. Sign in, or send Authorization: Bearer TOKEN."
        return None

    def _is_own(self, host: str) -> bool:
        """Whether a Host is ours: a name of someone else may have been pointed at this machine.

        Who listens on all addresses has names that cannot be known; there a token is needed, and
        a foreign name has no session.
        """
        name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
        name = name.strip("[]").lower()
        return name == self._host.lower() or self._host in ANY_ADDRESS or is_loopback(name)


def is_loopback(name: str) -> bool:
    """Whether a name or address means this machine only."""
    if name in LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def cookie_options(connection: HTTPConnection) -> dict[str, Any]:
    """How the session's cookie is set and removed."""
    return {
        "key": COOKIE,
        "path": "/",
        "httponly": True,
        "samesite": "strict",
        "secure": connection.url.scheme == "https",
    }


def _is_deliberate(headers: Headers) -> bool:
    """Whether a form of another site could not have sent this."""
    if headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json":
        return True
    is_empty = headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers
    return is_empty and headers.get("x-penstock") == "1"


def _with_headers(send: Send, path: str) -> Send:
    async def sender(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers[name] = value
            # Files are asked for again with their ETag; everything else is of this moment.
            is_file = path == "/" or path.startswith(PUBLIC_FOLDER)
            headers["Cache-Control"] = "no-cache" if is_file else "no-store"
        await send(message)

    return sender
