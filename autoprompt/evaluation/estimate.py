"""What `autoprompt eval` will take, in calls, tokens and money, before anything is sent."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from autoprompt.brief import brief, card
from autoprompt.dataset.python_rows import Rows
from autoprompt.errors import Place, Problem
from autoprompt.evaluation.exported import Exported
from autoprompt.evaluation.scoring import Prepared, prepared
from autoprompt.evaluation.task import CheckedRows, reasoning_tokens, row_calls, task_options
from autoprompt.llm.adapter import Models, check_own_models
from autoprompt.llm.models import check_models, prices_of
from autoprompt.measure.cost import (
    FRAME_TOKENS,
    Call,
    answer_tokens,
    judge_call,
    mean_tokens,
    prompt_tokens,
    times,
    total,
)
from autoprompt.records import Candidate
from autoprompt.settings.records import JUDGED, RunConfig
from autoprompt.text.answers.reasoning import USUAL_TOKENS, asks_to_reason


@dataclass(frozen=True, slots=True)
class EvaluationEstimate:
    """What an evaluation is expected to use; tokens estimated from text lengths (see `estimate_tokens`).

    Free answers are taken to be as long as the targets, and of a workflow's steps only what may be changed of
    their prompts is known: both may take more.

    rows: of the dataset. prompts: 2 where another one is compared. calls: of all of them, those to the judge
        included, at most; repeats after faults and of unreadable answers come on top.
    cost_usd: None where a price that is needed is not known. Answers that the cache has cost nothing.
    is_reasoned: a prompt asks to reason before the answer. judge_model: "" where no model judges.
    sent_calls: those that the estimate itself took, to try a program on a few rows. call_s: seconds of one of
        them, on average; None if no program was tried.
    """

    rows: int
    prompts: int
    calls: int
    tokens: int
    cost_usd: float | None
    labels: tuple[str, ...]
    is_reasoned: bool = False
    judge_calls: int = 0
    judge_model: str = ""
    warnings: tuple[Problem, ...] = ()
    sent_calls: int = 0
    call_s: float | None = None

    __repr__ = brief

    def _repr_html_(self) -> str:
        return card(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data; `--json` prints it."""
        warnings = [warning.to_dict() for warning in self.warnings]
        return {**asdict(self), "labels": list(self.labels), "warnings": warnings}


def estimate_evaluation(
    config: RunConfig,
    *,
    rows: Rows | None = None,
    candidate: Candidate | Exported | str | None = None,
    against: Candidate | Exported | str | None = None,
    models: Models | None = None,
) -> EvaluationEstimate:
    """Return what `evaluate` with the same arguments would use, without sending anything.

    models: none is asked. Their cost is known where the settings have prices. Raises what `evaluate` does
    before its first call; only that a cap is too small is a warning here.
    """
    check_own_models(models)
    with prepared(config, rows, candidate, against) as asked:
        return _estimate(asked, models)


def _estimate(asked: Prepared, models: Models | None) -> EvaluationEstimate:
    config, checked, candidates = asked.config, asked.checked, asked.candidates
    warnings = [*(check_models(config) if models is None else ()), *checked.warnings]
    prices = prices_of(config, models)
    answers = len(checked.examples) * len(candidates)
    judge_calls = answers if config.metric == JUDGED else 0
    task_calls = math.ceil(answers * row_calls(config, checked.task)) - judge_calls
    of_each = task_calls // len(candidates)
    targets = [row.target_text for row in checked.examples]
    judging = judge_call(config, _row_tokens(checked), mean_tokens(targets))
    kinds = [(of_each, _task_call(config, checked, one), prices.task) for one in candidates]
    kinds.append((judge_calls, judging, prices.judge))
    tokens = round(sum(number * call.tokens for number, call, _ in kinds))
    cost = total(*(times(number, call.cost(price)) for number, call, price in kinds))
    warnings += _too_small(config, task_calls + judge_calls, tokens, cost)
    return EvaluationEstimate(
        rows=len(checked.examples),
        prompts=len(candidates),
        calls=task_calls + judge_calls,
        tokens=tokens,
        cost_usd=cost,
        labels=checked.labels,
        is_reasoned=any(asks_to_reason(one.prompt) for one in candidates),
        judge_calls=judge_calls,
        judge_model=prices.judge_model if judge_calls else "",
        warnings=tuple(warnings),
        sent_calls=checked.spent.calls,
        call_s=getattr(getattr(checked.task, "view", None), "call_s", None),
    )


def _too_small(config: RunConfig, calls: int, tokens: int, cost: float | None) -> Iterator[Problem]:
    """Caps under which the evaluation would end without a score."""
    if config.max_calls is not None and config.max_calls < calls:
        said = f"{config.max_calls:,} is too small: the evaluation needs {calls:,}"
        yield Problem("budget.too-few-calls", said, Place(setting="max_calls"))
    if config.max_tokens is not None and config.max_tokens < tokens:
        said = f"{config.max_tokens:,} may end the evaluation early: it needs about {tokens:,}"
        yield Problem("budget.may-end-early", said, Place(setting="max_tokens"))
    if config.max_cost is not None and cost is not None and config.max_cost < cost:
        said = f"${config.max_cost:g} may end the evaluation early: it needs about ${cost:.4g}"
        yield Problem("budget.may-end-early", said, Place(setting="max_cost"))


def _task_call(config: RunConfig, checked: CheckedRows, candidate: Candidate) -> Call:
    """Return a call of a row, about; of a workflow's prompts, the mean of them."""
    labels = checked.labels
    prompt = prompt_tokens(candidate, config.input_field) / max(1, len(candidate.components))
    answer = answer_tokens(
        labels, [row.target_text for row in checked.examples], task_options(config, labels)
    )
    if asks_to_reason(candidate.prompt):
        answer = min(USUAL_TOKENS, reasoning_tokens(config, labels))
    return Call(prompt + _row_tokens(checked) + FRAME_TOKENS, answer)


def _row_tokens(checked: CheckedRows) -> float:
    return mean_tokens([row.full_text for row in checked.examples])
