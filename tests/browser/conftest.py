"""A real Chromium, and a page of it that notices what nobody should have to look for.

Fixtures live as long as a test file: Playwright keeps an event loop running in its thread, and
tests of other folders want to start theirs.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from console_page import ConsolePage, new_context
from console_plant import ConsolePlant
from playwright.sync_api import Browser, BrowserContext, sync_playwright

from failure_logs import show_on_failure

CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "chrome")
# It is root's here, has no graphics, and must not talk to its maker.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = next(filter(None, map(shutil.which, CHROMIUM)), None)
    assert path, "There is no Chromium. `make chromium` installs it, or says how."
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def plant(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[ConsolePlant]:
    plant = ConsolePlant(tmp_path_factory.mktemp("plant"))
    show_on_failure(request, plant.server.log_path)
    with plant:
        yield plant


@pytest.fixture(scope="session")
def screenshots(request: pytest.FixtureRequest) -> Path:
    folder = request.config.rootpath / "build" / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def context(browser: Browser) -> Iterator[BrowserContext]:
    """What pages share: files that were fetched, cookies, settings."""
    with new_context(browser) as context:
        yield context


@pytest.fixture
def page(context: BrowserContext, plant: ConsolePlant, screenshots: Path) -> Iterator[ConsolePage]:
    with ConsolePage(context, plant.url, screenshots) as page:
        yield page
