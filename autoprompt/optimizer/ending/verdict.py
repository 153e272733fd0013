"""What a run found, as numbers: best against original, with intervals, the paired test and what it cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from autoprompt.llm.budget import Spent
from autoprompt.metrics import Metric
from autoprompt.optimizer.context import SearchContext
from autoprompt.optimizer.ending.trade_off import trade_off
from autoprompt.optimizer.state import AutoPromptState
from autoprompt.search.pool import Entry
from autoprompt.stats import (
    Interval,
    aggregate_draws,
    mean_interval,
    p_text,
    paired_difference_interval,
    paired_test,
    percentile_interval,
    permutation_aggregate,
)
from autoprompt.types import Candidate, Demo, EvaluatedRow

SCHEMA_VERSION = 1
TEST_ALPHA = 0.05  # two-sided, on rows that were opened once

Verdict = Literal["confirmed", "not_confirmed", "untested"]


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run. `to_dict()` is `result.json`.

    verdict: "confirmed" (better on the sealed test, p < .05), "not_confirmed", or "untested" where there is
        no sealed test or no budget was left for it.
    best, original: the candidates. Equal where the search found nothing that it could confirm.
    Scores, gain, their 95% intervals and the p-value are of the sealed test, in [0, 1]; None where it was not
    opened (`verdict` is "untested").
    """

    data: Mapping[str, Any]
    best: Candidate
    original: Candidate

    @property
    def verdict(self) -> Verdict:
        verdict: Verdict = self.data["verdict"]
        return verdict

    @property
    def is_confirmed(self) -> bool:
        """Whether the sealed test shows that the best prompt is better."""
        return self.verdict == "confirmed"

    @property
    def score(self) -> float | None:
        """The best prompt's."""
        return _number(self.data["best"]["score"])

    @property
    def score_interval(self) -> Interval | None:
        return _pair(self.data["best"]["ci95"])

    @property
    def original_score(self) -> float | None:
        return _number(self.data["original"]["score"])

    @property
    def original_interval(self) -> Interval | None:
        return _pair(self.data["original"]["ci95"])

    @property
    def gain(self) -> float | None:
        """Best minus original, on the rows that both answered."""
        return _number((self.data["gain"] or {}).get("value"))

    @property
    def gain_interval(self) -> Interval | None:
        return _pair((self.data["gain"] or {}).get("ci95"))

    @property
    def p_value(self) -> float | None:
        """Two-sided and paired: of so large a gap where there is no difference."""
        return _number(self.data["p_value"])

    @property
    def fixed(self) -> int:
        """Test rows that the best prompt scores higher than the original."""
        return int(self.data["fixed"])

    @property
    def broken(self) -> int:
        """Test rows that the best prompt scores lower than the original."""
        return int(self.data["broken"])

    @property
    def calls(self) -> int:
        """Requests of the whole run."""
        return int(self.data["calls"])

    @property
    def cost_usd(self) -> float | None:
        """Of the whole run; None where a price was not known."""
        return _number(self.data["cost_usd"])

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


def _number(found: Any) -> float | None:
    return None if found is None else float(found)


