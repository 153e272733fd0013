"""The page of a run in a real browser, opened from the disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page
from run_folders import hostile_run, real_run

from autoprompt.report import read_summary
from autoprompt.report.html import page as report_page
from autoprompt.report.html import trials_page
from autoprompt.report.trials import read_trials
from autoprompt.runs import RunFolder

OpenPage = Callable[..., Page]


def written(run: RunFolder, folder: Path) -> Path:
    path = folder / "report.html"
    path.write_text(report_page(read_summary(run)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    return written(real_run(folder), folder)


def rows_shown(page: Page) -> int:
    return int((page.locator(".found").text_content() or "").split()[0].replace(",", ""))


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_page_opens_fits_and_has_no_serious_fault(
    report: Path, open_page: OpenPage, axe: Callable[[Page], list[str]], width: int, dark: bool
) -> None:
    page = open_page(report, width=width, dark=dark)
    assert "unseen rows" in (page.locator("h1").text_content() or "")
    page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert axe(page) == []


def test_filters_search_and_sort(report: Path, open_page: OpenPage) -> None:
    page = open_page(report)
    all_rows = rows_shown(page)
    page.get_by_role("button", name="fixed").click()
    fixed = rows_shown(page)
    assert 0 < fixed < all_rows
    assert set(page.locator("td.state").all_text_contents()) == {"fixed"}
    label = page.locator("[data-label] option").nth(1).get_attribute("value")
    page.locator("[data-label]").select_option(label)
    assert 0 < rows_shown(page) < fixed
    page.locator("[data-label]").select_option("")
    page.get_by_role("button", name="all").click()
    page.locator("[data-search]").fill("ITEM 12")
    texts = page.locator(".rows-table td.wide-text bdi").all_text_contents()
    assert 0 < rows_shown(page) == len(texts) < all_rows
    assert all("item 12" in text for text in texts)
    assert page.locator("mark").first.text_content() == "item 12"
    page.locator("[data-search]").fill("no row says this")
    assert rows_shown(page) == 0
    page.locator("[data-search]").fill("")
    head = page.get_by_role("columnheader", name="state")
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    first = page.locator("td.state").first.text_content()
    head.get_by_role("button").click()
    assert page.locator("td.state").first.text_content() != first


def test_arrow_keys_walk_along_the_candidates(report: Path, open_page: OpenPage) -> None:
    page = open_page(report)
    figure = page.locator("#search .plot-figure")
    figure.focus()
    page.keyboard.press("Home")
    assert (figure.locator(".readout").text_content() or "").startswith("original: ")
    page.keyboard.press("ArrowRight")
    assert "round 1" in (figure.locator(".readout").text_content() or "")


@pytest.mark.parametrize("width", [1280, 390])
def test_a_click_near_a_candidate_gives_the_command_that_exports_it(
    tmp_path: Path, open_page: OpenPage, width: int
) -> None:
    run = real_run(tmp_path)
    original, other = (record["id"] for record in list(run.read_candidate_records())[:2])
    choices = [
        {"id": original, "operator": "original", "demos": 0, "tokens": 9, "score": 0.5, "is_best": False},
        {"id": other, "operator": "rewrite", "demos": 0, "tokens": 40, "score": 0.9, "is_best": True},
    ]
    for choice in choices:
        choice |= {"is_tested": True, "cost": {"amount": 0.0002, "unit": "usd"}}
    result = run.read_result() or {}
    run.write_result({**result, "trade_off": {"rows": 30, "candidates": choices}})
    page = open_page(written(run, tmp_path), width=width)
    front = page.locator("#front")
    assert front.locator(".chosen").is_hidden()
    drawing = front.locator("svg:visible")
    point = drawing.locator(".point.best")
    point.scroll_into_view_if_needed()
    box = point.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] / 2 + 8, box["y"] + box["height"] / 2 + 8)  # as a finger does
    assert (
        front.locator(".chosen code").text_content() == f"autoprompt runs export {run.reference}:{other[:6]}"
    )
    assert "0.900 in the race" in (front.locator(".readout").text_content() or "")
    assert "over USD for 1,000 calls" in (front.locator("figcaption").text_content() or "")
    assert "40 tokens per call" in (front.locator(".readout").text_content() or "")
    assert front.get_by_role("button", name="Copy").is_visible()
    front.focus()
    page.keyboard.press("Home")
    assert (
        front.locator(".chosen code").text_content()
        == f"autoprompt runs export {run.reference}:{original[:6]}"
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_without_script_everything_but_the_filters_is_there(report: Path, open_page: OpenPage) -> None:
    page = open_page(report, java_script_enabled=False)
    assert page.locator(".rows-table tbody tr").count() > 10
    assert page.locator(".filters").is_hidden()


def test_on_paper_all_rows_are_printed(report: Path, open_page: OpenPage) -> None:
    page = open_page(report)
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator(".rows-table tbody tr").count() == rows_shown(page)
    page.emulate_media(media="print")
    assert page.locator(".filters").is_hidden()


def test_hostile_texts_neither_run_nor_break_the_page(
    tmp_path: Path, open_page: OpenPage, axe: Callable[[Page], list[str]]
) -> None:
    page = open_page(written(hostile_run(tmp_path / "runs"), tmp_path), width=390)
    assert page.evaluate("window.hacked") is None
    assert page.locator("main").is_visible()
    assert page.locator("img, main script:not([type='application/json']), iframe, object").count() == 0
    assert page.evaluate("[...document.links].every((a) => a.getAttribute('href').startsWith('#'))")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert "<script>window.hacked = 1</script>" in (page.locator("#rows").text_content() or "")
    page.locator("[data-search]").fill("</script><script>")
    assert rows_shown(page) > 0
    assert page.evaluate("window.hacked") is None
    text = page.evaluate("document.body.innerText")
    assert not set(text) & set("\x1b\x07\x00\u202e\u2066\u200f")
    assert axe(page) == []


@pytest.mark.parametrize("width", [1280, 390])
def test_page_of_many_runs_sorts_and_has_no_serious_fault(
    tmp_path: Path, open_page: OpenPage, axe: Callable[[Page], list[str]], width: int
) -> None:
    for seed in (0, 1):
        real_run(tmp_path, seed=seed, max_iterations=1, no_memory=True)
    path = tmp_path / "trials.html"
    path.write_text(trials_page(read_trials(tmp_path / "runs")), encoding="utf-8")
    page = open_page(path, width=width)
    assert "2 trials" in (page.locator("h1").text_content() or "")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert axe(page) == []
    head = page.locator("#trials").get_by_role("columnheader", name="seed")
    head.get_by_role("button").click()
    first = page.locator("#trials tbody td").first
    assert (head.get_attribute("aria-sort"), first.text_content()) == ("ascending", "0")
    head.get_by_role("button").click()
    assert (head.get_attribute("aria-sort"), first.text_content()) == ("descending", "1")


def test_a_long_text_is_folded_and_opens(tmp_path: Path, open_page: OpenPage) -> None:
    page = open_page(written(hostile_run(tmp_path / "runs", longest=2000), tmp_path))
    page.locator("[data-search]").fill("long long")
    more = page.get_by_role("button", name="more", exact=True).first
    before = len(page.locator(".rows-table").text_content() or "")
    more.click()
    assert len(page.locator(".rows-table").text_content() or "") > before + 1000
    assert page.locator(".more[aria-expanded='true']").count() == 1
