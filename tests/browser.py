"""A real headless browser for tests of pages: Chromium, driven by playwright; tests skip where either is missing.

Use in a test file:

    from browser import Browser, browser  # noqa: F401  (the fixture)

    def test_page(browser, tmp_path):
        with browser.open(tmp_path / "page.html", width=400, scheme="dark") as view:
            assert view.troubles() == []
            view.page.locator("h1").click()
            view.screenshot(tmp_path / "page.png")
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--no-first-run"),
)
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@dataclass
class View:
    """An open page, and what went wrong on it so far.

    Attributes:
        page: playwright's page.
        console: console messages of type error or warning.
        errors: uncaught exceptions of scripts.
        failed: requests that failed, with the cause.
        requests: addresses of all requests but the page's own, `data:` and `blob:`.
    """

    page: Any
    console: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def troubles(self) -> list[str]:
        """All of it: an empty list means a clean page that asked for nothing beside itself."""
        return self.console + self.errors + self.failed + self.requests

    def overflow(self) -> int:
        """How many pixels the page is wider than the window: 0 on a page that fits."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))

    def screenshot(self, path: Path, full: bool = True) -> Path:
        """Write a PNG of the whole page (or of the window) and return its path."""
        self.page.screenshot(path=str(path), full_page=full)
        return path


class Browser:
    """A running Chromium."""

    def __init__(self, chromium: Any) -> None:
        self._chromium = chromium

    @contextmanager
    def open(
        self, path: Path, width: int = 1280, height: int = 800, scheme: str = "light", scripts: bool = True
    ) -> Iterator[View]:
        """Open a local file (or a URL given as str) in a fresh profile; `scheme` is `light` or `dark`."""
        address = path if isinstance(path, str) else path.resolve().as_uri()
        context = self._chromium.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, java_script_enabled=scripts
        )
        try:
            page = context.new_page()
            view = View(page)
            page.on("console", lambda m: view.console.append(m.text) if m.type in ("error", "warning") else None)
            page.on("pageerror", lambda error: view.errors.append(str(error)))
            page.on("requestfailed", lambda request: view.failed.append(f"{request.url}: {request.failure}"))
            page.on("request", lambda request: _note(view, request.url, address))
            page.goto(address, wait_until="load")
            yield view
        finally:
            context.close()


def _note(view: View, url: str, address: str) -> None:
    if not url.startswith(("data:", "blob:")) and url.split("#")[0] != address.split("#")[0]:
        view.requests.append(url)


def executable() -> str | None:
    """The path of an installed Chromium (`AEG_CHROMIUM`, else found in PATH), or None."""
    named = os.environ.get("AEG_CHROMIUM")
    return named or next((found for name in _NAMES if (found := shutil.which(name))), None)


@contextmanager
def running() -> Iterator[Browser]:
    """Start Chromium and end it; the caller has made sure that it and playwright are there."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=executable(), args=list(FLAGS))
        try:
            yield Browser(chromium)
        finally:
            chromium.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A running Chromium for the tests of a module; they are skipped where there is none."""
    if importlib.util.find_spec("playwright") is None:
        pytest.skip("the package playwright is not installed")
    if executable() is None:
        pytest.skip("no Chromium was found; install the system's package or set AEG_CHROMIUM")
    with running() as started:
        yield started
