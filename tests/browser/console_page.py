"""A browser's page on the console, watched for errors, strangers and nameless controls."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Locator,
    Request,
    expect,
)

CONTROLS = {
    "button",
    "checkbox",
    "combobox",
    "link",
    "radio",
    "searchbox",
    "spinbutton",
    "textbox",
    "dialog",
    "table",
    "img",
    "navigation",
    "region",
}
# Text and what is behind it, as WCAG 2 compares them; 4.5 is its least for text of this size.
LOW_CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgb = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = (color) => {
    const [r, g, b] = color.map((part) => part / 255)
      .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const color = rgb(getComputedStyle(each).backgroundColor);
      if (color[3] === 255) return color;
    }
    return [255, 255, 255, 255];
  };
  const found = [];
  for (const element of document.body.querySelectorAll("*")) {
    const hasText = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!hasText || !element.checkVisibility() || element.closest(":disabled, .unseen")) continue;
    const [a, b] = [light(rgb(getComputedStyle(element).color)), light(behind(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) found.push(`${ratio.toFixed(2)}: ${element.className} ${element.textContent}`);
  }
  return found;
}"""


# What a busy machine may take to show something; a test that fails waits no longer.
WITHIN_MS = 10_000


def new_context(browser: Browser) -> BrowserContext:
    """A browser that knows nothing yet."""
    context = browser.new_context(viewport={"width": 1400, "height": 900}, color_scheme="light")
    context.set_default_timeout(WITHIN_MS)
    expect.set_options(timeout=WITHIN_MS)
    return context


class ConsolePage:
    """One page. At the end, nothing may have gone wrong that no test asked for."""

    def __init__(self, context: BrowserContext, url: str, screenshots: Path) -> None:
        self.url = url
        self._screenshots = screenshots
        self._context = context
        self.page = context.new_page()
        self.page.on("request", self._on_request)
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self._errors.append(str(error)))
        self.page.on("dialog", self._on_dialog)
        self._strangers: list[str] = []
        self._errors: list[str] = []
        self._forgiven: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.page.close()
        if error is None:
            assert self._strangers == []
            assert [each for each in self._errors if not self._is_forgiven(each)] == []

    def open(self, address: str) -> None:
        """Load the console anew, at an address such as #/streams."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.url}/{address}")

    def forget_files(self) -> None:
        """What was fetched before is fetched again."""
        session = self._context.new_cdp_session(self.page)
        session.send("Network.clearBrowserCache")
        session.detach()

    def forgive(self, text: str) -> None:
        """Errors with this text are what the test is about."""
        self._forgiven.append(text)

    def row(self, text: str) -> Locator:
        """The row of a table that has the text."""
        return self.page.locator("tbody tr").filter(has_text=text)

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    def dialog(self) -> Locator:
        return self.page.get_by_role("dialog")

    def toast(self, text: str) -> None:
        """Wait until the page said so."""
        expect(self.page.locator("#toasts").get_by_text(text)).to_be_visible()

    def until(self, script: str, argument: Any = None) -> Any:
        """Wait until a function of the page is true; what it gave."""
        return self.page.wait_for_function(script, arg=argument).json_value()

    def keep(self, name: str) -> None:
        """A picture of it, for people."""
        self.page.screenshot(path=self._screenshots / f"{name}.png")

    def nameless(self) -> list[str]:
        """Controls and landmarks that a screen reader would have no name for."""
        session = self._context.new_cdp_session(self.page)
        nodes = session.send("Accessibility.getFullAXTree")["nodes"]
        session.detach()
        return [
            str(node)
            for node in nodes
            if not node["ignored"]
            and node["role"]["value"] in CONTROLS
            and not node.get("name", {}).get("value", "").strip()
        ]

    def low_contrasts(self) -> list[str]:
        """Texts that are hard to read."""
        found: list[str] = self.page.evaluate(LOW_CONTRAST)
        return found

    def download(self, action: Callable[[], None]) -> bytes:
        """The file that an action brings."""
        with self.page.expect_download() as found:
            action()
        return found.value.path().read_bytes()

    def _on_request(self, request: Request) -> None:
        place = urlsplit(request.url)
        if (
            place.scheme in ("http", "https", "ws", "wss")
            and f"{self.url}/".find(f"//{place.netloc}/") < 0
        ):
            self._strangers.append(request.url)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._errors.append(message.text)

    def _on_dialog(self, dialog: Dialog) -> None:
        self._errors.append(f"a dialog of the browser: {dialog.message}")
        dialog.dismiss()

    def _is_forgiven(self, text: str) -> bool:
        return any(each in text for each in self._forgiven)
