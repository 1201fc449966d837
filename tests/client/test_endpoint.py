"""Where the server is, and when to try again."""

from __future__ import annotations

import pytest

from penstock import ValidationException
from penstock.client.endpoint import Backoff, Endpoint, endpoint_for


def endpoint(port: int | None = None, **variables: str) -> Endpoint:
    return endpoint_for(None, port, None, 3, 60, variables)


def test_the_defaults_are_those_of_the_protocol() -> None:
    assert endpoint() == Endpoint("127.0.0.1", 8088, None, 3.0, 60.0)


def test_an_empty_variable_means_the_default() -> None:
    found = endpoint(
        STREAM_MANAGER_SERVER_HOST="",
        STREAM_MANAGER_SERVER_PORT="",
        AWS_CONTAINER_AUTHORIZATION_TOKEN="",
    )
    assert found == endpoint()


def test_variables_replace_defaults() -> None:
    found = endpoint(
        STREAM_MANAGER_SERVER_HOST="edge",
        STREAM_MANAGER_SERVER_PORT="9000",
        AWS_CONTAINER_AUTHORIZATION_TOKEN="secret",
    )
    assert (found.host, found.port, found.auth_token) == ("edge", 9000, "secret")


def test_arguments_replace_variables() -> None:
    variables = {
        "STREAM_MANAGER_SERVER_HOST": "edge",
        "STREAM_MANAGER_SERVER_PORT": "not a number",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN": "secret",
    }
    found = endpoint_for("127.0.0.2", 9001, "other", 3, 60, variables)
    assert (found.host, found.port, found.auth_token) == ("127.0.0.2", 9001, "other")


@pytest.mark.parametrize("text", ["eight", "8088x", "-1", "0", "65536", "8_088", "٨٠٨٨"])
def test_a_port_variable_that_is_no_port_is_named(text: str) -> None:
    with pytest.raises(ValidationException, match="STREAM_MANAGER_SERVER_PORT"):
        endpoint(STREAM_MANAGER_SERVER_PORT=text)


def test_the_token_is_not_shown_where_the_endpoint_is() -> None:
    found = endpoint(AWS_CONTAINER_AUTHORIZATION_TOKEN="secret")
    assert str(found) == "127.0.0.1:8088"
    assert "secret" not in repr(found)


def test_the_first_attempt_needs_no_pause() -> None:
    assert Backoff().pause_s(100.0) == 0.0


def test_pauses_double_up_to_five_seconds() -> None:
    backoff = Backoff(chance=lambda: 1.0)
    pauses = []
    for _ in range(9):
        backoff.attempted(100.0)
        pauses.append(round(backoff.pause_s(100.0), 3))
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


def test_chance_takes_away_at_most_half_of_a_pause() -> None:
    backoff = Backoff(chance=lambda: 0.0)
    backoff.attempted(100.0)
    assert backoff.pause_s(100.0) == pytest.approx(0.025)


def test_a_pause_passes_with_time() -> None:
    backoff = Backoff(chance=lambda: 1.0)
    backoff.attempted(100.0)
    assert backoff.pause_s(100.04) == pytest.approx(0.01)
    assert backoff.pause_s(101.0) == 0.0


def test_after_a_good_connection_pauses_are_short_again() -> None:
    backoff = Backoff(chance=lambda: 1.0)
    for _ in range(1000):
        backoff.attempted(100.0)
    backoff.reset()
    assert backoff.pause_s(100.0) == 0.0
    backoff.attempted(100.0)
    assert backoff.pause_s(100.0) == pytest.approx(0.05)
