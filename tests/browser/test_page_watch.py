"""The watch over the pages sees what it is there to see."""

from __future__ import annotations

from pathlib import Path

import pytest
from page_watch import stays_here, watch
from playwright.sync_api import Browser


@pytest.mark.parametrize(
    ("url", "stays"),
    [
        ("file:///tmp/a.html", True),
        ("data:text/html,x", True),
        ("http://127.0.0.1:8000/x", True),
        ("http://localhost/x", True),
        ("https://example.org/", False),
        ("http://127.0.0.1.example.org/", False),
    ],
)
def test_what_stays_on_this_machine(url: str, stays: bool) -> None:
    assert stays_here(url) is stays


def test_errors_and_requests_are_noted(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "bad.html"
    path.write_text(
        "<!doctype html><title>bad</title><img src='https://example.org/x.png'>"
        "<script>console.error('said'); throw new Error('thrown')</script>",
        encoding="utf-8",
    )
    noted: list[str] = []
    context = browser.new_context()
    watch(context, noted)
    context.new_page().goto(path.as_uri(), wait_until="load")
    context.close()
    told = "\n".join(noted)
    assert "a request left the machine: https://example.org/x.png" in told
    assert "console: said" in told
    assert "thrown" in told