def _pair(found: Any) -> Interval | None:
    return None if found is None else Interval(*found)


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What the result repeats of the run's settings.

    test_opened: runs that have opened rows of this test, this one included. test_rows_opened_before: how many
        of the rows earlier ones had opened; None where that is not known.
    """

    run_id: str
    run_dir: str
    metric: str
    model: str
    optimizer_model: str
    split_sizes: Mapping[str, int]
    split_seed: int
    sha256: Mapping[str, str]
    test_opened: int
    test_rows_opened_before: int | None
    warnings: Sequence[str]


def make_result(state: AutoPromptState, context: SearchContext, facts: RunFacts, spent: Spent) -> RunResult:
    original = context.pool.original
    best = context.pool[state["incumbent"]]
    test = state.get("test") or {}
    sides = {name: context.read_results(test[name]) if name in test else [] for name in ("best", "original")}
    compared = compare_rows(sides["best"], sides["original"], context.prediction.metric)
    verdict: Verdict = "untested"
    if compared is not None:
        is_confirmed = compared.gain > 0 and compared.p_value < TEST_ALPHA
        verdict = "confirmed" if is_confirmed else "not_confirmed"
    data: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "run_id": facts.run_id,
        "run_dir": facts.run_dir,
        "status": "finished",
        "stop_reason": state.get("stop_reason") or _natural_end(state),
        "verdict": verdict,
        "message": "",
        "metric": facts.metric,
        "original": {
            **_side(sides["original"], None if compared is None else compared.original),
            "components": dict(original.candidate.components),
        },
        "best": {
            **_side(sides["best"], None if compared is None else compared.best),
            "id": best.candidate.id,
            "is_original": best is original,
            "components": dict(best.candidate.components),
            "demos": [_shown(demo) for demo in best.candidate.demos],
        },
        "trade_off": trade_off(context, best),
        "gain": compared and {"value": compared.gain, "ci95": list(compared.gain_interval)},
        "p_value": compared and compared.p_value,
        "fixed": compared.fixed if compared else 0,
        "broken": compared.broken if compared else 0,
        "left_out": compared.left_out if compared else 0,
        "validation": _validation(state, context, original, best),
        "calls": spent.calls,
        "tokens": {
            "task": spent.task.total_tokens,
            "optimizer": spent.optimizer.total_tokens,
            **({"judge": spent.judge.total_tokens} if spent.judge_calls else {}),
        },
        "cost_usd": spent.cost_usd,
        "spending": spent.by_role(),
        "calls_left": context.budget.calls_left(),
        "seconds": round(spent.seconds, 3),
        "splits": {
            "sizes": dict(facts.split_sizes),
            "split_seed": facts.split_seed,
            "sha256": dict(facts.sha256),
            "test_opened": facts.test_opened,
            "test_rows_opened_before": facts.test_rows_opened_before,
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


def _shown(demo: Demo) -> dict[str, str]:
    name = {"component": demo.component} if demo.component else {}
    return {"input": demo.input, "output": demo.output, **name}


def _natural_end(state: AutoPromptState) -> str:
    return "max_iterations" if state["iteration"] >= state["max_iterations"] else "no_errors"


@dataclass(frozen=True, slots=True)
class ComparedRows:
    """Best against original on the test rows that neither side lost. Scores in [0, 1], intervals of 95%.

    left_out: rows that the endpoint failed on either side: they say nothing of the prompts.
    """

    best: tuple[float, Interval]
    original: tuple[float, Interval]
    gain: float
    gain_interval: Interval
    p_value: float
    fixed: int
    broken: int
    left_out: int


def compare_rows(
    best: Sequence[EvaluatedRow], original: Sequence[EvaluatedRow], metric: Metric
) -> ComparedRows | None:
    """The sealed comparison; None without rows. Two-sided and paired; exact where scores are 0 or 1.

    Of an aggregate metric (macro-F1) the aggregate is compared, by a paired permutation test.
    """
    pairs = [(a, b) for a, b in zip(best, original, strict=True) if not (a.is_lost or b.is_lost)]
    if not pairs:
        return None
    ours, theirs = [a.score for a, _ in pairs], [b.score for _, b in pairs]
    scores, intervals = (_mean(ours), _mean(theirs)), (mean_interval(ours), mean_interval(theirs))
    gain_interval, p_value = (
        paired_difference_interval(theirs, ours),
        paired_test(theirs, ours, "two-sided"),
    )
    if metric.is_aggregate:
        targets = [a.ground_truth for a, _ in pairs]
        answers = [_answers([pair[side] for pair in pairs]) for side in (0, 1)]
        scores = (metric.aggregate(answers[0], targets), metric.aggregate(answers[1], targets))
        p_value = permutation_aggregate(
            answers[1], answers[0], targets, metric.aggregate, alternative="two-sided"
        )
        draws = [aggregate_draws(side, targets, metric.aggregate) for side in answers]
        intervals = (percentile_interval(draws[0]), percentile_interval(draws[1]))
        gain_interval = percentile_interval([a - b for a, b in zip(*draws, strict=True)])
    return ComparedRows(
        best=(scores[0], intervals[0]),
        original=(scores[1], intervals[1]),
        gain=scores[0] - scores[1],
        gain_interval=gain_interval,
        p_value=p_value,
        fixed=sum(a > b for a, b in zip(ours, theirs, strict=True)),
        broken=sum(a < b for a, b in zip(ours, theirs, strict=True)),
        left_out=len(best) - len(pairs),
    )


def _answers(rows: Sequence[EvaluatedRow]) -> list[str]:
    return ["" if row.is_unparsed else row.prediction for row in rows]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _side(rows: Sequence[EvaluatedRow], score: tuple[float, Interval] | None) -> dict[str, Any]:
    """One side of the comparison on the sealed test; without one its score is None."""
    if not rows or score is None:
        missing = {"unparsed": 0, "unscored": 0, "failed": 0}
        return {"score": None, "ci95": None, "n": 0, "tokens_per_call": None, **missing}
    answered = [r for r in rows if r.error is None]
    return {
        "score": score[0],
        "ci95": list(score[1]),
        "n": len(rows),
        "tokens_per_call": round(_mean([r.prompt_tokens + r.completion_tokens for r in answered]), 1),
        "unparsed": sum(r.is_unparsed for r in rows),
        "unscored": sum(r.is_unscored for r in rows),
        "failed": sum(r.error is not None for r in rows),
    }


def _validation(
    state: AutoPromptState, context: SearchContext, original: Entry, best: Entry
) -> dict[str, Any]:
    """Scores on validation: on the fresh rows if there are any, since the search did not choose by them."""
    confirmation = state.get("confirmation") or None
    if confirmation and confirmation["confirmed"]:
        is_fresh = confirmation["fresh"]["rows"] > 0
        part = confirmation["fresh" if is_fresh else "raced"]
        return {
            "original": part["other_score"],
            "best": part["score"],
            "rows": part["rows"],
            "chose_the_winner": not is_fresh,
            "confirmation": confirmation,
        }
    ids = context.plan.race_ids
    shared = [i for i in ids if i in original.scores and i in best.scores]
    score = original.mean(shared) if shared else None
    return {
        "original": score,
        "best": score,
        "rows": len(shared),
        "chose_the_winner": True,
        "confirmation": confirmation,
    }


def _sentence(data: Mapping[str, Any]) -> str:
    """The verdict in one sentence, for people."""
    best, original, validation = data["best"], data["original"], data["validation"]
    if best["is_original"]:
        tried = data["candidates"]["tried"]
        if not tried:
            why = data["stop_reason"]
            if why == "max_calls" and data["calls_left"]:
                why = f"the {data['calls_left']} calls that were left are too few for a round"
            return f"No other prompt was tried ({why}): the original prompt is returned."
        return (
            f"No candidate of {tried} was better than the original beyond luck: "
            "the original prompt is returned."
        )
    if data["verdict"] == "untested":
        has_test = data["splits"]["sizes"].get("test", 0) > 0
        why = "The budget ended before the sealed test" if has_test else "There is no sealed test"
        return (
            f"{validation['original']:.2f} -> {validation['best']:.2f} on {_validation_rows(validation)}. "
            f"{why}: nothing beyond that is verified."
        )
    numbers = (
        f"{original['score']:.2f} -> {best['score']:.2f} on {best['n']} unseen rows, "
        f"{p_text(data['p_value'])}; "
        f"{data['fixed']} fixed, {data['broken']} broken"
    )
    if best["tokens_per_call"] and original["tokens_per_call"]:
        numbers += f"; {best['tokens_per_call'] / original['tokens_per_call']:.1f}x tokens per call"
    lead = "Confirmed" if data["verdict"] == "confirmed" else "Not confirmed by the sealed test"
    return f"{lead}: {numbers}.{'' if data['verdict'] == 'confirmed' else _why_returned(data)}"


def _validation_rows(validation: Mapping[str, Any]) -> str:
    """Which rows the scores before the test are of, and what part these had in the search."""
    rows = validation["rows"]
    if validation["chose_the_winner"]:
        return f"{rows} validation rows that also chose it"
    train = validation["confirmation"].get("train_rows") or 0
    parts = f" ({rows - train} of validation, {train} of train)" if train else ""
    return f"{rows} rows{parts} that had no part in making or choosing it"


def _why_returned(data: Mapping[str, Any]) -> str:
    """Which prompt a user has in hands whose gain the sealed test does not show."""
    if data["gain"]["value"] < 0 and data["p_value"] < TEST_ALPHA:
        return " The new prompt is returned, since rows before the test had confirmed it; keep your own."
    return " The new prompt is returned: rows before the test had confirmed it."
