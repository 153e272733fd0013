"""Pages of workflows and investigations in a real browser, with texts that would do harm if they could."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import Page, expect
from run_folders import HOSTILE
from started_ui import start_ui

from autoprompt.runs import RunStore
from autoprompt.science.records import PassLog, PassRecord
from autoprompt.workflow import Workflow
from autoprompt.workflow.engine.runner import RunSettings

FLOWS = Path(__file__).parents[2] / "configs" / "workflows"
BAD = "\n".join(text for text in HOSTILE if "\ud800" not in text)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    runs = RunStore(tmp_path_factory.mktemp("kinds") / "runs")
    mocks = yaml.safe_load((FLOWS / "triage.mocks.yaml").read_text(encoding="utf-8"))
    flow = Workflow.load(FLOWS / "triage.yaml")
    flow.run({"message": BAD}, run_id="flow", runs_dir=runs.runs_dir, settings=RunSettings(mocks=mocks))
    folder = runs.create({"task": BAD, "model": "m"}, kind="science", run_id="science")
    (folder.path / "passes").mkdir()
    text = f"<Hypothesis>\n{BAD}\n</Hypothesis>\n\n<Experiment>\n{BAD}\n</Experiment>"
    PassLog(folder.path / "passes").write(PassRecord(1, text, text, BAD, BAD + "x" * 100_000, 1))
    process, port = start_ui(runs.runs_dir)
    yield f"http://127.0.0.1:{port}"
    process.kill()
    process.communicate()


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
@pytest.mark.parametrize("run", ["flow", "science"])
def test_the_page_opens_fits_and_bears_what_is_hostile(
    served: str,
    open_page: Callable[..., Page],
    axe: Callable[[Page], list[str]],
    run: str,
    width: int,
    dark: bool,
) -> None:
    page = open_page(f"{served}/runs/{run}", width=width, dark=dark)
    page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert axe(page) == []


def test_a_node_of_the_graph_leads_to_what_it_did(served: str, open_page: Callable[..., Page]) -> None:
    page = open_page(f"{served}/runs/flow")
    page.locator(".graph a", has_text="tool, succeeded").click()
    expect(page.locator("details:target")).to_contain_text("Parcel is late")
    expect(page.locator("details:target")).to_have_attribute("open", "")
