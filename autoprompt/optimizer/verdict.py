"""What a run found, as numbers: best against original, with intervals, the paired test and what it cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from autoprompt.llm.budget import Spent
from autoprompt.optimizer.context import SearchContext
from autoprompt.optimizer.state import AutoPromptState
from autoprompt.search.pool import Entry
from autoprompt.stats import mean_interval, paired_difference_interval, paired_test
from autoprompt.types import Candidate, EvaluatedRow

SCHEMA_VERSION = 1
TEST_ALPHA = 0.05  # two-sided, on rows that were opened once

Verdict = Literal["confirmed", "not_confirmed", "untested"]


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run. `to_dict()` is `result.json`.

    verdict: "confirmed" (better on the sealed test, p < .05), "not_confirmed", or "untested" where there is
        no sealed test or no budget was left for it.
    best, original: the candidates. Equal where the search found nothing that it could confirm.
    """

    data: Mapping[str, Any]
    best: Candidate
    original: Candidate

    @property
    def verdict(self) -> Verdict:
        verdict: Verdict = self.data["verdict"]
        return verdict

    @property
    def run_id(self) -> str:
        return str(self.data["run_id"])

    @property
    def message(self) -> str:
        return str(self.data["message"])

    @property
    def best_prompt(self) -> str:
        return self.best.prompt

    @property
    def original_prompt(self) -> str:
        return self.original.prompt

    def to_dict(self) -> dict[str, Any]:
        return dict(self.data)


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What the result repeats of the run's settings."""

    run_id: str
    run_dir: str
    metric: str
    model: str
    optimizer_model: str
    split_sizes: Mapping[str, int]
    split_seed: int
    sha256: Mapping[str, str]
    test_opened: int
    warnings: Sequence[str]


def make_result(state: AutoPromptState, context: SearchContext, facts: RunFacts, spent: Spent) -> RunResult:
    original = context.pool.original
    best = context.pool[state["incumbent"]]
    test = state.get("test") or {}
    rows = {name: context.read_results(test[name]) for name in ("best", "original") if name in test}
    if not rows:
        rows = {"best": [], "original": []}
    ours, theirs = [r.score for r in rows["best"]], [r.score for r in rows["original"]]
    fixed = sum(a > b for a, b in zip(ours, theirs, strict=True))
    broken = sum(a < b for a, b in zip(ours, theirs, strict=True))
    p_value = paired_test(theirs, ours, "two-sided") if ours else None
    is_better = sum(ours) > sum(theirs)
    verdict: Verdict = "untested"
    if ours:
        verdict = (
            "confirmed" if is_better and p_value is not None and p_value < TEST_ALPHA else "not_confirmed"
        )
    gain = paired_difference_interval(theirs, ours) if ours else None
    data: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "run_id": facts.run_id,
        "run_dir": facts.run_dir,
        "status": "finished",
        "stop_reason": state.get("stop_reason") or _natural_end(state),
        "verdict": verdict,
        "message": "",
        "metric": facts.metric,
        "original": _side(rows["original"]),
        "best": {
            **_side(rows["best"]),
            "id": best.candidate.id,
            "is_original": best is original,
            "components": dict(best.candidate.components),
            "demos": [{"input": d.input, "output": d.output} for d in best.candidate.demos],
        },
        "gain": None if gain is None else {"value": _mean(ours) - _mean(theirs), "ci95": list(gain)},
        "p_value": p_value,
        "fixed": fixed,
        "broken": broken,
        "validation": _validation(state, context, original, best),
        "calls": spent.calls,
        "tokens": {
            "task": spent.task.total_tokens,
            "optimizer": spent.optimizer.total_tokens + spent.judge.total_tokens,
        },
        "cost_usd": spent.cost_usd,
        "seconds": round(spent.seconds, 3),
        "splits": {
            "sizes": dict(facts.split_sizes),
            "split_seed": facts.split_seed,
            "sha256": dict(facts.sha256),
            "test_opened": facts.test_opened,
        },
        "candidates": {
            "tried": state["tried"],
            "accepted": max(0, len(context.pool.accepted()) - 1),
            "operators": {k: {"tried": v[0], "accepted": v[1]} for k, v in state["tally"].items()},
        },
        "iterations": state["iteration"],
        "model": facts.model,
        "optimizer_model": facts.optimizer_model,
        "warnings": list(facts.warnings),
    }
    data["message"] = _sentence(data)
    return RunResult(data, best.candidate, original.candidate)


def _natural_end(state: AutoPromptState) -> str:
    return "max_iterations" if state["iteration"] >= state["max_iterations"] else "no_errors"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _side(rows: Sequence[EvaluatedRow]) -> dict[str, Any]:
    """One side of the comparison on the sealed test; without one its score is None."""
    if not rows:
        return {"score": None, "ci95": None, "n": 0, "tokens_per_call": None, "unparsed": 0, "failed": 0}
    scores = [r.score for r in rows]
    return {
        "score": _mean(scores),
        "ci95": list(mean_interval(scores)),
        "n": len(rows),
        "tokens_per_call": round(_mean([r.prompt_tokens + r.completion_tokens for r in rows]), 1),
        "unparsed": sum(r.is_unparsed for r in rows),
        "failed": sum(r.error is not None for r in rows),
    }


def _validation(
    state: AutoPromptState, context: SearchContext, original: Entry, best: Entry
) -> dict[str, Any]:
    """Scores on validation: on the fresh rows if there are any, since the search did not choose by them."""
    confirmation = state.get("confirmation") or None
    if confirmation and confirmation["confirmed"]:
        part = confirmation["fresh"] if confirmation["fresh"]["rows"] else confirmation["raced"]
        return {
            "original": part["other_score"],
            "best": part["score"],
            "rows": part["rows"],
            "confirmation": confirmation,
        }
    ids = context.plan.race_ids
    shared = [i for i in ids if i in original.scores and i in best.scores]
    score = original.mean(shared) if shared else None
    return {"original": score, "best": score, "rows": len(shared), "confirmation": confirmation}


def _sentence(data: Mapping[str, Any]) -> str:
    """The verdict in one sentence, for people."""
    best, original, validation = data["best"], data["original"], data["validation"]
    if best["is_original"]:
        tried = data["candidates"]["tried"]
        return (
            f"No candidate of {tried} was better than the original beyond luck: "
            "the original prompt is returned."
        )
    if data["verdict"] == "untested":
        has_test = data["splits"]["sizes"].get("test", 0) > 0
        why = "The budget ended before the sealed test" if has_test else "There is no sealed test"
        return (
            f"{validation['original']:.2f} -> {validation['best']:.2f} on {validation['rows']} "
            f"validation rows that the search had not used. {why}: nothing beyond that is verified."
        )
    numbers = (
        f"{original['score']:.2f} -> {best['score']:.2f} on {best['n']} unseen rows, "
        f"p = {data['p_value']:.2g}; "
        f"{data['fixed']} fixed, {data['broken']} broken"
    )
    if best["tokens_per_call"] and original["tokens_per_call"]:
        numbers += f"; {best['tokens_per_call'] / original['tokens_per_call']:.1f}x tokens per call"
    lead = "Confirmed" if data["verdict"] == "confirmed" else "Not confirmed by the sealed test"
    return f"{lead}: {numbers}."
