"""What the files of a search say of its candidates."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from fakes import World, run_config, writer

from autoprompt import Models, optimize
from autoprompt.llm import ScriptedClient
from autoprompt.report import RunSummary, read_summary
from autoprompt.report.html import page
from autoprompt.report.markdown import markdown
from autoprompt.report.reading import read_candidates
from autoprompt.runs import RunStore


def record(name: str, operator: str, **scores: float) -> dict[str, Any]:
    return {"id": name, "operator": operator, "components": {"prompt": name}, "scores": scores}


def test_the_original_is_shown_on_the_rows_that_raced_and_not_on_those_of_the_confirmation() -> None:
    """A run of one round writes the winner down once: with the rows that confirmed it."""
    records = [
        record("original", "original", v1=1.0, v2=0.0, fresh=1.0, train=1.0),
        record("loser", "demos", v1=0.0, v2=0.0),
        record("winner", "demos", v1=1.0, v2=1.0, fresh=1.0, train=1.0),
    ]
    events = [{"event": "candidate_settled", "id": name, "rows": 2} for name in ("loser", "winner")]
    for kept in (records, records[::2]):
        original = read_candidates(kept, events)[0]
        assert (original.rows, original.score) == (2, 0.5)
    assert read_candidates(records, [])[0].rows == 4  # a run that was stopped before its race was told of


def test_page_markdown_and_json_have_every_round(summary: RunSummary) -> None:
    rounds, test = summary.rounds[:-1], summary.rounds[-1]
    assert len(rounds) > 1
    assert test.split == "test"
    html, text = unescape(page(summary)), markdown(summary)
    section = html.partition('id="rounds"')[2].partition("</section>")[0]
    for one in rounds:
        wrong = f"{one.error_count} of {one.total_count} train rows wrong"
        if one.total_count:
            assert one.cost is not None
            assert f"<b>round {one.iteration}</b>" in section
            assert wrong in section
            assert f", {one.cost.shown(1000)} for 1,000 calls" in section
            line = rf"^\| round {one.iteration} \| \S+ \| {wrong} \| .* \| {one.cost.shown(1000)} \|$"
            assert re.search(line, text, re.MULTILINE)
        assert one.prompt in section
    assert rounds[0].suggestions in section
    assert f"suggestions: {' '.join(rounds[0].suggestions.split())[:20]}" in text
    case = rounds[0].error_cases[0]
    assert f"expected {case['ground_truth']}, answered {case['prediction']}: {case['input']}" in text
    assert "<b>sealed test</b>" in section
    assert (
        f"| test | {summary.name_of(test.candidate)} | {test.error_count} of {test.total_count} test" in text
    )
    assert summary.to_dict()["rounds"][0]["suggestions"] == rounds[0].suggestions


def test_a_round_that_asked_no_row_says_so(summary: RunSummary) -> None:
    last = replace(summary.rounds[0], error_count=0, total_count=0, score=None)
    assert "| no row asked: the search had ended | – |" in markdown(replace(summary, rounds=(last,)))


class Killed(BaseException):
    pass


def test_a_run_that_was_cut_off_has_the_rounds_so_far(tmp_path: Path) -> None:
    world = World(base=0.2, rule_gain=0.5, demo_gain=0.4)
    models = Models(ScriptedClient(world.student), ScriptedClient(writer))

    def die(event: dict[str, object]) -> None:
        if event["event"] == "node_started" and (event["node"], event["iteration"]) == ("rewrite", 2):
            raise Killed

    with pytest.raises(Killed):
        optimize(run_config(tmp_path, max_calls=900, max_iterations=4), models=models, on_event=die)
    runs = RunStore(tmp_path / "runs")
    summary = read_summary(runs.open(runs.list()[0].run_id))
    assert [(one.iteration, one.candidate) for one in summary.rounds] == [
        (1, summary.candidates[0].id),
        (2, summary.best_id),
    ]
    assert summary.rounds[0].prompt == summary.candidates[0].prompt
    assert summary.rounds[0].suggestions
    assert summary.rounds[0].error_count
    assert "<b>round 2</b>" in page(summary)
