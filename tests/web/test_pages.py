"""Every page, asked for as a browser does."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from run_folders import hostile_run, real_run
from written_runs import begin, propose

from autoprompt.runs import RunFolder, RunStore
from autoprompt.web.app import Site, make_site
from autoprompt.web.library import PAGE
from autoprompt.web.live import LiveState
from autoprompt.web.pages import clock, file_name, moment, phase, slug

Ask = Callable[..., httpx.Response]
A = "a" * 12


class Page(HTMLParser):
    """The tags of a page and what could run in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.faults: list[str] = []
        self.ids: list[str] = []
        self._script = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append(tag)
        self.ids += [given["id"] or ""] if "id" in given else []
        self.faults += [f"{tag} {name}" for name in given if name.startswith("on") or name == "style"]
        for name in ("href", "src", "action"):
            value = given.get(name) or ""
            if value and not value.startswith(("/", "#", "?")):
                self.faults.append(f"{tag} {name}={value}")
        if tag == "script" and "src" not in given and given.get("type") != "application/json":
            self.faults.append("inline script")
        if tag in ("style", "iframe", "object", "embed", "base", "meta") and given.get("http-equiv"):
            self.faults.append(tag)


def page(answer: httpx.Response) -> Page:
    assert answer.status_code == 200, answer.text[:500]
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    read = Page(answer.text)
    assert read.faults == []
    assert len(read.ids) == len(set(read.ids))
    return read


def test_an_empty_folder_says_what_to_do(ask: Ask) -> None:
    answer = ask("/")
    page(answer)
    assert "autoprompt run --dataset" in answer.text


def test_the_list_links_every_run(ask: Ask, runs: RunStore) -> None:
    made = [begin(runs, name) for name in ("a", "标题")]
    answer = ask("/")
    page(answer)
    for run in made:
        link = f"/runs/{quote(run.run_id)}"
        assert f'"{link}"' in answer.text
        assert ask(link).status_code == 200


def test_the_list_is_filtered_by_its_address(ask: Ask, runs: RunStore) -> None:
    made = [begin(runs, name) for name in ("apples", "pears")]
    text = ask("/?q=apples").text
    assert made[0].run_id in text
    assert made[1].run_id not in text
    assert "1 of 2 runs" in " ".join(text.split())


def test_the_list_has_names_tags_totals_and_pages(ask: Ask, runs: RunStore) -> None:
    told = {"name": "first <b>try</b>", "tags": ["desk"], "notes": "Before the move."}
    runs.create({"dataset": Path("apples.jsonl"), **told})
    for number in range(PAGE):
        begin(runs, f"pears{number}")
    first, second = ask("/"), ask("/?page=2")
    page(first)
    page(second)
    assert "page 1 of 2" in first.text
    assert 'page=2" data-swap id="page-after"' in first.text
    assert "first &lt;b&gt;try&lt;/b&gt;" in second.text
    assert "first &lt;b&gt;" not in first.text
    assert "Before the move." in second.text
    assert "apples.jsonl" in second.text
    assert f"{PAGE + 1} runs in" in " ".join(second.text.split())
    tagged = ask("/?tag=desk").text
    assert f"1 of {PAGE + 1} runs" in " ".join(tagged.split())
    assert '<option value="desk" selected>' in tagged


def test_a_running_run_is_shown_live_and_escaped(
    ask: Ask, runs: RunStore, held: Callable[[RunFolder], None]
) -> None:
    run = begin(runs)
    propose(run, A, "added: <script>alert(1)</script>")
    held(run)
    answer = ask(f"/runs/{run.run_id}")
    read = page(answer)
    assert "Round 1 of at most 3: measuring candidates" in answer.text
    assert "&lt;script&gt;alert(1)" in answer.text
    assert {"live", "live-race", "live-log", "parts"} <= set(read.ids)
    assert 'data-status="running"' in answer.text


def test_an_interrupted_run_says_how_to_go_on(ask: Ask, runs: RunStore) -> None:
    run = begin(runs)
    assert f"autoprompt resume {run.path}<" in ask(f"/runs/{run.run_id}").text


def test_a_finished_run_is_its_report(tmp_path: Path, ask: Ask) -> None:
    run = real_run(tmp_path)
    answer = ask(f"/runs/{run.run_id}")
    read = page(answer)
    assert {"verdict", "scores", "prompt", "rows", "cost", "settings"} <= set(read.ids)
    assert "live" not in read.ids
    choice = {"operator": "demos", "demos": 2, "tokens": 1240, "score": 0.75, "is_best": False}
    choice |= {"is_tested": False, "cost": {"amount": 0.0002, "unit": "usd"}}
    trade_off = {"rows": 30, "candidates": [{**choice, "id": "<b>" * 4}]}
    run.write_result({**(run.read_result() or {}), "trade_off": trade_off})
    text = ask(f"/runs/{run.run_id}").text
    assert "means of the 30 rows that raced, no proof." in re.sub("<[^>]+>", "", text)
    found = re.search(r'<th scope="row">&lt;b&gt;&lt;b&gt;[^<]*</th>(.*)</tr>', text)
    assert found is not None
    assert found[1] == "<td>0.750</td><td>$0.20</td><td>1,240</td><td>2</td>"


