"""The rounds of a run in its result: prompt, errors, suggestions and scores of each, and the sealed test."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import World, run_config, writer
from run_folders import real_run

from autoprompt import Models, RunResult, optimize, resume
from autoprompt.llm import ScriptedClient
from autoprompt.llm.prices import Cost
from autoprompt.optimizer.ending.verdict import read_rounds
from autoprompt.runs import RunFolder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return real_run(tmp_path_factory.mktemp("history"))


@pytest.fixture(scope="module")
def result(run: RunFolder) -> RunResult:
    return resume(run.run_id, runs_dir=run.path.parent)


def test_each_round_has_its_prompt_errors_suggestions_and_scores(run: RunFolder, result: RunResult) -> None:
    rounds = [one for one in result.history if one.split == "train"]
    assert [one.iteration for one in rounds] == list(range(1, result.to_dict()["iterations"] + 1))
    assert rounds[0].prompt == result.original_prompt
    candidates = run.read_candidates()
    for one in rounds:
        rows = list(run.read_predictions(Path(one.predictions).stem))
        wrong = [row for row in rows if not row["is_correct"]]
        assert (one.error_count, one.total_count) == (len(wrong), len(rows))
        mean = sum(row["score"] for row in rows) / len(rows) if rows else None
        assert one.score == (None if mean is None else pytest.approx(mean))
        assert one.prompt == candidates[one.candidate]["components"]["prompt"]
        fields = ("input", "prediction", "ground_truth")
        shown = [{name: row[name] for name in fields} for row in wrong]
        assert len(one.error_cases) == min(3, len(wrong))
        assert all(case in shown for case in one.error_cases)
        assert bool(one.suggestions) == bool(wrong)
        assert not one.is_cut


def test_validation_is_the_score_of_the_race(run: RunFolder, result: RunResult) -> None:
    last = next(one for one in reversed(result.history) if one.candidate == result.best.id)
    best = [event for event in run.read_events() if event["event"] == "best_changed"][-1]
    assert last.validation == pytest.approx(best["score"], abs=1e-6)
    assert result.history[0].validation == pytest.approx(best["original_score"], abs=1e-6)


def test_the_cost_of_a_call_is_that_of_the_candidate(run: RunFolder, result: RunResult) -> None:
    trade_off = result.record.trade_off
    assert trade_off is not None
    known = {one.id: one.cost for one in trade_off.candidates}
    assert all(one.cost is not None and one.cost.amount > 0 for one in result.history)
    both = [one for one in result.history if one.candidate in known]
    assert both
    assert [one.cost for one in both] == [known[one.candidate] for one in both]


def test_the_sealed_test_is_the_last_record_and_shows_no_rows(run: RunFolder, result: RunResult) -> None:
    (test,) = [one for one in result.history if one.split == "test"]
    assert test is not None
    assert result.history[-1] == test
    rows = list(run.read_predictions("test-best"))
    assert (test.candidate, test.prompt) == (result.best.id, result.best_prompt)
    assert test.score == result.score
    assert (test.error_count, test.total_count) == (sum(not r["is_correct"] for r in rows), len(rows))
    assert (test.error_cases, test.suggestions, test.predictions) == ((), "", "test-best.jsonl")


def test_without_a_test_the_rounds_are_all(tmp_path: Path) -> None:
    run = real_run(tmp_path, no_test=True, max_iterations=2)
    history = (run.read_result() or {})["history"]
    assert [one["split"] for one in history] == ["train", "train"]


def test_the_result_says_where_its_run_is(tmp_path: Path) -> None:
    world = World(base=1.0)
    models = Models(ScriptedClient(world.student), ScriptedClient(writer))
    result = optimize(run_config(tmp_path), models=models)
    assert result.run_dir == tmp_path / "runs" / result.run_id
    assert json.loads((result.run_dir / "result.json").read_text())["history"] == [
        one.to_dict() for one in result.history
    ]
    moved = result.run_dir.rename(tmp_path / "elsewhere")
    assert resume(moved).run_dir == moved


@pytest.mark.parametrize(("rounds", "longest"), [(1, 30_000), (15, 250_000), (1000, 900_000)])
def test_a_history_is_bounded_whatever_a_run_was_like(rounds: int, longest: int) -> None:
    row = {"example_id": "a", "is_correct": False, "score": 0.0, "error": None, "is_lost": False}
    wrong = SimpleNamespace(
        **row, is_unparsed=False, input="i" * 9000, prediction="p", ground_truth="g" * 900
    )
    entry = SimpleNamespace(mean=lambda ids: 0.5, scores={"a": 0.5})
    context: Any = SimpleNamespace(
        read_results=lambda results: [wrong] * 48,
        pool={"c": entry},
        plan=SimpleNamespace(race_ids=["a"]),
        costs=SimpleNamespace(of=lambda entry: Cost(412.0, "tokens")),
    )
    record = {
        "split": "train",
        "candidate": "c",
        "prompt": "long " * 20_000,
        "demos": 0,
        "error_count": 48,
        "total_count": 48,
        "suggestions": "more " * 5_000,
        "results": {"path": "01-train.jsonl", "correct": 0, "total": 48},
        "calls": 9,
    }
    state: Any = {"history": [{**record, "iteration": n} for n in range(1, rounds + 1)]}
    found = read_rounds(state, context, None)
    assert len(found) == rounds
    assert len(json.dumps([one.to_dict() for one in found])) < longest
    assert found[0].is_cut
    assert found[0].prompt.endswith("…")
    assert found[0].prompt.startswith("long long")
    assert found[0] == replace(found[-1], iteration=1)
