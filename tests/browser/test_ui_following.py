"""A run that writes, is killed and goes on, as the tabs of a real browser see it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium import FLAGS, chromium_path
from fake_endpoint import FakeEndpoint, Reply, answer, fake_endpoint
from fakes import PROMPT, World, target_of, writer
from playwright.sync_api import Browser, Page, expect
from started_ui import start_ui
from written_runs import begin, propose, settle, tell

from autoprompt.llm.client import Options
from autoprompt.records import Message
from autoprompt.runs import RunFolder, RunStore

OpenPage = Callable[..., Page]
TABS = 50
A, B = "a" * 12, "b" * 12
_CLI = [sys.executable, "-c", "from autoprompt.cli import main; main()"]

expect.set_options(timeout=60_000)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    process, port = start_ui(tmp_path / "runs")
    yield f"http://127.0.0.1:{port}"
    process.kill()
    process.communicate()


@pytest.fixture
def runs(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / "runs")


class Gate:
    """An endpoint that answers the first `open_for` questions, then none until it is opened wide."""

    def __init__(self, open_for: int) -> None:
        self.left = open_for
        self.is_wide = threading.Event()
        self._world = World(base=0.2, rule_gain=0.5, demo_gain=0.4)

    def __call__(self, body: dict[str, Any]) -> Reply:
        self.left -= 1
        messages = [Message(m["role"], m["content"]) for m in body["messages"]]
        is_row = re.fullmatch(r"item \d+", messages[-1].content)
        said = (self._world.student if is_row else writer)(messages, Options(seed=body.get("seed")))
        reply = answer(said.text)
        return reply if self.left >= 0 else Reply(body=reply.body, hangs_until=self.is_wide)


class Optimization:
    """`autoprompt run` and `resume` as processes, on an endpoint behind a gate."""

    def __init__(self, folder: Path, endpoint: FakeEndpoint) -> None:
        self._folder = folder
        rows = [{"input": f"item {n}", "target": target_of(n)} for n in range(120)]
        (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        (folder / "c.yaml").write_text(
            f"dataset: rows.jsonl\nprompt: {PROMPT}\nmodel: m\nbase_url: {endpoint.base_url}\n"
            "labels: [A, B]\npreset: quick\nconcurrency: 1\nno_memory: true\nno_cache: true\n",
            encoding="utf-8",
        )

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*_CLI, *words, "--quiet"],
            cwd=self._folder,
            env={**os.environ, "OPENAI_API_KEY": "sk-of-a-test"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


def test_a_run_that_is_killed_and_resumed_is_followed_to_its_report(
    served: str, tmp_path: Path, open_page: OpenPage
) -> None:
    gate = Gate(open_for=40)
    with fake_endpoint(gate) as endpoint:
        optimization = Optimization(tmp_path, endpoint)
        page = open_page(served)
        expect(page.locator("#runs")).to_contain_text("None yet")
        process = optimization.start("run", "--config", "c.yaml")
        try:
            expect(page.locator(".state-of")).to_contain_text("running")
            page.locator("#run-1").click()
            expect(page.locator(".mark")).to_have_text("Running")
            expect(page.locator("#live-race tbody tr").first).to_contain_text("racing")
            expect(page.locator("#live-now")).to_contain_text("calls")
        finally:
            process.kill()
            process.wait()
        expect(page.locator(".mark")).to_have_text("Interrupted")
        expect(page.locator("#live-head")).to_contain_text("autoprompt resume")
        gate.is_wide.set()
        gate.left = 10**6
        (run,) = (path.name for path in (tmp_path / "runs").iterdir() if path.is_dir())
        process = optimization.start("resume", run)
        try:
            # The resumed run has to start first, and on a busy machine that takes its time.
            expect(page.locator("#verdict h1")).to_be_visible(timeout=120_000)
            assert process.wait(60) == 0
        finally:
            process.kill()
            process.wait()
    expect(page.locator("#rows .found")).to_be_visible()
    page.goto(served)
    expect(page.locator(".state-of")).not_to_contain_text("running")


def test_every_moment_of_a_torn_log_is_a_whole_one(served: str, runs: RunStore, open_page: OpenPage) -> None:
    """An event is written byte by byte: what is shown is the state before it, then the state after it."""
    run = begin(runs)
    propose(run, A, "added: the first")
    with run.lock():
        page = open_page(f"{served}/runs/{run.run_id}")
        expect(page.locator("#live-race tbody tr")).to_have_count(1)
        page.evaluate("""() => {
            window.seen = new Set();
            new MutationObserver(() => window.seen.add(document.querySelector("#live-race").innerText))
                .observe(document.querySelector("#live"), {childList: true, subtree: true});
        }""")
        line = json.dumps(
            {"event": "candidate_proposed", "id": B, "operator": "patch", "change": "added: 第二"}
        )
        with run.events_path.open("ab", buffering=0) as stream:
            for byte in line.encode():
                stream.write(bytes([byte]))
            tell_time(run, page)
            expect(page.locator("#live-race tbody tr")).to_have_count(1)
            stream.write(b"\n")
        expect(page.locator("#live-race tbody tr")).to_have_count(2)
        assert all("第二" in text or "patch" not in text for text in page.evaluate("[...window.seen]"))


def tell_time(run: RunFolder, page: Page) -> None:
    """Have the page hear of something else, so that it has surely looked."""
    spent = {"calls": 77, "tokens": 1, "cost_usd": None, "seconds": 1.0}
    event = {"event": "rows_evaluated", "what": "race", "done": 1, "total": 2, "spent": spent}
    run.progress_path.write_text(json.dumps(event), encoding="utf-8")
    expect(page.locator("#live-now")).to_contain_text("77 of at most 200")


@pytest.fixture
def frugal(browser: Browser) -> Iterator[Browser]:
    """Its tabs share one process, as those of one site do where memory is short: 50 would take gigabytes."""
    args = [*FLAGS, "--process-per-site"]
    launched = browser.browser_type.launch(executable_path=chromium_path(), args=args)
    yield launched
    launched.close()


def test_fifty_tabs_follow_one_run_over_one_connection(served: str, runs: RunStore, frugal: Browser) -> None:
    run = begin(runs)
    with run.lock():
        context = frugal.new_context()
        listening: set[Page] = set()
        context.on("request", lambda r: "/events" in r.url and listening.add(r.frame.page))
        pages = [context.new_page() for _ in range(TABS)]
        for page in pages:
            page.goto(f"{served}/runs/{run.run_id}")
        propose(run, A, "added: for all to see")
        for page in pages:
            expect(page.locator("#live-race")).to_contain_text("for all to see")
        assert len(listening) == 1
        (leader,) = listening
        pages.remove(leader)
        leader.close()
        settle(run, A, 0.75)
        for page in pages:
            expect(page.locator("#live-race")).to_contain_text("accepted")
        assert len(listening) == 2
        context.close()


def test_the_list_and_a_batch_follow_their_runs(served: str, runs: RunStore, open_page: OpenPage) -> None:
    batch = runs.create({"name": "matrix"}, kind="batch", run_id="matrix")
    with batch.lock():
        page = open_page(f"{served}/runs/matrix")
        expect(page.locator("h1")).to_contain_text("0 trials")
        trial = begin(RunStore(batch.path), "first", seed=1)
        expect(page.locator("#at-work")).to_contain_text(trial.run_id)
        tell(trial, "best_changed", id=A, score=0.75, rows=16, original_score=0.5)
        expect(page.locator("#at-work")).to_contain_text("best so far 0.750")
        page.locator("#at-work a").click()
        expect(page.locator(".trail")).to_contain_text("matrix")
        expect(page.locator("#live-head")).to_contain_text("Best so far 0.750")
        page.goto(served)
        expect(page.locator("table.list tbody tr")).to_have_count(1)
    expect(page.locator(".state-of")).to_contain_text("interrupted")
