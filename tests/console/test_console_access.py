"""Who may look and who may change: tokens, sessions, Host, Origin."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Iterator

import pytest
from browser_stand_in import Caller

from penstock.console import access
from penstock.console.access import COOKIE, Guard, Sessions, token_hash
from penstock.testing.server import PenstockServer

TOKEN = "a token with spaces and ü"
OTHER_TOKEN = "another-token"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PenstockServer]:
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "penstock.toml").write_text(
        f'pipeline = "off"\ntokens = ["{TOKEN}", "{OTHER_TOKEN}"]\n'
    )
    with PenstockServer(folder, console=True) as server:
        yield server


@pytest.fixture
def stranger(guarded: PenstockServer) -> Caller:
    return Caller(guarded.console_url)


def signed_in(stranger: Caller, token: str) -> Caller:
    reply = stranger("POST", "/api/session", {"token": token})
    assert reply.status == 204
    cookie = reply.headers["Set-Cookie"]
    return Caller(f"http://{stranger.address}", {"Cookie": cookie.partition(";")[0]})


# --- tokens -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/overview"),
        ("GET", "/api/events"),
        ("GET", "/api/history?stream=a"),
        ("GET", "/api/stream?name=a"),
        ("POST", "/api/streams"),
        ("PUT", "/api/stream?name=a"),
        ("DELETE", "/api/stream?name=a"),
        ("POST", "/api/exports/pause"),
        ("GET", "/api/messages?stream=a"),
        ("GET", "/api/message?stream=a&number=1"),
        ("GET", "/api/dead-letters"),
        ("POST", "/api/dead-letters/purge"),
        ("POST", "/api/transforms/reset"),
        ("GET", "/metrics"),
        ("GET", "/api/nothing"),
    ],
)
def test_a_stranger_gets_nothing(stranger: Caller, method: str, path: str) -> None:
    reply = stranger(method, path)

    assert reply.status == 401
    assert "Sign in" in reply.error


@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz"])
def test_the_page_and_the_probes_need_no_token(stranger: Caller, path: str) -> None:
    assert stranger("GET", path).status == 200


@pytest.mark.parametrize("token", [TOKEN, OTHER_TOKEN])
def test_who_shows_a_token_gets_a_session(stranger: Caller, token: str) -> None:
    assert stranger.get("/api/session")["signedIn"] is False
    friend = signed_in(stranger, token)

    session = friend.get("/api/session")
    assert (session["authentication"], session["signedIn"]) == (True, True)
    assert friend.get("/api/overview")["observation"]["streams"] == []


def test_the_cookie_is_kept_from_scripts_and_other_sites(stranger: Caller) -> None:
    cookie = stranger("POST", "/api/session", {"token": TOKEN}).headers["Set-Cookie"]

    assert cookie.startswith(f"{COOKIE}=")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKEN not in cookie


def test_who_signs_out_is_a_stranger_again_even_with_the_cookie(stranger: Caller) -> None:
    friend = signed_in(stranger, TOKEN)
    reply = friend("DELETE", "/api/session")

    assert reply.status == 204
    assert f'{COOKIE}=""' in reply.headers["Set-Cookie"]
    assert friend("GET", "/api/overview").status == 401


@pytest.mark.parametrize("token", ["", "wrong", TOKEN + " ", TOKEN[:-1]])
def test_a_wrong_token_is_refused(stranger: Caller, token: str) -> None:
    reply = stranger("POST", "/api/session", {"token": token})

    assert reply.status == 401
    assert "Set-Cookie" not in reply.headers


def test_programs_send_the_token_with_each_request(stranger: Caller) -> None:
    def status(authorization: str) -> int:
        headers = {"Authorization": authorization}
        return stranger("GET", "/metrics", headers=headers).status

    assert status(f"Bearer {OTHER_TOKEN}") == 200
    assert status(f"bearer {OTHER_TOKEN}") == 200
    assert status(f"Bearer {TOKEN}".encode().decode("latin-1")) == 200  # UTF-8, as curl sends it
    assert status("Bearer wrong") == 401
    assert status(f"Basic {OTHER_TOKEN}") == 401
    assert status("") == 401


def test_the_token_that_the_console_shows_the_server_is_of_no_use_to_browsers(
    guarded: PenstockServer, stranger: Caller
) -> None:
    """It is in the environment of the console's process, and nowhere else."""
    children = f"/proc/{guarded.process_id}/task/{guarded.process_id}/children"
    with open(children) as file:
        (console,) = file.read().split()
    with open(f"/proc/{console}/environ", "rb") as file:
        variables = dict(item.split(b"=", 1) for item in file.read().split(b"\0") if item)
    token = variables[b"PENSTOCK_CONSOLE_TOKEN"].decode()

    assert token not in guarded.log
    assert stranger("POST", "/api/session", {"token": token}).status == 401
    assert TOKEN.encode() not in b"".join(variables.values())