@pytest.fixture
def hostile(runs: RunStore) -> RunFolder:
    return hostile_run(runs.runs_dir)


@pytest.mark.parametrize("address", ["/", "/?q=<script>", "/runs/{run}", "/compare?run={run}&run={run}"])
def test_nothing_of_a_hostile_run_becomes_markup(ask: Ask, hostile: RunFolder, address: str) -> None:
    answer = ask(address.replace("{run}", hostile.run_id))
    read = page(answer)
    assert "img" not in read.tags
    for bad in ("\x1b", "\x00", "\u202e", "\u2066"):
        assert bad not in answer.text


def test_a_hostile_run_at_work_is_told_without_markup(site: Site, ask: Ask, hostile: RunFolder) -> None:
    hostile.result_path.unlink()
    page(ask(f"/runs/{hostile.run_id}"))


def test_a_run_without_a_result_or_candidates_opens(ask: Ask, runs: RunStore) -> None:
    run = runs.create({"dataset": Path("rows.jsonl"), "prompt": "p"})
    page(ask(f"/runs/{run.run_id}"))


def test_a_damaged_run_is_explained(ask: Ask, runs: RunStore) -> None:
    run = begin(runs)
    run.candidates_path.write_text("nonsense\n", encoding="utf-8")
    answer = ask(f"/runs/{run.run_id}")
    assert answer.status_code == 409
    assert "candidates.jsonl line 1" in answer.text
    assert ask("/").status_code == 200


@pytest.mark.parametrize("query", ["", "?run=a", "?run=a&run=b&run=c"])
def test_a_comparison_takes_two(ask: Ask, query: str) -> None:
    assert ask(f"/compare{query}").status_code == 400


def test_assets_are_kept_by_the_browser_and_change_their_name(ask: Ask) -> None:
    text = ask("/").text
    addresses = [part for part in text.split('"') if part.startswith("/assets/")]
    assert len(addresses) == 7
    for address in addresses:
        answer = ask(address)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
        assert ask(address.replace(".", ".0", 1)).status_code == 404


def test_pages_need_no_folder(tmp_path: Path) -> None:
    assert make_site(tmp_path / "no" / "runs").hub.clients == 0


def test_news_are_json(ask: Ask) -> None:
    assert json.loads(ask("/news?after=x").text) == []


def test_a_batch_is_a_table_that_links_its_trials(ask: Ask, runs: RunStore, tmp_path: Path) -> None:
    batch = runs.create({"name": "matrix"}, kind="batch", run_id="matrix")
    (tmp_path / "elsewhere").mkdir()
    done = real_run(tmp_path / "elsewhere")
    done.path.rename(batch.path / done.run_id)
    waiting = begin(RunStore(batch.path), "标题")
    answer = ask("/runs/matrix")
    read = page(answer)
    assert {"trials", "prompts", "at-work"} <= set(read.ids)
    assert "2 trials" in answer.text
    for trial in (done, waiting):
        link = f"/runs/matrix/{quote(trial.run_id)}"
        assert f'"{link}"' in answer.text
        trial_answer = ask(link)
        page(trial_answer)
    assert f"autoprompt resume {batch.path}" in answer.text
    assert f"autoprompt resume {batch.path}<" in trial_answer.text  # a trial goes on with its batch


def test_a_trial_that_holds_a_link_shuts_its_batch(ask: Ask, runs: RunStore, tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text('{"schema_version": 2, "message": "hunter2"}', encoding="utf-8")
    batch = runs.create({"name": "matrix"}, kind="batch", run_id="matrix")
    trial = begin(RunStore(batch.path))
    trial.result_path.symlink_to(secret)
    answer = ask("/runs/matrix")
    assert answer.status_code == 409
    assert "hunter2" not in answer.text


@pytest.mark.parametrize(
    ("state", "status", "expected"),
    [
        (LiveState(), "running", "Starting"),
        (LiveState(), "interrupted", "Stopped at the start"),
        (
            LiveState(node="rewrite", iteration=2, max_iterations=6),
            "running",
            "Round 2 of at most 6: writing candidates",
        ),
        (LiveState(node="rewrite", iteration=2), "interrupted", "Stopped in round 2, writing candidates"),
        (LiveState(node="a later step", iteration=1), "running", "Round 1: a later step"),
    ],
)
def test_phase(state: LiveState, status: str, expected: str) -> None:
    assert phase(state, status) == expected


def test_times_and_what_is_none() -> None:
    assert clock("2026-11-22T07:20:54+00:00") == "07:20:54"
    assert moment("2026-11-22T07:20:54+00:00") == "2026-11-22 07:20"
    assert (clock("<script>"), moment("")) == ("", "–")


def test_names() -> None:
    assert file_name("/data/标题.jsonl") == "标题.jsonl"
    assert slug('warning" onclick="x') == "warningonclickx"
