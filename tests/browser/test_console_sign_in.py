"""A server with tokens: nothing is shown before one of them was entered."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from console_page import ConsolePage
from console_plant import ConsolePlant

TOKEN = "a token for people"


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsolePlant]:
    with ConsolePlant(tmp_path_factory.mktemp("guarded"), PENSTOCK_TOKENS=TOKEN) as plant:
        plant.open("secret-recipe")
        yield plant


def test_a_token_opens_the_console_and_signing_out_closes_it(page: ConsolePage) -> None:
    page.forgive("status of 401")
    page.open("#/streams")
    expect(page.page.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(page.page.locator("#pages")).to_be_hidden()
    token = page.page.get_by_label("Token")
    expect(token).to_be_focused()
    page.keep("sign-in")
    assert page.nameless() == []
    assert page.low_contrasts() == []
    token.fill("a guess")
    page.button("Sign in").click()
    expect(page.page.get_by_role("alert")).to_contain_text("This token is not one of the server's")

    token.fill(TOKEN)
    page.page.keyboard.press("Enter")
    expect(page.row("secret-recipe")).to_be_visible()
    page.open("#/streams")
    expect(page.row("secret-recipe")).to_be_visible()

    page.button("Sign out").click()
    expect(page.page.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(page.page.get_by_text("secret-recipe")).to_have_count(0)


def test_a_session_that_ends_elsewhere_asks_again(page: ConsolePage) -> None:
    page.forgive("status of 401")
    page.open("#/streams")
    page.page.get_by_label("Token").fill(TOKEN)
    page.page.keyboard.press("Enter")
    expect(page.row("secret-recipe")).to_be_visible()
    page.page.context.clear_cookies()
    page.page.get_by_role("link", name="secret-recipe").click()
    expect(page.page.get_by_role("heading", name="Sign in")).to_be_visible()
