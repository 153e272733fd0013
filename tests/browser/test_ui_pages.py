"""The pages over the runs in a real browser: they open, follow, filter, compare, and bear what is hostile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from fakes import World
from playwright.sync_api import Browser, Page, expect
from run_folders import hostile_run, real_run
from started_ui import start_ui
from written_runs import begin, propose, settle, tell

from autoprompt.runs import RunFolder, RunStore

OpenPage = Callable[..., Page]
Axe = Callable[[Page], list[str]]
PATIENCE_MS = 20_000
A, B = "a" * 12, "b" * 12

expect.set_options(timeout=PATIENCE_MS)


@dataclass(frozen=True)
class Ui:
    address: str
    runs: RunStore

    def of(self, run: RunFolder) -> str:
        return f"{self.address}/runs/{run.run_id}"


@pytest.fixture
def ui(tmp_path: Path) -> Iterator[Ui]:
    process, port = start_ui(tmp_path / "runs")
    yield Ui(f"http://127.0.0.1:{port}", RunStore(tmp_path / "runs"))
    process.kill()
    process.communicate()


@dataclass(frozen=True)
class Many:
    """A server over two finished runs, a hostile one, and one that stopped."""

    ui: Ui
    good: RunFolder
    other: RunFolder
    hostile: RunFolder
    stopped: RunFolder

    def pages(self) -> dict[str, str]:
        pair = f"run={self.good.run_id}&run={self.other.run_id}"
        return {
            "list": f"{self.ui.address}/",
            "report": self.ui.of(self.good),
            "comparison": f"{self.ui.address}/compare?{pair}",
            "stopped": self.ui.of(self.stopped),
        }


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Many]:
    folder = tmp_path_factory.mktemp("many")
    process, port = start_ui(folder / "runs")
    ui = Ui(f"http://127.0.0.1:{port}", RunStore(folder / "runs"))
    good = real_run(folder)
    other = real_run(folder, World(base=0.5, rule_gain=0.1), seed=3)
    stopped = begin(ui.runs, "标题")
    propose(stopped, A, "added: 标题党的特征")
    settle(stopped, A, 0.75)
    propose(stopped, B)
    yield Many(ui, good, other, hostile_run(folder / "runs"), stopped)
    process.kill()
    process.communicate()


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", ["list", "report", "comparison", "stopped"])
def test_every_page_opens_fits_and_has_no_serious_fault(
    many: Many, open_page: OpenPage, axe: Axe, name: str, width: int, dark: bool
) -> None:
    page = open_page(many.pages()[name], width=width, dark=dark)
    expect(page.locator("h1")).to_be_visible()
    page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert axe(page) == []


def test_pages_work_without_script(many: Many, open_page: OpenPage) -> None:
    page = open_page(many.pages()["list"], java_script_enabled=False)
    page.locator("input[name=q]").fill(many.good.run_id)
    page.get_by_role("button", name="Show").click()
    expect(page.locator("table.list tbody tr")).to_have_count(1)
    page.get_by_role("link", name=many.good.run_id).click()
    expect(page.locator("#verdict h1")).to_be_visible()


def test_search_filter_and_sort_of_the_list(many: Many, open_page: OpenPage) -> None:
    page = open_page(many.pages()["list"])
    rows = page.locator("table.list tbody tr")
    expect(rows).to_have_count(4)
    page.get_by_label("search").fill("标题")
    expect(rows).to_have_count(1)
    assert page.locator("input[name=q]").evaluate("box => box === document.activeElement")
    assert "q=%E6%A0%87%E9%A2%98" in page.url
    page.get_by_label("search").fill("")
    page.get_by_label("state").select_option("interrupted")
    expect(rows).to_have_count(1)
    page.get_by_label("state").select_option("finished")
    expect(rows).to_have_count(3)
    page.locator("#sort-best").click()
    expect(page.locator("th[aria-sort=descending]")).to_contain_text("best")
    falling = page.locator("td.best").all_text_contents()
    page.locator("#sort-best").click()
    expect(page.locator("th[aria-sort=ascending]")).to_contain_text("best")
    assert page.locator("td.best").all_text_contents() == falling[::-1]
    assert page.evaluate("document.activeElement.id") == "sort-best"
    page.reload()
    expect(rows).to_have_count(3)
    page.get_by_label("search").fill("no run says this")
    expect(page.locator("#runs")).to_contain_text("No run fits")
    page.get_by_role("link", name="Show all").click()
    expect(rows).to_have_count(4)


def test_two_runs_are_chosen_and_compared(many: Many, open_page: OpenPage) -> None:
    page = open_page(many.pages()["list"])
    button = page.locator("#compare-button")
    expect(button).to_be_disabled()
    for run in (many.stopped, many.good, many.other):
        page.get_by_label(f"compare {run.run_id}").check(force=True)
    expect(page.locator("input[name=run]:checked")).to_have_count(2)
    expect(page.get_by_label(f"compare {many.stopped.run_id}")).not_to_be_checked()
    button.click()
    expect(page.locator("h1")).to_contain_text("shared rows")
    shown = page.locator("#differing tbody tr:visible")
    all_rows = shown.count()
    assert all_rows > 0
    page.locator("[data-winner]").first.select_option("a")
    best_in_a = shown.count()
    page.locator("[data-winner]").first.select_option("b")
    assert best_in_a + shown.count() == all_rows
    page.locator("[data-winner]").first.select_option("")
    page.locator("[data-find]").fill("no row says this")
    expect(shown).to_have_count(0)
    expect(page.locator("#rows .found")).to_have_text(f"0 of {all_rows}")


def test_the_filters_of_the_report_work_here_too(many: Many, open_page: OpenPage) -> None:
    page = open_page(many.pages()["report"])
    page.locator("[data-filter=fixed]").click()
    assert set(page.locator("#rows td.state").all_text_contents()) == {"fixed"}


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_of_a_hostile_run_runs_or_hides(many: Many, open_page: OpenPage, width: int) -> None:
    run = many.hostile.run_id
    for path in ("/", f"/runs/{run}", f"/compare?run={run}&run={many.good.run_id}"):
        page = open_page(many.ui.address + path, width=width)
        page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
        assert page.evaluate("window.hacked") is None
        assert page.locator("body").is_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_hostile_run_at_work_is_followed(ui: Ui, open_page: OpenPage) -> None:
    run = hostile_run(ui.runs.runs_dir)
    run.result_path.unlink()
    with run.lock():
        page = open_page(ui.of(run))
        tell(
            run,
            "warning",
            message="<img src=x onerror='window.hacked = 1'><script>window.hacked = 2</script>\x1b[2J\u202e",
        )
        expect(page.locator("#live-log")).to_contain_text("<img src=x")
        expect(page.locator("#live-log")).to_contain_text("[U+202E]")
        assert page.evaluate("window.hacked") is None


def test_the_theme_is_kept(many: Many, open_page: OpenPage) -> None:
    page = open_page(many.pages()["list"], dark=False)
    button = page.locator("#theme")
    paper = "getComputedStyle(document.documentElement).backgroundColor"
    light = page.evaluate(paper)
    button.click()
    button.click()
    expect(button).to_have_text("theme: dark")
    dark = page.evaluate(paper)
    assert dark != light
    page.goto(many.pages()["report"])
    assert page.evaluate(paper) == dark


def test_the_keyboard_reaches_everything(many: Many, open_page: OpenPage) -> None:
    page = open_page(many.pages()["list"])
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    reached = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.name"))
    assert {"theme", "q", "kind", "state", "sort-run", "sort-best", "pick-1", "run-1"} <= reached


def test_a_page_says_that_the_server_is_gone_and_goes_on_when_it_is_back(
    tmp_path: Path, browser: Browser
) -> None:
    # Not `open_page`: a connection that is refused is an error in the console.
    runs = RunStore(tmp_path / "runs")
    run = begin(runs)
    process, port = start_ui(runs.runs_dir)
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{port}/runs/{run.run_id}")
    process.kill()
    process.communicate()
    expect(page.locator("#link-state")).to_contain_text("does not answer")
    propose(run, A, "added: while it was away")
    process, _ = start_ui(runs.runs_dir, port)
    try:
        expect(page.locator("#live-race")).to_contain_text("while it was away")
        expect(page.locator("#link-state")).to_have_text("")
    finally:
        context.close()
        process.kill()
        process.communicate()
