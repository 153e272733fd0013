"""A real Chromium for the pages. A page that complains, or asks anybody but this machine, fails its test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from chromium import FLAGS, chromium_path
from page_watch import watch
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

OpenPage = Callable[..., Page]


# Of a file, not of the session: Playwright holds an event loop in the thread of the tests, and those of other
# folders that come after it have loops of their own.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = chromium_path()
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield launched
        launched.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Opens a page: `open_page(url_or_path, *, width=1280, height=900, dark=False, **context_options)`.

    At the end of the test fails on an error in the console or a script, and on any request that is not for
    a file or this machine; such a request is never sent.
    """
    complaints: list[str] = []
    contexts: list[BrowserContext] = []

    def open_it(
        target: str | Path, *, width: int = 1280, height: int = 900, dark: bool = False, **options: object
    ) -> Page:
        scheme = "dark" if dark else "light"
        viewport = {"width": width, "height": height}
        context = browser.new_context(viewport=viewport, color_scheme=scheme, **options)
        contexts.append(context)
        context.set_default_timeout(90_000)  # a machine that also runs other tests
        watch(context, complaints)
        page = context.new_page()
        page.goto(target.resolve().as_uri() if isinstance(target, Path) else target)
        return page

    yield open_it
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture
def axe() -> Callable[[Page], list[str]]:
    """Serious and critical faults that axe-core finds: `axe(page)`, one line each."""
    from axe_playwright_python.sync_playwright import Axe

    def faults(page: Page) -> list[str]:
        found = Axe().run(page).response["violations"]
        return [
            f"{fault['id']}: {node['target']} {node['failureSummary'][:300]}"
            for fault in found
            if fault["impact"] in ("serious", "critical")
            for node in fault["nodes"]
        ]

    return faults
