"""Rows and demonstrations that are conversations, as a chat in the report and on the web page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page
from started_ui import start_ui

from autoprompt import Models, RunConfig, optimize
from autoprompt.llm import ScriptedClient
from autoprompt.llm.client import Completion, Options
from autoprompt.records import Message
from autoprompt.report import read_summary
from autoprompt.report.html import page as report_page
from autoprompt.runs import RunStore

OpenPage = Callable[..., Page]


def turns(number: int) -> list[dict[str, Any]]:
    found = [
        {"role": "user", "content": f"First {number + 1}."},
        {"role": "assistant", "content": "And now?"},
    ]
    call = {"id": "c", "type": "function", "function": {"name": "find", "arguments": f'{{"n":{number}}}'}}
    found += [{"role": "assistant", "content": None, "tool_calls": [call]}]
    found += [{"role": "tool", "content": f"case {number} found", "tool_call_id": "c"}]
    return [*found, {"role": "user", "content": f"Now it is number {number}."}]


def student(messages: list[Message], options: Options) -> Completion:
    if options.role == "optimizer":
        return Completion("Look at the last number.")
    number = int(messages[-1].content.removesuffix(".").split()[-1])
    is_right = number % 3 == 0 or len(messages) > 12
    return Completion(("even", "odd")[number % 2] if is_right else "even")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("chats")
    rows = [{"input": turns(n), "target": ("even", "odd")[n % 2]} for n in range(120)]
    config = RunConfig(
        prompt="Odd or even?", runs_dir=found / "runs", no_cache=True, no_memory=True, max_calls=600
    )
    result = optimize(config, rows=rows, models=Models(ScriptedClient(student, name="student")))
    assert result.best.demos
    text = report_page(read_summary(RunStore(found / "runs").open(result.run_id)))
    (found / "report.html").write_text(text, encoding="utf-8")
    return found


@pytest.fixture
def address(folder: Path) -> Iterator[str]:
    process, port = start_ui(folder / "runs")
    yield f"http://127.0.0.1:{port}"
    process.kill()
    process.communicate()


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_the_report_shows_chats(
    folder: Path, open_page: OpenPage, axe: Callable[[Page], list[str]], width: int, dark: bool
) -> None:
    page = open_page(folder / "report.html", width=width, dark=dark)
    chat = page.locator("#rows .chat").first
    assert [turn.split()[0] for turn in chat.locator("li:not(.earlier)").all_text_contents()] == [
        "assistant", "tool", "user",
    ]  # fmt: skip
    chat.get_by_role("button", name="2 earlier turns").click()
    whole = page.locator("#rows .chat").first
    assert whole.locator("li").count() == 5
    assert 'find({"n":' in (whole.text_content() or "")
    assert page.locator("#prompt .demos .chat").first.locator("li").count() == 5
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert axe(page) == []


def test_a_search_looks_into_all_turns(folder: Path, open_page: OpenPage) -> None:
    page = open_page(folder / "report.html")
    number = int((page.locator("#rows .chat .tool bdi").first.text_content() or "").split()[1])
    page.locator("[data-search]").fill(f"First {number + 1}.")
    assert page.locator("#rows .chat").count() == 1
    assert page.locator("#rows .chat li").count() == 5
    assert page.locator("#rows mark").count() == 1


def test_without_script_the_turns_are_there(folder: Path, open_page: OpenPage) -> None:
    page = open_page(folder / "report.html", java_script_enabled=False)
    assert page.locator("#rows .chat").first.locator("li").count() == 5


def test_the_web_page_shows_chats(address: str, folder: Path, open_page: OpenPage) -> None:
    (run,) = RunStore(folder / "runs").list()
    page = open_page(f"{address}/runs/{run.run_id}")
    page.locator("#rows .chat").first.wait_for()
    assert page.locator("#prompt .demos .chat").count() > 0
    compared = open_page(f"{address}/compare?run={run.run_id}&run={run.run_id}")
    assert compared.locator("#prompt .demos .chat").count() > 0