# --- Host and Origin ----------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8089", "", "localhost.evil", "a:b"])
def test_a_foreign_host_gets_nothing(call: Caller, host: str) -> None:
    for path in ("/", "/api/overview", "/healthz"):
        reply = call("GET", path, headers={"Host": host})
        assert reply.status == 403
        assert repr(host) in reply.error


@pytest.mark.parametrize(
    "host", ["localhost:9", "127.0.0.1", "127.0.0.9:80", "[::1]:8089", "[::1]"]
)
def test_this_machine_has_many_names(call: Caller, host: str) -> None:
    assert call("GET", "/api/overview", headers={"Host": host}).status == 200


def test_who_listens_on_one_address_or_on_all_knows_its_own_host() -> None:
    sessions = Sessions(True, ())

    async def app(*arguments: object) -> None: ...

    assert Guard(app, sessions, "10.1.2.3")._is_own("10.1.2.3:8089")
    assert not Guard(app, sessions, "10.1.2.3")._is_own("10.1.2.4:8089")
    assert Guard(app, sessions, "0.0.0.0")._is_own("plant.example:8089")


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost", "https://127.0.0.1:1"]
)
def test_another_origin_may_not_change_anything(call: Caller, origin: str) -> None:
    body = {"name": "of-another-origin", "strategyOnFull": 1}
    reply = call("POST", "/api/streams", body, headers={"Origin": origin})

    assert reply.status == 403
    assert repr(origin) in reply.error
    assert call("GET", "/api/stream", name="of-another-origin").status == 404


def test_the_own_origin_may(call: Caller, name: str) -> None:
    headers = {"Origin": f"http://{call.address}"}
    body = {"name": name, "strategyOnFull": 1}
    assert call("POST", "/api/streams", body, headers=headers).status == 201


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {},
        {"X-Penstock": "1"},
    ],
)
def test_what_a_form_could_send_is_refused(call: Caller, headers: dict[str, str]) -> None:
    body = b'{"name": "of-a-form", "strategyOnFull": 1}'
    reply = call("POST", "/api/streams", body, headers=headers)

    assert reply.status == 400
    assert "application/json" in reply.error
    connection = http.client.HTTPConnection(call.address, timeout=20)
    connection.request("DELETE", "/api/stream?name=of-a-form")
    assert connection.getresponse().status == 400
    connection.close()


# --- sessions by themselves -----------------------------------------------------------------------


def test_wrong_tokens_are_answered_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "WRONG_TOKEN_PAUSE_S", 0.05)
    sessions = Sessions(True, (token_hash("right"),))

    async def scenario() -> float:
        clock = asyncio.get_running_loop().time
        started = clock()
        tries = [sessions.sign_in(f"wrong {number}") for number in range(4)]
        assert await asyncio.gather(*tries) == [None] * 4
        return clock() - started

    assert asyncio.run(scenario()) >= 4 * 0.05 * 0.9


def test_the_number_of_sessions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "SESSIONS_MAX", 3)
    sessions = Sessions(True, (token_hash("right"),))

    async def scenario() -> None:
        for _ in range(10):
            assert await sessions.sign_in("right")

    asyncio.run(scenario())
    assert len(sessions._ends_at_s) == 3
